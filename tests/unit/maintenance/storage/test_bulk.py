"""Many paths, cut into units of an engine, give what one process would."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from lakes import Lake

from paimon_core.environment import system_environment
from paimon_core.io.file_io import FolderNames
from paimon_core.io.file_stats import NO_SIZE, FileStatsBuilder
from paimon_core.table.open import open_table
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.changes import Changes
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.storage import bulk
from paimon_maintenance.storage.bulk import delete_paths, list_folders, read_states
from paimon_maintenance.storage.ledger import Ledger


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key(buckets=3, partitioned=True)
    lake.fill(2, rows=60)
    return lake


@pytest.fixture
def context() -> RunContext:
    return RunContext(
        run_id="run",
        commit_user="user",
        env=system_environment(),
        engine=LocalEngine(threads=2),
        local=LocalEngine(),
    )


def test_units_of_an_engine_do_what_this_process_does(
    lake: Lake, context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table(str(lake.warehouse), "db.t")
    folders = sorted(map(str, Path(lake.table().root).rglob("bucket-*")))
    folders.insert(1, f"{table.root}/not-there")
    (here,) = list_folders(table, folders, context)
    assert here.folders == folders
    assert here.counts()[1] == 0
    paths = [f.path for f in here]
    assert len(paths) > 5
    monkeypatch.setattr(bulk, "FROM_FOLDERS", 1)
    monkeypatch.setattr(bulk, "FROM_FILES", 1)
    monkeypatch.setattr(bulk, "_PATHS_A_UNIT", 2)
    listed = list(list_folders(table, folders, context))
    assert [folder for part in listed for folder in part.folders] == folders
    assert sorted(f.path for part in listed for f in part) == sorted(paths)
    assert delete_paths(table, [*paths[:5], f"{table.root}/not-there/f"], context) == [True] * 5 + [
        False
    ]
    assert [Path(p).exists() for p in paths[:6]] == [False] * 5 + [True]


def test_the_ledger_learns_what_executors_deleted(
    lake: Lake, context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger()
    table = open_table(str(lake.warehouse), "db.t", watch=partial(ledger.watch, branch=None))
    paths = sorted(map(str, Path(table.root).rglob("bucket-*/*")))
    monkeypatch.setattr(bulk, "FROM_FILES", 1)
    monkeypatch.setattr(bulk, "_PATHS_A_UNIT", 1)
    watched = replace(context, ledger=ledger)
    delete_paths(table, [*paths[:3], f"{table.root}/bucket-0/gone"], watched)
    assert ledger.changes() == Changes(deleted_files=3)
    with pytest.raises(OSError, match="snapshot"):
        delete_paths(table, [paths[3], f"{table.root}/snapshot", paths[4]], watched)
    assert not any(Path(p).exists() for p in paths[:5])
    assert ledger.changes() == Changes(
        deleted_files=5, unsure=("files that executors were deleting",)
    )


def test_the_first_failure_is_raised(
    lake: Lake, context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table(str(lake.warehouse), "db.t")
    monkeypatch.setattr(bulk, "FROM_FILES", 1)
    monkeypatch.setattr(bulk, "_PATHS_A_UNIT", 1)
    with pytest.raises(OSError, match="snapshot"):
        delete_paths(table, [f"{table.root}/snapshot", f"{table.root}/schema"], context)
    alone = replace(context, engine=LocalEngine())
    with pytest.raises(OSError, match="snapshot"):
        delete_paths(table, [f"{table.root}/snapshot"], alone)


def test_many_folders_are_listed_in_their_order(
    lake: Lake, context: RunContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_FOLDERS_HERE", 100)
    table = open_table(str(lake.warehouse), "db.t")
    folders = []
    for number in range(250):
        folder = tmp_path / f"f{number}"
        folder.mkdir()
        (folder / f"file{number}").touch()
        folders.append(str(folder))
    listed = list(list_folders(table, folders, context))
    assert [folder for part in listed for folder in part.folders] == folders
    assert [f.path for part in listed for f in part] == [
        f"{folder}/file{i}" for i, folder in enumerate(folders)
    ]
    (tmp_path / "plain").touch()
    with pytest.raises(NotADirectoryError):
        list(list_folders(table, [*folders, str(tmp_path / "plain")], context))
    first = next(list_folders(table, folders, context))
    assert first == listed[0]


@pytest.mark.parametrize("on_engine", [False, True])
def test_only_plain_files_have_a_state(
    lake: Lake,
    context: RunContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    on_engine: bool,  # noqa: FBT001 - a case
) -> None:
    monkeypatch.setattr(bulk, "FROM_FILES", 2 if on_engine else 100)
    monkeypatch.setattr(bulk, "_PATHS_A_UNIT", 1)
    folder = tmp_path / "files"
    (folder / "folder").mkdir(parents=True)
    (folder / "link").symlink_to(folder / "one")
    for name, size in (("one", 1), ("two", 2), ("three", 3)):
        (folder / name).write_bytes(b"x" * size)
        os.utime(folder / name, (size, size))
    names = ["two", "gone", "link", "one", "folder", "three"]
    builder = FileStatsBuilder()
    builder.add_folder(str(folder), FolderNames(names, bytes(len(names))))
    table = open_table(str(lake.warehouse), "db.t")
    sizes, times = read_states(table, builder.finish(), context)
    assert sizes.tolist() == [2, NO_SIZE, NO_SIZE, 1, NO_SIZE, 3]
    assert times[sizes != NO_SIZE].tolist() == [2000, 1000, 3000]
    sizes, times = read_states(table, FileStatsBuilder().finish(), context)
    assert len(sizes) == len(times) == 0
