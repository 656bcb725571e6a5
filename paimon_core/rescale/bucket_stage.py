"""Rows that are gathered by their new bucket until there are enough of each to be worth writing.

::

    batches   3 1 2 1 | 2 2 3 1 | ...       a batch is sorted by bucket once; its parts of each
    waiting   1: 1 1 . 1    2: 2 . 2 2      bucket are slices of that, without a copy
    pieces    (1, 1 1 1)  (2, 2 2 2)  ...   given out together, so that all slices go at once

Taking the rows of each bucket out of every batch instead costs several times as much, and so does
encoding what comes in many small parts.  Memory is bounded by bytes, whatever the number of buckets.
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
"""What is gathered of a bucket, as Arrow holds it: enough for batches of some thousand rows."""
STAGED_BYTES: Final = 64 * 1024**2
"""What is gathered of all buckets at most, however many there are."""
WRITING_BYTES: Final = 96 * 1024**2
"""What waits in writers side by side for their row groups; more is slower, for it is new memory."""
SMALL_GROUP_BYTES: Final = 3 * 1024**2
MOST_WRITING_BYTES: Final = 2 * WRITING_BYTES
"""Row groups smaller than the one would cost readers more than to wait for so many bytes."""

Numbers = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of one bucket; `is_last` says that no more of it follow."""

    bucket: int
    rows: pa.RecordBatch
    is_last: bool


def row_group_share(buckets: int) -> int:
    """The size of row groups, in bytes of Arrow data, if so many buckets are written at a time."""
    fair = min(ROW_GROUP_BYTES, WRITING_BYTES // buckets)
    return max(1, fair, min(SMALL_GROUP_BYTES, MOST_WRITING_BYTES // buckets))


def by_bucket(
    batches: Iterator[pa.RecordBatch],
    bucket_of: Callable[[pa.RecordBatch], Numbers],
    *,
    buckets: int,
    wanted: Container[int] | None = None,
) -> Iterator[Piece]:
    """The rows by bucket (of the wanted ones), each bucket's in their order.

    `bucket_of` gives the bucket of each row of a batch; about `buckets` different ones come.
    """
    enough = min(buckets * PIECE_BYTES, STAGED_BYTES)
    stage = _Stage()
    for batch in batches:
        stage.add(batch, bucket_of(batch), wanted)
        if stage.bytes >= enough:
            yield from stage.pieces(are_last=False)
    yield from stage.pieces(are_last=True)


class _Stage:
    """What waits: by bucket, slices of batches that are sorted by bucket."""

    __slots__ = ("_parts", "bytes")

    def __init__(self) -> None:
        self.bytes = 0
        self._parts: dict[int, list[pa.RecordBatch]] = defaultdict(list)

    def add(self, batch: pa.RecordBatch, numbers: Numbers, wanted: Container[int] | None) -> None:
        """Takes the rows in."""
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
        """All that waits, bucket by bucket."""
        parts, self._parts, self.bytes = self._parts, defaultdict(list), 0
        for bucket in sorted(parts):
            yield Piece(bucket, _joined(parts.pop(bucket)), are_last)


def _order(numbers: Numbers) -> npt.NDArray[np.intp]:
    """The rows by bucket, those of a bucket in their order."""
    # Numpy sorts up to 16 bits by counting, which takes a tenth of the time.
    narrow = numbers.astype(np.uint16) if int(numbers.max()) < 1 << 16 else numbers
    return np.argsort(narrow, kind="stable")


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch that keeps no rows of other buckets in memory."""
    first = parts[0]
    if len(parts) == 1 and first.get_total_buffer_size() < 2 * first.nbytes:
        return first
    # With an empty part, for Arrow hands a single one back as it is.
    return pa.concat_batches([*parts, first.slice(0, 0)])
