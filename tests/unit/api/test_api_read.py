"""The public API: catalogs, schemas, predicates and batch reads."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_core
from paimon_core import Catalog, Schema, SchemaChange, Table, open_catalog
from paimon_core.api.schema import paimon_type
from paimon_core.errors import AlreadyExists, InvalidArgument, NotFound, SchemaError
from paimon_core.types.sql import type_to_sql

ALL = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("b", pa.bool_()),
        ("i8", pa.int8()),
        ("f", pa.float32()),
        ("s", pa.string()),
        ("d", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("t", pa.time32("ms")),
        ("ts", pa.timestamp("us")),
        ("ltz", pa.timestamp("ms", "UTC")),
        ("raw", pa.binary()),
        ("a", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("r", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)
ROW = {
    "k": 1,
    "b": True,
    "i8": -5,
    "f": 1.5,
    "s": "ä",
    "d": Decimal("12.50"),
    "day": date(2024, 1, 31),
    "t": time(12, 34, 56, 789000),
    "ts": datetime(2024, 1, 31, 12, 0, 0, 123456),  # noqa: DTZ001 - a wall clock time
    "ltz": datetime(2024, 1, 31, 12, tzinfo=UTC),
    "raw": b"\x00\xff",
    "a": [1, None, 3],
    "m": [("x", 1)],
    "r": {"x": 1, "y": None},
}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    opened = open_catalog(str(tmp_path / "lake"), timezone="UTC")
    opened.create_database("db")
    return opened


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Three appends to a partitioned append table: k 0..9, 10..19, 20..29."""
    schema = Schema.of({"k": "INT", "v": "STRING", "dt": "STRING"}, partition_keys=["dt"])
    made = catalog.create_table("db.t", schema)
    for start in (0, 10, 20):
        made.append([{"k": k, "v": f"v{k}", "dt": f"d{k % 2}"} for k in range(start, start + 10)])
    return made


def keys(rows: pa.Table) -> list[int]:
    return sorted(rows["k"].to_pylist())


def test_the_names_are_loaded_when_they_are_used() -> None:
    program = "import sys, paimon_core; assert 'pyarrow' not in sys.modules; paimon_core.Schema"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[3])
    assert "open_catalog" in dir(paimon_core)
    with pytest.raises(AttributeError):
        _ = paimon_core.telepathy  # type: ignore[attr-defined]


def test_every_type_goes_in_and_out(catalog: Catalog) -> None:
    made = catalog.create_table("db.all", ALL, primary_keys=["k"], options={"bucket": "1"})
    made.append([ROW, {"k": 2}])
    assert made.to_dicts("k = 1") == [ROW]
    assert made.to_dicts("k = 2") == [{**dict.fromkeys(ALL.names), "k": 2}]
    assert made.schema.names == ALL.names
    assert made.schema.types == ALL.types


@pytest.mark.parametrize(
    ("arrow", "sql"),
    [
        (pa.large_string(), "STRING"),
        (pa.dictionary(pa.int8(), pa.string()), "STRING"),
        (pa.binary(4), "BINARY(4)"),
        (pa.timestamp("ns"), "TIMESTAMP(9)"),
        (pa.timestamp("us", "Europe/Berlin"), "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        (pa.time64("us"), "TIME(6)"),
        (pa.list_(pa.field("item", pa.int8(), nullable=False)), "ARRAY<TINYINT NOT NULL>"),
        (pa.map_(pa.int32(), pa.float64()), "MAP<INT NOT NULL, DOUBLE>"),
    ],
)
def test_arrow_types_as_paimon_types(arrow: pa.DataType, sql: str) -> None:
    assert type_to_sql(paimon_type(arrow)) == sql


def test_an_arrow_type_without_an_equal_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="uint64"):
        Schema.from_pyarrow_schema(pa.schema([("u", pa.uint64())]))


