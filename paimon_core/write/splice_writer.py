"""Key-value files made of merged rows and of stored rows that are copied as their pages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_core.format.data_format import compression_of, open_assembler, parquet_zstd_level
from paimon_core.format.parquet.assembler import COPIED_CODECS, ParquetAssembler
from paimon_core.format.parquet.chunks import StoredColumn
from paimon_core.format.parquet.stored_page import Raw, value_of_bound
from paimon_core.io.file_io import named_in_errors
from paimon_core.io.threads import Threads
from paimon_core.options import Options
from paimon_core.schema.table_schema import SEQUENCE_NUMBER
from paimon_core.types.arrow import arrow_schema
from paimon_core.write.data_file_writer import RollingKeyValueWriter
from paimon_core.write.file_layout import FileLayout, small_file_size
from paimon_core.write.page_splice import (
    SHORTENED,
    PageSplice,
    StoredRange,
    is_better_ended,
    leaf_ranges,
    takes_known,
)


def copied_codec(layout: FileLayout, options: Options) -> str | None:
    """Return the compression of these Parquet files; None if their pages cannot be copied."""
    if layout.file_format != "parquet":
        return None
    compression = compression_of("parquet", layout.compression, options).lower()
    compression = "none" if compression == "uncompressed" else compression
    return compression if compression in COPIED_CODECS else None


class RollingSpliceWriter(RollingKeyValueWriter):
    """A `RollingKeyValueWriter` of Parquet files that also copies pages of other files.

    The layout must have a `copied_codec`.  `threads` encode row groups, if they are set before the
    first row.
    """

    threads: Threads | None = None

    def take_over(self, stored: StoredRange) -> None:
        """Add these rows, which follow all rows so far and hold no deletes.

        The file must have the writer's columns.  Raises CorruptTable if its pages contradict its
        footer or its indexes; then the writer can only be aborted.
        """
        if self._writer is not None and is_better_ended(
            self._writer.bytes_written(),
            stored.size,
            target=self._target,
            small=small_file_size(self._schema.options, primary_key=True),
        ):
            self._finish()
        writer = self._writer or self._open()
        assert isinstance(writer, ParquetAssembler)
        with named_in_errors(self._path):
            leading = writer.held(stored.leading_bytes)
        rows = len(stored.rows)
        chunks = self._splice.chunks(leading, stored, self)
        with named_in_errors(self._path):
            writer.take_over(sum(b.num_rows for b in leading) + rows, chunks)
        self._rows += rows
        if self._min_key is None:
            self._min_key = self._bound(self._key_row(stored, first=True))
        self._last = self._key_row(stored, first=False)
        if writer.bytes_written() >= self._target:
            self._finish()

    def knows(self, number: int, pages: StoredColumn) -> bool:
        """Take the statistics of copied pages of a column of the file (`ColumnSink`)."""
        if number == self._sequence:
            if not isinstance(pages.minimum, int) or not isinstance(pages.maximum, int):
                return False
            self._widen_sequence(pages.minimum, pages.maximum)
            return True
        place = number - self._first_value
        if place < 0:
            return True
        field = self._schema.row_type.fields[place]
        return takes_known(self._stats.collector, place, field, pages)

    def sees(self, number: int, values: pa.Array) -> None:
        """Take decoded values of a column of the file (`ColumnSink`)."""
        if number == self._sequence:
            self._see_sequence(values)
        elif number >= self._first_value:
            self._stats.collector.update_column(number - self._first_value, values)

    @property
    def _sequence(self) -> int:
        return self._file_type.names.index(SEQUENCE_NUMBER)

    @property
    def _first_value(self) -> int:
        return len(self._file_type) - len(self._schema.row_type)

    @property
    def _splice(self) -> PageSplice:
        options = self._schema.options
        codec = copied_codec(self._layout, options) or ""
        return PageSplice(self._file_type, codec, parquet_zstd_level(options))

    def _key_row(self, stored: StoredRange, *, first: bool) -> pa.RecordBatch:
        """Return the key of the first or the last row: a bound of its page, or decoded."""
        if len(self._key_type) == 1:
            place = leaf_ranges(self._file_type)[self._first_value + self._key_place].start
            bound = _end_bound(stored, place, first=first)
            schema = arrow_schema(self._key_type)
            array = None if bound is None else _one_value(bound, schema[0].type)
            if array is not None:
                return pa.RecordBatch.from_arrays([array], schema=schema)
        row = stored.rows.start if first else stored.rows.stop - 1
        (batch,) = stored.file.decoded(range(row, row + 1), self._key_type)
        return batch

    @property
    def _key_place(self) -> int:
        return self._schema.row_type.names.index(self._key_type.names[0])

    def _format_writer(self, path: str, row_group_bytes: int) -> ParquetAssembler:
        return open_assembler(
            self._io,
            path,
            self._file_type,
            compression=copied_codec(self._layout, self._schema.options) or "",
            options=self._schema.options,
            row_group_bytes=row_group_bytes,
            threads=self.threads,
        )


def _end_bound(stored: StoredRange, place: int, *, first: bool) -> Raw | None:
    """Return the least or the greatest value of a sorted column; None if no bound is one."""
    column, rows = stored.group.columns[place], stored.in_group
    for page in column.pages or ():
        bound = page.minimum if first else page.maximum
        ends = page.first_row == rows.start if first else page.end_row == rows.stop
        if ends and bound is not None and len(bound) < SHORTENED:
            return value_of_bound(column.physical_type, bound)
    return None


def _one_value(value: Raw, arrow: pa.DataType) -> pa.Array | None:
    """Return an array of one integer or text; None for other types.

    Made of its buffers, as `pa.array` imports pandas.
    """
    if isinstance(value, int) and not pa.types.is_decimal(arrow):
        data = np.array([value], f"i{arrow.bit_width // 8}")
        return pa.Array.from_buffers(arrow, 1, [None, pa.py_buffer(data)])
    if isinstance(value, bytes) and pa.types.is_string(arrow):
        offsets = np.array([0, len(value)], np.int32)
        return pa.Array.from_buffers(arrow, 1, [None, pa.py_buffer(offsets), pa.py_buffer(value)])
    return None
