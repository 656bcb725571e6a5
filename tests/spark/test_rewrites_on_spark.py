"""Rescale and sort compaction on Spark: several tasks share a partition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import caretaker, read_rows
from lakes import Lake

from maintenance.registry import job_named
from maintenance.report import Report
from maintenance.runner import RunRequest, Surroundings, run_table
from maintenance.spark import SparkEngine

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
    report = run_table(request, Surroundings(engine=spark))
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
