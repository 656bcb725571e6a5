"""A disk that is full while pages are copied or rows are spilled: the error names the file."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lakes import ENV, Lake

from paimon_core.compaction.rewrite import rewrite
from paimon_core.compaction.unit import CompactUnit
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.local import LocalFileIO
from paimon_core.rescale.bucket_runs import BucketRuns
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table_at
from paimon_core.table.sink.compact_table import buckets_of, compact_buckets
from paimon_core.types.binary_row import encode_row
from paimon_core.write.external_sort import _Files
from paimon_core.write.row_buffer import RowBuffer, SpillFolder

ROWS = 30_000
BATCH = pa.record_batch({"k": pa.array(range(20), pa.int32())})


class FullDisk(LocalFileIO):
    """Takes so many bytes of data files."""

    room = 0

    def open_output(self, path: str) -> pa.NativeFile:
        super().open_output(path).close()
        return pa.PythonFile(_Limited(self), mode="w")


class _Limited(io.BytesIO):
    def __init__(self, disk: FullDisk) -> None:
        super().__init__()
        self._disk = disk

    def write(self, data: Any) -> int:
        FullDisk.room -= len(data)
        if FullDisk.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)


def test_pages_of_append_files(tmp_path: Path) -> None:
    lake = filled(tmp_path, primary_key=False)
    table = on_full_disk(lake)
    files = tuple(e.file for e in scan_files(table, table.latest_or_not_found()))
    unit = CompactUnit(partition=encode_row([], []), bucket=0, total_buckets=-1, append_files=files)
    check_refusals(lake, lambda: rewrite(table, unit, env=ENV))


def test_pages_of_lone_keys(tmp_path: Path) -> None:
    lake = filled(tmp_path, primary_key=True)
    table = on_full_disk(lake)
    buckets = buckets_of(table)
    check_refusals(
        lake, lambda: compact_buckets(table, buckets, full=True, env=ENV, until_done=False)
    )


def spill_sorted(path: Path) -> None:
    files = _Files(path.parent)
    files.add(BATCH, np.zeros(BATCH.num_rows, np.int64))
    files.close()


def spill_buckets(path: Path) -> None:
    with BucketRuns(path, batch_rows=10) as runs:
        runs.write(0, 0, BATCH)
        runs.written()


def spill_writes(path: Path) -> None:
    folder = SpillFolder()
    folder.new_path = lambda: path  # type: ignore[method-assign]
    rows = RowBuffer(folder)
    rows.add(BATCH)
    rows.spill()


@pytest.mark.parametrize("spill", [spill_sorted, spill_buckets, spill_writes])
def test_spilled_rows(tmp_path: Path, spill: Callable[[Path], None]) -> None:
    """Another disk than the table's may be full."""
    (tmp_path / "part-0").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left on device: .*/part-") as caught:
        spill(tmp_path / "part-0")
    assert caught.value.errno == errno.ENOSPC


def filled(tmp_path: Path, *, primary_key: bool) -> Lake:
    """Two files that have one key in common."""
    lake = Lake(tmp_path)
    buckets = "1" if primary_key else "-1"
    lake.create(primary_key=primary_key, options={"bucket": buckets, "write-only": "true"})
    for first in (0, ROWS):
        keys = range(first, first + ROWS + 1)
        lake.append({"k": list(keys), "v": [f"{k * 7919:x}" for k in keys]})
    return lake


def on_full_disk(lake: Lake) -> FileStoreTable:
    return open_table_at(FullDisk(), lake.table().root, "db.t")


def check_refusals(lake: Lake, compact: Callable[[], object]) -> None:
    """With more and more room, each failure names the new file, and leaves nothing."""
    before, errors = lake.on_disk(), list[OSError]()
    for room in range(0, 10_000_000, 60_000):
        FullDisk.room = room
        try:
            compact()
        except OSError as e:
            errors.append(e)
        else:
            break
        assert lake.on_disk() == before
    assert {e.errno for e in errors} == {errno.ENOSPC}
    assert all("/bucket-0/data-" in str(e) for e in errors)
    assert len(errors) > 2
