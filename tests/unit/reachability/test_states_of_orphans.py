"""Sizes and times of local files are read last: what happens between the listing and that."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from avro_fields import add_fields, tell_sizes
from disk import assert_whole
from lakes import ENV, Lake, age_all

import paimon_maintenance.jobs.remove_orphan_files.steps as orphan_steps
from paimon_core.commit.committer import commit
from paimon_core.errors import CorruptTable, GuardTripped
from paimon_core.io.file_io import FileStat
from paimon_core.io.local import LocalFileIO
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.job.guards import FREE, Guards
from paimon_maintenance.job.plan import Effect, LossKind
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import plan_table, run_table

BUCKET = "dt=day0/bucket-0"


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key(partitioned=True)
    lake.fill(3)
    return lake


def request(
    lake: Lake, name: str = "remove_orphan_files", guards: Guards | None = None, **arguments: object
) -> RunRequest:
    job = job_named(name)
    return RunRequest(
        job=job,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=job.read_arguments(arguments),
        guards=guards or Guards(),
        force=False,
    )


def run(lake: Lake, name: str = "remove_orphan_files", **arguments: Any) -> Report:
    return run_table(request(lake, name, **arguments))


def root(lake: Lake) -> Path:
    return lake.warehouse / "db.db" / "t"


def orphan(lake: Lake, place: str, size: int = 1) -> Path:
    """An old file without content of its own."""
    path = root(lake) / place
    with path.open("wb") as file:
        file.truncate(size)
    os.utime(path, (0, 0))
    return path


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Something happens after the references were read, before the states of what is left."""
    real = orphan_steps.with_states

    def does(action: Callable[[], object]) -> None:
        def with_states(*arguments: Any) -> Any:
            action()
            return real(*arguments)

        monkeypatch.setattr(orphan_steps, "with_states", with_states)

    return does


Meanwhile = Callable[[Callable[[], object]], None]


def whole(effect: Effect, kind: LossKind) -> int | None:
    return next(loss.whole for loss in effect.losses if loss.kind is kind)


def test_only_what_nothing_mentions_has_its_state_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphans = [orphan(lake, f"{BUCKET}/data-a-0.parquet"), orphan(lake, "manifest/manifest-a-0")]
    young = root(lake) / BUCKET / "data-young-0.parquet"
    young.write_bytes(b"x")
    read: list[str] = []
    stat, list_dir = LocalFileIO.stat, LocalFileIO.list_dir

    def counted(self: LocalFileIO, path: str) -> FileStat:
        read.append(path)
        return stat(self, path)

    def not_of_data(self: LocalFileIO, path: str) -> list[FileStat]:
        assert "bucket-" not in path
        return list_dir(self, path)

    monkeypatch.setattr(LocalFileIO, "stat", counted)
    monkeypatch.setattr(LocalFileIO, "list_dir", not_of_data)
    plan = plan_table(request(lake))
    assert sorted(p for p in read if "/bucket-" in p or "/manifest/" in p) == sorted(
        map(str, [*orphans, young])
    )
    assert plan.details["orphans"] == sorted(map(str, orphans))
    assert {k.what: k.count for k in plan.kept if "not older" in k.why} == {"files": 1}


def test_a_file_that_vanishes_is_not_counted(lake: Lake, meanwhile: Meanwhile) -> None:
    before = plan_table(request(lake)).effect
    gone = [orphan(lake, f"{BUCKET}/data-gone-0.parquet"), orphan(lake, "manifest/manifest-gone-0")]
    left = orphan(lake, f"{BUCKET}/data-left-0.parquet", 7)
    meanwhile(lambda: [path.unlink(missing_ok=True) for path in gone])
    effect = plan_table(request(lake)).effect
    assert effect.deleted_files == 1
    assert effect.table_files == before.table_files + 1
    assert effect.table_bytes == before.table_bytes + 7
    assert whole(effect, LossKind.METADATA) == whole(before, LossKind.METADATA)
    assert run(lake).details["deleted_files"] == 1
    assert not left.exists()


def test_a_file_that_is_written_again_is_young(lake: Lake, meanwhile: Meanwhile) -> None:
    path = orphan(lake, f"{BUCKET}/data-again-0.parquet")
    meanwhile(lambda: path.write_bytes(b"new"))
    assert run(lake).status is Status.NOTHING_TO_DO
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("is_folder", [False, True])
def test_what_becomes_a_link_or_a_folder_stays(
    lake: Lake,
    meanwhile: Meanwhile,
    is_folder: bool,  # noqa: FBT001 - a case
) -> None:
    path = orphan(lake, f"{BUCKET}/data-link-0.parquet")
    target = lake.warehouse / "target"
    target.write_bytes(b"x")
    os.utime(target, (0, 0))

    def replaced() -> None:
        path.unlink()
        if is_folder:
            path.mkdir()
            os.utime(path, (0, 0))
        else:
            path.symlink_to(target)

    meanwhile(replaced)
    assert run(lake).status is Status.NOTHING_TO_DO
    assert path.is_symlink() or path.is_dir()
    assert target.exists()


