"""Writes batches of rows as data files of about the target size, with their metadata.

Java: `io/RollingFileWriterImpl`, `io/KeyValueDataFileWriter`, `io/RowDataFileWriter`.

A file ends after the batch (split if needed) with which it reaches the target size, or with the
row that makes it `target-file-row-num` rows if a writer and not a compaction fills it.  Compressed
sizes are known only once a row group is written, so sizes of buffered rows are estimated from the
rows on disk; for this reason, and because of the encoder, files end at other rows than in Java.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.environment import Environment
from paimon_core.errors import InvalidArgument
from paimon_core.external_paths import ExternalPaths
from paimon_core.format.blob.descriptor import dedicated_columns, parse_descriptor
from paimon_core.format.blob.elements import with_blobs
from paimon_core.format.blob.pack_references import REFERENCES_SUFFIX, references
from paimon_core.format.data_format import FormatWriter, open_writer
from paimon_core.format.parquet.writer import ROW_GROUP_BYTES, ParquetFileWriter
from paimon_core.index.file_index.writer import INDEX_SUFFIX, FileIndexWriter, indexed_columns
from paimon_core.io.file_io import FileIO, delete_abandoned, named_in_errors
from paimon_core.manifest.data_file import DataFileMeta, FileSource
from paimon_core.names import LARGEST_LONG
from paimon_core.options import (
    DATA_EVOLUTION_ENABLED,
    DATA_FILE_THIN_MODE,
    FILE_INDEX_IN_MANIFEST_THRESHOLD,
    TARGET_FILE_ROW_NUM,
)
from paimon_core.paths import TablePaths
from paimon_core.schema.key_value import RowKind, file_row_type
from paimon_core.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from paimon_core.types.arrow import arrow_schema, column_to_internal
from paimon_core.types.binary_row import encode_row
from paimon_core.types.buffers import fixed_values
from paimon_core.types.data_types import RowType
from paimon_core.types.not_null import missing_part
from paimon_core.write.file_layout import (
    FileLayout,
    append_layout,
    key_value_layout,
    target_file_size,
)
from paimon_core.write.file_stats import FileStats

CHECK_ROWS: Final = 1000
"""Java checks a file's size after this number of rows, so no file ends earlier."""
_RETRACTS: Final = (RowKind.UPDATE_BEFORE, RowKind.DELETE)


