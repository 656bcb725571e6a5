"""Compacts append files by copying their pages, with almost no decoding.

The rows of an append table do not change when its files are joined.  If the files are Parquet with
the table's current columns and compression, their pages are copied unchanged into the new file,
which takes a fraction of the time.  Other files are decoded in their turn; if these are most of the
bytes, all files are decoded.  Of a file with a deletion vector, the pages between deleted rows are
copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_core.compaction.unit import CompactUnit
from paimon_core.compaction.untouched import untouched
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.data_format import format_of
from paimon_core.format.parquet.assembler import COPIED_CODECS, layout_like
from paimon_core.format.parquet.writer import ROW_GROUP_BYTES
from paimon_core.format.stored_file import StoredFile, open_stored_file
from paimon_core.index.deletion_vectors import NOTHING_DELETED, Positions
from paimon_core.index.file_index.writer import indexed_columns
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.read.data_file import missing_data_file
from paimon_core.read.read_ahead import one_after_the_other, source_of
from paimon_core.scan.prune import column_stats
from paimon_core.types.data_types import RowType
from paimon_core.write.file_layout import target_file_size
from paimon_core.write.page_splice import StoredRange
from paimon_core.write.page_writer import (
    RollingPageWriter,
    StoredRows,
    are_large,
    copied_compression,
)

LEAST_BYTES: Final = 4 * 1024 * 1024
"""Fewer bytes of a file in a row are decoded: each copy costs pages that are encoded again."""
MOST_BYTES: Final = 128 * 1024 * 1024
"""The uncompressed bytes of a row group of copied pages; larger ones are divided."""


@dataclass(frozen=True, slots=True)
class PageCopy:
    """The files of a unit, and the layout that a file needs for its pages to be copied."""

    table: FileStoreTable
    unit: CompactUnit
    like: pq.FileMetaData
    codec: str
    copied: frozenset[str]
    vectors: Mapping[str, Positions]

    @staticmethod
    def of(
        table: FileStoreTable, unit: CompactUnit, vectors: Mapping[str, Positions]
    ) -> PageCopy | None:
        """Return the work; None if the rows must be decoded.

        That is the case for another format, for a compression that Parquet does not identify, for
        file indexes, which are built from values, for files with other columns, and for files with
        so few rows that encoding them together gives a better file.
        """
        compression = copied_compression(table.options)
        if compression is None or indexed_columns(table.options):
            return None
        files = unit.append_files
        copied = [
            f
            for f in files
            if format_of(f.file_name) == "parquet" and has_current_columns(table, f)
        ]
        size, rows = sum(f.file_size for f in copied), sum(f.row_count for f in copied)
        columns = len(copied) * len(table.schema.fields)
        if 2 * size < unit.rewritten_bytes or not are_large(
            columns, rows * len(table.schema.fields), size
        ):
            return None
        return PageCopy(
            table,
            unit,
            layout_like(table.schema.row_type, compression),
            COPIED_CODECS[compression],
            frozenset(f.file_name for f in copied),
            vectors,
        )

    def run(
        self,
        writer: RollingPageWriter,
        decode: Callable[[DataFileMeta, range | None], Iterator[pa.RecordBatch]],
        progress: Callable[[int], None],
    ) -> None:
        """Pass all rows to the writer in the order of the files.

        `decode` yields rows that cannot be copied, of a whole file or of a part, without the
        deleted ones; `progress` gets the number of rows written.  Raises CorruptTable if a file is
        missing or contradicts its metadata.
        """
        limit = min(ROW_GROUP_BYTES, target_file_size(self.table.options, primary_key=False))
        waiting = _Waiting(writer, progress)
        sources = [source_of(f.file_size, self._opened, f) for f in self.unit.append_files]
        try:
            for item in one_after_the_other(self.table.io, sources):
                if isinstance(item, _Opened) and item.deleted is None:
                    waiting.add(item.stored, limit)
                    continue
                waiting.flush()
                if isinstance(item, _Opened):
                    self._copy_between(item, writer, decode, progress)
                    continue
                for batch in decode(item, None):
                    writer.write(batch)
                    progress(batch.num_rows)
            waiting.flush()
        finally:
            waiting.close()

    def _copy_between(
        self,
        opened: _Opened,
        writer: RollingPageWriter,
        decode: Callable[[DataFileMeta, range | None], Iterator[pa.RecordBatch]],
        progress: Callable[[int], None],
    ) -> None:
        """Copy the pages between the deleted rows of a file, and decode the others."""
        done = 0

        def decode_up_to(row: int) -> None:
            for batch in decode(opened.file, range(done, row)) if row > done else ():
                writer.write(batch)
                progress(batch.num_rows)

        with closing(opened.stored):
            for stored in opened.between():
                decode_up_to(stored.rows.start)
                writer.take_rows(stored)
                progress(len(stored.rows))
                done = stored.rows.stop
            decode_up_to(opened.file.row_count)

    def _opened(self, file: DataFileMeta) -> Iterator[_Opened | DataFileMeta]:
        """Yield the open file, or its metadata if it must be decoded."""
        if file.file_name not in self.copied:
            yield file
            return
        path = self.table.paths.data_file(self.unit.partition, self.unit.bucket, file)
        try:
            opened = open_stored_file(
                self.table.io,
                path,
                size=file.file_size,
                rows=file.row_count,
                like=self.like,
                codec=self.codec,
                bounds=cache(partial(_bounds, self.table, file)),
            )
        except FileNotFoundError as e:
            raise missing_data_file(path) from e
        yield file if opened is None else _Opened(file, opened, self.vectors.get(file.file_name))


@dataclass(frozen=True, slots=True)
class _Opened:
    """An open file, its metadata, and its deleted rows; None if there are none."""

    file: DataFileMeta
    stored: StoredFile
    deleted: Positions | None

    def between(self) -> Iterator[StoredRange]:
        """Yield the rows to copy."""
        deleted = NOTHING_DELETED if self.deleted is None else self.deleted
        for group in self.stored.groups:
            pages = group.columns[0].pages
            if pages is None or not group.rows:
                continue
            first = group.first_row
            for rows in untouched(
                [first, *(first + p.end_row for p in pages)],
                deleted,
                least=max(1, LEAST_BYTES * group.rows // max(1, group.size)),
                most=max(1, MOST_BYTES * group.rows // max(1, group.uncompressed)),
            ):
                yield StoredRange(self.stored, group, rows)


class _Waiting:
    """Row groups that will be joined into one."""

    __slots__ = ("_bytes", "_parts", "_progress", "_writer")

    def __init__(self, writer: RollingPageWriter, progress: Callable[[int], None]) -> None:
        self._writer = writer
        self._progress = progress
        self._parts: list[StoredRows] = []
        self._bytes = 0

    def add(self, file: StoredFile, limit: int) -> None:
        """Add the groups of a file; write groups once they have `limit` uncompressed bytes."""
        for group in file.groups:
            if self._bytes + group.uncompressed > limit:
                self.flush()
            self._parts.append((file, group))
            self._bytes += group.uncompressed
        if not file.groups:
            file.close()

    def flush(self) -> None:
        if self._parts:
            self._writer.take_over(self._parts)
            self._progress(sum(group.rows for _, group in self._parts))
        for file, group in self._parts:
            if group is file.groups[-1]:
                file.close()
        self._parts = []
        self._bytes = 0

    def close(self) -> None:
        """Close the files that were not written."""
        for file, _ in self._parts:
            file.close()


def has_current_columns(table: FileStoreTable, file: DataFileMeta) -> bool:
    """Return whether the file has the table's current columns."""
    return file.schema_id == table.schema.id or _columns(
        table.schema_of(file.schema_id).row_type
    ) == _columns(table.schema.row_type)


def _columns(row_type: RowType) -> list[tuple[object, ...]]:
    return [(f.id, f.name, f.type) for f in row_type.fields]


def _bounds(table: FileStoreTable, file: DataFileMeta) -> Mapping[str, tuple[float, float]]:
    """Return minimum and maximum of FLOAT and DOUBLE columns for which the metadata has both."""
    stats = column_stats(file, table.schema_of(file.schema_id))
    return {
        name: (low, high)
        for name, (low, high, _) in stats.items()
        if isinstance(low, float) and isinstance(high, float)
    }
