"""Many paths, cut into units of an engine, give what one process would."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from lakes import Lake

from paimon_core.environment import system_environment
from paimon_core.table.open import open_table
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.changes import Changes
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.storage import bulk
from paimon_maintenance.storage.bulk import delete_paths, list_folders
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
    here = list(list_folders(table, folders, context))
    assert here[1] == []
    paths = [f.path for listed in here for f in listed]
    assert len(paths) > 5
    monkeypatch.setattr(bulk, "FROM_FOLDERS", 1)
    monkeypatch.setattr(bulk, "FROM_FILES", 1)
    monkeypatch.setattr(bulk, "_PATHS_A_UNIT", 2)
    assert [sorted(f.path for f in fs) for fs in list_folders(table, folders, context)] == [
        sorted(f.path for f in fs) for fs in here
    ]
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


def test_many_local_folders_are_listed_ahead_in_their_order(
    lake: Lake, context: RunContext, tmp_path: Path
) -> None:
    table = open_table(str(lake.warehouse), "db.t")
    folders = []
    for number in range(bulk._FOLDERS_A_THREAD * 3 * bulk.DISK_THREADS):
        folder = tmp_path / f"f{number}"
        folder.mkdir()
        (folder / f"file{number}").touch()
        folders.append(str(folder))
    listed = [[f.path for f in found] for found in list_folders(table, folders, context)]
    assert listed == [[f"{folder}/file{i}"] for i, folder in enumerate(folders)]
    (tmp_path / "plain").touch()
    with pytest.raises(NotADirectoryError):
        list(list_folders(table, [*folders, str(tmp_path / "plain")], context))
    first = next(list_folders(table, folders, context))
    assert [f.path for f in first] == listed[0]
