"""A compaction of more files than a plan holds is done by several plans of one run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lakes import Lake

from paimon_core.scan.scan import scan_files
from paimon_maintenance.job.guards import Guards
from paimon_maintenance.job.report import Status
from paimon_maintenance.jobs.compact import select
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import plan_table, run_table
from paimon_maintenance.verify.check import check_table

FILES, PARTITIONS = 3, 2


@pytest.fixture
def lake(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Two partitions of three files; a plan holds the files of one."""
    lake.primary_key(partitioned=True)
    lake.fill(FILES)
    monkeypatch.setattr(select, "MOST_FILES", FILES)
    return lake


def request(lake: Lake, **more: object) -> RunRequest:
    job = job_named("compact")
    return RunRequest(
        job=job,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=job.read_arguments({"strategy": "full", **more}),
    )


def files_of(lake: Lake) -> int:
    return len(scan_files(lake.table(), lake.table().latest_or_not_found()))


def test_one_run_compacts_all_portions(lake: Lake) -> None:
    report = run_table(request(lake))
    assert report.status is Status.SUCCESS
    assert files_of(lake) == PARTITIONS
    assert check_table(lake.table()).clean
    assert run_table(request(lake)).status is Status.NOTHING_TO_DO


def test_the_plan_says_what_is_left(lake: Lake) -> None:
    plan = plan_table(request(lake))
    assert len(plan.to_json()["units"]) == 1
    assert plan.goes_on
    assert plan.effect.rewritten_files == FILES * PARTITIONS
    assert plan.effect.rewritten_bytes == plan.effect.table_bytes
    text = "\n".join(plan.lines())
    assert "then, with new plans, what is due in 1 other bucket" in text
    (kept,) = plan.kept
    assert kept.count == PARTITIONS - 1


def test_portions_without_work_are_passed_over(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing due in the first portion, the plan takes the next one."""
    run_table(request(lake, partitions="dt=day0"))

    def not_known(table: object, live: object, of: object, numbers: Any, **_: object) -> Any:
        return np.zeros(len(numbers), bool)

    monkeypatch.setattr(select, "idle_buckets", not_known)
    plan = plan_table(request(lake))
    (unit,) = plan.to_json()["units"]
    assert unit["partition"] == "dt=day1"
    assert not plan.goes_on


def test_a_limit_of_rewritten_bytes_sees_all_portions(lake: Lake) -> None:
    """Otherwise several plans would pass below it."""
    size = plan_table(request(lake)).effect.table_bytes
    report = run_table(replace(request(lake), guards=Guards(max_rewrite_bytes=size - 1)))
    assert report.status is Status.FAILED
    assert "--max-rewrite" in str(report.error)
    assert files_of(lake) == FILES * PARTITIONS
