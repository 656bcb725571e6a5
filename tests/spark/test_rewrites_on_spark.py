"""Rewrites on Spark, where several tasks share a partition, and work on very many files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker, read_rows
from evolving_tables import EVOLVING
from lakes import Lake

from paimon_core.compaction import level_indexes
from paimon_core.index.primary_key import sources_of
from paimon_core.predicate import Leaf, Op
from paimon_core.read.table_read import read_table
from paimon_maintenance.engines.spark.engine import SparkEngine
from paimon_maintenance.job.engine import WorkUnit
from paimon_maintenance.job.report import Report
from paimon_maintenance.jobs.global_index import create
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table
from paimon_maintenance.storage import bulk

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkEngine]:
    engine = SparkEngine(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    yield engine
    engine.close()


def run(spark: SparkEngine, lake: Lake, name: str, **arguments: object) -> Report:
    job = job_named(name)
    request = RunRequest(
        job=job,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=job.read_arguments(arguments),
    )
    report = run_table(request, RunServices(engine=spark))
    assert report.error is None, report.error
    assert report.engine == "spark"
    return report


def test_rescale(spark: SparkEngine, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key(buckets=3, partitioned=True)
    lake.fill(3, rows=200)
    before = sorted(str(r[1:]) for r in read_rows(lake.warehouse))
    report = run(spark, lake, "rescale", bucket_num=4, slice_bytes="4 kb", safety_tag="0")
    assert len(report.snapshots) == 2
    assert sorted(str(r[1:]) for r in read_rows(lake.warehouse)) == before
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0
    assert lake.on_disk() == lake.referenced()


def test_a_global_index(
    spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    lake.create(primary_key=False, options=EVOLVING)
    lake.fill(4, rows=300)
    monkeypatch.setattr(create, "SMALL_BYTES", 0)
    options = {"sorted-index.records-per-range": "500"}
    report = run(spark, lake, "create_global_index", index_column="v", options=options)
    assert report.details["index_files"] == 2
    assert report.details["rows"] == 1200
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0
    assert lake.on_disk() == lake.referenced()
    table = lake.table()
    snapshot, rows = table.latest_or_not_found(), read_rows(lake.warehouse)
    wanted = Leaf(Op.EQ, "v", (rows[700][2],))
    found = [b.num_rows for b in read_table(table, snapshot, predicate=wanted)]
    assert sum(found) == sum(row[2] == rows[700][2] for row in rows)


def test_indexes_of_levels(
    spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors build the indexes of a bucket that was cut; the driver reads no column."""
    lake = Lake(tmp_path)
    lake.primary_key(**{"deletion-vectors.enabled": "true", "pk-bitmap.index.columns": "v"})
    lake.fill(3, rows=400)
    monkeypatch.delattr(level_indexes, "_column")
    run(spark, lake, "compact", strategy="full", slice_bytes="4 kb")
    table = lake.table()
    (file,) = (e.index_file for e in table.index_entries(table.latest_or_not_found()))
    sources = sources_of(file)
    assert sources is not None
    assert sources.rows == 400
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0
    assert lake.on_disk() == lake.referenced()


def test_sort_compact_in_ranges(spark: SparkEngine, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.log(partitioned=True)
    lake.fill(4, rows=4000)
    before = sorted(map(str, read_rows(lake.warehouse)))
    report = run(
        spark,
        lake,
        "sort_compact",
        order_by=["k", "v"],
        order_strategy="order",
        range_bytes="4 kb",
    )
    assert sorted(map(str, read_rows(lake.warehouse))) == before
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0
    assert lake.on_disk() == lake.referenced()
    # Each range became a file of its own, and they hardly overlap.
    assert report.after.files > 4
    query = report.details["range_query_on_k"]
    assert isinstance(query, dict)
    assert query["before"]["files"] == query["before"]["total_files"]
    assert query["after"]["files"] < 0.8 * query["after"]["total_files"]


def test_many_files_are_listed_and_deleted_there(
    spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "FROM_FOLDERS", 2)
    monkeypatch.setattr(bulk, "FROM_FILES", 2)
    lake = Lake(tmp_path)
    lake.primary_key(buckets=3, partitioned=True)
    lake.fill(3, rows=200)
    run(spark, lake, "compact", strategy="full")
    folder = next(Path(lake.table().root).rglob("bucket-0"))
    orphans = [folder / f"data-orphan-{n}.parquet" for n in range(5)]
    for path in orphans:
        path.write_bytes(b"nobody needs this")
        os.utime(path, (0, 0))
    before = sorted(str(r[1:]) for r in read_rows(lake.warehouse))
    asked: list[str] = []
    run_units = SparkEngine.run_units

    def listening(self: SparkEngine, units: Sequence[WorkUnit], *rest: Any, **more: Any) -> Any:
        asked.append(units[0].label)
        return run_units(self, units, *rest, **more)

    monkeypatch.setattr(SparkEngine, "run_units", listening)
    report = run(spark, lake, "remove_orphan_files")
    assert report.details["deleted_files"] == 5
    assert not any(path.exists() for path in orphans)
    assert [label.split(",")[0] for label in asked] == [
        "db.t: list folders",  # of partitions
        "db.t: list folders",  # of buckets
        *["db.t: read states"] * 3,  # of five orphans, two at a time
        "db.t: delete files",
    ]
    report = run(spark, lake, "expire_snapshots", retain_max=1, retain_min=1)
    deleted = report.details["deleted_files"]
    assert isinstance(deleted, int)
    assert deleted > 18
    assert "delete files" in asked[-1]
    assert len(asked) > 3
    assert sorted(str(r[1:]) for r in read_rows(lake.warehouse)) == before
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0
    assert lake.on_disk() == lake.referenced()
