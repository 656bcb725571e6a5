"""A batch read goes on while its snapshot expires, if the table's options tag what is read."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from lakes import Lake

from paimon_core.errors import CorruptTable
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch
from paimon_core.table.source.batch_tasks import plan_batch, read_task
from paimon_core.table.source.read_tags import PREFIX
from paimon_maintenance.job.report import Status
from paimon_maintenance.jobs.compact.definition import COMPACT
from paimon_maintenance.jobs.expire_snapshots.definition import EXPIRE_SNAPSHOTS
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table

RETAINED = "scan.plan-auto-tag-for-read.time-retained"
HOUR = 3_600_000
ROWS = 10


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key()
    lake.fill(rows=ROWS)
    return lake


def expire(lake: Lake) -> None:
    """Compact all files, and remove every older snapshot."""
    for job, arguments in (
        (COMPACT, {"strategy": "full"}),
        (EXPIRE_SNAPSHOTS, {"retain_max": 1, "retain_min": 1, "older_than": "2999-01-01"}),
    ):
        request = RunRequest(
            job=job,
            warehouse=str(lake.warehouse),
            table="db.t",
            arguments=job.read_arguments(arguments),
        )
        assert run_table(request).status is Status.SUCCESS


def test_rows_stay_until_they_are_read(lake: Lake) -> None:
    table = lake.table(**{RETAINED: "1 h"})
    rows = read_batch(batch_scan_of(table))
    (tag,) = table.tags.all()
    assert tag.name.startswith(f"{PREFIX}3-")
    assert tag.time_retained == HOUR * 10**6
    expire(lake)
    assert table.snapshots.ids() == [4]
    assert sum(b.num_rows for b in rows) == ROWS
    assert table.tags.all() == []


def test_tasks_have_the_time_of_the_tag(lake: Lake) -> None:
    table = lake.table(**{RETAINED: "1 h"})
    scan = batch_scan_of(table)
    tasks = plan_batch(scan)
    expire(lake)
    rows = [b for t in tasks for b in read_task(t, columns=["k"])]
    assert sum(b.num_rows for b in rows) == ROWS
    assert [t.snapshot.id for t in table.tags.all()] == [3]


def test_a_read_that_is_left_removes_its_tag(lake: Lake) -> None:
    table = lake.table(**{RETAINED: "1 h"})
    rows = read_batch(batch_scan_of(table))
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert table.tags.all() == []


def test_both_snapshots_of_a_difference_are_tagged(lake: Lake) -> None:
    between = {"incremental-between": "1,3", "incremental-between-scan-mode": "diff"}
    table = lake.table(**{RETAINED: "1 h"}, **between)
    rows = read_batch(batch_scan_of(table))
    assert [t.snapshot.id for t in table.tags.all()] == [1, 3]
    expire(lake)
    assert sum(b.num_rows for b in rows) == ROWS


def test_nothing_is_tagged_without_the_option(lake: Lake) -> None:
    table = lake.table()
    plan_batch(batch_scan_of(table))
    rows = read_batch(batch_scan_of(table))
    assert table.tags.all() == []
    expire(lake)
    with pytest.raises(CorruptTable):
        list(rows)


def test_without_a_tag_the_read_goes_on(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    table = lake.table(**{RETAINED: "1 h"})
    (Path(table.root) / "tag").write_text("no folder")
    with caplog.at_level(logging.WARNING):
        rows = read_batch(batch_scan_of(table))
    assert "is read without a tag" in caplog.text
    assert sum(b.num_rows for b in rows) == ROWS