def test_databases_and_tables(catalog: Catalog) -> None:
    catalog.create_database("db", ignore_if_exists=True)
    with pytest.raises(AlreadyExists):
        catalog.create_database("db")
    schema = Schema.from_pyarrow_schema(pa.schema([("k", pa.int32())]), comment="notes")
    assert catalog.create_table("db.a", schema).comment == "notes"
    catalog.create_table("db.a", schema, ignore_if_exists=True)
    with pytest.raises(AlreadyExists):
        catalog.create_table("db.a", schema)
    catalog.rename_table("db.a", "db.b")
    assert catalog.list_tables("db") == ["b"]
    assert catalog.exists("db.b")
    assert not catalog.exists("db.a")
    assert not catalog.exists("nowhere.a")
    catalog.drop_table("db.b")
    catalog.drop_table("db.b", ignore_if_not_exists=True)
    with pytest.raises(NotFound):
        catalog.get_table("db.b")
    catalog.drop_database("db")
    assert catalog.list_databases() == []


def test_alter(table: Table, catalog: Catalog) -> None:
    altered = table.alter(
        SchemaChange.add_column("n", pa.int64(), comment="new", after="k"),
        SchemaChange.rename_column("v", "w"),
        SchemaChange.set_option("snapshot.num-retained.min", "3"),
    )
    assert altered.schema.names == ["k", "n", "w", "dt"]
    assert altered.options["snapshot.num-retained.min"] == "3"
    assert table.schema.names == ["k", "v", "dt"]
    assert altered.to_dicts("k = 3") == [{"k": 3, "n": None, "w": "v3", "dt": "d1"}]
    catalog.alter_table("db.t", [SchemaChange.drop_column("n"), SchemaChange.update_comment("c")])
    assert altered.refreshed().schema.names == ["k", "w", "dt"]
    catalog.alter_table("db.no", [SchemaChange.drop_column("n")], ignore_if_not_exists=True)
    with pytest.raises(SchemaError):
        table.alter(SchemaChange.drop_column("nobody"))


def test_builder_scan_and_read(table: Table) -> None:
    builder = table.new_read_builder()
    p = builder.new_predicate_builder()
    either = p.or_predicates([p.less_than("k", 3), p.greater_or_equal("k", 28)])
    builder = builder.with_filter(p.and_predicates([either, p.equal("dt", "d0")]))
    builder = builder.with_projection(["v", "k"])
    splits = builder.new_scan().plan().splits()
    assert {s.partition["dt"] for s in splits} == {"d0"}
    assert all(Path(path).is_file() for s in splits for path in s.file_paths)
    read = builder.new_read()
    assert read.to_arrow(splits).schema.names == ["v", "k"]
    assert keys(read.to_arrow(splits)) == [0, 2, 28]
    assert sorted(read.to_iterator(splits)) == [("v0", 0), ("v2", 2), ("v28", 28)]
    assert keys(read.to_arrow_batch_reader(splits).read_all()) == [0, 2, 28]
    assert sorted(read.to_pandas(splits)["k"]) == [0, 2, 28]
    assert keys(read.to_arrow(pickle.loads(pickle.dumps(splits)))) == [0, 2, 28]


def test_each_scan_reads_what_is_newest_then(table: Table) -> None:
    builder = table.new_read_builder()
    scan, read = builder.new_scan(), builder.new_read()
    table.append([{"k": 99, "v": "new", "dt": "d0"}])
    assert read.to_arrow(scan.plan().splits()).num_rows == 30
    assert read.to_arrow(builder.new_scan().plan().splits()).num_rows == 31


def test_the_columns_of_a_builder_stay(table: Table) -> None:
    table.create_tag("moving", snapshot=1)
    builder = table.copy({"scan.tag-name": "moving"}).new_read_builder()
    altered = table.alter(SchemaChange.add_column("n", "INT"))
    altered.append([{"k": 99, "v": "new", "dt": "d0", "n": 1}])
    table.core.tags.delete("moving")
    altered.create_tag("moving")
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    assert rows.schema.names == ["k", "v", "dt"]
    assert rows.num_rows == 31


def test_shards_are_everything_together(table: Table) -> None:
    table.compact(full=True)
    builder = table.copy({"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"})
    scan = builder.new_read_builder().new_scan()
    parts = [scan.with_shard(i, 3).plan().splits() for i in range(3)]
    read = table.new_read_builder().new_read()
    assert sorted(k for part in parts for k in read.to_arrow(part)["k"].to_pylist()) == [*range(30)]
    assert sum(len(p) for p in parts) > 1
    with pytest.raises(InvalidArgument):
        scan.with_shard(3, 3)


