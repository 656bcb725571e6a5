"""A range of the rows of a stream of batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from paimon_core.errors import CorruptTable


def rows_in(
    batches: Iterator[pa.RecordBatch], rows: range, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield these rows of all rows, in batches of `batch_rows` but for the last.

    Raises CorruptTable if there are fewer rows.
    """
    waiting: list[pa.RecordBatch] = []
    held, skip, left = 0, rows.start, len(rows)
    for batch in batches:
        if skip >= batch.num_rows:
            skip -= batch.num_rows
            continue
        part = batch.slice(skip, left)
        skip = 0
        left -= part.num_rows
        while held + part.num_rows >= batch_rows:
            taken = batch_rows - held
            yield _one([*waiting, part.slice(0, taken)])
            part, waiting, held = part.slice(taken), [], 0
        if part.num_rows:
            waiting.append(part)
            held += part.num_rows
        if not left:
            break
    if left:
        raise CorruptTable(f"a data file ends {left:,} rows too early")
    if waiting:
        yield _one(waiting)


def _one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
