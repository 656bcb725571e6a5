"""`sys.migrate_table` and `sys.migrate_database`: tables of Hive become Paimon's, and Java reads them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hive_tables import FORMATS, NULL, ROWS, Hive, avro_fields, write
from metastore_process import HiveMetastore
from pyarrow import orc
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.errors import PaimonError, UnsupportedFeature
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.types.json_columns import batch_to_json_rows

_TIME = datetime.fromisoformat("2024-02-03T04:05:06.789123")


def _one(value: object, arrow: Any) -> pa.Array:
    return pa.array([value], arrow)


TYPES = [
    ("bigint", _one(7, pa.int64())),
    ("bigint", _one(7, pa.int32())),
    ("int", _one(7, pa.int64())),
    ("tinyint", _one(7, pa.int32())),
    ("smallint", _one(7, pa.int8())),
    ("double", _one(1.5, pa.float64())),
    ("double", _one(1.5, pa.float32())),
    ("float", _one(1.5, pa.float32())),
    ("decimal(10,2)", _one(Decimal("1.50"), pa.decimal128(10, 2))),
    ("decimal(10,2)", _one(Decimal("1.50"), pa.decimal128(20, 2))),
    ("decimal(30,5)", _one(Decimal("1.5"), pa.decimal128(30, 5))),
    ("string", _one("abc", pa.string())),
    ("varchar(10)", _one("abc", pa.string())),
    ("char(5)", _one("abc", pa.string())),
    ("string", _one(b"abc", pa.binary())),
    ("binary", _one(b"abc", pa.binary())),
    ("timestamp", _one(_TIME, pa.timestamp("us"))),
    ("timestamp", _one(_TIME, pa.timestamp("us", "UTC"))),
    ("timestamp", _one(_TIME.replace(microsecond=789000), pa.timestamp("ms"))),
    ("timestamp", _one(_TIME, pa.timestamp("ns"))),
    ("date", _one(date(2024, 2, 3), pa.date32())),
    ("boolean", _one(True, pa.bool_())),
    ("array<int>", _one([1, None], pa.list_(pa.int32()))),
    ("map<string,int>", _one([("a", 1)], pa.map_(pa.string(), pa.int32()))),
    (
        "struct<a:int,b:string>",
        _one({"b": "x", "a": 1}, pa.struct([("b", pa.string()), ("a", pa.int32())])),
    ),
    ("struct<a:int,b:string>", _one({"a": 1}, pa.struct([("a", pa.int32())]))),
]
"""Types of columns in Hive, and columns of files."""


class _Oracles(Protocol):
    def of(self, version: str) -> Oracle: ...


def write_arrow(path: Path, data: pa.Table, kind: str) -> bool:
    """Whether there is such a file."""
    if kind == "parquet":
        pq.write_table(data, path, store_schema=False)
    elif kind == "orc":
        orc.write_table(data, str(path))
    return kind != "avro"


@pytest.fixture
def hive(hive_metastore: HiveMetastore, tmp_path: Path) -> Hive:
    return Hive(hive_metastore.options, f"db_{abs(hash(tmp_path))}")


@pytest.fixture
def java(hive_oracles: _Oracles, hive: Hive) -> Callable[..., list[Any]]:
    """The rows of a table as both versions of Java read them."""

    def rows(table: str, **given: Any) -> list[Any]:
        found = []
        for version in ("1.4.2", "2.0.0"):
            client = hive_oracles.of(version).defaults(
                catalog=dict(hive.catalog.options), database=hive.database
            )
            found.append(client.rows(table=table, **given))
        assert found[0] == found[1]
        return found[0]

    return rows


@pytest.fixture
def sql(hive: Hive, tmp_path: Path) -> Sql:
    sql = Sql(tmp_path, catalog=hive.catalog.options)
    sql(f"USE {hive.database}")
    return sql


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_without_partitions(
    hive: Hive, sql: Sql, java: Callable[..., list[Any]], kind: str
) -> None:
    folder = hive.table("t", kind, parameters={"comment": "of hive"})
    write(folder / "part-0", ROWS, kind)
    write(folder / f"part-1.{kind}", [{"id": "3", "name": "c"}], kind)
    (folder / "_SUCCESS").touch()
    (folder / "000000_0").touch()  # Hive's empty bucket
    encrypted = "map('orc.encrypt', 'pii:id,name')"
    call = f"CALL sys.migrate_table('hive', '{hive.database}.t', 'file.format={kind}', {encrypted})"
    call = call.replace(f", {encrypted}", f", true, NULL, {encrypted}, 2")
    assert sql(call) == [[True]]
    wanted = [["+I", "1", "a"], ["+I", "2", None], ["+I", "3", "c"]]
    assert java("t") == wanted
    assert java("t", filter={"field": "id", "op": "=", "value": "3"}) == wanted[2:]
    table = hive.opened("t")
    assert table.schema.comment == "of hive"
    assert table.options["hive.comment"] == "of hive"
    assert table.options["orc.encrypt"] == "pii:id,name"
    assert Path(table.root) == folder
    assert not hive.exists("t_paimon_")
    files = sorted(
        (e.file.file_name.rpartition(".")[2], e.file.row_count, e.file.level, e.bucket)
        for e in scan_files(table, table.latest_or_not_found())
    )
    assert files == [(kind, 1, 0, 0), (kind, 2, 0, 0)]
    with pytest.raises(PaimonError, match="is a table of Paimon already"):
        sql(call)
    sql("DROP TABLE t")
    assert not folder.exists()


def test_partitions(hive: Hive, sql: Sql, java: Callable[..., list[Any]]) -> None:
    keys = "dt date, s string, n int"
    folder = hive.table("t", "parquet", keys=keys)
    for i, (values, kind) in enumerate(
        {
            ("2024-01-31", "a:b", "7"): "orc",
            ("2024-01-31", "x y", "7"): "parquet",
            ("2024-01-31", "x y", "07"): "avro",
            ("2024-01-31", "x y", NULL): "parquet",
        }.items()
    ):
        place = folder if i else folder.parent / "elsewhere"
        place = place.joinpath(*(quote(v, safe=" ") for v in values))
        hive.partition("t", list(values), place, kind)
        write(place / "000000_0", [{"id": str(i), "name": "v"}], kind)
    assert sql(f"CALL sys.migrate_table(source_type => 'hive', table => '{hive.database}.t')")
    assert java("t") == [
        ["+I", "0", "v", "2024-01-31", "a:b", 7],
        ["+I", "1", "v", "2024-01-31", "x y", 7],
        ["+I", "2", "v", "2024-01-31", "x y", 7],
        ["+I", "3", "v", "2024-01-31", "x y", None],
    ]
    table = hive.opened("t")
    assert table.options["partition.default-name"] == NULL
    seven = java("t", filter={"field": "n", "op": "=", "value": 7})
    assert [row[1] for row in seven] == ["0", "1", "2"]
    assert sorted(sql("SHOW PARTITIONS t")) == [
        ["dt=2024-01-31/s=a%3Ab/n=7"],
        ["dt=2024-01-31/s=x y/n=7"],
        ["dt=2024-01-31/s=x y/n=null"],
    ]
    assert not list((folder.parent / "elsewhere").rglob("0*_0"))


def test_a_partition_behind_a_link(hive: Hive, tmp_path: Path) -> None:
    folder = hive.table("t", keys="dt string")
    theirs = tmp_path / "theirs"
    file = write(theirs / "x", ROWS)
    (folder / "dt=1").symlink_to(theirs)
    hive.partition("t", ["1"], folder / "dt=1")
    assert "symbolic link" in (_refusal(hive, "t") or "")
    assert file.exists()


@pytest.mark.parametrize("keys", ["", "pt string"])
def test_an_empty_table(hive: Hive, sql: Sql, java: Callable[..., list[Any]], keys: str) -> None:
    hive.table("t", keys=keys)
    assert sql(f"CALL sys.migrate_table('hive', '{hive.database}.t')") == [[True]]
    assert java("t") == []
    assert hive.opened("t").snapshots.latest() is None


def test_types(hive: Hive, java: Callable[..., list[Any]]) -> None:
    """Whatever is taken, Java reads with the same values; what it would not read is refused."""
    refused = []
    for kind in FORMATS:
        for number, (hive_type, array) in enumerate(TYPES):
            name = f"{kind}_{number}"
            folder = hive.table(name, kind, f"k int, c {hive_type}")
            data = pa.table({"k": pa.array([1], pa.int32()), "c": array})
            if not write_arrow(folder / "x", data, kind):
                continue
            told = _refusal(hive, name)
            if told is not None:
                assert "the column c holds" in told
                assert (folder / "x").exists()
                assert not hive.exists(f"{name}_paimon_")
                refused.append(f"{kind}: {hive_type} in {array.type}")
                continue
            table = hive.opened(name)
            batches = read_table(table, table.latest_or_not_found(), columns=["c"])
            only = table.schema.row_type.project(["c"])
            ours = [row[0] for b in batches for row in batch_to_json_rows(b.select(["c"]), only)]
            assert [row[2] for row in java(name)] == ours, (kind, hive_type, array.type)
    assert refused == [
        *("parquet: bigint in int32", "parquet: int in int64", "parquet: double in float"),
        "parquet: decimal(10,2) in decimal128(20, 2)",
        "parquet: string in binary",
        *("parquet: timestamp in timestamp[ms]", "parquet: timestamp in timestamp[ns]"),
        "parquet: struct<a:int,b:string> in struct<a: int32>",
        *("orc: bigint in int32", "orc: int in int64", "orc: double in float"),
        "orc: decimal(10,2) in decimal128(20, 2)",
        "orc: string in binary",
        "orc: struct<a:int,b:string> in struct<a: int32>",
    ]


def test_types_of_avro(hive: Hive, java: Callable[..., list[Any]]) -> None:
    columns = "k int, c timestamp, u timestamp, d date, n decimal(10,2), a array<int>, later string"
    folder = hive.table("t", "avro", f"{columns}, m map<string,int>, s struct<x:int,y:string>")
    nested = {"type": "record", "name": "s", "fields": avro_fields(x="int", y="string")}
    fields = avro_fields(
        k="int",
        c={"type": "long", "logicalType": "timestamp-millis"},
        u={"type": "long", "logicalType": "timestamp-micros"},
        d={"type": "int", "logicalType": "date"},
        n={"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        a={"type": "array", "items": ["null", "int"]},
        m={"type": "map", "values": ["null", "int"]},
        s=nested,
    )
    row = {"k": 1, "c": _TIME, "u": _TIME, "d": date(2024, 1, 31), "n": Decimal("1.50")}
    row |= {"a": [1, None], "m": {"a": 1}, "s": {"x": 1, "y": "z"}}
    with (folder / "x").open("wb") as f:
        fastavro.writer(f, {"type": "record", "name": "r", "fields": fields}, [row, {}])
    hive.migrate("t")
    time = "2024-02-03T04:05:06.789"
    values = [1, f"{time}000", f"{time}123", "2024-01-31", "1.50", [1, None], None]
    assert java("t") == [
        ["+I", *values, [["a", 1]], {"x": 1, "y": "z"}],
        ["+I", *[None] * 9],
    ]


def _refusal(hive: Hive, name: str) -> str | None:
    try:
        hive.migrate(name)
    except UnsupportedFeature as e:
        return e.message
    return None


def test_files_for_a_table_of_paimon(hive: Hive, sql: Sql, java: Callable[..., list[Any]]) -> None:
    sql("CREATE TABLE p (id STRING, name STRING, pt INT NOT NULL) PARTITIONED BY (pt)")
    for name in ("first", "second"):
        folder = hive.table(name, keys="pt int")
        hive.partition(name, ["1"], folder / "pt=1")
        write(folder / "pt=1/000000_0", [{"id": name, "name": "v"}])
        given = f"'hive', table => '{name}', target_table => 'p', delete_origin => "
        given = given.replace("'hive'", "source_type => 'hive'")
        assert sql(f"CALL sys.migrate_table({given}{str(name == 'second').lower()})") == [[True]]
        assert not (folder / "pt=1/000000_0").exists()
    assert java("p") == [["+I", "first", "v", 1], ["+I", "second", "v", 1]]
    assert hive.exists("first")
    assert not hive.exists("second")
    hive.partition("first", [NULL], Path(f"{hive.folder}/first/pt={NULL}"))
    file = write(Path(f"{hive.folder}/first/pt={NULL}/f"), ROWS)
    with pytest.raises(PaimonError, match="null in pt, which is NOT NULL"):
        hive.migrate("first", target="p")
    assert file.exists()


def test_what_is_refused_stays_as_it_is(hive: Hive, sql: Sql) -> None:
    sql("CREATE TABLE keyed (id STRING, name STRING) TBLPROPERTIES ('primary-key'='id')")
    sql(
        "CREATE TABLE bucketed (id STRING, name STRING) TBLPROPERTIES ('bucket'='2', 'bucket-key'='id')"
    )
    sql("CREATE TABLE other (id INT, name STRING)")
    sql("CREATE TABLE by_name (id STRING, name STRING) PARTITIONED BY (name)")
    sql("CREATE TABLE required (id STRING, name STRING NOT NULL)")
    plain = hive.table("plain")
    write(plain / "x", ROWS)
    text = hive.table("texts", "csv")
    (text / "x").write_text("1,a")
    capitals = hive.table("capitals")
    write(capitals / "x", [{"Id": "1", "name": "a"}])
    nameless = hive.table("nameless", "orc")
    write(nameless / "x", [{"_col0": "1", "_col1": "a"}], "orc")
    deeper = hive.table("deeper")
    write(deeper / "1/x", ROWS)
    forgotten = hive.table("forgotten", keys="pt string")
    hive.partition("forgotten", ["0"], forgotten / "pt=0")
    for number in range(2):
        write(forgotten / f"pt={number}/x", ROWS)
    damaged = hive.table("damaged")
    (damaged / "x").write_bytes(b"PAR1 not at all PAR1")
    hive.table("seen", table_type="VIRTUAL_VIEW")
    shared = hive.table("shared", table_type="EXTERNAL_TABLE")
    write(shared / "x", ROWS)
    hive.table("same", table_type="EXTERNAL_TABLE", folder="shared")
    files = {p for p in Path(hive.folder).rglob("*") if p.is_file()}
    tables = sorted(t.table_name for t in hive.metastore.tables(hive.database))
    for name, wanted, told in (
        ("missing", {}, "Source hive table does not exist"),
        ("plain", {"options": {"bucket": "1"}}, "only support unaware-bucket target table"),
        ("plain", {"delete_origin": False}, "name a target_table"),
        ("plain", {"target": "keyed"}, "only support append only table"),
        ("plain", {"target": "bucketed"}, "only support unaware-bucket target table"),
        ("plain", {"target": "other"}, "no column id of the type"),
        ("plain", {"target": "by_name"}, "partition keys not match target table"),
        ("plain", {"target": "required"}, "null in column name, which is NOT NULL"),
        ("plain", {"target": "texts"}, "not a Paimon table"),
        ("texts", {}, "its files are none of"),
        ("capitals", {}, "the column id is called Id in the file"),
        ("nameless", {}, "the file has the columns _col0, _col1"),
        ("deeper", {}, "in a folder below one"),
        ("forgotten", {}, "in no partition"),
        ("damaged", {}, "cannot be decoded"),
        ("seen", {}, "it is a view"),
        ("shared", {}, "is also that of .*same"),
        ("same", {"target": "fresh"}, "is also that of .*shared"),
    ):
        with pytest.raises(PaimonError, match=told):
            hive.migrate(name, **wanted)
        assert {p for p in Path(hive.folder).rglob("*") if p.is_file()} == files, name
        assert sorted(t.table_name for t in hive.metastore.tables(hive.database)) == tables


def test_a_database(hive: Hive, sql: Sql, java: Callable[..., list[Any]]) -> None:
    for name, kind in (("one", "orc"), ("two", "avro"), ("texts", "csv")):
        folder = hive.table(name, kind)
        if kind != "csv":
            write(folder / "x", ROWS, kind)
    sql("CREATE TABLE ours (id INT)")
    call = f"CALL sys.migrate_database(source_type => 'hive', database => '{hive.database}')"
    told = "migrate database is finished, success cnt: {} , failed cnt: {}"
    assert sql(call) == [[told.format(2, 2)]]
    assert java("one") == java("two") == [["+I", "1", "a"], ["+I", "2", None]]
    assert sql(call) == [[told.format(0, 4)]]


def test_an_external_table(hive: Hive, java: Callable[..., list[Any]]) -> None:
    folder = hive.table("t", table_type="EXTERNAL_TABLE", keys="pt string")
    hive.partition("t", ["a"], folder / "pt=a")
    write(folder / "pt=a/x", ROWS)
    hive.migrate("t")
    assert java("t") == [["+I", "1", "a", "a"], ["+I", "2", None, "a"]]
    assert Path(hive.opened("t").root) == folder
