"""Decodes a file once and gives out its rows range by range.

A page holds the rows of many short ranges.  Reading each range on its own would decode the page
again for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

Decode = Callable[[range, int], Iterator[pa.RecordBatch]]
"""Yields these rows of the file in batches of up to a number of rows."""


class RowCursor:
    """Gives out `rows` of a file; the ranges that are asked for follow each other.

    The file is open from the first range to the end of the last one.
    """

    __slots__ = ("_at", "_batches", "_rest", "_rows")

    def __init__(self, rows: range) -> None:
        self._rows = rows
        self._at = rows.start
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._rest: pa.RecordBatch | None = None

    def read(self, rows: range, batch_rows: int, decode: Decode) -> Iterator[pa.RecordBatch]:
        """Yield these rows of the file in batches of up to `batch_rows` rows."""
        if self._batches is None:
            self._batches = decode(self._rows, batch_rows)
        while self._at < rows.stop:
            batch = self._rest if self._rest is not None else next(self._batches, None)
            if batch is None:
                return  # `decode` has raised if rows are missing
            skipped = min(max(rows.start - self._at, 0), batch.num_rows)
            taken = min(batch_rows, rows.stop - self._at - skipped, batch.num_rows - skipped)
            self._at += skipped + taken
            rest = batch.slice(skipped + taken)
            self._rest = rest if rest.num_rows else None
            if taken:
                yield batch.slice(skipped, taken)
        if self._at >= self._rows.stop:
            # `decode` compares the number of rows with the metadata at the end.
            for _ in self._batches:
                pass
            self._batches = iter(())

    def close(self) -> None:
        """Close the file, if it is open."""
        self._rest = None
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()
