"""`rewrite_file_indexes` beside another one, and on a store that fails."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from failing_io import FailingFileIO, Trigger
from harness import do, errors

from paimon_core.environment import system_environment
from paimon_core.errors import PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.reachability.known_kinds import Folder, is_known_kind
from paimon_core.scan.scan import scan_files
from paimon_core.table.index_rewrite import rewrite_file_indexes
from paimon_core.table.open import open_table, open_table_at
from paimon_core.write.row_writer import data_file_paths

ENV = system_environment()
COLUMNS = [{"name": "k", "type": "INT"}]
INDEXED = {
    "file-index.bloom-filter.columns": "k",
    "file-index.in-manifest-threshold": "1 B",
    "commit.max-retries": "1",
    "commit.min-retry-wait": "1 ms",
}


class StillDeletes(FailingFileIO):
    """Files can be deleted even if everything else fails."""

    def delete(self, path: str) -> bool:
        return self.inner.delete(path)


@pytest.fixture
def pristine(tmp_path: Path) -> Path:
    """Two files without indexes in a table whose options want some."""
    warehouse = tmp_path / "pristine"
    do(warehouse, "create_table", columns=COLUMNS, options={"write-only": "true"})
    for k in (1, 2):
        do(warehouse, "write", rows=[[k]])
    changes = [{"change": "set_option", "key": k, "value": v} for k, v in INDEXED.items()]
    do(warehouse, "alter_table", changes=changes)
    return warehouse


def failing(warehouse: Path, trigger: Trigger) -> FileStoreTable:
    root = open_table(str(warehouse), "db.t").root
    return open_table_at(StillDeletes(trigger), root, "db.t")


def live_paths(warehouse: Path) -> Iterator[Path]:
    table = open_table(str(warehouse), "db.t")
    for entry in scan_files(table, table.latest_or_not_found()):
        yield from map(Path, data_file_paths(table, entry.partition, entry.bucket, entry.file))


def check(warehouse: Path, *, indexes: int | None = None) -> None:
    """Every live file and every index of one is there."""
    paths = list(live_paths(warehouse))
    assert [p.name for p in paths if not p.exists()] == []
    assert not errors(warehouse)
    found = [p.name for p in paths if p.suffix == ".index"]
    assert all(is_known_kind(name, Folder.BUCKET) for name in found)
    if indexes is not None:
        assert len(found) == indexes


def test_of_two_at_once_the_loser_takes_no_file_of_the_winner(
    pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for letter in "abcdefghijklmnopqrstuvwxyz0123456789-_":
        Path(letter).write_text("somebody else's")
    names = sorted(p.name for p in elsewhere.iterdir())
    lost = 0
    for k in itertools.count():
        warehouse = tmp_path / "w"
        shutil.copytree(pristine, warehouse)

        def other(warehouse: Path = warehouse) -> None:
            rewrite_file_indexes(open_table(str(warehouse), "db.t"), env=ENV)

        trigger = Trigger(at=k, action=other)
        try:
            rewrite_file_indexes(failing(warehouse, trigger), env=ENV)
        except PaimonError:
            lost += 1
        check(warehouse, indexes=2)
        shutil.rmtree(warehouse)
        if not trigger.fired:
            break
    assert lost > 1
    assert sorted(p.name for p in elsewhere.iterdir()) == names


@pytest.mark.parametrize("when", ["before", "after"])
def test_indexes_stay_after_an_unknown_outcome(pristine: Path, when: str, tmp_path: Path) -> None:
    failed = 0
    for k in itertools.count():
        warehouse = tmp_path / "w"
        shutil.copytree(pristine, warehouse)
        trigger = Trigger(at=k, when=when, down=True)  # type: ignore[arg-type]
        try:
            rewrite_file_indexes(failing(warehouse, trigger), env=ENV)
        except Exception:  # noqa: BLE001 - what is left of the table counts
            failed += 1
        check(warehouse)
        shutil.rmtree(warehouse)
        if not trigger.fired:
            break
    assert failed > 3
