"""Reads batches of rows from a Parquet file.

Java writes one row group per file, whatever the file's size, so rows are streamed from the row
group: no pre-buffering, and beyond a few megabytes the column chunks are read through a window
instead of as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_core.format.arrow_conversion import in_order, null_batches
from paimon_core.format.parquet.footer import open_parquet
from paimon_core.format.parquet.int96 import raw_metadata
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
MICROS: Final = 6


def read_parquet(
    source: Any, fields: RowType, *, batch_rows: int, use_threads: bool, skip_rows: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield batches of these columns of the file, by name; missing columns are null.

    `source` is an open file.  `skip_rows` is the number of rows to skip: whole row groups at the
    front.  The types of `fields` are those of the columns; their nullability is ignored.
    """
    size = source.size()
    window = WINDOW if isinstance(source, pa.OSFile) else REMOTE_WINDOW
    metadata = None
    if any(_beyond_micros(t) for t in fields.types):
        metadata = raw_metadata(source)
        source.seek(0)
    with open_parquet(
        source,
        metadata=metadata,
        pre_buffer=False,
        buffer_size=0 if size < WINDOW_FROM else window,
        arrow_extensions_enabled=False,
    ) as file:
        present = {path[0] for path in file.reader.column_paths}
        names = [f.name for f in fields if f.name in present]
        schema = arrow_schema(fields)
        if not names:
            yield from null_batches(file.metadata.num_rows - skip_rows, schema, batch_rows)
            return
        for batch in file.iter_batches(
            batch_rows,
            row_groups=_groups_from(file.metadata, skip_rows) if skip_rows else None,
            columns=names,
            use_threads=use_threads,
        ):
            yield in_order(batch, schema)


def _groups_from(metadata: pq.FileMetaData, skip_rows: int) -> list[int]:
    """Return the row groups after the first `skip_rows` rows."""
    sizes = (metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    ends = accumulate(sizes)
    return [number for number, end in enumerate(ends) if end > skip_rows]


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
