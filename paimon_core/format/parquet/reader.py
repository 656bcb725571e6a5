"""Reads batches of rows from a Parquet file.

Java writes one row group per file, whatever the file's size, so rows are streamed from the row
group: no pre-buffering, and beyond a few megabytes the column chunks are read through a window
instead of as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_core.format.arrow_conversion import in_order, null_batches
from paimon_core.format.parquet.footer import open_parquet
from paimon_core.format.parquet.int96 import raw_metadata
from paimon_core.format.parquet.row_window import Decoding, PagedFile, read_pages
from paimon_core.format.row_range import rows_in
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)

WINDOW: Final = 256 * 1024
"""The bytes of a column chunk held in memory while a large local file is read."""
REMOTE_WINDOW: Final = 1024 * 1024
"""The same for other stores, where requests cost more than bytes."""
WINDOW_FROM: Final = 8 * 1024 * 1024
"""From this file size on, column chunks are read through a window."""
PAGES_FROM: Final = 1024 * 1024
"""Of smaller files, looking for the pages of some rows costs more than decoding all rows."""
MICROS: Final = 6


def read_parquet(
    source: Any,
    fields: RowType,
    *,
    batch_rows: int,
    use_threads: bool,
    rows: range | None = None,
    footer: Callable[[], PagedFile] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield batches of these columns of the file, by name; missing columns are null.

    `source` is an open file, `footer` returns its footer if it is read often.  Only `rows` are
    read, if given: their pages where the file has offset indexes, otherwise their row groups up to
    the last row.  The types of `fields` are those of the columns; their nullability is ignored.
    """
    size = source.size()
    window = WINDOW if isinstance(source, pa.OSFile) else REMOTE_WINDOW
    buffer_size = 0 if size < WINDOW_FROM else window
    schema = arrow_schema(fields)
    if rows is not None and size >= PAGES_FROM:
        paged = read_pages(
            source,
            fields.names,
            rows,
            Decoding(batch_rows, buffer_size, use_threads),
            None if footer is None else footer(),
        )
        if paged is not None:
            for batch in paged:
                yield in_order(batch, schema)
            return
    metadata = None
    if any(_beyond_micros(t) for t in fields.types):
        metadata = raw_metadata(source)
    source.seek(0)
    with open_parquet(
        source,
        metadata=metadata,
        pre_buffer=False,
        buffer_size=buffer_size,
        arrow_extensions_enabled=False,
    ) as file:
        present = {path[0] for path in file.reader.column_paths}
        names = [f.name for f in fields if f.name in present]
        groups, wanted = None, None
        if rows is not None:
            groups, wanted = _groups_of(file.metadata, rows)
        if not names:
            count = file.metadata.num_rows if wanted is None else len(wanted)
            yield from null_batches(count, schema, batch_rows)
            return
        batches = file.iter_batches(
            batch_rows, row_groups=groups, columns=names, use_threads=use_threads
        )
        for batch in batches if wanted is None else rows_in(batches, wanted):
            yield in_order(batch, schema)


def _groups_of(metadata: pq.FileMetaData, rows: range) -> tuple[list[int], range]:
    """Return (the row groups that hold `rows`, the place of these rows in the groups)."""
    ends = list(accumulate(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)))
    starts = [0, *ends[:-1]]
    stop = min(rows.stop, metadata.num_rows)
    groups = [
        number
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
        if start < stop and end > rows.start
    ]
    first = starts[groups[0]] if groups else rows.start
    return groups, range(rows.start - first, max(stop, rows.start) - first)


def _beyond_micros(t: DataType) -> bool:
    match t:
        case AtomicType():
            timestamp = t.kind in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
            return timestamp and (t.precision or 0) > MICROS
        case ArrayType() | VectorType():
            return _beyond_micros(t.element)
        case MapType():
            return _beyond_micros(t.key) or _beyond_micros(t.value)
        case MultisetType():
            return _beyond_micros(t.element)
        case RowType():
            return any(_beyond_micros(f) for f in t.types)
    return False
