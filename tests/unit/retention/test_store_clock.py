"""Jobs that decide by age on a machine whose clock is wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import Ran, caretaker
from failing_io import FailingFileIO, Trigger
from lakes import Lake
from s3_store import s3_server

from paimon_core import environment
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.errors import ClockSkew, UnsupportedFeature
from paimon_core.io.file_io import FileStat
from paimon_core.io.local import LocalFileIO
from paimon_core.retention.store_clock import check_clock
from paimon_core.table.open import open_table_at
from paimon_maintenance.jobs.remove_orphan_files.candidates import find_candidates
from paimon_maintenance.registry import JOBS, job_named
from paimon_maintenance.run import loop
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, plan_table, run_table

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def _clock(ahead: int) -> int:
    return time.time_ns() // 1_000_000 + ahead


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes this machine's clock wrong for every command: this many milliseconds ahead."""

    def set_ahead(ahead: int) -> None:
        wrong = partial(system_environment, clock=partial(_clock, ahead))
        monkeypatch.setattr(environment, "system_environment", wrong)

    return set_ahead


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.log()
    lake.fill(3)
    return lake


def written_minutes_ago(lake: Lake, minutes: int) -> Path:
    """A file that a writer has finished, and not committed yet."""
    folder = Path(lake.table().root) / "bucket-0"
    path = folder / "data-0191e6f4-0b7c-7b0e-8f3a-0242ac120002-0.parquet"
    path.write_bytes(b"rows")
    then = time.time() - minutes * 60
    os.utime(path, (then, then))
    return path


def run(lake: Lake, job: str, *words: str) -> Ran:
    return caretaker("run", job, "db.t", "-w", lake.warehouse, "--json", *words)


def error_of(ran: Ran) -> dict[str, Any]:
    error: dict[str, Any] = ran.json["error"]
    return error


@pytest.mark.parametrize("ahead", [2 * DAY, -2 * DAY])
def test_a_live_writers_file_is_no_orphan_by_a_wrong_clock(
    lake: Lake, set_clock: Callable[[int], None], ahead: int
) -> None:
    young, old = written_minutes_ago(lake, 3), None
    if ahead < 0:  # a clock that is behind finds only what is older still
        old = young.rename(young.with_name("data-old-0.parquet"))
        os.utime(old, (time.time() - 4 * 86_400,) * 2)
        young = written_minutes_ago(lake, 3)
    set_clock(ahead)
    ran = run(lake, "remove_orphan_files", "--older-than", "1 d", "--mode", "delete")
    assert ran.code == 1
    assert young.exists()
    assert error_of(ran)["type"] == "ClockSkew"
    side = "ahead of" if ahead > 0 else "behind"
    assert f"2 d {side} that of the store" in error_of(ran)["message"]
    assert "NTP" in error_of(ran)["next_step"]


def test_a_young_snapshot_does_not_expire_by_a_wrong_clock(
    lake: Lake, set_clock: Callable[[int], None]
) -> None:
    set_clock(2 * HOUR)
    ran = run(lake, "expire_snapshots", "--retain-min", "1")
    assert (ran.code, error_of(ran)["type"]) == (1, "ClockSkew")
    assert lake.table().snapshots.ids() == [1, 2, 3]


def test_maintain_is_refused_as_its_steps_are(lake: Lake, set_clock: Callable[[int], None]) -> None:
    set_clock(2 * HOUR)
    ran = run(lake, "maintain", "--step-argument", "expire_snapshots.retain_min=1")
    assert (ran.code, error_of(ran)["type"]) == (1, "ClockSkew")
    assert lake.table().snapshots.ids() == [1, 2, 3]


def test_a_clock_that_is_nearly_right_is_good_enough(
    lake: Lake, set_clock: Callable[[int], None]
) -> None:
    set_clock(30_000)
    ran = run(lake, "expire_snapshots", "--retain-max", "1", "--retain-min", "1")
    assert ran.code == 0, ran.err
    assert lake.table().snapshots.ids() == [3]


def test_jobs_that_do_not_decide_by_age_run_with_any_clock(
    lake: Lake, set_clock: Callable[[int], None]
) -> None:
    set_clock(2 * DAY)
    ran = run(lake, "rollback", "--snapshot", "2", "--force")
    assert ran.code == 0, ran.err
    assert lake.table().snapshots.ids() == [1, 2]


def test_which_jobs_decide_by_age() -> None:
    assert {job.name for job in JOBS.values() if job.by_age} == {
        "compact",  # of tables whose rows expire
        "expire_changelogs",
        "expire_consumers",
        "expire_partitions",
        "expire_snapshots",
        "expire_tags",
        "maintain",
        "remove_orphan_files",
        "trigger_tag_automatic_creation",
    }


# --- the probe -----------------------------------------------------------------------------------


def request(lake: Lake, job: str, *, dry_run: bool = False, **arguments: object) -> RunRequest:
    found = job_named(job)
    return RunRequest(
        job=found,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=found.read_arguments(arguments),
        dry_run=dry_run,
    )


