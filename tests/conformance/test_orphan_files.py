"""Orphan files: found, moved aside and put back; upstream's accidents, which do not happen here."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from disk import assert_no_leftovers, assert_whole, needed_by, on_disk, referenced
from replay import ENV, run_step, to_arrow

import paimon_maintenance.jobs.remove_orphan_files.quarantine as quarantine_steps
import paimon_maintenance.jobs.remove_orphan_files.steps as orphan_steps
import paimon_maintenance.run.request
from oracle import Oracle
from paimon_core.commit.committer import commit
from paimon_core.errors import CorruptTable, InvalidArgument, OutsideTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileStat, FolderNames
from paimon_core.io.local import LocalFileIO
from paimon_core.reachability.references import all_references
from paimon_core.table.open import open_table, open_table_at
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table

T = TypeVar("T")
COLUMNS = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}]


class Table:
    def __init__(self, warehouse: Path, **options: str) -> None:
        self.warehouse = warehouse
        self.at = {"warehouse": str(warehouse), "database": "db", "table": "t"}
        self.root = warehouse / "db.db" / "t"
        options = {"bucket": "1", "write-only": "true", **options}
        self.do("create_table", columns=COLUMNS, primary_keys=["k"], options=options)
        for i in range(3):
            self.do("write", rows=[[i, "x"]])

    def do(self, op: str, **fields: Any) -> dict[str, Any]:
        result = run_step({"op": op, **self.at, **fields})
        assert "error" not in result, result
        return result

    def rows(self) -> list[Any]:
        return list(self.do("read")["rows"])

    def run(
        self, name: str = "remove_orphan_files", *, table: str = "db.t", **arguments: object
    ) -> Report:
        job = job_named(name)
        return run_table(
            RunRequest(
                job=job,
                warehouse=str(self.warehouse),
                table=table,
                arguments=job.read_arguments(arguments),
                force=True,
            )
        )

    def make_old(self) -> None:
        old = time.time() - 2 * 86_400
        for path in self.root.rglob("*"):
            if path.is_file():
                os.utime(path, (old, old))

    def litter(self) -> list[Path]:
        """Files as failed writes leave them, and two that are none of our business."""
        self.do("write", rows=[[77, "uncommitted"]], commit=False)
        orphans = [
            self.root / "bucket-0" / "changelog-1.parquet",
            self.root / "manifest" / "manifest-list-dead-0",
            self.root / "index" / "index-dead-0",
            self.root / "statistics" / "stats-dead-0",
            self.root / "snapshot" / ".snapshot-9.1234.tmp",
        ]
        for path in orphans:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"x" * 10)
        (self.root / "notes.txt").write_text("mine")
        (self.root / "schema" / "draft").write_text("mine")
        return orphans


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_a_partition_that_is_the_folder_of_another_table(tmp_path: Path) -> None:
    lake = Table(tmp_path)
    outer = {**lake.at, "table": "outer"}
    columns = [*COLUMNS, {"name": "dt", "type": "STRING NOT NULL"}]
    lake.do("create_table", **outer, columns=columns, partition_keys=["dt"], primary_keys=[])
    lake.do("write", **outer, rows=[[1, "x", "a"]])
    inner = tmp_path / "db.db" / "outer" / "dt=b"
    shutil.copytree(lake.root, inner)
    lake.root = tmp_path / "db.db" / "outer"
    lake.make_old()
    files = on_disk(inner)
    report = lake.run(table="db.outer")
    assert isinstance(report.error, OutsideTable)
    assert report.error.file == str(inner)
    assert on_disk(inner) == files


def test_only_old_files_that_nothing_mentions(table: Table) -> None:
    orphans = table.litter()
    rows = table.rows()
    assert table.run().status is Status.NOTHING_TO_DO
    table.make_old()
    report = table.run()
    assert report.error is None
    assert report.details["deleted_files"] == len(orphans) + 1
    assert not any(path.exists() for path in orphans)
    assert (table.root / "notes.txt").exists()
    assert (table.root / "schema" / "draft").exists()
    assert table.rows() == rows
    assert_no_leftovers(table.warehouse)
    assert table.run().status is Status.NOTHING_TO_DO


def test_moved_aside_and_put_back(table: Table) -> None:
    orphans = table.litter()
    table.make_old()
    before = on_disk(table.root)
    quarantine = table.run(mode="quarantine").details["quarantine"]
    assert on_disk(table.root) == referenced(table.warehouse)
    assert_whole(table.warehouse)
    report = table.run("restore_orphan_files", quarantine=quarantine)
    assert report.details["restored_files"] == len(orphans) + 1
    assert on_disk(table.root) == before
    assert table.run("restore_orphan_files", quarantine=quarantine).error is not None
    quarantine = table.run(mode="quarantine").details["quarantine"]
    assert table.run("purge_orphan_files", quarantine=quarantine).error is None
    assert_no_leftovers(table.warehouse)


def test_empty_folders_go(tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    columns = [*COLUMNS, {"name": "dt", "type": "STRING NOT NULL"}]
    steps: list[dict[str, Any]] = [
        {"op": "create_table", "columns": columns, "partition_keys": ["dt"]},
        {"op": "write", "rows": [[1, "x", "a"], [2, "y", "b"]]},
        {"op": "drop_partition", "partitions": [{"dt": "a"}]},
        {"op": "expire_snapshots", "retain_max": 1, "retain_min": 1},
        {"op": "remove_orphan_files"},
    ]
    for step in steps:
        result = run_step({**at, **step})
        assert "error" not in result, result
    assert [p.name for p in (tmp_path / "db.db" / "t").glob("dt=*")] == ["dt=b"]


def test_all_kinds_of_references_protect(tmp_path: Path, oracle: Oracle) -> None:
    """Tags, branches, changelogs, indexes: Java reads everything afterwards (as in #2769, #2770)."""
    table = Table(tmp_path, **{"changelog-producer": "input", "changelog.num-retained.min": "9"})
    table.do("create_tag", name="t2", snapshot=2)
    table.do("create_branch", name="b", tag="t2")
    oracle.defaults(**table.at)
    oracle([{"op": "write", "rows": [[9, "java"]], "branch": "b", "compact": False}])
    oracle([{"op": "write", "rows": [[10, "java"]], "compact": True}])
    table.do("expire_snapshots", retain_max=1, retain_min=1)
    assert table.do("changelogs")["changelogs"]
    reads: list[dict[str, Any]] = [{}, {"tag": "t2"}, {"branch": "b"}]
    before = [oracle.rows(**read) for read in reads]
    stream = oracle.one("stream_read", max_plans=20, **{"from": 1})["plans"]
    table.litter()
    table.make_old()
    assert table.run().error is None
    assert_no_leftovers(tmp_path)
    assert [oracle.rows(**read) for read in reads] == before
    assert oracle.one("stream_read", max_plans=20, **{"from": 1})["plans"] == stream


def test_beside_java_after_a_rollback(tmp_path: Path, oracle: Oracle) -> None:
    table = Table(tmp_path / "ours")
    table.litter()
    oracle.defaults(**table.at)
    oracle([{"op": "rollback_to", "snapshot": 2}])
    table.make_old()
    shutil.copytree(tmp_path / "ours", tmp_path / "java")
    before = on_disk(table.root)
    assert table.run().error is None
    ours = {Path(p).name for p in before - on_disk(table.root)}
    theirs_root = tmp_path / "java" / "db.db" / "t"
    before = on_disk(theirs_root)
    older = int(time.time() * 1000) - 86_400_000
    java = {**table.at, "warehouse": str(tmp_path / "java")}
    oracle.one("remove_orphan_files", older_than_millis=older, **java)
    assert ours == {Path(p).name for p in before - on_disk(theirs_root)}
    assert_no_leftovers(tmp_path / "ours")


def test_external_paths(tmp_path: Path, oracle: Oracle) -> None:
    """Expiry deletes there what is not needed; orphans there go only when asked for."""
    warehouse, elsewhere = tmp_path / "lake", tmp_path / "elsewhere"
    at = {"warehouse": str(warehouse), "database": "db", "table": "t"}
    options = {
        "bucket": "1",
        "write-only": "true",
        "data-file.external-paths": f"file://{elsewhere}",
        "data-file.external-paths.strategy": "round-robin",
    }
    create = {"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"], "options": options}
    writes = [{"op": "write", "rows": [[i, "x"]], "compact": False} for i in range(3)]
    oracle.defaults(**at)
    oracle([create, *writes, {"op": "compact"}])
    folder = elsewhere / "bucket-0"
    assert len(list(folder.iterdir())) == 4
    result = run_step({"op": "expire_snapshots", "retain_max": 1, "retain_min": 1, **at})
    assert "error" not in result, result
    assert len(list(folder.iterdir())) == 1
    orphan = folder / "data-dead-0.parquet"
    orphan.write_bytes(b"x")
    old = time.time() - 2 * 86_400
    for path in folder.iterdir():
        os.utime(path, (old, old))

    def run(**arguments: object) -> Report:
        job = job_named("remove_orphan_files")
        given = job.read_arguments(arguments)
        return run_table(
            RunRequest(job=job, warehouse=str(warehouse), table="db.t", arguments=given, force=True)
        )

    assert run().status is Status.NOTHING_TO_DO
    assert isinstance(run(external_paths=True, mode="quarantine").error, InvalidArgument)
    assert run(external_paths=True).error is None
    assert not orphan.exists()
    assert len(oracle.rows()) == 3
    assert_whole(warehouse)


