"""Compacts append files by copying their pages, with almost no decoding.

The rows of an append table do not change when its files are joined.  If the files are Parquet with
the table's current columns and compression, their pages are copied unchanged into the new file,
which takes a fraction of the time.  Other files are decoded in their turn; if these are most of the
bytes, all files are decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_core.compaction.unit import CompactUnit
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.data_format import format_of
from paimon_core.format.parquet.assembler import COPIED_CODECS, layout_like
from paimon_core.format.parquet.writer import ROW_GROUP_BYTES
from paimon_core.format.stored_file import StoredFile, open_stored_file
from paimon_core.index.file_index.writer import indexed_columns
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.read.ahead import one_after_the_other, source_of
from paimon_core.read.data_file import missing_data_file
from paimon_core.scan.prune import column_stats
from paimon_core.types.data_types import RowType
from paimon_core.write.file_layout import target_file_size
from paimon_core.write.page_writer import (
    RollingPageWriter,
    StoredRows,
    are_large,
    copied_compression,
)


@dataclass(frozen=True, slots=True)
class PageCopy:
    """The files of a unit, and the layout that a file needs for its pages to be copied."""

    table: FileStoreTable
    unit: CompactUnit
    like: pq.FileMetaData
    codec: str
    copied: frozenset[str]

    @staticmethod
    def of(table: FileStoreTable, unit: CompactUnit) -> PageCopy | None:
        """Return the work; None if the rows must be decoded.

        That is the case for another format, for a compression that Parquet does not identify, for
        file indexes, which are built from values, for files with other columns, and for files with
        so few rows that encoding them together gives a better file.  The caller handles rows
        deleted by deletion vectors.
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
        )

    def run(
        self,
        writer: RollingPageWriter,
        decode: Callable[[DataFileMeta], Iterator[pa.RecordBatch]],
        progress: Callable[[int], None],
    ) -> None:
        """Pass all rows to the writer in the order of the files.

        `decode` yields the rows of a file that cannot be copied; `progress` gets the number of rows
        written.  Raises CorruptTable if a file is missing or contradicts its metadata.
        """
        limit = min(ROW_GROUP_BYTES, target_file_size(self.table.options, primary_key=False))
        waiting = _Waiting(writer, progress)
        sources = [source_of(f.file_size, self._opened, f) for f in self.unit.append_files]
        try:
            for item in one_after_the_other(self.table.io, sources):
                if isinstance(item, StoredFile):
                    waiting.add(item, limit)
                    continue
                waiting.flush()
                for batch in decode(item):
                    writer.write(batch)
                    progress(batch.num_rows)
            waiting.flush()
        finally:
            waiting.close()

    def _opened(self, file: DataFileMeta) -> Iterator[StoredFile | DataFileMeta]:
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
        yield opened or file


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