class _RollingWriter(ABC):
    """Base for both kinds of tables: writes file after file, each closed at the target size."""

    def __init__(
        self,
        io: FileIO,
        paths: TablePaths,
        partition: bytes,
        bucket: int,
        schema: TableSchema,
        layout: FileLayout,
        file_type: RowType,
        *,
        env: Environment,
        target: int | None,
        most_rows: int,
        row_group_bytes: int,
    ) -> None:
        self._io = io
        self._folder = paths.bucket_dir(partition, bucket)
        self._relative_folder = paths.relative_bucket_dir(partition, bucket)
        self._outside = ExternalPaths.of(schema.options)
        self._schema = schema
        self._layout = layout
        self._file_type = file_type
        self._arrow = arrow_schema(file_type)
        self._uuid = env.new_uuid()
        self._env = env
        self._target = target or target_file_size(
            schema.options, primary_key=bool(schema.primary_keys)
        )
        self._most_rows = most_rows
        self._row_group_bytes = min(row_group_bytes, self._target)
        self._indexed = indexed_columns(schema.options)
        self._index: FileIndexWriter | None = None
        self._stats: FileStats
        self._started = 0
        self._done: list[DataFileMeta] = []
        self._path = ""
        self._writer: FormatWriter | None = None
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows; InvalidArgument if a NOT NULL column has nulls.

        After an error the writer can only be aborted.
        """
        start = 0
        while start < batch.num_rows:
            writer = self._writer or self._open()
            rows = self._rows_to_target(batch, writer, start)
            part = batch.slice(start, rows)
            arrays = self._file_columns(part)
            self._check_nulls(arrays)
            with named_in_errors(self._path):
                writer.write(pa.RecordBatch.from_arrays(arrays, schema=self._arrow))
            self._collect(part, arrays)
            if self._index is not None:
                self._index.update(arrays[len(arrays) - len(self._schema.fields) :])
            start += rows
            if writer.bytes_written() >= self._target or self._rows >= self._most_rows:
                self._finish()

    def close(self) -> list[DataFileMeta]:
        """Close the last file and return the metadata of all files in order; empty without rows."""
        if self._writer is not None:
            self._finish()
        return self._done

    def abort(self) -> None:
        """Delete every file of this writer; files that cannot be deleted become orphans."""
        paths: list[str] = []
        if self._writer is not None:
            with suppress(OSError):
                self._writer.abort()
            self._writer = None
        if self._path:
            paths.append(self._path)
        for file in self._done:
            folder = self._folder_of(file)
            paths += [f"{folder}/{name}" for name in (file.file_name, *file.extra_files)]
        self._done = []
        delete_abandoned(self._io, paths)

    @abstractmethod
    def _file_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns of the file in order."""

    @abstractmethod
    def _begin(self) -> None:
        """Reset the statistics for a new file."""

    @abstractmethod
    def _collect(self, batch: pa.RecordBatch, arrays: list[pa.Array]) -> None:
        """Add the written rows to the statistics."""

    @abstractmethod
    def _describe(self, file_name: str, file_size: int) -> DataFileMeta:
        """Return the metadata of the file just finished."""

    def _open(self) -> FormatWriter:
        name = self._layout.name(self._uuid, self._started)
        self._path = (
            f"{self._folder}/{name}"
            if self._outside is None
            else self._outside.path(self._relative_folder, name)
        )
        self._started += 1
        self._writer = self._format_writer(self._path, self._row_group_bytes)
        self._begin()
        if isinstance(self._writer, ParquetFileWriter):
            self._stats.pass_over(self._writer.bounded)
        if self._indexed:
            self._index = FileIndexWriter(self._schema.row_type, self._indexed)
        return self._writer

    def _format_writer(self, path: str, row_group_bytes: int) -> FormatWriter:
        return open_writer(
            self._io,
            path,
            self._file_type,
            file_format=self._layout.file_format,
            compression=self._layout.compression,
            options=self._schema.options,
            row_group_bytes=row_group_bytes,
        )

    def _finish(self) -> None:
        assert self._writer is not None
        with named_in_errors(self._path):
            size = self._writer.close()
        if isinstance(self._writer, ParquetFileWriter):
            for name, nulls, bounds in self._writer.bounds():
                self._stats.add_known(name, nulls, bounds)
        self._writer = None
        file = self._describe(self._path.rsplit("/", 1)[1], size)
        if self._outside is not None:
            file = replace(file, external_path=self._path)
        # Recorded before its index is written: if that fails, both must be deleted.
        self._done.append(file)
        self._path = ""
        if self._index is not None:
            self._add_index(self._index.finish())

    def _add_index(self, data: bytes) -> None:
        """Embed the last file's index in its metadata, or write it as a file if it is large."""
        file = self._done[-1]
        if len(data) <= self._schema.options.value(FILE_INDEX_IN_MANIFEST_THRESHOLD):
            self._done[-1] = replace(file, embedded_index=data)
            return
        name = file.file_name + INDEX_SUFFIX
        self._done[-1] = replace(file, extra_files=(name,))
        self._io.write_bytes(f"{self._folder_of(file)}/{name}", data)

    def _folder_of(self, file: DataFileMeta) -> str:
        return self._folder if file.external_path is None else file.external_path.rsplit("/", 1)[0]

    def _rows_to_target(self, batch: pa.RecordBatch, writer: FormatWriter, start: int) -> int:
        """Return how many rows of the batch to write before checking the file's size again.

        Assumes half the Arrow size per row; a wrong estimate only costs additional checks.
        """
        left = batch.num_rows - start
        bytes_left = self._target - writer.bytes_written()
        rows: int = 2 * bytes_left * batch.num_rows // max(batch.nbytes, 1)
        return int(min(left, max(rows, CHECK_ROWS), self._most_rows - self._rows))

    def _check_nulls(self, arrays: list[pa.Array]) -> None:
        for array, field in zip(arrays, self._file_type.fields, strict=True):
            missing = missing_part(array, field.type, field.name)
            if missing is not None or (array.null_count and not field.type.nullable):
                raise InvalidArgument(
                    f"null in column {missing or field.name}, which is NOT NULL",
                    file=self._path,
                    next_step="make the column nullable again: older rows, or a merge by "
                    "partial-update or aggregation, leave it without a value",
                )


