"""A table that is dropped, renamed or replaced while a job runs on it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import known_holes
import pytest
from failing_io import Trigger
from known_holes import each_call
from lakes import Lake

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.errors import CommitStateUnknown, NotFound, TableGone
from paimon_maintenance.job.report import Report
from paimon_maintenance.jobs.versions import inflight_commits

JOBS = {
    "compact": {"strategy": "full"},
    "expire_snapshots": {"retain_max": 1, "retain_min": 1},
    "rollback": {"snapshot": 1, "safety_tag": "0 s"},
    "expire_partitions": {"expiration_time": "1 d"},
    "clear_consumers": {},
}
MANY_CHANGES = ["expire_partitions", "clear_consumers"]


@pytest.fixture
def lake(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setattr(inflight_commits, "LOCAL_MILLIS", 0)
    lake.primary_key()
    lake.fill(3)
    return lake


def catalog(lake: Lake) -> FileSystemCatalog:
    return FileSystemCatalog(str(lake.warehouse))


def run_beside(
    lake: Lake, job: str, change: Callable[[], object], *, reads: bool
) -> Iterator[Report]:
    """The reports of the job, with the change before its first, second, ... call."""

    def work(trigger: Trigger) -> Report:
        return known_holes.run(lake.warehouse, job, meanwhile=trigger, **JOBS[job])

    return each_call(lake.warehouse, change, work, reads=reads)


@pytest.mark.sampled
@pytest.mark.parametrize("change", ["drop", "rename"])
@pytest.mark.parametrize("job", [job for job in JOBS if job not in MANY_CHANGES])
def test_the_error_names_the_table_and_says_what_happened(
    job: str, change: str, lake: Lake
) -> None:
    def dropped() -> None:
        catalog(lake).drop_table("db.t")

    def renamed() -> None:
        shutil.rmtree(lake.warehouse / "db.db" / "t2", ignore_errors=True)
        catalog(lake).rename_table("db.t", "db.t2")

    reports = run_beside(lake, job, dropped if change == "drop" else renamed, reads=True)
    failed = [r.error for r in reports if r.error is not None]
    # The last looks come after the commit, which is there if the table was renamed.
    known = (NotFound, CommitStateUnknown)
    assert all(isinstance(e, known) and e.table == "db.t" for e in failed), failed
    unknown = [e for e in failed if isinstance(e, CommitStateUnknown)]
    assert len(unknown) <= 2
    assert all("was committed to table db.t" in e.message for e in unknown)
    gone = [e for e in failed if isinstance(e, TableGone)]
    assert len(gone) > 5
    assert all("table db.t" in e.message and "dropped or renamed" in e.message for e in gone)
    assert all("caretaker tables" in e.next_step for e in gone)


def test_a_rollback_puts_no_snapshot_back_into_a_table_that_was_dropped(lake: Lake) -> None:
    root = Path(lake.table().root)
    left = [
        [p.name for p in root.glob("snapshot/snapshot-*")]
        for reads in (True, False)
        for _ in run_beside(lake, "rollback", lambda: catalog(lake).drop_table("db.t"), reads=reads)
    ]
    assert len(left) > 10
    assert not any(left), left


@pytest.mark.parametrize("job", MANY_CHANGES)
def test_a_job_of_many_changes_does_not_go_on_in_a_new_table(job: str, lake: Lake) -> None:
    def create() -> None:
        catalog(lake).drop_table("db.t")
        lake.primary_key(partitioned=True, partition_expiration__batch__size="1")
        days = ["2024-01-01", "2024-01-02", "2024-01-03"]
        lake.append({"k": [1, 2, 3], "v": ["v"] * 3, "dt": days})
        for name in "abc":
            lake.table().consumers.set(name, 1)

    create()
    left = []
    for report in run_beside(lake, job, create, reads=False):
        table = lake.table()
        left.append((len(table.snapshots.ids()), len(table.consumers.ids())))
        if isinstance(report.error, CommitStateUnknown):
            assert "dropped or renamed right then" in report.error.message
        elif report.error is not None:
            assert isinstance(report.error, TableGone), report.error
            assert "dropped and created again" in report.error.message
    # A consumer goes by one call, which may come right after the last look.
    assert {commits for commits, _ in left} == {1}
    assert {consumers for _, consumers in left} <= {2, 3}
    assert len(left) >= 3