def everything(lake: Lake) -> set[Path]:
    return set(lake.warehouse.rglob("*"))


def test_plans_and_dry_runs_write_nothing(lake: Lake) -> None:
    before = everything(lake)
    wrong = RunServices(env=system_environment(clock=partial(_clock, 2 * HOUR)))
    plan_table(request(lake, "expire_snapshots", retain_min=1), wrong)
    report = run_table(request(lake, "expire_snapshots", dry_run=True, retain_min=1), wrong)
    assert report.error is None
    assert everything(lake) == before


def test_the_probe_is_gone_afterwards(lake: Lake) -> None:
    check_clock(lake.table(), system_environment())
    with pytest.raises(ClockSkew):
        check_clock(lake.table(), system_environment(clock=partial(_clock, HOUR)))
    assert list((Path(lake.table().root) / "caretaker").iterdir()) == []


@dataclass(frozen=True, slots=True)
class _Killed(LocalFileIO):
    """Local files of a process that ends before it deletes anything."""

    def delete(self, path: str) -> bool:
        raise OSError(f"{path} stays")


def test_what_a_killed_probe_leaves_is_an_orphan(lake: Lake) -> None:
    table = lake.table()
    check_clock(open_table_at(_Killed(), table.root, "db.t"), system_environment())
    (left,) = (Path(table.root) / "caretaker").iterdir()
    context: Any = None  # so few folders are listed here, not on an engine
    tomorrow = _clock(DAY)
    assert str(left) in {f.path for f in find_candidates(table, tomorrow, context).files}


@dataclass(frozen=True, slots=True)
class _Timeless(LocalFileIO):
    """A store that does not report modification times."""

    def list_dir(self, path: str) -> list[FileStat]:
        return [replace(found, modified_millis=0) for found in LocalFileIO.list_dir(self, path)]


def test_a_store_without_times_has_no_ages(lake: Lake) -> None:
    table = open_table_at(_Timeless(), lake.table().root, "db.t")
    with pytest.raises(UnsupportedFeature, match="does not report modification times"):
        check_clock(table, system_environment())


@dataclass(frozen=True, slots=True)
class _OtherZone(LocalFileIO):
    """A store whose listings show times of another time zone, an hour earlier."""

    def list_dir(self, path: str) -> list[FileStat]:
        found = LocalFileIO.list_dir(self, path)
        return [replace(f, modified_millis=f.modified_millis - HOUR) for f in found]


def test_listings_with_other_times_make_no_file_older(lake: Lake) -> None:
    """The ages of files come from listings, so their times count, not those of single files."""
    table = open_table_at(_OtherZone(), lake.table().root, "db.t")
    with pytest.raises(ClockSkew, match="1 h ahead"):
        check_clock(table, system_environment())


def test_an_object_store_has_a_clock_of_its_own() -> None:
    with s3_server() as server:
        catalog = FileSystemCatalog(server.new_root(), server.options)
        catalog.create_database("db")
        catalog.create_table("db.t", create_schema([Column("k", "INT")], now_millis=1))
        table = catalog.get_table("db.t")
        check_clock(table, system_environment())
        with pytest.raises(ClockSkew, match="1 h ahead"):
            check_clock(table, system_environment(clock=partial(_clock, HOUR)))
        with pytest.raises(ClockSkew, match="behind"):
            check_clock(table, system_environment(clock=partial(_clock, -HOUR)))
        left = [f.name for f in table.io.list_dir(f"{table.root}/caretaker")]
        assert left == ["conditional-put"]


def test_a_passed_check_holds_for_a_while_unless_somebody_sets_the_clock(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paimon_core.retention.store_clock.VALID_MILLIS", 300_000)
    ahead = 0

    def now() -> int:
        return _clock(ahead)

    env = system_environment(clock=now)
    trigger = Trigger()
    table = open_table_at(FailingFileIO(trigger), lake.table().root, "db.t")
    check_clock(table, env)
    probes = trigger.count
    check_clock(table, env)
    assert trigger.count == probes > 0
    ahead = 2 * HOUR
    with pytest.raises(ClockSkew):
        check_clock(table, env)


@pytest.mark.parametrize("ahead", [2 * DAY, -2 * DAY])
def test_a_clock_that_is_set_right_after_the_plan_leaves_a_live_writers_file(
    lake: Lake, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of the clock comes after the plan, which went by the wrong one."""
    young = written_minutes_ago(lake, 3)
    found = request(lake, "remove_orphan_files", older_than="1 d", mode="delete")
    wrong = [ahead]
    plain = loop.check_not_set

    def set_right(*of: Any) -> None:
        wrong[0] = 0
        plain(*of)

    monkeypatch.setattr(loop, "check_not_set", set_right)
    old = young.with_name("data-old-0.parquet")
    old.write_bytes(b"rows")
    os.utime(old, (time.time() - 4 * 86_400,) * 2)
    report = run_table(found, RunServices(env=system_environment(clock=lambda: _clock(wrong[0]))))
    assert isinstance(report.error, ClockSkew)
    assert "was set" in str(report.error)
    assert young.exists()
    assert old.exists()