class RollingKeyValueWriter(_RollingWriter):
    """Writes key-value batches, sorted by key, as data files of one level, or as changelog files.

    `file_source` says whether a writer or a compaction wrote the rows; `row_group_bytes` limits the
    memory of a writer, as in `open_writer`.  The rows are sorted by `sort_type` instead of the key,
    if that is given, and the files have its bounds (Java: `KeyValueClusteringFileWriter`).
    """

    def __init__(
        self,
        io: FileIO,
        paths: TablePaths,
        partition: bytes,
        bucket: int,
        schema: TableSchema,
        *,
        level: int,
        file_source: FileSource,
        env: Environment,
        target_file_size: int | None = None,
        row_group_bytes: int = ROW_GROUP_BYTES,
        changelog: bool = False,
        sort_type: RowType | None = None,
    ) -> None:
        self._sort_type = sort_type or schema.key_type
        self._thin = schema.options.value(DATA_FILE_THIN_MODE)
        self._key_type = schema.key_type
        managed = set() if changelog else dedicated_columns(schema.row_type, schema.options)
        self._managed = [n for n in schema.names if n in managed]
        self._uris: set[str] = set()
        self._level = level
        self._source = file_source
        super().__init__(
            io,
            paths,
            partition,
            bucket,
            schema,
            key_value_layout(schema.options, level=level, changelog=changelog),
            file_row_type(schema.key_type, schema.row_type, thin=self._thin),
            env=env,
            target=target_file_size,
            most_rows=LARGEST_LONG
            if changelog
            else _most_rows(schema, file_source, target_file_size),
            row_group_bytes=row_group_bytes,
        )

    def _file_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        keys = () if self._thin else self._key_type.names
        names = (*keys, SEQUENCE_NUMBER, VALUE_KIND, *self._schema.names)
        return [batch.column(n) for n in names]

    def _begin(self) -> None:
        self._stats = FileStats(
            self._schema.row_type,
            self._schema.options,
            file_format=self._layout.file_format,
            stats_mode=self._layout.stats_mode,
            key_names=self._key_type.names,
            thin=self._thin,
        )
        self._rows = 0
        self._deletes = 0
        self._min_sequence: int | None = None
        self._max_sequence = 0
        self._min_key: bytes | None = None
        self._last: pa.RecordBatch | None = None
        self._uris = set()

    def _collect(self, batch: pa.RecordBatch, arrays: list[pa.Array]) -> None:
        self._stats.update(arrays[len(arrays) - len(self._schema.fields) :])
        self._rows += batch.num_rows
        kinds = fixed_values(batch.column(VALUE_KIND), np.int8)
        self._deletes += int(np.isin(kinds, _RETRACTS).sum())
        self._see_sequence(batch.column(SEQUENCE_NUMBER))
        if self._min_key is None:
            self._min_key = self._bound(batch.slice(0, 1))
        self._last = batch.slice(batch.num_rows - 1)
        for name in self._managed:
            for value in batch.column(name).to_pylist():
                with_blobs(value, lambda d: self._uris.add(parse_descriptor(d).uri))

    def _describe(self, file_name: str, file_size: int) -> DataFileMeta:
        value_stats, value_cols = self._stats.value_stats()
        return DataFileMeta(
            file_name=file_name,
            file_size=file_size,
            row_count=self._rows,
            min_key=self._min_key or b"",
            max_key=self._bound(self._last),
            key_stats=self._stats.key_stats(),
            value_stats=value_stats,
            min_sequence_number=self._min_sequence or 0,
            max_sequence_number=self._max_sequence,
            schema_id=self._schema.id,
            level=self._level,
            creation_time=self._env.local_millis(),
            delete_row_count=self._deletes,
            file_source=self._source,
            value_stats_cols=value_cols,
        )

    def _finish(self) -> None:
        super()._finish()
        if self._managed:
            # Java: `ManagedBlobReferenceCollector`.
            file = self._done[-1]
            name = file.file_name + REFERENCES_SUFFIX
            self._done[-1] = replace(file, extra_files=(*file.extra_files, name))
            self._io.write_bytes(f"{self._folder_of(file)}/{name}", references(self._uris))

    def _see_sequence(self, numbers: pa.Array) -> None:
        bounds = pc.min_max(numbers)
        self._widen_sequence(bounds["min"].as_py(), bounds["max"].as_py())

    def _widen_sequence(self, low: int, high: int) -> None:
        self._min_sequence = low if self._min_sequence is None else min(self._min_sequence, low)
        self._max_sequence = max(self._max_sequence, high)

    def _bound(self, row: pa.RecordBatch | None) -> bytes:
        assert row is not None
        values = [column_to_internal(row.column(f.name), f.type)[0] for f in self._sort_type]
        return encode_row(values, self._sort_type.types)


