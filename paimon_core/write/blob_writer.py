"""Writes rows with BLOB columns (Java: `append/DedicatedFormatRollingFileWriter`).

Each BLOB column goes to files of its own, next to a data file with the other columns.  The BLOB
files of a data file hold exactly its rows and follow it in the message: the commit gives them its
row ids.  Columns of descriptors (`blob-descriptor-field`) stay in the data file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.commit.message import CommitMessage
from paimon_core.environment import Environment
from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.blob.descriptor import (
    OF_DESCRIPTORS,
    dedicated_columns,
    is_descriptor,
    parse_descriptor,
    read_descriptor,
)
from paimon_core.format.blob.elements import encoder_of
from paimon_core.format.blob.reader import OVERHEAD
from paimon_core.format.blob.view import BLOB_VIEW_FIELD, is_view, view_columns
from paimon_core.format.blob.writer import BlobFileWriter
from paimon_core.format.data_format import FormatWriter
from paimon_core.io.file_io import FileIO, named_in_errors
from paimon_core.manifest.data_file import DataFileMeta, FileSource, ManifestEntry
from paimon_core.options import (
    DATA_EVOLUTION_ENABLED,
    DATA_FILE_EXTERNAL_PATHS,
    DATA_FILE_PREFIX,
    FILE_FORMAT,
    STATS_DENSE_STORE,
    STATS_MODE,
    Option,
    Options,
    parse_memory_size,
)
from paimon_core.paths import TablePaths
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.data_types import DataType, TypeRoot, type_roots
from paimon_core.write.data_file_writer import RollingAppendWriter
from paimon_core.write.file_layout import target_file_size
from paimon_core.write.on_failure import aborted_on_failure

_TARGET: Final[Option[int | None]] = Option("blob.target-file-size", parse_memory_size, None)
_KEPT: Final = (
    DATA_EVOLUTION_ENABLED.key,
    DATA_FILE_PREFIX.key,
    STATS_DENSE_STORE.key,
    DATA_FILE_EXTERNAL_PATHS.key,
    OF_DESCRIPTORS,
)


class RollingBlobWriter(RollingAppendWriter):
    """A writer of plain batches of a table with BLOB columns.

    `content` returns the bytes to store for a value.
    """

    def __init__(
        self,
        io: FileIO,
        paths: TablePaths,
        partition: bytes,
        bucket: int,
        schema: TableSchema,
        *,
        content: Callable[[bytes], bytes],
        file_source: FileSource,
        env: Environment,
        first_sequence_number: int = 0,
        target_file_size: int | None = None,
    ) -> None:
        dedicated = dedicated_columns(schema.row_type, schema.options)
        plain = tuple(f for f in schema.fields if f.name not in dedicated)
        super().__init__(
            io,
            paths,
            partition,
            bucket,
            replace(schema, fields=plain),
            file_source=file_source,
            env=env,
            first_sequence_number=first_sequence_number,
            target_file_size=target_file_size,
        )
        self._inline = [f.name for f in plain if _is_blob(f.type)]
        blobs = [name for name in schema.names if name in dedicated]
        target = blob_target(schema.options, primary_key=False)

        def open_blobs() -> dict[str, BlobColumnWriter]:
            return {
                name: BlobColumnWriter(
                    io,
                    paths,
                    partition,
                    bucket,
                    blob_column_schema(schema, name),
                    content=content,
                    file_source=file_source,
                    env=env,
                    target_file_size=target,
                )
                for name in blobs
            }

        self._open_blobs = open_blobs
        self._blobs: dict[str, BlobColumnWriter] = {}

    def abort(self) -> None:
        for writer in self._blobs.values():
            writer.abort()
        super().abort()

    def _begin(self) -> None:
        super()._begin()
        self._blobs = self._open_blobs()

    def _collect(self, batch: pa.RecordBatch, arrays: list[pa.Array]) -> None:
        for name in self._inline:
            check_inline(batch.column(name), name, self._schema.options)
        super()._collect(batch, arrays)
        for name, writer in self._blobs.items():
            writer.write(batch.select([name]))

    def _finish(self) -> None:
        super()._finish()
        for name in list(self._blobs):
            self._done += self._blobs[name].close()
            del self._blobs[name]

    def _describe(self, file_name: str, file_size: int) -> DataFileMeta:
        return replace(super()._describe(file_name, file_size), write_cols=self._schema.names)


class BlobColumnWriter(RollingAppendWriter):
    """Writes one column of BLOBs; the schema has this column only."""

    def __init__(
        self,
        io: FileIO,
        paths: TablePaths,
        partition: bytes,
        bucket: int,
        schema: TableSchema,
        *,
        content: Callable[[bytes], bytes],
        file_source: FileSource,
        env: Environment,
        target_file_size: int,
    ) -> None:
        (column,) = schema.fields
        self._encode = encoder_of(column.type, content)
        super().__init__(
            io,
            paths,
            partition,
            bucket,
            schema,
            file_source=file_source,
            env=env,
            target_file_size=target_file_size,
        )

    def write_placeholders(self, rows: int) -> None:
        """Leave the values of the next rows to older files."""
        if self._writer is None:
            self._open()
        with named_in_errors(self._path):
            self._file.write_placeholders(rows)
        self._rows += rows

    def _format_writer(self, path: str, row_group_bytes: int) -> FormatWriter:  # noqa: ARG002 - has none
        self._file = BlobFileWriter(self._io.open_output(path), self._encode)
        return self._file

    def _rows_to_target(self, batch: pa.RecordBatch, writer: FormatWriter, start: int) -> int:
        """Return the rows up to the one that reaches the target: Java checks after every BLOB."""
        sizes = pc.add(_sizes(batch.column(0)[start:]), OVERHEAD)
        ends = np.cumsum(pc.fill_null(sizes, 0).to_numpy(zero_copy_only=False))
        left = self._target - writer.bytes_written()
        return min(int(np.searchsorted(ends, left)) + 1, len(ends))

    def _describe(self, file_name: str, file_size: int) -> DataFileMeta:
        return replace(super()._describe(file_name, file_size), write_cols=self._schema.names)


def blob_target(options: Options, *, primary_key: bool) -> int:
    """Return the size at which files of BLOBs end."""
    return options.value(_TARGET) or target_file_size(options, primary_key=primary_key)


def write_blob_column(
    table: FileStoreTable,
    base: ManifestEntry,
    values: pa.RecordBatch,
    stays: Sequence[bool],
    *,
    env: Environment,
) -> CommitMessage:
    """Write new values of a BLOB column for the rows of the file `base`; return the message.

    `values` has the column and all rows; those that stay get placeholders.
    """
    schema = table.schema
    writer = BlobColumnWriter(
        table.io,
        table.paths,
        base.partition,
        base.bucket,
        blob_column_schema(schema, values.schema.names[0]),
        content=partial(blob_content, table.io, table.root, schema.options),
        file_source=FileSource.APPEND,
        env=env,
        target_file_size=blob_target(schema.options, primary_key=False),
    )
    with aborted_on_failure((writer,)):
        at = 0
        for kept, run in groupby(stays):
            rows = sum(1 for _ in run)
            if kept:
                writer.write_placeholders(rows)
            else:
                writer.write(values.slice(at, rows))
            at += rows
        files, first = [], base.file.first_row_id or 0
        for file in writer.close():
            # Sequence numbers of 0 become those of the commit (`commit.row_tracking`).
            files.append(
                replace(file, first_row_id=first, min_sequence_number=0, max_sequence_number=0)
            )
            first += file.row_count
    return CommitMessage(
        partition=base.partition,
        bucket=base.bucket,
        total_buckets=base.total_buckets,
        new_files=tuple(files),
    )


def _is_blob(data_type: DataType) -> bool:
    return TypeRoot.BLOB in type_roots(data_type)


def check_inline(column: pa.Array | pa.ChunkedArray, name: str, options: Options) -> None:
    """Raise InvalidArgument unless all values are descriptors, or views in a column of such."""
    viewed = name in view_columns(options)
    holds = is_view if viewed else is_descriptor
    if all(holds(value.as_py()) for value in column if value.is_valid):
        return
    if viewed:
        what, call = f"views ({BLOB_VIEW_FIELD})", "sys.blob_view(table, column, row id)"
    else:
        what, call = "descriptors of BLOBs (blob-descriptor-field)", "sys.path_to_descriptor(path)"
    raise InvalidArgument(
        f"column {name} stores {what}, and a value is none",
        next_step=f"pass {call}, or declare the column by __BLOB_FIELD",
    )


def _sizes(column: pa.Array) -> pa.Array:
    """Return the bytes of each value, of arrays and maps without their lengths and keys."""
    if pa.types.is_map(column.type) or pa.types.is_list(column.type):
        values = column.items if pa.types.is_map(column.type) else column.values
        ends = np.concatenate([[0], np.cumsum(pc.fill_null(_sizes(values), 0).to_numpy())])
        offsets = column.offsets.to_numpy()
        return pa.array(ends[offsets[1:]] - ends[offsets[:-1]])
    return pc.cast(pc.binary_length(column), pa.int64())


def blob_column_schema(schema: TableSchema, name: str) -> TableSchema:
    """Return the schema of the files of one column of BLOBs."""
    options = {k: v for k, v in schema.options.items() if k.startswith(_KEPT)}
    options |= {FILE_FORMAT.key: "blob", STATS_MODE.key: "none"}
    fields = tuple(f for f in schema.fields if f.name == name)
    return replace(schema, fields=fields, options=Options(options))


def blob_content(io: FileIO, root: str, options: Options, value: bytes) -> bytes:
    """Return the bytes to store: those that the value describes if it is a descriptor.

    Java: `Blob.fromBytes`.  InvalidArgument for a descriptor of a file that cannot be read.
    """
    if not is_descriptor(value):
        return value
    try:
        return read_descriptor(io, root, parse_descriptor(value), options)
    except (OSError, ValueError) as e:
        raise InvalidArgument(f"cannot read the BLOB that a descriptor names: {e}") from e
