"""Copies row groups of stored Parquet files into new data files without decoding the pages.

The pages of a column are not read: its statistics are combined from those of the files.  A column
is decoded and encoded again only if necessary: because several chunks with their own dictionaries
must become one, because its statistics are unknown, or because its pages are so small that their
number would cost every reader more than the copy saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from paimon_core.format.data_format import open_assembler, parquet_zstd_level
from paimon_core.format.parquet.assembler import (
    ChunkSource,
    ParquetAssembler,
    encoded,
)
from paimon_core.format.parquet.chunks import StoredColumn, StoredGroup, joined, value_of
from paimon_core.format.parquet.writer import ROW_GROUP_BYTES
from paimon_core.format.stored_file import StoredFile
from paimon_core.io.file_io import named_in_errors
from paimon_core.options import Options
from paimon_core.types.data_types import AtomicType, DataField, RowType, TypeRoot
from paimon_core.write.data_file_writer import RollingAppendWriter
from paimon_core.write.file_layout import append_layout, small_file_size
from paimon_core.write.page_splice import (
    PageSplice,
    StoredRange,
    is_better_ended,
    leaf_ranges,
    takes_known,
)
from paimon_core.write.splice_writer import copied_codec

DECODED_BYTES: Final = 4 * ROW_GROUP_BYTES
"""The limit in Arrow bytes for columns that are decoded for one row group."""
PAGE_ROWS: Final = 4096
PAGE_BYTES: Final = 64 * 1024
"""A page with this number of rows, or of uncompressed bytes, is large enough to be kept."""
StoredRows = tuple[StoredFile, StoredGroup]
"""A row group and its file."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Statistics of a column of a row group: null count, and values that include the bounds."""

    nulls: int
    bounds: Sequence[Any] = ()


def copied_compression(options: Options) -> str | None:
    """Return the compression of the table's Parquet files; None if their pages cannot be copied."""
    return copied_codec(append_layout(options), options)


def are_large(pages: int, rows: int, unpacked: int) -> bool:
    """Return whether pages with these totals of rows and bytes are large enough on average."""
    return rows >= PAGE_ROWS * pages or unpacked >= PAGE_BYTES * pages


