"""A file that is decoded once, range by range."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from paimon_core.errors import CorruptTable
from paimon_core.read.cursor import RowCursor


class File:
    """Rows 0, 1, 2, ... in batches, and how often they were decoded."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.decoded = 0
        self.closed = False

    def decode(self, wanted: range, batch_rows: int) -> Iterator[pa.RecordBatch]:
        try:
            for start in range(wanted.start, min(wanted.stop, self.rows), batch_rows):
                stop = min(start + batch_rows, wanted.stop, self.rows)
                self.decoded += stop - start
                numbers = pa.array(range(start, stop), pa.int64())
                yield pa.RecordBatch.from_arrays([numbers], names=["n"])
            if self.rows < wanted.stop:
                raise CorruptTable("a data file ends too early")
        finally:
            self.closed = True


def numbers(batches: Iterator[pa.RecordBatch], most: int) -> list[int]:
    found = list(batches)
    assert all(0 < b.num_rows <= most for b in found)
    return [n for b in found for n in b.column(0).to_pylist()]


def test_ranges_in_order_are_decoded_once() -> None:
    file, cursor = File(100), RowCursor(range(5, 95))
    for rows, most in ((range(5, 17), 10), (range(17, 18), 4), (range(40, 80), 7)):
        assert numbers(cursor.read(rows, most, file.decode), most) == list(rows)
    assert not file.closed
    assert numbers(cursor.read(range(80, 95), 10, file.decode), 10) == list(range(80, 95))
    assert file.decoded == 90
    assert file.closed


def test_an_abandoned_range_is_skipped() -> None:
    file, cursor = File(60), RowCursor(range(60))
    first = cursor.read(range(30), 8, file.decode)
    next(first)
    assert numbers(cursor.read(range(30, 60), 8, file.decode), 8) == list(range(30, 60))


def test_missing_rows_are_an_error() -> None:
    file, cursor = File(20), RowCursor(range(30))
    assert numbers(cursor.read(range(10), 8, file.decode), 8) == list(range(10))
    with pytest.raises(CorruptTable, match="too early"):
        list(cursor.read(range(10, 30), 8, file.decode))


def test_close_closes_the_file() -> None:
    file, cursor = File(20), RowCursor(range(20))
    cursor.close()
    list(cursor.read(range(5), 8, file.decode))
    cursor.close()
    assert file.closed