def test_what_becomes_a_link_to_itself_stays(lake: Lake, meanwhile: Meanwhile) -> None:
    path = orphan(lake, f"{BUCKET}/data-circle-0.parquet")

    def replaced() -> None:
        path.unlink()
        path.symlink_to(path)

    meanwhile(replaced)
    assert run(lake).status is Status.NOTHING_TO_DO
    assert path.is_symlink()


def test_links_to_nothing_are_links(lake: Lake) -> None:
    link = root(lake) / BUCKET / "data-link-0.parquet"
    link.symlink_to(lake.warehouse / "gone")
    assert {k.what: k.count for k in plan_table(request(lake)).kept}["links"] == 1
    assert run(lake).status is Status.NOTHING_TO_DO
    assert link.is_symlink()


def test_names_that_are_not_utf_8(lake: Lake) -> None:
    folder = os.fsencode(root(lake) / BUCKET)
    for name in (b"data-\xff-0.parquet", b"notes-\xfe"):
        with open(folder + b"/" + name, "wb"):  # noqa: PTH123 - a path of bytes
            pass
        os.utime(folder + b"/" + name, (0, 0))
    assert run(lake).details["deleted_files"] == 1
    left = os.listdir(folder)  # noqa: PTH208 - as bytes
    assert b"notes-\xfe" in left
    assert b"data-\xff-0.parquet" not in left


def test_the_bytes_of_mentioned_files_come_from_manifests(lake: Lake) -> None:
    (root(lake) / BUCKET / "data-young-0.parquet").write_bytes(b"12345")
    orphan(lake, f"{BUCKET}/data-old-0.parquet", 100)
    effect = plan_table(request(lake)).effect
    sizes = [p.stat().st_size for p in root(lake).rglob("bucket-*/*")]
    assert (effect.table_files, effect.table_bytes) == (len(sizes), sum(sizes))


def test_the_guard_of_bytes_trips(lake: Lake) -> None:
    path = orphan(lake, f"{BUCKET}/data-large-0.parquet", FREE[LossKind.BYTES] + 1)
    report = run(lake)
    assert isinstance(report.error, GuardTripped)
    assert "bytes of data files" in str(report.error)
    assert path.exists()
    assert run(lake, guards=Guards(max_deleted_share=1)).error is None
    assert not path.exists()


@pytest.mark.parametrize("size", [2**62, -(2**62)])
def test_no_size_that_a_manifest_tells_switches_the_guard_off(lake: Lake, size: int) -> None:
    def with_size(records: list[dict[str, Any]]) -> None:
        for record in records:
            record["_FILE"]["_FILE_SIZE"] = size

    for path in (root(lake) / "manifest").glob("manifest-*"):
        if not path.name.startswith("manifest-list-"):
            path.write_bytes(add_fields(path, {}, change=with_size))
    tell_sizes(root(lake))
    orphan(lake, f"{BUCKET}/data-large-0.parquet", FREE[LossKind.BYTES] + 1)
    assert plan_table(request(lake)).effect.table_bytes == FREE[LossKind.BYTES] + 1
    assert isinstance(run(lake).error, GuardTripped)


@pytest.mark.parametrize("mode", ["delete", "quarantine"])
def test_a_commit_after_the_last_look_is_named(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Nothing can save the old files of such a commit, but the run does not call it a success."""
    table = lake.table()
    writer = RowWriter(table, env=ENV)
    writer.write(pa.table({"k": pa.array([1], pa.int32()), "v": ["new"], "dt": ["day0"]}))
    messages = writer.prepare_commit()
    age_all(root(lake) / BUCKET)
    name = {"delete": "delete_paths", "quarantine": "move_aside"}[mode]
    remove = getattr(orphan_steps, name)

    def late(*arguments: Any) -> Any:
        commit(table, messages, user="late", env=ENV)
        return remove(*arguments)

    monkeypatch.setattr(orphan_steps, name, late)
    orphan(lake, f"{BUCKET}/data-other-0.parquet")
    report = run(lake, mode=mode)
    assert isinstance(report.error, CorruptTable)
    (file,) = messages[0].new_files
    assert "needs 1 file that nothing mentioned" in str(report.error)
    assert file.file_name in str(report.error)
    if mode == "quarantine":
        quarantine = next((root(lake) / "caretaker" / "quarantine").iterdir()).name
        assert f"run restore_orphan_files with quarantine {quarantine}" in str(report.error)
        assert run(lake, "restore_orphan_files", quarantine=quarantine).error is None
        assert_whole(lake.warehouse)


def test_each_part_of_many_files_is_checked_anew(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.table()
    writer = RowWriter(table, env=ENV)
    writer.write(pa.table({"k": pa.array([1], pa.int32()), "v": ["new"], "dt": ["day1"]}))
    messages = writer.prepare_commit()
    age_all(root(lake) / "dt=day1")
    orphan(lake, f"{BUCKET}/data-other-0.parquet")
    remove = orphan_steps.delete_paths

    def slow(*arguments: Any) -> Any:
        if messages:
            commit(table, messages, user="late", env=ENV)
            messages.clear()
        return remove(*arguments)

    monkeypatch.setattr(orphan_steps, "delete_paths", slow)
    monkeypatch.setattr(orphan_steps, "DELETED_TOGETHER", 1)
    report = run(lake)
    assert report.error is None
    assert report.details["deleted_files"] == 1
    assert_whole(lake.warehouse)
