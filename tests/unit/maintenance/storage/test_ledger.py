"""What a run says it changed is what it changed, wherever it stopped."""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Callable, Mapping
from errno import EROFS
from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake
from sql_sessions import Sql

from paimon_core.catalog.jdbc.database import JdbcDatabase
from paimon_core.catalog.jdbc.lock import JdbcLock
from paimon_core.io.file_io import delete_abandoned
from paimon_core.io.local import LocalFileIO
from paimon_core.scan.scan import scan_files
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.job.changes import Changes, text_of
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.job.guards import Guards
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table
from paimon_maintenance.storage.ledger import Ledger

REFERENCE = re.compile(
    r"(branch/branch-\w+/)?(snapshot|schema|tag|changelog|consumer)/(?!LATEST|EARLIEST)[^/]+-[^/]+"
)
CHANGES = ("create_if_absent", "overwrite", "delete", "delete_dir", "rename")


class Stopped(OSError):
    pass


@pytest.fixture
def stop_at(monkeypatch) -> Callable[[int | None], list[str]]:
    """Makes the storage fail before its k-th change (and from then on); the changes it was asked."""

    def install(k: int | None) -> list[str]:
        asked: list[str] = []

        def wrapped(name: str) -> Callable[..., object]:
            real = originals[name]

            def change(self: LocalFileIO, path: str, *rest: object, **more: object) -> object:
                asked.append(f"{name} {path}")
                if k is not None and len(asked) >= k:
                    raise Stopped(5, "the disk is gone", path)
                return real(self, path, *rest, **more)

            return change

        for name in CHANGES:
            monkeypatch.setattr(LocalFileIO, name, wrapped(name))
        return asked

    originals = {name: getattr(LocalFileIO, name) for name in CHANGES}
    return install


