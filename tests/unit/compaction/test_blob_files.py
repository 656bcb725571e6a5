"""Files of BLOBs that are merged with `blob-compaction.enabled`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from blob_files import PLACEHOLDER, commit_blob_file
from command_line import caretaker, read_rows
from lakes import ENV, Lake
from sql_sessions import Sql

from paimon_core.compaction.blob_files import blob_files_to_merge
from paimon_core.errors import CorruptTable
from paimon_core.format.blob.descriptor import BlobDescriptor
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.scan.scan import scan_files
from paimon_core.table.sink.compact_table import compact_table
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.jobs.compact import execute
from tests.lsm_files import a_file


@pytest.fixture
def photos(tmp_path: Path) -> Lake:
    """One data file of four rows."""
    Sql(tmp_path)("""
        CREATE DATABASE db;
        CREATE TABLE db.t (k INT, b BINARY COMMENT '__BLOB_FIELD', c BINARY COMMENT '__BLOB_FIELD')
        TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true',
                       'blob-compaction.enabled' = 'true', 'blob.target-file-size' = '100 b');
        INSERT INTO db.t VALUES (1, X'01', NULL), (2, X'02', NULL), (3, NULL, X''), (4, X'04', X'05');
    """)
    return Lake(tmp_path)


def _blob(first: int, rows: int, size: int = 1, column: str = "b") -> DataFileMeta:
    name = f"data-{column}-{first}-{rows}-{size}.blob"
    return replace(a_file(1, rows, size=size, name=name), first_row_id=first, write_cols=(column,))


def _merged(lake: Lake, files: Sequence[DataFileMeta]) -> list[list[tuple[int, int]]]:
    """First row id and size of the files of each new file."""
    found = blob_files_to_merge(lake.table(), files)
    return [[(f.first_row_id or 0, f.file_size) for f in files] for files in found]


def _rows(lake: Lake) -> list[list[Any]]:
    return [row[1:] for row in read_rows(lake.warehouse)]


def _compact(lake: Lake, *words: object) -> ExitCode:
    ran = caretaker("run", "compact", "db.t", "-w", lake.warehouse, "--engine", "local", *words)
    return ExitCode(ran.code)


def _blob_files(lake: Lake) -> list[tuple[object, ...]]:
    table = lake.table()
    files = [e.file for e in scan_files(table, table.latest_or_not_found())]
    blobs = (f for f in files if f.file_name.endswith("blob"))
    return sorted((f.write_cols, f.first_row_id, f.row_count) for f in blobs)


def test_small_neighbours_and_files_of_the_same_rows(photos: Lake) -> None:
    assert _merged(photos, [_blob(0, 2)]) == []
    assert _merged(photos, [_blob(2, 2), _blob(0, 2)]) == [[(0, 1), (2, 1)]]
    assert _merged(photos, [_blob(0, 2), _blob(3, 2)]) == []  # a gap
    assert _merged(photos, [_blob(0, 2), _blob(2, 2, column="c")]) == []
    # A large file is merged only with others of the same rows.
    assert _merged(photos, [_blob(0, 2), _blob(2, 2, 100), _blob(4, 1)]) == []
    assert _merged(photos, [_blob(0, 4, 100), _blob(2, 1), _blob(4, 1)]) == [[(0, 100), (2, 1)]]
    # The one that reaches the target is the last.
    small = [_blob(i, 1, 60) for i in range(5)]
    assert _merged(photos, small) == [[(0, 60), (1, 60)], [(2, 60), (3, 60)]]


def test_files_of_dropped_columns_stay(photos: Lake) -> None:
    files = [_blob(0, 2, column="c"), _blob(2, 2, column="c")]
    assert len(_merged(photos, files)) == 1
    Sql(photos.warehouse)("ALTER TABLE db.t DROP COLUMN c")
    assert _merged(photos, files) == []


@pytest.mark.parametrize("as_descriptor", ["false", "true"])
def test_updates_are_merged(photos: Lake, as_descriptor: str) -> None:
    # A BLOB that looks like a descriptor is a BLOB.
    looks = BlobDescriptor("file:/nowhere", 1, 2).to_bytes()
    commit_blob_file(photos.table(), "b", 1, [b"new", looks])
    commit_blob_file(photos.table(), "b", 0, [PLACEHOLDER, None, PLACEHOLDER, PLACEHOLDER])
    rows = [
        *([1, "01", None], [2, None, None]),
        *([3, looks.hex(), ""], [4, "04", "05"]),
    ]
    assert _rows(photos) == rows
    assert _compact(photos, "--option", "blob-compaction.enabled=false") is ExitCode.NOTHING_TO_DO
    option = f"blob-as-descriptor={as_descriptor}"
    assert _compact(photos, "--option", option) is ExitCode.SUCCESS
    assert _rows(photos) == rows
    assert _blob_files(photos) == [(("b",), 0, 4), (("c",), 0, 4)]
    assert _compact(photos) is ExitCode.NOTHING_TO_DO
    ran = caretaker("verify", "db.t", "-w", photos.warehouse, "--deep")
    assert ran.code == ExitCode.SUCCESS, ran.err


def test_an_update_during_the_merge_is_kept(photos: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_blob_file(photos.table(), "b", 0, [b"first", PLACEHOLDER, PLACEHOLDER, b"4"])
    real, todo = execute.commit_messages, [[b"second", PLACEHOLDER]]

    def commit_late(*args: Any, **more: Any) -> Any:
        if todo:
            commit_blob_file(photos.table(), "b", 0, todo.pop())
        return real(*args, **more)

    monkeypatch.setattr(execute, "commit_messages", commit_late)
    assert _compact(photos) is ExitCode.SUCCESS
    assert [row[1] for row in _rows(photos)] == [b"second".hex(), "02", None, b"4".hex()]
    assert _compact(photos) is ExitCode.SUCCESS
    assert [row[1] for row in _rows(photos)] == [b"second".hex(), "02", None, b"4".hex()]
    assert len(_blob_files(photos)) == 2


def test_a_file_with_other_rows_than_its_metadata_is_not_replaced(photos: Lake) -> None:
    path = commit_blob_file(photos.table(), "b", 0, [b"1", b"2"])
    other = commit_blob_file(photos.table(), "c", 0, [b"1"])
    photos.table().io.delete(path)
    photos.table().io.write_bytes(path, photos.table().io.read_bytes(other))
    before = photos.on_disk()
    with pytest.raises(CorruptTable, match="holds 1 rows where its metadata says 2"):
        compact_table(photos.table(), full=True, env=ENV)
    assert photos.on_disk() == before
