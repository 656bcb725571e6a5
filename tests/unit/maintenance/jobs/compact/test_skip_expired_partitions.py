"""`compaction.skip-expired-partitions`: partitions that expire anyway are not rewritten."""

from __future__ import annotations

from collections import Counter

import pytest
from lakes import ENV, Lake

from paimon_core.scan.scan import scan_files
from paimon_maintenance.health.measure import measure_table
from paimon_maintenance.job.report import Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import plan_table, run_table

OLD, NEW, NO_TIME = "2020-01-01", "2999-01-01", "home"
DAYS = (OLD, NEW, NO_TIME)
COMMITS = 6
OPTIONS = {
    "compaction.skip-expired-partitions": "true",
    "partition.expiration-time": "7 d",
    "partition.expiration-check-interval": "999 d",
    "partition.timestamp-formatter": "yyyy-MM-dd",
}


def fill(lake: Lake, *, primary_key: bool, **changed: str) -> None:
    bucket = "1" if primary_key else "-1"
    options = {"bucket": bucket, "write-only": "true", **OPTIONS, **changed}
    lake.create(primary_key=primary_key, partitioned=True, options=options)
    for number in range(COMMITS):
        rows = {"k": [number] * len(DAYS), "v": ["v"] * len(DAYS), "dt": list(DAYS)}
        lake.append(rows)


def request(lake: Lake, strategy: str) -> RunRequest:
    job = job_named("compact")
    arguments = job.read_arguments({"strategy": strategy})
    return RunRequest(job=job, warehouse=str(lake.warehouse), table="db.t", arguments=arguments)


def files_of(lake: Lake) -> dict[str, int]:
    table = lake.table()
    live = scan_files(table, table.latest_or_not_found())
    return Counter(table.paths.partition_values(e.partition)["dt"] for e in live)


@pytest.mark.parametrize("strategy", ["full", "minor"])
@pytest.mark.parametrize("primary_key", [True, False])
def test_expired_partitions_stay_as_they_are(
    lake: Lake, *, primary_key: bool, strategy: str
) -> None:
    fill(lake, primary_key=primary_key)
    (kept,) = plan_table(request(lake, strategy)).kept
    assert "compaction.skip-expired-partitions" in kept.why
    assert kept.count == 1
    assert run_table(request(lake, strategy)).status is Status.SUCCESS
    assert files_of(lake) == {OLD: COMMITS, NEW: 1, NO_TIME: 1}
    assert run_table(request(lake, strategy)).status is Status.NOTHING_TO_DO


@pytest.mark.parametrize(
    "changed",
    [
        {"compaction.skip-expired-partitions": "false"},
        {"partition.expiration-time": "9999999 d"},
        {"partition.expiration-strategy": "update-time"},
    ],
    ids=["off", "not expired", "update-time"],
)
def test_they_are_compacted_otherwise(lake: Lake, changed: dict[str, str]) -> None:
    fill(lake, primary_key=True, **changed)
    run_table(request(lake, "full"))
    assert files_of(lake) == dict.fromkeys(DAYS, 1)


def test_the_scheduler_plans_no_compaction_of_them(lake: Lake) -> None:
    fill(lake, primary_key=True)
    measured = {p.values["dt"]: p for p in measure_table(lake.table(), ENV).partitions}
    assert measured[OLD].full is measured[OLD].minor is None
    assert measured[NEW].full is not None