def test_limits(table: Table) -> None:
    assert table.to_arrow(limit=7).num_rows == 7
    assert table.to_arrow(limit=0).num_rows == 0
    assert table.to_arrow("k > 20", limit=100).num_rows == 9


def test_predicates_of_python_values(catalog: Catalog) -> None:
    made = catalog.create_table("db.all", ALL)
    made.append([ROW, {"k": 2}])
    p = made.new_predicate_builder()
    same = [(n, ROW[n]) for n in ("k", "b", "i8", "f", "s", "d", "day", "t", "ts", "ltz", "raw")]
    for name, value in same:
        assert keys(made.to_arrow(p.equal(name, value))) == [1], name
    for predicate, expected in [
        (p.equal("day", "2024-01-31"), [1]),
        (p.is_in("k", [2, 3]), [2]),
        (p.is_not_in("k", [2, 3]), [1]),
        (p.between("k", 1, 2), [1, 2]),
        (p.not_between("k", 0, 1), [2]),
        (p.is_null("s"), [2]),
        (p.is_not_null("s"), [1]),
        (p.not_predicate(p.is_null("s")), [1]),
        (p.startswith("s", "ä"), [1]),
        (p.endswith("s", "x"), []),
        (p.contains("s", "ä"), [1]),
        (p.like("s", "_"), [1]),
        (p.not_equal("k", 1), [2]),
        (p.less_or_equal("k", 1), [1]),
        (p.greater_than("k", 1), [2]),
        (p.greater_than("d", 12), [1]),
    ]:
        assert keys(made.to_arrow(predicate)) == expected, predicate


def test_fields_of_structs(catalog: Catalog) -> None:
    inner = pa.struct([pa.field("z", pa.int32(), nullable=False)])
    schema = pa.schema(
        [
            ("k", pa.int32()),
            ("r", pa.struct([("x", pa.string()), ("in", inner)])),
            ("r.k", pa.int8()),
        ]
    )
    made = catalog.create_table("db.s", schema)
    whole = {"x": "a", "in": {"z": 1}}
    made.append([{"k": 1, "r": whole, "r.k": 7}, {"k": 2, "r": None}, {"k": 3, "r": {"x": "c"}}])
    found = made.to_arrow(columns=["r.in.z", "k", "r.k", "r.x"])
    assert found.schema.names == ["r_in_z", "k", "r.k", "r_x"]
    assert [tuple(row.values()) for row in found.sort_by("k").to_pylist()] == [
        (1, 1, 7, "a"),
        (None, 2, None, None),
        (None, 3, None, "c"),
    ]
    assert made.to_arrow("k = 3", ["r.x"]).to_pylist() == [{"r_x": "c"}]
    for unknown in (["r.y"], ["k.x"], ["r.x", "r.x"]):
        with pytest.raises(InvalidArgument):
            made.to_arrow(columns=unknown)
    builder = made.new_stream_read_builder().with_projection(["r.x"])
    plan = next(builder.new_streaming_scan().available())
    assert set(builder.new_read().to_arrow(plan.splits())["r_x"].to_pylist()) == {"a", "c", None}


def test_options_name_the_columns_of_blobs_and_vectors(catalog: Catalog) -> None:
    schema = pa.schema([("k", pa.int32()), ("b", pa.large_binary()), ("e", pa.list_(pa.float32()))])
    tracked = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    named = {"blob-field": "b", "vector-field": "e", "field.e.vector-dim": "2"}
    made = catalog.create_table("db.b", schema, options=tracked | named)
    types = [type_to_sql(f.type) for f in made.core.schema.fields]
    assert types == ["INT", "BLOB", "VECTOR<FLOAT, 2>"]
    made.append(pa.Table.from_pylist([{"k": 1, "b": b"x", "e": [1, 2]}, {"k": 2}], schema))
    assert made.to_dicts("k = 1", ["b", "e"]) == [{"b": b"x", "e": [1, 2]}]
    assert made.to_dicts("k = 2", ["b", "e"]) == [{"b": None, "e": None}]
    with pytest.raises(InvalidArgument, match="binary"):
        catalog.create_table("db.no", schema, options=tracked | {"blob-field": "k"})


