"""Jobs that remove history or files of one table take turns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import caretaker
from lakes import ENV, Lake

from paimon_core.errors import LeaseHeld, LeaseLost, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileStat
from paimon_core.io.local import LocalFileIO
from paimon_core.refs.tags import Tag
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.registry import JOBS
from paimon_maintenance.storage import lease as module
from paimon_maintenance.storage.lease import LEASES, LIFETIME_MILLIS, Lease, hold_lease, leases_of

HOLD_AND_DIE = """
import os, signal, sys
from paimon_core.environment import system_environment
from paimon_maintenance.storage.lease import hold_lease
from paimon_core.table.open import open_table
with hold_lease(
    open_table(sys.argv[1], "db.t"), job="j", run_id="r", env=system_environment(), wait_millis=0
):
    os.kill(os.getpid(), signal.SIGKILL)
"""
QUICK = replace(ENV, sleep_millis=lambda _: None)
REMOVES = {
    "expire_snapshots",
    "expire_changelogs",
    "replace_tag",
    "rename_tag",
    "delete_tag",
    "expire_tags",
    "trigger_tag_automatic_creation",
    "rollback",
    "rollback_to_as_latest",
    "create_branch",
    "rename_branch",
    "delete_branch",
    "fast_forward",
    "remove_orphan_files",
    "restore_orphan_files",
    "purge_orphan_files",
    "repair",
}


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key()
    lake.fill(3)
    return lake


def hold(table: FileStoreTable, wait_millis: int = 0) -> AbstractContextManager[tuple[Lease, bool]]:
    return hold_lease(table, job="rollback", run_id="r", env=QUICK, wait_millis=wait_millis)


def files(lake: Lake) -> list[Path]:
    return list((Path(lake.table().root) / LEASES).glob("*"))


def test_jobs_that_remove_history_or_files_need_it() -> None:
    assert {name for name, job in JOBS.items() if job.exclusive} == REMOVES


def test_a_second_holder_is_refused_until_the_first_ends(lake: Lake) -> None:
    table = lake.table()
    with hold(table) as (_, waited):
        assert not waited
        with pytest.raises(LeaseHeld, match="is leased by rollback"), hold(table, 10_000):
            pass
        assert len(files(lake)) == 1
    assert files(lake) == []
    with hold(table) as (_, waited):
        assert not waited


def test_who_waited_is_told_so(lake: Lake) -> None:
    table = lake.table()
    first = hold(table)
    first.__enter__()
    told: list[str] = []
    env = replace(ENV, sleep_millis=lambda _: first.__exit__(None, None, None))
    with hold_lease(
        table,
        job="j",
        run_id="s",
        env=env,
        wait_millis=1_000,
        waiting=lambda holder: told.append("" if holder is None else holder.run_id),
    ) as (_, waited):
        assert waited
    assert told == ["r"]


def test_of_many_at_once_one_holds_it(lake: Lake) -> None:
    table = lake.table()
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        with hold_lease(table, job="j", run_id="r", env=ENV, wait_millis=60_000) as (lease, _):
            inside.append(1)
            most.append(len(inside))
            lease.check()
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


def test_a_lease_that_was_not_renewed_is_taken_over_and_its_holder_stops(lake: Lake) -> None:
    table = lake.table()
    with hold(table) as (stalled, _):
        (file,) = files(lake)
        # As if another host held it: whether its process runs cannot be seen from here.
        holder = json.loads(file.read_text())
        file.write_text(json.dumps(holder | {"host": "elsewhere"}))
        with pytest.raises(LeaseHeld), hold(table):
            pass
        old = file.stat().st_mtime - LIFETIME_MILLIS / 1000 - 1
        os.utime(file, (old, old))
        with hold(table) as (lease, _):
            lease.check()
            with pytest.raises(LeaseLost, match="took over"):
                stalled.check()


def test_a_lease_of_a_killed_process_is_taken_over_at_once(lake: Lake) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HOLD_AND_DIE, str(lake.warehouse)],
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ended.returncode == -signal.SIGKILL
    (found,) = leases_of(lake.table())
    assert found.stale
    with hold(lake.table()) as (lease, _):
        lease.check()
    assert files(lake) == []


def test_a_lease_whose_table_is_dropped_at_once_is_lost(lake: Lake) -> None:
    class Dropping(LocalFileIO):
        def overwrite(self, path: str, data: bytes) -> None:
            pass

    table = replace(lake.table(), io=Dropping())
    with pytest.raises(LeaseLost, match="was deleted as soon as it was written"), hold(table):
        pass


def test_a_lease_that_cannot_be_read_holds_until_it_is_old(lake: Lake) -> None:
    table = lake.table()
    path = Path(table.root) / LEASES / "x.json"
    path.parent.mkdir(parents=True)
    path.write_text("[" * 100_000)
    with pytest.raises(LeaseHeld, match="another job"), hold(table):
        pass
    os.utime(path, (1, 1))
    with hold(table):
        pass
    assert files(lake) == []


def test_renewing_never_takes_a_lost_lease_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RENEW_SECONDS", 0.01)
    with hold(lake.table()) as (lease, _):
        (file,) = files(lake)
        before = file.stat().st_mtime_ns
        while file.stat().st_mtime_ns == before:
            pass
        lease._stop.set()  # so that no renewal is under way
        assert lease._thread is not None
        lease._thread.join()
        file.unlink()
        lease._stop.clear()
        thread = threading.Thread(target=lease._renew)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        assert files(lake) == []


def test_the_command_line_waits_and_shows_who_holds_it(lake: Lake) -> None:
    where = ("-w", lake.warehouse)
    free = caretaker("leases", "db.t", *where)
    assert (free.code, free.out) == (ExitCode.NOTHING_TO_DO, "no table is leased\n")
    with hold(lake.table()):
        shown = caretaker("leases", "*.*", *where, "--json")
        assert shown.code == ExitCode.SUCCESS
        (held,) = json.loads(shown.out)["leases"]
        assert (held["table"], held["job"], held["stale"]) == ("db.t", "rollback", False)
        assert "rollback (run r" in caretaker("leases", "db.t", *where).out


def test_a_table_that_cannot_be_read_hides_no_lease_of_another(lake: Lake) -> None:
    lake.primary_key("db.broken")
    Path(lake.table("db.broken").root, "schema", "schema-0").write_text("{")
    where = ("-w", lake.warehouse)
    with hold(lake.table()):
        shown = caretaker("leases", "db.*", *where, "--json")
    assert shown.code == 7
    assert "db.broken: error: " in shown.err
    assert [held["table"] for held in json.loads(shown.out)["leases"]] == ["db.t"]


def test_a_plan_made_before_waiting_is_made_again(lake: Lake) -> None:
    holder = hold(lake.table())
    holder.__enter__()

    def expire_and_release() -> None:
        lake.table().snapshots.delete(1)
        holder.__exit__(None, None, None)

    timer = threading.Timer(0.3, expire_and_release)
    timer.start()
    ran = caretaker(
        "run", "expire_snapshots", "db.t", "-w", lake.warehouse, "--retain-max", 1,
        "--retain-min", 1, "--json", "--engine", "local",
    )  # fmt: skip
    timer.join()
    assert ran.code == ExitCode.SUCCESS
    assert json.loads(ran.out)["details"]["expired_snapshots"] == [2]


def test_a_gap_that_the_holder_closes_is_no_reason_to_stop(lake: Lake) -> None:
    table = lake.table()
    content = Path(table.paths.snapshot(2)).read_bytes()
    holder = hold(table)
    holder.__enter__()
    table.snapshots.delete(2)

    def put_back_and_release() -> None:
        Path(table.paths.snapshot(2)).write_bytes(content)
        holder.__exit__(None, None, None)

    timer = threading.Timer(1, put_back_and_release)
    timer.start()
    ran = caretaker("run", "compact", "db.t", "-w", lake.warehouse, "--engine", "local")
    timer.join()
    assert ran.code == ExitCode.SUCCESS, ran.err


def test_a_gap_without_a_holder_is_refused_at_once(lake: Lake) -> None:
    lake.table().snapshots.delete(2)
    ran = caretaker("run", "compact", "db.t", "-w", lake.warehouse, "--engine", "local")
    assert ran.code == ExitCode.CORRUPT_TABLE


def test_a_branch_that_the_holder_moves_is_no_reason_to_stop(lake: Lake) -> None:
    """On object stores the files of a renamed branch move one by one, its schema among the first."""
    table = lake.table()
    table.tags.create(Tag("x", table.snapshots.get(2)))
    table.branches.create("b", tag="x")
    schema = Path(table.paths.of_branch("b").schema(0))
    content = schema.read_bytes()
    holder = hold(table)
    holder.__enter__()
    schema.unlink()

    def put_back_and_release() -> None:
        schema.write_bytes(content)
        holder.__exit__(None, None, None)

    timer = threading.Timer(1, put_back_and_release)
    timer.start()
    ran = caretaker("run", "remove_orphan_files", "db.t", "-w", lake.warehouse)
    timer.join()
    assert ran.code in (ExitCode.SUCCESS, ExitCode.NOTHING_TO_DO), ran.err


def test_a_store_that_lists_late_is_refused(lake: Lake) -> None:
    """Two jobs would not see each other, and a job not the newest snapshots."""

    class Late(LocalFileIO):
        def list_dir(self, path: str) -> list[FileStat]:
            return [f for f in super().list_dir(path) if not path.endswith(LEASES)]

    table = replace(lake.table(), io=Late())
    with (
        pytest.raises(UnsupportedFeature, match=r"does not list .*/caretaker/leases/"),
        hold(table),
    ):
        pass
    assert leases_of(lake.table()) == []
