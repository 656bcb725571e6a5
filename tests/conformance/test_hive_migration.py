"""`sys.migrate_table` and `sys.migrate_database`: tables of Hive become Paimon's, and Java reads them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from metastore_process import HiveMetastore
from pyarrow import orc
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.catalog.hive import migrate
from paimon_core.catalog.hive.hive_catalog import HiveCatalog
from paimon_core.catalog.hive.metastore import Metastore
from paimon_core.catalog.hive.migrate import Migration, migrate_table
from paimon_core.environment import system_environment
from paimon_core.errors import (
    AlreadyExists,
    CommitConflict,
    PaimonError,
    StorageError,
    UnsupportedFeature,
)
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.local import LocalFileIO
from paimon_core.read.table_read import read_table
from paimon_core.remote.hive_client import HiveClient
from paimon_core.remote.thrift_calls import (
    CALLS,
    AddPartitionsRequest,
    FieldSchema,
    Partition,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from paimon_core.scan.scan import scan_files
from paimon_core.types.json_columns import batch_to_json_rows

FORMATS = ("parquet", "orc", "avro")
_QL = "org.apache.hadoop.hive.ql.io"
CLASSES = {
    "parquet": (
        f"{_QL}.parquet.serde.ParquetHiveSerDe",
        f"{_QL}.parquet.MapredParquetInputFormat",
        f"{_QL}.parquet.MapredParquetOutputFormat",
    ),
    "orc": (f"{_QL}.orc.OrcSerde", f"{_QL}.orc.OrcInputFormat", f"{_QL}.orc.OrcOutputFormat"),
    "avro": (
        "org.apache.hadoop.hive.serde2.avro.AvroSerDe",
        f"{_QL}.avro.AvroContainerInputFormat",
        f"{_QL}.avro.AvroContainerOutputFormat",
    ),
    "csv": (
        "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
        "org.apache.hadoop.mapred.TextInputFormat",
        f"{_QL}.HiveIgnoreKeyTextOutputFormat",
    ),
}
NULL = "__HIVE_DEFAULT_PARTITION__"
CHANGES = (
    *("open_output", "write_bytes", "create_if_absent", "overwrite"),
    *("delete", "delete_many", "delete_dir", "rename", "make_dirs"),
)
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
ROWS = [{"id": "1", "name": "a"}, {"id": "2", "name": None}]


class _Oracles(Protocol):
    def of(self, version: str) -> Oracle: ...


class Hive:
    """Makes tables of Hive, as Hive and Spark leave them in the metastore and in folders."""

    def __init__(self, options: dict[str, str], database: str) -> None:
        self.catalog = HiveCatalog.connect(options)
        self.metastore = Metastore(self.catalog.options)
        self.database = database
        self.catalog.create_database(database)
        self.folder = self.metastore.folder_of(database).removeprefix("file:")

    def table(
        self,
        name: str,
        kind: str = "parquet",
        columns: str = "id string, name string",
        keys: str = "",
        **entry: Any,
    ) -> Path:
        """Create the table and return its folder."""
        serde, source, target = CLASSES[kind]
        location = Path(f"{self.folder}/{name}")
        external = entry.get("table_type") == "EXTERNAL_TABLE"
        parameters = {"EXTERNAL": "TRUE"} if external else {}
        table = Table(
            db_name=self.database,
            table_name=name,
            owner="hive",
            partition_keys=_columns(keys),
            parameters={**parameters, **entry.pop("parameters", {})},
            table_type=entry.pop("table_type", "MANAGED_TABLE"),
            sd=StorageDescriptor(
                cols=_columns(columns),
                location=str(location),
                input_format=source,
                output_format=target,
                serde_info=SerDeInfo(serialization_lib=serde, parameters={}),
            ),
        )
        self.metastore.client.call("create_table", replace(table, **entry))
        location.mkdir(parents=True, exist_ok=True)
        return location

    def partition(self, name: str, values: list[str], folder: Path, kind: str = "parquet") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        call = self.metastore.client.call
        table = call("get_table", self.database, name)
        partition = Partition(
            values=tuple(values),
            db_name=self.database,
            table_name=name,
            sd=replace(
                table.sd,
                location=str(folder),
                input_format=CLASSES[kind][1],
                serde_info=SerDeInfo(serialization_lib=CLASSES[kind][0], parameters={}),
            ),
            parameters={},
        )
        request = AddPartitionsRequest(
            db_name=self.database,
            table_name=name,
            partitions=(partition,),
            if_not_exists=False,
            need_result=False,
        )
        call("add_partitions_req", request)

    def exists(self, name: str) -> bool:
        return self.metastore.exists((self.database, name))

    def opened(self, name: str) -> FileStoreTable:
        return self.catalog.get_table(f"{self.database}.{name}")

    def is_done(self, name: str) -> bool:
        """Whether the name is that of a table of Paimon."""
        return name in self.catalog.list_tables(self.database)

    def rows(self, name: str) -> list[str]:
        """The first column of a table of either kind, sorted."""
        if not self.exists(name):
            return []
        if not self.is_done(name):
            files = [f for f in Path(f"{self.folder}/{name}").glob("f*") if f.is_file()]
            return sorted(v for f in files for v in pq.read_table(f)["id"].to_pylist())
        table = self.opened(name)
        snapshot = table.snapshots.latest()
        batches = [] if snapshot is None else read_table(table, snapshot)
        return sorted(v for b in batches for v in b.column("id").to_pylist())

    def migrate(self, name: str, **wanted: Any) -> None:
        target = wanted.pop("target", None)
        migration = Migration(
            source=f"{self.database}.{name}",
            target=target and f"{self.database}.{target}",
            **wanted,
        )
        migrate_table(self.catalog, migration, env=system_environment())


def _columns(text: str) -> tuple[FieldSchema, ...]:
    pairs = (c.strip().partition(" ") for c in text.split(", ") if c)
    return tuple(FieldSchema(name=name, type=kind) for name, _, kind in pairs)


def _write(path: Path, rows: list[dict[str, Any]], kind: str = "parquet") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "avro":
            fields = _avro(**dict.fromkeys(rows[0], "string"))
            with path.open("wb") as f:
                fastavro.writer(f, {"type": "record", "name": "r", "fields": fields}, rows)
        case "orc":
            orc.write_table(pa.Table.from_pylist(rows), str(path))
        case _:
            pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def _write_arrow(path: Path, data: pa.Table, kind: str) -> bool:
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
    _write(folder / "part-0", ROWS, kind)
    _write(folder / f"part-1.{kind}", [{"id": "3", "name": "c"}], kind)
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
        _write(place / "000000_0", [{"id": str(i), "name": "v"}], kind)
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
            if not _write_arrow(folder / "x", data, kind):
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
    nested = {"type": "record", "name": "s", "fields": _avro(x="int", y="string")}
    fields = _avro(
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


def _avro(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": n, "type": ["null", t], "default": None} for n, t in fields.items()]


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
        _write(folder / "pt=1/000000_0", [{"id": name, "name": "v"}])
        given = f"'hive', table => '{name}', target_table => 'p', delete_origin => "
        given = given.replace("'hive'", "source_type => 'hive'")
        assert sql(f"CALL sys.migrate_table({given}{str(name == 'second').lower()})") == [[True]]
        assert not (folder / "pt=1/000000_0").exists()
    assert java("p") == [["+I", "first", "v", 1], ["+I", "second", "v", 1]]
    assert hive.exists("first")
    assert not hive.exists("second")
    hive.partition("first", [NULL], Path(f"{hive.folder}/first/pt={NULL}"))
    file = _write(Path(f"{hive.folder}/first/pt={NULL}/f"), ROWS)
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
    _write(plain / "x", ROWS)
    text = hive.table("texts", "csv")
    (text / "x").write_text("1,a")
    capitals = hive.table("capitals")
    _write(capitals / "x", [{"Id": "1", "name": "a"}])
    nameless = hive.table("nameless", "orc")
    _write(nameless / "x", [{"_col0": "1", "_col1": "a"}], "orc")
    deeper = hive.table("deeper")
    _write(deeper / "1/x", ROWS)
    forgotten = hive.table("forgotten", keys="pt string")
    hive.partition("forgotten", ["0"], forgotten / "pt=0")
    for number in range(2):
        _write(forgotten / f"pt={number}/x", ROWS)
    damaged = hive.table("damaged")
    (damaged / "x").write_bytes(b"PAR1 not at all PAR1")
    hive.table("seen", table_type="VIRTUAL_VIEW")
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
    ):
        with pytest.raises(PaimonError, match=told):
            hive.migrate(name, **wanted)
        assert {p for p in Path(hive.folder).rglob("*") if p.is_file()} == files, name
        assert sorted(t.table_name for t in hive.metastore.tables(hive.database)) == tables


def test_a_database(hive: Hive, sql: Sql, java: Callable[..., list[Any]]) -> None:
    for name, kind in (("one", "orc"), ("two", "avro"), ("texts", "csv")):
        folder = hive.table(name, kind)
        if kind != "csv":
            _write(folder / "x", ROWS, kind)
    sql("CREATE TABLE ours (id INT)")
    call = f"CALL sys.migrate_database(source_type => 'hive', database => '{hive.database}')"
    told = "migrate database is finished, success cnt: {} , failed cnt: {}"
    assert sql(call) == [[told.format(2, 2)]]
    assert java("one") == java("two") == [["+I", "1", "a"], ["+I", "2", None]]
    assert sql(call) == [[told.format(0, 4)]]


def test_an_external_table(hive: Hive, java: Callable[..., list[Any]]) -> None:
    folder = hive.table("t", table_type="EXTERNAL_TABLE", keys="pt string")
    hive.partition("t", ["a"], folder / "pt=a")
    _write(folder / "pt=a/x", ROWS)
    hive.migrate("t")
    assert java("t") == [["+I", "1", "a", "a"], ["+I", "2", None, "a"]]
    assert Path(hive.opened("t").root) == folder


def test_files_that_come_meanwhile(
    hive: Hive, java: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = hive.table("t")
    _write(folder / "x", ROWS)
    imported = migrate._import

    def slow(*given: Any) -> Any:
        taken = imported(*given)
        _write(folder / "y", [{"id": "3", "name": "late"}])
        return taken

    with monkeypatch.context() as patched:
        patched.setattr(migrate, "_import", slow)
        with pytest.raises(CommitConflict, match="somebody wrote to the Hive table"):
            hive.migrate("t")
    assert (folder / "x").exists()
    assert java("t_paimon_") == [["+I", "1", "a"], ["+I", "2", None]]
    hive.migrate("t")
    assert java("t") == [["+I", "1", "a"], ["+I", "2", None], ["+I", "3", "late"]]


def test_two_calls_at_once(
    hive: Hive, java: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(hive.table("t") / "x", ROWS)
    commit = migrate._commit
    with monkeypatch.context() as patched:

        def slow(*given: Any) -> None:
            patched.setattr(migrate, "_commit", commit)
            hive.migrate("t", target="p", delete_origin=False)
            commit(*given)

        patched.setattr(migrate, "_commit", slow)
        with pytest.raises(CommitConflict, match="another call has migrated the same files"):
            hive.migrate("t", target="p")
    assert java("p") == [["+I", "1", "a"], ["+I", "2", None]]
    hive.migrate("t", target="p")
    assert java("p") == [["+I", "1", "a"], ["+I", "2", None]]


def test_a_call_that_fails_does_not_drop_what_another_one_fills(
    hive: Hive, java: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(hive.table("t") / "x", ROWS)
    commit, adopt = migrate._commit, migrate.adopt_file
    copied, failed = threading.Event(), threading.Event()

    def waits(*given: Any) -> None:
        copied.set()
        assert failed.wait(60)
        commit(*given)

    def fails(*_: Any, **__: Any) -> None:
        monkeypatch.setattr(migrate, "adopt_file", adopt)
        monkeypatch.setattr(migrate, "_commit", waits)
        other.start()
        assert copied.wait(60)
        raise StorageError("no room")

    other = threading.Thread(target=lambda: hive.migrate("t", target="p"))
    monkeypatch.setattr(migrate, "adopt_file", fails)
    with pytest.raises(StorageError, match="no room"):
        hive.migrate("t", target="p")
    failed.set()
    other.join()
    assert java("p") == [["+I", "1", "a"], ["+I", "2", None]]
    assert not hive.exists("t")


def test_a_copy_that_is_gone_keeps_its_original(
    hive: Hive, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = _write(hive.table("t") / "x", ROWS)
    imported = migrate._import

    def loses(*given: Any) -> Any:
        taken = imported(*given)
        (copy,) = (p for p in Path(hive.opened("p").root).rglob("*.parquet"))
        copy.unlink()
        return taken

    monkeypatch.setattr(migrate, "_import", loses)
    with pytest.raises(CommitConflict, match="copies are missing"):
        hive.migrate("t", target="p")
    assert original.exists()


class Killed(BaseException):
    """The process ends: nothing that it would do later happens."""


class Kill:
    """Kills at the n-th change of a file or of the metastore, before or after it took effect."""

    def __init__(self, patched: pytest.MonkeyPatch, at: int, *, after: bool) -> None:
        self.left, self._after, self.dead = at, after, False
        for name in CHANGES:
            patched.setattr(LocalFileIO, name, self._counted(getattr(LocalFileIO, name)))
        call = HiveClient.call
        counted = self._counted(call)

        def called(client: HiveClient, name: str, *given: Any) -> Any:
            return (call if CALLS[name].reads else counted)(client, name, *given)

        patched.setattr(HiveClient, "call", called)

    def _counted(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            if self.dead:
                raise Killed
            self.left -= 1
            if self.left == 0 and not self._after:
                self.dead = True
                raise Killed
            result = change(*given, **named)
            if self.left == 0:
                self.dead = True
                raise Killed
            return result

        return counted


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_each_step(hive: Hive, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> None:
    """All rows are in the source or in the target, and the same call finishes the work."""
    hive.catalog = HiveCatalog.connect({**hive.catalog.options, "lock.enabled": "false"})
    hive.metastore = Metastore(hive.catalog.options)
    wanted = ["1", "2", "3"]
    at, done = 0, False
    while not done:
        at += 1
        name = f"t{at}{after}".lower()
        folder = hive.table(name)
        for number in wanted:
            _write(folder / f"f{number}", [{"id": number}])
        with monkeypatch.context() as patched:
            kill = Kill(patched, at, after=after)
            try:
                hive.migrate(name)
                done = True
            except Killed:
                done = False
        if kill.dead:
            of_hive, ours = hive.rows(name), hive.rows(f"{name}_paimon_")
            assert set(of_hive) | set(ours) == set(wanted), at
            assert ours in ([], wanted), at
            if hive.exists(f"{name}_paimon_") or not hive.is_done(name):
                try:
                    hive.migrate(name)
                except AlreadyExists:  # killed between the schema and the entry, as it says
                    assert not hive.exists(f"{name}_paimon_")
                    hive.catalog.repair(f"{hive.database}.{name}_paimon_")
                    hive.migrate(name)
        assert hive.is_done(name), at
        assert hive.rows(name) == wanted, at
        assert not hive.exists(f"{name}_paimon_")
    assert at > 10