def test_vectors(catalog: Catalog) -> None:
    schema = pa.schema([("k", pa.int32()), ("e", pa.list_(pa.float32(), 2))])
    made = catalog.create_table("db.v", schema)
    assert [type_to_sql(f.type) for f in made.core.schema.fields] == ["INT", "VECTOR<FLOAT, 2>"]
    made.append(pa.Table.from_pylist([{"k": 1, "e": [1, 2]}, {"k": 2}], schema))
    assert made.to_dicts("k = 1", ["e"]) == [{"e": [1, 2]}]
    assert made.to_dicts("k = 2", ["e"]) == [{"e": None}]


@pytest.mark.parametrize(
    ("name", "value"), [("k", 1.5), ("k", True), ("i8", 300), ("s", 5), ("raw", "text"), ("b", 1)]
)
def test_a_value_that_does_not_fit_its_column(catalog: Catalog, name: str, value: object) -> None:
    made = catalog.create_table("db.all", ALL)
    with pytest.raises(InvalidArgument, match=name):
        made.new_predicate_builder().equal(name, value)


def test_unknown_columns_are_refused(table: Table) -> None:
    for call in (
        lambda: table.to_arrow("nobody = 1"),
        lambda: table.to_arrow(columns=["nobody"]),
        lambda: table.to_arrow(columns=["k", "k"]),
        lambda: table.new_predicate_builder().is_null("nobody"),
    ):
        with pytest.raises(InvalidArgument):
            call()


def test_older_versions(table: Table, catalog: Catalog) -> None:
    first = table.snapshots()[0]
    table.create_tag("start", snapshot=first.id)
    table.alter(SchemaChange.drop_column("v"))
    fresh = catalog.get_table("db.t")
    assert keys(fresh.to_arrow(snapshot=2)) == [*range(20)]
    assert fresh.at(tag="start").to_arrow().schema.names == ["k", "v", "dt"]
    assert keys(fresh.to_arrow("k < 5", timestamp=first.time_millis)) == [*range(5)]
    at = datetime.fromtimestamp(first.time_millis / 1000 + 0.0005, UTC)
    assert keys(fresh.to_arrow(timestamp=at)) == [*range(10)]
    assert keys(fresh.to_arrow(timestamp=at.replace(tzinfo=None))) == [*range(10)]
    text = at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03}"
    assert keys(fresh.to_arrow(timestamp=text)) == [*range(10)]
    for missing in ({"snapshot": 9}, {"tag": "end"}, {"timestamp": 5}):
        with pytest.raises(NotFound):
            fresh.to_arrow(**missing)
    with pytest.raises(InvalidArgument):
        fresh.at(snapshot=1, tag="start")
    with pytest.raises(TypeError):
        fresh.to_arrow(version=1)


def test_changes_have_kinds(catalog: Catalog) -> None:
    made = catalog.create_table(
        "db.k",
        Schema.of(
            {"k": "INT", "v": "STRING"},
            primary_keys=["k"],
            options={"bucket": "1", "changelog-producer": "input"},
        ),
    )
    made.upsert([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    made.delete("k = 1")
    assert made.changes(0, 1)["_row_kind"].to_pylist() == ["+I", "+I"]
    assert made.changes(1, 2).to_pylist() == [{"_row_kind": "-D", "k": 1, "v": "a"}]
    plain = made.copy({"incremental-between": "1,2"}).to_arrow()
    assert plain.num_rows == 0


def test_branches_and_system_tables(table: Table, catalog: Catalog) -> None:
    table.core.branches.create("b")
    assert table.branches() == ["b"]
    branch = catalog.get_table("db.t$branch_b")
    branch.append([{"k": 99, "v": None, "dt": "d0"}])
    assert keys(table.branch("b").to_arrow()) == [99]
    assert table.to_arrow().num_rows == 30
    assert table.system_table("snapshots")["snapshot_id"].to_pylist() == [1, 2, 3]
    with pytest.raises(InvalidArgument, match="system table"):
        catalog.get_table("db.t$files")


def test_an_empty_table(catalog: Catalog) -> None:
    made = catalog.create_table("db.e", Schema.of({"k": "INT"}))
    assert made.to_arrow().num_rows == 0
    assert made.to_arrow("k = 1", columns=["k"]).schema == made.schema
    assert made.latest_snapshot() is None
    assert made.new_read_builder().new_scan().plan().splits() == []
    assert made.delete("k = 1").rows == 0
    assert made.append([]).snapshots == ()
