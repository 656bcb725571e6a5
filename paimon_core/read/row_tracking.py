"""Rows with their ids and sequence numbers (Java: `io/DataFileRecordReader`; java-rules L1).

A file that a writer made has neither in its columns: its rows are numbered from the file's first
row id on, and all have the file's sequence number.  A compacted file has both as columns, because
it holds rows of several files; a null there means the same as a missing column.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import CorruptTable
from paimon_core.io.file_io import FileIO
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.read.data_file import read_data_file
from paimon_core.schema.table_schema import SEQUENCE_NUMBER, TableSchema
from paimon_core.schema.tracked import ROW_ID, tracked_schema
from paimon_core.types.data_types import RowType


def read_tracked_rows(
    io: FileIO,
    path: str,
    meta: DataFileMeta,
    *,
    file_schema: TableSchema,
    read_type: RowType,
    batch_rows: int,
    partition: bytes,
) -> Iterator[pa.RecordBatch]:
    """Yield the file's rows with the columns of `tracked_schema`, in file order.

    Raises what `read_data_file` raises, and CorruptTable for a row without an id.
    """
    wanted = tracked_schema(
        TableSchema(id=0, fields=read_type.fields, highest_field_id=0), nullable=True
    ).row_type
    at = 0
    for batch in read_data_file(
        io,
        path,
        meta,
        file_schema=tracked_schema(file_schema, nullable=True),
        read_type=wanted,
        key_value=False,
        batch_rows=batch_rows,
        partition=partition,
    ):
        rows = batch.num_rows
        ids, numbers = batch.column(ROW_ID), batch.column(SEQUENCE_NUMBER)
        if ids.null_count:
            if meta.first_row_id is None:
                raise CorruptTable("a data file holds rows without a row id", file=path)
            first = meta.first_row_id + at
            ids = pc.coalesce(ids, pa.array(np.arange(first, first + rows, dtype=np.int64)))
        if numbers.null_count:
            numbers = numbers.fill_null(meta.max_sequence_number)
        columns = [*batch.columns[:-2], ids, numbers]
        yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)
        at += rows
