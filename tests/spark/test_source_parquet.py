"""`paimon_spark.source.read`: what Spark's Parquet reader reads itself is what Java says."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lakes import Lake
from spark_rows import frame_values, spark_values

from paimon_core import open_catalog
from paimon_core.ddl.schema_change import RenameColumn
from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.open import open_table
from paimon_core.table.source.batch_scan import batch_scan_of
from paimon_core.types.data_types import TypeRoot
from paimon_spark.source import read
from paimon_spark.source.reads.frames import ScanPlan, plan_scan

pytestmark = pytest.mark.spark


def plan(table: FileStoreTable, columns: list[str] | None = None) -> ScanPlan:
    scan = batch_scan_of(table)
    names = columns or list(scan.table.schema.names)
    return plan_scan(scan, columns=names, predicate=None, zone=UTC)


def of_java(copy: Any) -> FileStoreTable:
    return open_table(str(copy.warehouse), copy.table)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "readers"),
    [
        ("append_unaware", {"plain"}),
        ("partitions_null", {"plain"}),
        ("partitions_date", {"plain"}),
        ("partitions_pk_overwrite", {"plain", "merged"}),
        ("deletion_vectors", {"plain"}),
        ("dedup_write_only", {"merged"}),
        ("seq_field_desc", {"merged"}),
        ("schema_evolution_pk", {"rest"}),
        ("deletes", {"merged"}),
        ("partial_update", {"rest"}),
        ("first_row", {"plain"}),
        ("types_append_orc", {"rest"}),
    ],
)
def test_java_s_rows(session: Any, golden: Any, name: str, readers: set[str]) -> None:
    table = golden(name)
    java = table.expected["reads"]["latest"]
    planned = plan(of_java(table))
    assert {r for r in ("plain", "merged", "rest") if getattr(planned, r)} == readers
    frame = read(session, path=str(table.root))
    assert frame.columns == java["columns"]
    assert frame_values(frame) == spark_values(java["rows"], java["types"])


@pytest.mark.parametrize("name", ["types_append_parquet", "deletion_vectors"])
def test_snapshots_and_types(session: Any, golden: Any, name: str) -> None:
    table = golden(name)
    types = {f.name: f.type for f in of_java(table).schema.row_type.fields}
    wanted = [
        n
        for n, t in types.items()
        if (t.root is not TypeRoot.TIME and (getattr(t, "precision", None) or 0) <= 6)
        or t.root is TypeRoot.DECIMAL
    ]
    for snapshot in table.expected["snapshots"][-1::-3]:
        java = table.expected["reads"][f"snapshot-{snapshot['id']}"]
        at = {"scan.snapshot-id": str(snapshot["id"])}
        frame = read(session, columns=wanted, path=str(table.root), **at)
        chosen = [java["columns"].index(n) for n in wanted]
        rows = [[r[0], *(r[i + 1] for i in chosen)] for r in java["rows"]]
        assert frame_values(frame) == spark_values(rows, [java["types"][i] for i in chosen])
    if name == "types_append_parquet":
        assert len(wanted) > 12
        assert plan(of_java(table), wanted).plain
        assert not plan(of_java(table), wanted).rest


def test_added_renamed_and_changed_columns(session: Any, golden: Any) -> None:
    table = golden("schema_evolution_append")
    reads = table.expected["reads"]
    readers = set()
    java = reads["latest"]
    for i, data_type in enumerate(java["types"]):
        frame = read(session, columns=[java["columns"][i]], path=str(table.root))
        rows = [[r[0], r[i + 1]] for r in java["rows"]]
        assert frame_values(frame) == spark_values(rows, [data_type])
    for column in of_java(table).schema.names:
        planned = plan(of_java(table), [column])
        readers.add((len({f.columns for f in planned.plain}) > 1, bool(planned.rest)))
    # Some columns are null in older files, some have another type there.
    assert {(True, False), (False, True)} & readers


def test_columns_that_got_the_names_of_others(session: Any, tmp_path: Path) -> None:
    catalog = open_catalog(str(tmp_path))
    catalog.create_database("db", ignore_if_exists=True)
    rows = pa.table({"a": [1], "b": [2]})
    table = catalog.create_table("db.t", rows.schema)
    table.append(rows)
    table.alter(RenameColumn(("a",), "c"), RenameColumn(("b",), "a"))
    frame = read(session, path=str(tmp_path / "db.db" / "t"))
    assert frame.columns == ["c", "a"]
    assert frame.where("a > 1").select("a", "c").collect() == [(2, 1)]


def test_names_that_paths_and_spark_have_meanings_for(session: Any, tmp_path: Path) -> None:
    warehouse = tmp_path / "a,b 100% #'"
    catalog = open_catalog(str(warehouse))
    catalog.create_database("db", ignore_if_exists=True)
    rows = pa.table(
        {
            "a.b `c` d": ["x", "y", "z"],
            "p q": ["1=2", "a/b c%20", "{}[]*?:#"],
            "S": pa.array([{"X y": 1}, None, {"X y": None}], pa.struct([("X y", pa.int32())])),
        }
    )
    table = catalog.create_table("db.t", rows.schema, partition_keys=["p q"])
    table.append(rows)
    path = str(warehouse / "db.db" / "t")
    frame = read(session, path=path)
    assert "FileScan parquet" in frame._jdf.queryExecution().toString()
    assert "MapInArrow" not in frame._jdf.queryExecution().toString()
    assert sorted(frame.toArrow().to_pylist(), key=str) == sorted(rows.to_pylist(), key=str)
    assert frame.where("`p q` = 'a/b c%20'").count() == 1


def test_left_to_python(session: Any, tmp_path: Path) -> None:
    """What Spark would read wrong, or leave out silently."""
    catalog = open_catalog(str(tmp_path))
    catalog.create_database("db", ignore_if_exists=True)
    for name, rows, options in (
        ("cases", pa.table({"a": [1], "A": [2]}), {}),
        ("hidden", pa.table({"a": [1]}), {"data-file.prefix": "_x-"}),
        ("clock", pa.table({"t": pa.array([1], pa.time32("ms"))}), {}),
        ("nanos", pa.table({"t": pa.array([1001], pa.timestamp("ns"))}), {}),
    ):
        catalog.create_table(f"db.{name}", rows.schema, options=options).append(rows)
        frame = read(session, path=str(tmp_path / "db.db" / name))
        text = frame._jdf.queryExecution().toString()
        assert "FileScan parquet" not in text, name
        assert frame.count() == 1
    pattern = tmp_path / "a{b}[c]*?"
    lake = Lake(pattern)
    lake.log()
    lake.fill(2)
    assert not plan(lake.table()).plain
    assert read(session, path=str(pattern / "db.db" / "t")).count() == 20
    lake = Lake(tmp_path)
    # Whether the files have the column of the partition, their statistics have to show.
    lake.log("db.migrated", partitioned=True, metadata_stats__mode="none")
    lake.append({"k": [1], "v": ["a"], "dt": ["x"]}, "db.migrated")
    planned = plan(lake.table("db.migrated"))
    assert planned.rest
    assert not planned.plain
    assert not plan(lake.table("db.migrated"), ["k"]).rest


def test_joins_know_how_much_there_is(session: Any, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key("db.merged")
    lake.fill(2, name="db.merged")
    lake.log("db.plain")
    lake.fill(2, name="db.plain")
    merged, plain = (read(session, path=str(tmp_path / "db.db" / n)) for n in ("merged", "plain"))
    joined = plain.join(merged, "k")
    assert joined.count() == 20
    big = session.range(10).selectExpr("CAST(id AS INT) AS k").repartition(3)
    for small in (merged, plain):
        text = big.join(small, "k")._jdf.queryExecution().toString()
        assert "BroadcastHashJoin" in text


def test_columns_and_filters(session: Any, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.log("db.t", partitioned=True)
    lake.fill(2)
    root = str(tmp_path / "db.db" / "t")
    frame = read(session, columns=["v"], where="dt = 'day1'", path=root)
    assert frame.columns == ["v"]
    assert frame.count() == 10
    assert read(session, path=f"{root}$snapshots").count() == 2
    with pytest.raises(Exception, match="has no column nothing"):
        read(session, columns=["nothing"], path=root)
    lake.log("db.empty")
    assert read(session, path=str(tmp_path / "db.db" / "empty")).count() == 0


def test_hidden_rows(session: Any, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key("db.keyed", buckets=2)
    lake.append({"k": list(range(100)), "v": ["a"] * 100}, "db.keyed")
    lake.append({"k": list(range(50, 150)), "v": ["b"] * 100}, "db.keyed")
    path = str(tmp_path / "db.db" / "keyed")
    first = read(session, columns=["v"], path=path)
    assert "MapInArrow" not in first._jdf.queryExecution().toString()
    # The filter goes down to the scan, below the rows that are skipped there.
    assert first.where("v = 'a'").count() == 50
    lake.append({"k": list(range(75)), "v": ["c"] * 75}, "db.keyed")
    counts = read(session, path=path).groupBy("v").count().collect()
    assert {r["v"]: r["count"] for r in counts} == {"b": 75, "c": 75}
    assert first.groupBy("v").count().where("v = 'a'").first()["count"] == 50


@pytest.mark.parametrize("last", [10, 1000])
def test_hidden_rows_of_files_of_equal_size(session: Any, tmp_path: Path, last: int) -> None:
    lake = Lake(tmp_path)
    lake.primary_key("db.keyed", partitioned=True)
    for v in ("a", "b"):
        for day in ("day1", "day2"):
            keys = list(range(5)) if v == "b" and day == "day1" else list(range(10))
            lake.append({"k": keys, "v": [v] * len(keys), "dt": [day] * len(keys)}, "db.keyed")
    # A run without hidden rows, in the same scan as the others or, if it is large, in its own.
    lake.append(
        {"k": list(range(9, last)), "v": ["c"] * (last - 9), "dt": ["day1"] * (last - 9)},
        "db.keyed",
    )
    table = lake.table("db.keyed")
    sizes = [f.size for m in plan(table).merged for f in m.files]
    assert len(set(sizes)) < len(sizes)
    counts = read(session, path=table.root).groupBy("v", "dt").count().collect()
    assert {(r["v"], r["dt"]): r["count"] for r in counts} == {
        ("a", "day1"): 4,
        ("b", "day1"): 5,
        ("c", "day1"): last - 9,
        ("b", "day2"): 10,
    }


def test_deleted_rows_of_an_append_table(session: Any, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.log("db.t", deletion__vectors_enabled="true")
    for start in (0, 100):
        lake.append({"k": list(range(start, start + 100)), "v": ["a"] * 100})
    table = open_catalog(str(tmp_path)).get_table("db.t")
    table.delete("k < 30 OR k = 199")
    planned = plan(lake.table())
    assert planned.merged
    assert not planned.rest
    path = str(tmp_path / "db.db" / "t")
    assert sorted(r.k for r in read(session, path=path).collect()) == list(range(30, 199))
    assert read(session, path=path).where("k < 40").count() == 10