def contents(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def label(path: str) -> str:
    """What the ledger calls a reference."""
    branch = re.match(r"branch/branch-(\w+)/", path)
    kind, name = path.split("/")[-2:]
    told = f"{kind} {name.removeprefix(f'{kind}-')}"
    return f"{told} of branch {branch[1]}" if branch else told


def assert_told(report: Report, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    """The report's changes are the difference between the table's folder before and after."""
    assert report.changes is not None
    told = report.changes
    written = {label(p) for p in after if REFERENCE.fullmatch(p) and before.get(p) != after[p]}
    gone = {label(p) for p in before if REFERENCE.fullmatch(p) and p not in after}
    assert {*told.made, *(f"snapshot {n}" for n in told.snapshots)} >= written
    whole = ("branch ", "all ", "caretaker/quarantine")
    removed = {name for name in told.removed if not name.startswith(whole)}
    assert removed <= gone
    for name in gone - removed:  # it went with its branch, or with a folder of it
        kind, _, rest = name.partition(" ")
        branch = rest.rpartition(" of branch ")[2]
        assert {f"branch {branch}", f"all {kind}s of branch {branch}"} & {*told.removed}, name
    files = {p for p in before if "/" in p and not REFERENCE.fullmatch(p)}
    files = {p for p in files if not re.search(r"LATEST|EARLIEST|caretaker/released", p)}
    moved = {p.split("/", 3)[3] for p in after if p.startswith("caretaker/quarantine/")}
    lost = {p for p in files - set(after) if p not in moved and not p.startswith("branch/")}
    assert told.deleted_files == len(lost)
    if written or gone or lost:
        assert not told.is_nothing


def prepared(folder: Path) -> Lake:
    """A table with history, two branches' worth of references, orphans and old partitions."""
    lake = Lake(folder)
    lake.primary_key(buckets=2, partitioned=True, **{"snapshot.num-retained.min": "1"})
    lake.fill(3)
    table = lake.table()
    assert caretaker("run", "create_tag", "db.t", "-w", folder, "--tag", "kept").code == 0
    words = ("run", "create_branch", "db.t", "-w", folder, "--name", "b", "--tag", "kept")
    ran = caretaker(*words)
    assert ran.code == 0, ran.err
    lake.fill(2)
    table.consumers.set("reader", 5)
    orphan = Path(table.root) / "dt=day0" / "bucket-0" / "data-lost-0.parquet"
    orphan.write_bytes(b"x" * 10)
    for path in (orphan, Path(table.paths.consumer("reader"))):
        os.utime(path, (1_000_000, 1_000_000))
    return lake


JOBS_AND_ARGUMENTS = {
    "compact": {},
    "expire_snapshots": {"retain_max": 1, "retain_min": 1},
    "rollback": {"snapshot": "2"},
    "rollback_to_as_latest": {"snapshot": "2"},
    "fast_forward": {"branch_name": "b"},
    "create_tag": {"tag": "new"},
    "delete_tag": {"tag": "kept"},
    "rename_tag": {"tag": "kept", "target_tag": "other"},
    "create_branch": {"branch_name": "c", "tag": "kept"},
    "delete_branch": {"branch_name": "b"},
    "drop_partition": {"partitions": ["dt=day0"]},
    "remove_orphan_files": {"older_than": "2 d"},
    "clear_consumers": {},
    "rescale": {"bucket_num": 3},
    "compact_manifest": {},
    "maintain": {"compact": "full", "step_arguments": {"expire_snapshots.retain_max": "1"}},
}


def run(lake: Lake, name: str, arguments: Mapping[str, object], **services: object) -> Report:
    job = job_named(name)
    request = RunRequest(
        job=job,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=job.read_arguments(arguments),
        guards=Guards(max_deleted_share=1.0),
        force=True,
        max_attempts=1,
    )
    env = RunServices().env
    quick = type(env)(
        now_millis=env.now_millis,
        local_millis=env.local_millis,
        new_uuid=env.new_uuid,
        sleep_millis=lambda _: None,
        jitter=env.jitter,
    )
    return run_table(request, RunServices(env=quick, **services))


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize(("name", "arguments"), JOBS_AND_ARGUMENTS.items())
def test_wherever_the_storage_fails_the_report_says_what_was_done(
    name, arguments, tmp_path, stop_at
):
    k, stops = 0, 0
    while True:
        k += 1
        stop_at(None)
        lake = prepared(tmp_path / str(k))
        root = Path(lake.table().root)
        before = contents(root)
        asked = stop_at(k)
        report = run(lake, name, arguments)
        asked = list(asked)
        stop_at(None)
        assert_told(report, before, contents(root))
        if len(asked) < k:
            break
        stops += 1
        if report.error is not None:
            assert report.done_before in "\n".join(report.lines())
            untouched = report.changes is not None and report.changes.is_nothing
            assert ("the run did not change the table" in report.done_before) is untouched
        k += k // 8  # the first changes one by one, then in growing steps
    assert report.status is Status.SUCCESS, report.error
    assert report.done_before == ""
    assert stops > 0


def truncated(lake: Lake) -> None:
    """Cut one file of bucket 0."""
    table = lake.table()
    entry = next(e for e in scan_files(table, table.snapshots.latest()) if e.bucket == 0)
    file = Path(table.paths.data_file(entry.partition, 0, entry.file))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def test_a_commit_before_a_failure_is_in_the_report_the_errors_line_and_the_history(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    lake = Lake(tmp_path / "lake")
    lake.primary_key(buckets=2)
    lake.fill(3)
    truncated(lake)
    ran = caretaker("run", "compact", "db.t", "-w", lake.warehouse, "--engine", "local", "--json")
    assert ran.code == ExitCode.CORRUPT_TABLE
    assert lake.table().snapshots.latest_id() == 4
    assert ran.json["snapshots"] == ran.json["changes"]["snapshots"] == [4]
    assert "the run did not change the table" not in ran.err
    assert "the run had already changed the table: committed snapshot 4)" in ran.err
    told = caretaker("history", "db.t", "--failed")
    assert "snapshot 4" in told.out
    assert "changed before the failure: committed snapshot 4" in told.out
    assert "the run did not change the table" not in told.out
    again = caretaker("run", "compact", "db.t", "-w", lake.warehouse, "--engine", "local")
    assert again.code == ExitCode.CORRUPT_TABLE
    assert "  the run did not change the table\n" in again.out


def test_a_commit_that_did_not_get_the_lock_of_the_catalog_is_not_unsure(tmp_path, monkeypatch):
    options = {
        "metastore": "jdbc",
        "uri": f"jdbc:sqlite:{tmp_path}/catalog.db",
        "warehouse": str(tmp_path / "lake"),
        "lock.enabled": "true",
        "lock-acquire-timeout": "1 s",
    }
    monkeypatch.setenv("CARETAKER_CATALOGS", json.dumps({"locked": options}))
    sql = Sql(tmp_path, catalog=options)
    sql("CREATE TABLE t (k INT); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    patient = JdbcDatabase(options | {"lock-acquire-timeout": "8 min"})
    with JdbcLock(patient, "jdbc", "default.t").held():
        ran = caretaker("run", "analyze", "default.t", "-w", "catalog:locked")
    assert ran.code == ExitCode.FAILURE
    assert "nothing was changed" in ran.err
    assert "the run did not change the table" in ran.out


def test_what_is_committed_before_ctrl_c_is_in_the_history(tmp_path):
    lake = Lake(tmp_path / "lake")
    lake.primary_key(buckets=2)
    lake.fill(3)
    history = SqlHistory(f"sqlite:///{tmp_path}/history.db")

    class Interrupted(LocalEngine):
        def run_units(self, units, run, *, on_done=None, on_share=None):
            if lake.table().snapshots.latest_id() > 3:
                raise KeyboardInterrupt
            return LocalEngine().run_units(units, run, on_done=on_done)

    with pytest.raises(KeyboardInterrupt):
        run(lake, "compact", {"commit_bytes": "1 b"}, engine=Interrupted(), history=history)
    (entry,) = history.newest()
    assert (entry.status, entry.snapshots, entry.error_type) == (
        "failed",
        (4,),
        "KeyboardInterrupt",
    )


class TestLedger:
    @pytest.fixture
    def watched(self, tmp_path):
        ledger = Ledger()
        return ledger, ledger.watch(LocalFileIO(), str(tmp_path), None), str(tmp_path)

    def test_what_was_taken_back_is_no_change(self, watched):
        ledger, io, root = watched
        assert io.create_if_absent(f"{root}/snapshot/snapshot-7", b"{}")
        io.write_bytes(f"{root}/manifest/manifest-1", b"x")
        assert ledger.changes().snapshots == (7,)
        assert io.delete(f"{root}/snapshot/snapshot-7")
        assert io.delete(f"{root}/manifest/manifest-1")
        assert ledger.changes().is_nothing

    def test_files_of_failed_work_are_no_change_wherever_they_were_written(self, watched):
        ledger, io, root = watched
        LocalFileIO().write_bytes(f"{root}/bucket-0/data-1.parquet", b"by an executor")
        delete_abandoned(io, [f"{root}/bucket-0/data-1.parquet"])
        assert not io.exists(f"{root}/bucket-0/data-1.parquet")
        assert ledger.changes().is_nothing

    def test_a_commit_that_another_writer_replaced_is_none_of_ours(self, watched):
        ledger, io, root = watched
        path = f"{root}/snapshot/snapshot-7"
        assert io.create_if_absent(path, b"ours")
        LocalFileIO().overwrite(path, b"theirs")
        io.read_bytes(path)
        assert ledger.changes().snapshots == ()

    def test_a_lost_reply_is_neither_a_change_nor_none(self, watched, monkeypatch):
        ledger, io, root = watched

        def lost(self, path, data):
            raise TimeoutError

        monkeypatch.setattr(LocalFileIO, "create_if_absent", lost)
        with pytest.raises(TimeoutError):
            io.create_if_absent(f"{root}/snapshot/snapshot-7", b"x")
        assert not ledger.changes().is_nothing
        assert ledger.changes().text() == "unknown: snapshot 7"

    def test_a_disk_for_reading_only_is_not_changed(self, watched, monkeypatch):
        ledger, io, root = watched

        def refused(self, path, data):
            raise OSError(EROFS, "Read-only file system", path)

        monkeypatch.setattr(LocalFileIO, "create_if_absent", refused)
        with pytest.raises(OSError, match="Read-only"):
            io.create_if_absent(f"{root}/snapshot/snapshot-7", b"x")
        assert ledger.changes().is_nothing

    def test_a_run_that_only_may_have_changed_something_does_not_say_that_it_did(self):
        changes = Changes(unsure=("tag mine",))
        report = Report(
            job="create_tag",
            table="db.t",
            warehouse="/w",
            run_id="r",
            status=Status.FAILED,
            changes=changes,
            error=OSError(),
        )
        assert report.done_before == "the run may have changed the table; unknown: tag mine"

    def test_hints_and_journals_are_no_change(self, watched):
        ledger, io, root = watched
        io.overwrite(f"{root}/snapshot/LATEST", b"7")
        io.overwrite(f"{root}/caretaker/released/x.json", b"{}")
        io.delete(f"{root}/caretaker/released/x.json")
        assert ledger.changes().is_nothing

    def test_on_executors_it_is_the_storage_alone(self, watched):
        _, io, _ = watched
        assert type(pickle.loads(pickle.dumps(io))) is LocalFileIO

    def test_changes_for_people(self):
        many = {"snapshots": [7, 8], "removed": [f"tag {n}" for n in range(7)], "deleted_files": 1}
        assert text_of(many) == (
            "committed snapshots 7, 8; "
            "removed tag 0, tag 1, tag 2, tag 3, tag 4 and 2 more; deleted 1 file"
        )
