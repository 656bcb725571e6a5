"""Collects rows by their new bucket until there are enough of each to write.

::

    batches   3 1 2 1 | 2 2 3 1 | ...       a batch is sorted by bucket once; its parts of each
    waiting   1: 1 1 . 1    2: 2 . 2 2      bucket are slices of that, without a copy
    pieces    (1, 1 1 1)  (2, 2 2 2)  ...   given out together, so that all slices go at once

Taking the rows of each bucket out of every batch instead would cost several times as much, and so
would encoding many small parts.  Memory is bounded in bytes, whatever the number of buckets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.format.parquet.writer import ROW_GROUP_BYTES
from paimon_core.types.buffers import index_array

PIECE_BYTES: Final = 1024**2
"""The Arrow bytes collected per bucket: enough for batches of some thousand rows."""
STAGED_BYTES: Final = 64 * 1024**2
"""The limit of Arrow bytes collected for all buckets."""
WRITING_BYTES: Final = 96 * 1024**2
"""The Arrow bytes buffered in parallel writers; more is slower, because it needs new memory."""
SMALL_GROUP_BYTES: Final = 3 * 1024**2
MOST_WRITING_BYTES: Final = 2 * WRITING_BYTES
"""Row groups below the first size cost readers more than buffering up to the second costs."""

Numbers = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of one bucket; `is_last` marks its last piece."""

    bucket: int
    rows: pa.RecordBatch
    is_last: bool


def row_group_share(buckets: int) -> int:
    """Return the row group size in Arrow bytes if this number of buckets is written at a time."""
    fair = min(ROW_GROUP_BYTES, WRITING_BYTES // buckets)
    return max(1, fair, min(SMALL_GROUP_BYTES, MOST_WRITING_BYTES // buckets))


def by_bucket(
    batches: Iterator[pa.RecordBatch],
    bucket_of: Callable[[pa.RecordBatch], Numbers],
    *,
    buckets: int,
    wanted: Container[int] | None = None,
) -> Iterator[Piece]:
    """Yield the rows by bucket (of the wanted ones), keeping their order within each bucket.

    `bucket_of` returns the bucket of each row of a batch; there are about `buckets` different ones.
    """
    enough = min(buckets * PIECE_BYTES, STAGED_BYTES)
    stage = _Stage()
    for batch in batches:
        stage.add(batch, bucket_of(batch), wanted)
        if stage.bytes >= enough:
            yield from stage.pieces(are_last=False)
    yield from stage.pieces(are_last=True)


class _Stage:
    """The collected rows: by bucket, slices of batches that are sorted by bucket."""

    __slots__ = ("_parts", "bytes")

    def __init__(self) -> None:
        self.bytes = 0
        self._parts: dict[int, list[pa.RecordBatch]] = defaultdict(list)

    def add(self, batch: pa.RecordBatch, numbers: Numbers, wanted: Container[int] | None) -> None:
        """Add rows."""
        if not batch.num_rows:
            return
        order = _order(numbers)
        arranged = numbers[order]
        begins = np.flatnonzero(np.r_[True, arranged[1:] != arranged[:-1]])
        ends = [*begins[1:].tolist(), len(order)]
        parts = [
            (bucket, begin, end)
            for bucket, begin, end in zip(
                arranged[begins].tolist(), begins.tolist(), ends, strict=True
            )
            if wanted is None or bucket in wanted
        ]
        if not parts:
            return
        kept = sum(end - begin for _, begin, end in parts)
        if kept < len(order):
            order = np.concatenate([order[begin:end] for _, begin, end in parts])
        sorted_rows = batch if len(begins) == 1 else batch.take(index_array(order))
        at = 0
        for bucket, begin, end in parts:
            rows = end - begin
            self._parts[bucket].append(sorted_rows.slice(at, rows))
            at += rows
        self.bytes += sorted_rows.nbytes

    def pieces(self, *, are_last: bool) -> Iterator[Piece]:
        """Yield all collected rows, bucket by bucket."""
        parts, self._parts, self.bytes = self._parts, defaultdict(list), 0
        for bucket in sorted(parts):
            yield Piece(bucket, _joined(parts.pop(bucket)), are_last)


def _order(numbers: Numbers) -> npt.NDArray[np.intp]:
    """Return the row numbers sorted by bucket, stable within a bucket."""
    # NumPy uses a radix sort up to 16 bits, which takes a tenth of the time.
    narrow = numbers.astype(np.uint16) if int(numbers.max()) < 1 << 16 else numbers
    return np.argsort(narrow, kind="stable")


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return one batch that keeps no rows of other buckets in memory."""
    first = parts[0]
    if len(parts) == 1 and first.get_total_buffer_size() < 2 * first.nbytes:
        return first
    # With an empty part, because Arrow returns a single one without a copy.
    return pa.concat_batches([*parts, first.slice(0, 0)])