class RollingPageWriter(RollingAppendWriter):
    """A `RollingAppendWriter` of Parquet files that also copies row groups of other files.

    The table must have a `copied_compression`.
    """

    def take_over(self, parts: Sequence[StoredRows]) -> None:
        """Combine these into one row group, in order.

        Raises CorruptTable if a file's pages contradict its footer; then the writer can only be
        aborted.
        """
        if self._writer is not None and self._is_better_ended(sum(g.size for _, g in parts)):
            self._finish()
        writer = self._writer or self._open()
        assert isinstance(writer, ParquetAssembler)
        known = [self._known(number, parts) for number in range(len(self._leaves))]
        unknown = [number for number, column in enumerate(known) if column is None]
        decoded = self._decoded(unknown, parts) if unknown else []
        if decoded is None:
            self._divide(parts)
            return
        encoded_leaves = iter(self._encoded(unknown, decoded))
        chunks: list[Sequence[ChunkSource]] = []
        for number, column in enumerate(known):
            if column is None:
                chunks += [[next(encoded_leaves)] for _ in self._leaves[number]]
                continue
            self._stats.collector.add_known(number, column.nulls, column.bounds)
            chunks += [
                [ChunkSource(group.columns[leaf], file.read, file.path) for file, group in parts]
                for leaf in self._leaves[number]
            ]
        rows = sum(group.rows for _, group in parts)
        with named_in_errors(self._path):
            writer.take_over(rows, chunks)
        self._rows += rows
        self._next += rows
        if writer.bytes_written() >= self._target:
            self._finish()

    def take_rows(self, stored: StoredRange) -> None:
        """Add some rows of a row group, most of them as its pages.

        Raises CorruptTable as `take_over` does.
        """
        if self._writer is not None and self._is_better_ended(stored.size):
            self._finish()
        writer = self._writer or self._open()
        assert isinstance(writer, ParquetAssembler)
        with named_in_errors(self._path):
            leading = writer.held(stored.leading_bytes)
        splice = PageSplice(
            self._schema.row_type, self._compression, parquet_zstd_level(self._schema.options)
        )
        chunks = splice.chunks(leading, stored, self)
        rows = len(stored.rows)
        with named_in_errors(self._path):
            writer.take_over(sum(b.num_rows for b in leading) + rows, chunks)
        self._rows += rows
        self._next += rows
        if writer.bytes_written() >= self._target:
            self._finish()

    def knows(self, number: int, pages: StoredColumn) -> bool:
        """Take the statistics of copied pages of a column (`ColumnSink`)."""
        field = self._schema.row_type.fields[number]
        return takes_known(self._stats.collector, number, field, pages)

    def sees(self, number: int, values: pa.Array) -> None:
        """Take decoded values of a column (`ColumnSink`)."""
        self._stats.collector.update_column(number, values)

    @cached_property
    def _leaves(self) -> list[range]:
        """Return the leaf columns of the file for each column."""
        return leaf_ranges(self._schema.row_type)

    @property
    def _compression(self) -> str:
        return copied_compression(self._schema.options) or ""

    def _format_writer(self, path: str, row_group_bytes: int) -> ParquetAssembler:
        return open_assembler(
            self._io,
            path,
            self._file_type,
            compression=self._compression,
            options=self._schema.options,
            row_group_bytes=row_group_bytes,
        )

    def _is_better_ended(self, more: int) -> bool:
        """Return whether to end the file before `more` bytes are added."""
        assert self._writer is not None
        return is_better_ended(
            self._writer.bytes_written(),
            more,
            target=self._target,
            small=small_file_size(self._schema.options, primary_key=False),
        )

    def _known(self, number: int, parts: Sequence[StoredRows]) -> _Known | None:
        """Return the statistics of a copied column; None if it must be decoded."""
        field = self._schema.row_type.fields[number]
        leaves = self._leaves[number]
        columns = [[group.columns[leaf] for _, group in parts] for leaf in leaves]
        if len(parts) > 1 and not all(map(_can_be_one, columns)):
            return None
        collector = self._stats.collector
        if not collector.wants_counts(number):
            return _Known(0)
        nulls, low, high = joined(columns[0], field.type)
        if nulls is None:
            return None
        if not collector.wants_bounds(number) or nulls == sum(c.values or 0 for c in columns[0]):
            return _Known(nulls)
        assert isinstance(field.type, AtomicType)  # other types have no bounds
        if low is not None and high is not None:
            bounds = [value_of(low, field.type), value_of(high, field.type)]
        else:
            bounds = _bounds_of_files(field, parts, leaves.start)
        return None if None in bounds else _Known(nulls, bounds)

    def _decoded(
        self, numbers: Sequence[int], parts: Sequence[StoredRows]
    ) -> list[pa.RecordBatch] | None:
        """Return the rows with these columns only; None if they are too large for memory."""
        columns = self._columns(numbers)
        batches: list[pa.RecordBatch] = []
        held = 0
        for file, group in parts:
            for batch in file.rows(group, columns):
                batches.append(batch)
                held += batch.nbytes
                if held > DECODED_BYTES:
                    return None
        return batches

    def _encoded(
        self, numbers: Sequence[int], batches: Sequence[pa.RecordBatch]
    ) -> list[ChunkSource]:
        """Encode the leaves of these columns again and add their values to the statistics."""
        if not numbers:
            return []
        for batch in batches:
            for number, array in zip(numbers, batch.columns, strict=True):
                self._stats.collector.update_column(number, array)
        return encoded(
            batches,
            self._columns(numbers),
            compression=self._compression,
            zstd_level=parquet_zstd_level(self._schema.options),
        )

    def _divide(self, parts: Sequence[StoredRows]) -> None:
        """Take over fewer row groups at a time; decode and rewrite a single row group."""
        if len(parts) > 1:
            self.take_over(parts[: len(parts) // 2])
            self.take_over(parts[len(parts) // 2 :])
            return
        file, group = parts[0]
        for batch in file.rows(group, self._schema.row_type):
            self.write(batch)

    def _columns(self, numbers: Sequence[int]) -> RowType:
        return RowType(fields=tuple(self._schema.row_type.fields[n] for n in numbers))


def _can_be_one(chunks: Sequence[StoredColumn]) -> bool:
    """Return whether the chunks can, and should, be concatenated."""
    return not any(c.has_dictionary for c in chunks) and are_large(
        len(chunks), sum(c.values or 0 for c in chunks), sum(c.uncompressed or 0 for c in chunks)
    )


def _bounds_of_files(
    field: DataField, parts: Sequence[StoredRows], leaf: int
) -> list[float | None]:
    """Return the bounds of a FLOAT or DOUBLE column per file from its metadata; None if unknown."""
    if field.type.root not in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return [None]
    values: list[float | None] = []
    for file, group in parts:
        column = group.columns[leaf]
        if column.nulls == column.values:
            continue
        values += file.bounds().get(field.name, (None,))
    return values
