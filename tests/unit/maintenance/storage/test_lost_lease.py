"""A run that wakes up after another one took over its lease changes nothing any more."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker, read_rows
from failing_io import FailingFileIO, Trigger
from lakes import Lake, age_all
from lakes import append_to_branch as append
from long_run import LONG

import paimon_maintenance.run.request
from paimon_core.errors import LeaseLost, PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.retention import store_clock
from paimon_core.table.open import open_table_at
from paimon_maintenance.job.report import Report
from paimon_maintenance.jobs.versions import inflight_commits
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table
from paimon_maintenance.storage.lease import LEASES

STEP = 1 if LONG else 2
"""Runs lose their lease at each change, or at every other one."""


@pytest.fixture
def lake(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table with two orphans and a branch."""
    monkeypatch.setattr(store_clock, "VALID_MILLIS", 0)
    lake.primary_key()
    lake.fill(2)
    run(lake, "create_tag", tag="t")
    run(lake, "create_branch", branch_name="b", tag="t")
    for name in ("data-1.parquet", "data-2.parquet"):
        (root(lake) / "bucket-0" / name).write_text(name)
    age_all(lake.warehouse)
    return lake


def root(lake: Lake) -> Path:
    return Path(lake.table().root)


def run(lake: Lake, job: str, **arguments: Any) -> Report:
    found = job_named(job)
    return run_table(
        RunRequest(
            job=found,
            warehouse=str(lake.warehouse),
            table="db.t",
            arguments=found.read_arguments(arguments),
            force=True,
        )
    )


def content(lake: Lake) -> set[str]:
    ours = (LEASES, "caretaker/released", "caretaker/.clock")
    files = {str(p.relative_to(root(lake))) for p in root(lake).rglob("*") if p.is_file()}
    return {f for f in files if not f.startswith(ours)}


def branched(warehouse: Path) -> Lake:
    """A table with six snapshots, and two more in its branch."""
    lake = Lake(warehouse)
    lake.primary_key()
    run(lake, "create_branch", branch_name="b")
    for _ in range(2):
        append(lake, "b")
    lake.fill(6)
    return lake


def copied(lake: Lake, warehouse: Path) -> Lake:
    shutil.copytree(lake.warehouse, warehouse)
    return Lake(warehouse)


def first_change(one: str, several: Iterable[str]) -> int:
    """Where one of several cases begins, so that between them they meet each change."""
    return 1 + list(several).index(one) % STEP


def stolen_at(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, number: int, seen: Callable[[], None]
) -> Trigger:
    """The next run loses its lease before the change of this number."""

    def steal() -> None:
        for file in (root(lake) / LEASES).iterdir():
            file.unlink()
        seen()

    trigger = Trigger(at=number, action=steal)
    plain = paimon_maintenance.run.request.open_table_of

    def opened(warehouse: str, name: str, **options: Any) -> FileStoreTable:
        io = FailingFileIO(trigger)
        dynamic = options["dynamic_options"]
        return open_table_at(io, plain(warehouse, name).root, name, dynamic_options=dynamic)

    monkeypatch.setattr(paimon_maintenance.run.request, "open_table_of", opened)
    return trigger