# --- upstream's accidents -----------------------------------------------------------------------


class Meanwhile(LocalFileIO):
    """Something else happens right after a folder was listed for the first time."""

    def __init__(self, folder: str, action: Callable[[], None]) -> None:
        super().__init__()
        object.__setattr__(self, "_folder", folder)
        object.__setattr__(self, "_action", action)

    def list_names(self, path: str) -> FolderNames:
        return self._listed(path, super().list_names(path))

    def list_dir(self, path: str) -> list[FileStat]:
        return self._listed(path, super().list_dir(path))

    def _listed(self, path: str, listed: T) -> T:
        if path.endswith(self._folder) and self._action is not None:  # type: ignore[attr-defined]  # set above
            action = self._action  # type: ignore[attr-defined]  # set above
            object.__setattr__(self, "_action", None)
            action()
        return listed


@pytest.fixture
def with_io(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[LocalFileIO], None]]:
    def use(io: LocalFileIO) -> None:
        def opened(warehouse: str, name: str, **options: Any) -> FileStoreTable:
            root = open_table(warehouse, name).root
            return open_table_at(io, root, name, dynamic_options=options["dynamic_options"])

        monkeypatch.setattr(paimon_maintenance.run.request, "open_table_of", opened)

    yield use
    monkeypatch.undo()


