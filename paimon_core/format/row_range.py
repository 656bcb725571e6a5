"""A range of the rows of a stream of batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from paimon_core.errors import CorruptTable


def rows_in(batches: Iterator[pa.RecordBatch], rows: range) -> Iterator[pa.RecordBatch]:
    """Yield these rows of all rows, in slices of the batches.

    Raises CorruptTable if there are fewer rows.
    """
    skip, left = rows.start, len(rows)
    for batch in batches:
        if skip >= batch.num_rows:
            skip -= batch.num_rows
            continue
        part = batch.slice(skip, left)
        skip = 0
        left -= part.num_rows
        if part.num_rows:
            yield part
        if not left:
            break
    if left:
        raise CorruptTable(f"a data file ends {left:,} rows too early")