@pytest.mark.parametrize("job", ["quarantine", "restore", "purge", "delete_branch"])
def test_it_makes_one_change_more_at_most(
    job: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    if job in ("restore", "purge"):
        report = run(lake, "remove_orphan_files", mode="quarantine")
        name, arguments = f"{job}_orphan_files", {"quarantine": report.details["quarantine"]}
    elif job == "quarantine":
        name, arguments = "remove_orphan_files", {"mode": "quarantine"}
    else:
        name, arguments = job, {"branch_name": "b"}
    before: list[set[str]] = []
    # The changes 0 and 1 are the lease itself and what comes right after it.
    trigger = stolen_at(lake, monkeypatch, 1, lambda: before.append(content(lake)))
    report = run(lake, name, **arguments)
    assert trigger.fired
    assert isinstance(report.error, LeaseLost), report.error
    # The change that had begun, of a file and its folder, or of a file that moves.
    assert len(before[0] ^ content(lake)) <= 2


OTHER_JOBS = ("expire_snapshots", "delete_branch", "rename_branch")


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("other", OTHER_JOBS)
@pytest.mark.parametrize("job", ["rollback", "fast_forward", "rename_branch"])
def test_the_table_stays_readable_whoever_has_the_lease(
    job: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run sleeps before any one of its changes, while another job takes its lease and runs."""
    monkeypatch.setattr(inflight_commits, "LOCAL_MILLIS", 0)
    monkeypatch.setattr(store_clock, "VALID_MILLIS", 0)
    arguments: dict[str, dict[str, Any]] = {
        "rollback": {"snapshot": 4, "safety_tag": "0 s"},
        "fast_forward": {"branch_name": "b", "safety_tag": "0 s"},
        "expire_snapshots": {"retain_max": 1, "retain_min": 1},
        "delete_branch": {"branch_name": "b"},
        "rename_branch": {"branch_name": "b", "target_branch": "c"},
    }
    plain = paimon_maintenance.run.request.open_table_of
    made = branched(tmp_path / "made")
    run(made, "create_tag", tag="t")
    begin = number = first_change(other, OTHER_JOBS)
    while True:
        lake = copied(made, tmp_path / str(number))
        reports: list[Report] = []

        def wake(lake: Lake = lake, reports: list[Report] = reports) -> None:
            monkeypatch.setattr(paimon_maintenance.run.request, "open_table_of", plain)
            reports.append(run(lake, other, **arguments[other]))

        trigger = stolen_at(lake, monkeypatch, number, wake)
        report = run(lake, job, **arguments[job])
        monkeypatch.setattr(paimon_maintenance.run.request, "open_table_of", plain)
        if not trigger.fired:
            break
        told = (number, report.error, reports[0].error)
        for each in (report, reports[0]):
            assert each.error is None or isinstance(each.error, PaimonError), told
        assert len(read_rows(lake.warehouse)) == 10, told
        number += STEP
    assert number > begin


OTHERS: dict[str, Callable[[Lake], object]] = {
    "a commit": lambda lake: lake.fill(1),
    "commits and expiry": lambda lake: (
        lake.fill(2),
        run(lake, "expire_snapshots", retain_max=1, retain_min=1),
    ),
    "a rollback and commits": lambda lake: (
        run(lake, "rollback", snapshot=3, safety_tag="0 s"),
        lake.fill(6),
    ),
    "fast_forward": lambda lake: run(lake, "fast_forward", branch_name="b", safety_tag="0 s"),
}


@pytest.mark.sampled(one_of=6, first=1)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("job", ["rollback", "fast_forward", "expire_snapshots"])
def test_the_line_stays_unbroken_whoever_has_the_lease(
    job: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above; the numbers that the run removes may belong to other snapshots when it goes on."""
    monkeypatch.setattr(inflight_commits, "LOCAL_MILLIS", 0)
    monkeypatch.setattr(store_clock, "VALID_MILLIS", 0)
    arguments: dict[str, dict[str, Any]] = {
        "rollback": {"snapshot": 4, "safety_tag": "0 s"},
        "fast_forward": {"branch_name": "b", "safety_tag": "0 s"},
        "expire_snapshots": {"retain_max": 1, "retain_min": 1},
    }
    plain = paimon_maintenance.run.request.open_table_of
    made = branched(tmp_path / "made")
    begin = number = first_change(other, OTHERS)
    while True:
        lake = copied(made, tmp_path / str(number))

        def wake(lake: Lake = lake) -> None:
            monkeypatch.setattr(paimon_maintenance.run.request, "open_table_of", plain)
            OTHERS[other](lake)

        trigger = stolen_at(lake, monkeypatch, number, wake)
        report = run(lake, job, **arguments[job])
        monkeypatch.setattr(paimon_maintenance.run.request, "open_table_of", plain)
        if not trigger.fired:
            break
        assert report.error is None or isinstance(report.error, PaimonError), report.error
        verified = caretaker("verify", "db.t", "-w", lake.warehouse)
        assert verified.code == 0, (number, report.error, verified.out)
        number += STEP
    assert number > begin