class RollingAppendWriter(_RollingWriter):
    """Writes plain batches as data files of a table without primary key.

    Rows are numbered from `first_sequence_number` on; a file's metadata holds the first and the
    last number.  With data evolution each file begins at 0, and all its rows get the number of the
    commit (`commit.row_tracking`).
    """

    def __init__(
        self,
        io: FileIO,
        paths: TablePaths,
        partition: bytes,
        bucket: int,
        schema: TableSchema,
        *,
        file_source: FileSource,
        env: Environment,
        first_sequence_number: int = 0,
        target_file_size: int | None = None,
        row_group_bytes: int = ROW_GROUP_BYTES,
    ) -> None:
        self._next = first_sequence_number
        self._source = file_source
        super().__init__(
            io,
            paths,
            partition,
            bucket,
            schema,
            append_layout(schema.options),
            schema.row_type,
            env=env,
            target=target_file_size,
            most_rows=_most_rows(schema, file_source, target_file_size),
            row_group_bytes=row_group_bytes,
        )

    def _file_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [batch.column(n) for n in self._schema.names]

    def _begin(self) -> None:
        self._rows = 0
        if self._schema.options.value(DATA_EVOLUTION_ENABLED):
            self._next = 0
        self._stats = FileStats(
            self._schema.row_type,
            self._schema.options,
            file_format=self._layout.file_format,
            stats_mode=self._layout.stats_mode,
        )

    def _collect(self, batch: pa.RecordBatch, arrays: list[pa.Array]) -> None:
        self._stats.update(arrays)
        self._rows += batch.num_rows
        self._next += batch.num_rows

    def _describe(self, file_name: str, file_size: int) -> DataFileMeta:
        value_stats, value_cols = self._stats.value_stats()
        return DataFileMeta(
            file_name=file_name,
            file_size=file_size,
            row_count=self._rows,
            value_stats=value_stats,
            min_sequence_number=self._next - self._rows,
            max_sequence_number=self._next - 1,
            schema_id=self._schema.id,
            creation_time=self._env.local_millis(),
            delete_row_count=0,
            file_source=self._source,
            value_stats_cols=value_cols,
        )


def _most_rows(schema: TableSchema, source: FileSource, size: int | None) -> int:
    """Return how many rows a file may have; without limit if it has a size of its own."""
    if source is FileSource.COMPACT or size is not None:
        return LARGEST_LONG
    return schema.options.value(TARGET_FILE_ROW_NUM)