def test_7710_all_snapshots_expire_while_they_are_read(
    table: Table, with_io: Callable[[LocalFileIO], None]
) -> None:
    """With one snapshot retained, the listed one is gone when it is read, and a newer one there."""
    keep_one = {"retain_max": 1, "retain_min": 1}
    table.do("expire_snapshots", **keep_one)
    table.make_old()

    def another_job() -> None:
        table.do("write", rows=[[50, "new"]])
        table.do("expire_snapshots", **keep_one)

    with_io(Meanwhile("/snapshot", another_job))
    assert table.run().error is None
    assert len(table.rows()) == 4
    assert_no_leftovers(table.warehouse)


@pytest.mark.parametrize("what", ["base_manifest_list", "manifest", "index_manifest"])
def test_7710_a_missing_metadata_file_is_no_empty_one(what: str, tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.do("compact")
    handle = open_table(str(tmp_path), "db.t")
    snapshot = handle.latest_or_not_found()
    name = "gone"
    if what == "base_manifest_list":
        name = snapshot.base_manifest_list
    elif what == "manifest":
        name = table.do("manifests")["delta"]["manifests"][0]["file"]
    else:
        bad = replace(snapshot, id=snapshot.id + 1, index_manifest=name)
        assert handle.snapshots.try_commit(bad)
    if what != "index_manifest":
        table.litter()
        (table.root / "manifest" / name).unlink()
    table.make_old()
    before = on_disk(table.root)
    assert isinstance(table.run().error, CorruptTable)
    assert on_disk(table.root) == before


def prepared(table: Table) -> tuple[FileStoreTable, list[Any]]:
    """Written two days ago, not committed yet: a job with a very long checkpoint."""
    handle = open_table(str(table.warehouse), "db.t")
    writer = RowWriter(handle, env=ENV)
    writer.write(*to_arrow(handle, [[60, "late"]]))
    messages = writer.prepare_commit()
    table.make_old()
    return handle, messages


@pytest.mark.parametrize("moment", ["before the plan", "after the plan"])
def test_what_a_late_commit_needs_is_not_purged(
    moment: str, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.litter()
    handle, messages = prepared(table)
    quarantine = table.run(mode="quarantine").details["quarantine"]
    real = quarantine_steps._plan

    def and_commit(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.undo()
        commit(handle, messages, user="late", env=ENV)
        return real(*args, **kwargs)

    if moment == "before the plan":
        commit(handle, messages, user="late", env=ENV)
    else:
        monkeypatch.setattr(quarantine_steps, "_plan", and_commit)
    purged = table.run("purge_orphan_files", quarantine=quarantine)
    assert purged.error is None
    assert len(purged.details["kept"]) == 1
    restored = table.run("restore_orphan_files", quarantine=quarantine)
    assert restored.details == {"restored_files": 1, "already_there": []}
    assert len(table.rows()) == 4
    assert_whole(table.warehouse)
    assert not (table.root / "caretaker" / "quarantine" / quarantine).exists()


@pytest.mark.parametrize("moment", ["after the candidates", "after the plan"])
def test_3074_old_files_are_committed_while_we_look(
    moment: str, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, messages = prepared(table)
    step = "find_candidates" if moment == "after the candidates" else "_actions"
    real = getattr(orphan_steps, step)

    def and_commit(*args: Any, **kwargs: Any) -> Any:
        found = real(*args, **kwargs)
        commit(handle, messages, user="late", env=ENV)
        return found

    monkeypatch.setattr(orphan_steps, step, and_commit)
    assert table.run().error is None
    assert len(table.rows()) == 4
    assert_whole(table.warehouse)


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_4779_no_time_that_takes_what_is_being_written(ahead: int, table: Table) -> None:
    millis = str(int((time.time() + ahead) * 1000))
    assert isinstance(table.run(older_than=millis).error, InvalidArgument)
    report = table.run(older_than=millis, allow_young=True)
    assert isinstance(report.error, InvalidArgument) == (ahead > 0)


def test_a_listing_that_fails_stops_it(
    table: Table, with_io: Callable[[LocalFileIO], None]
) -> None:
    table.litter()
    table.make_old()
    before = on_disk(table.root)

    def fail() -> None:
        raise OSError("the store is not there")

    with_io(Meanwhile("/tag", fail))
    assert isinstance(table.run().error, OSError)
    assert on_disk(table.root) == before


def test_the_slow_way_agrees(table: Table) -> None:
    handle = open_table(str(table.warehouse), "db.t")
    assert needed_by(handle, all_references(handle)) == on_disk(table.root)
