"""Reads the rows of one data file with the current schema (Java: `FormatReaderMapping`).

- Fields are selected by id: the file's own schema gives the name and type of a field in the file;
  `evolution` converts it to its current type.
- `_KEY_x` repeats the values of `x`, so it is never decoded; files in thin mode need no special
  handling.
- Partition columns come from the partition, not from the file: all its rows have the same value,
  and files migrated from Hive do not hold these columns.
- With `sequence.snapshot-ordering`, rows that a writer wrote have the number of their snapshot,
  which the file's metadata holds, and not the numbers in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from paimon_core.errors import CorruptTable, missing_file
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.data_format import BATCH_ROWS, format_of, read_batches
from paimon_core.format.parquet.row_window import PagedFile
from paimon_core.io.file_io import FileIO
from paimon_core.manifest.data_file import DataFileMeta, FileSource
from paimon_core.options import SNAPSHOT_ORDERING
from paimon_core.read.evolution import evolve, readable
from paimon_core.schema.key_value import KIND_FIELD, SEQUENCE_FIELD, kv_schema
from paimon_core.schema.table_schema import SEQUENCE_NUMBER, TableSchema
from paimon_core.types.arrow import arrow_schema, arrow_type, column_from_internal
from paimon_core.types.binary_row import decode_row, row_arity
from paimon_core.types.data_types import DataField, RowType, TypeRoot


def read_data_file(
    table_io: FileIO,
    path: str,
    meta: DataFileMeta,
    *,
    file_schema: TableSchema,
    read_type: RowType,
    key_value: bool,
    batch_rows: int = BATCH_ROWS,
    partition: bytes | None = None,
    use_threads: bool = False,
    rows: range | None = None,
    footers: dict[str, PagedFile] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the file's rows in file order, as key-value batches or plain ones.

    `file_schema` is the schema of `meta.schema_id`, `read_type` the wanted fields of the current
    one.  If `partition` is given, partition columns are taken from it.  Only `rows` are yielded, if
    given, and `footers` are kept, as in `read_batches`.  Raises CorruptTable if the file is
    missing, cannot be decoded, has another number of rows than its metadata, has rows without
    key, kind or sequence number, or keys that its schema does not know.
    """
    if not file_schema.primary_keys and row_arity(meta.min_key):
        raise CorruptTable(
            f"a data file has rows of a table with a primary key, but schema {meta.schema_id} of the "
            "table has none",
            file=path,
        )
    mapping = _Mapping.of(file_schema, read_type, partition=partition, key_value=key_value)
    snapshot = _snapshot_of(meta, file_schema, path) if key_value else None
    count = 0
    try:
        for batch in read_batches(
            table_io,
            path,
            mapping.in_file,
            file_format=format_of(meta.file_name),
            batch_rows=batch_rows,
            use_threads=use_threads,
            options=file_schema.options,
            rows=rows,
            size=meta.file_size,
            footers=footers,
        ):
            count += batch.num_rows
            mapping.check(batch, path)
            rows_now = mapping.apply(batch)
            if snapshot is not None:
                rows_now = _numbered(rows_now, snapshot)
            yield rows_now
    except FileNotFoundError as e:
        raise missing_data_file(path) from e
    expected = meta.row_count if rows is None else len(rows)
    if count != expected:
        raise CorruptTable(
            f"a data file holds {count} rows where its metadata says {expected}", file=path
        )


def read_table_file(
    table: FileStoreTable,
    partition: bytes,
    bucket: int,
    file: DataFileMeta,
    read_type: RowType,
    *,
    key_value: bool = False,
    batch_rows: int = BATCH_ROWS,
    rows: range | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file of the table, all or some of them, as `read_data_file` does."""
    return read_data_file(
        table.io,
        table.paths.data_file(partition, bucket, file),
        file,
        file_schema=table.schema_of(file.schema_id),
        read_type=read_type,
        key_value=key_value,
        batch_rows=batch_rows,
        partition=partition_to_read(table.schema, file, partition) if key_value else partition,
        rows=rows,
    )


def _snapshot_of(meta: DataFileMeta, schema: TableSchema, path: str) -> int | None:
    """Return the sequence number of all rows of the file; None if the file has them.

    Java: `KeyValueFileReaderFactory.createRecordReader`.
    """
    if not schema.options.value(SNAPSHOT_ORDERING):
        return None
    if meta.file_source is None:
        raise CorruptTable(
            f"{SNAPSHOT_ORDERING.key} needs to know whether a writer or a compaction wrote a data file, "
            "and its metadata does not say",
            file=path,
        )
    return meta.min_sequence_number if meta.file_source is FileSource.APPEND else None


def _numbered(batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
    place = batch.schema.get_field_index(SEQUENCE_NUMBER)
    numbers = pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows)
    return batch.set_column(place, batch.schema.field(place), numbers)


def partition_to_read(schema: TableSchema, meta: DataFileMeta, partition: bytes) -> bytes | None:
    """Return the partition if a file of a primary-key table may hold other values than it does.

    ORC loses the blanks at the end of a CHAR.  Other files hold what the partition holds, and
    reading a column is cheaper than making one.
    """
    chars = any(t.root is TypeRoot.CHAR for t in schema.partition_type.types)
    return partition if chars and format_of(meta.file_name) == "orc" else None


def missing_data_file(path: str) -> CorruptTable:
    """Return the error for a data file that a snapshot names but that does not exist."""
    return missing_file("a data file", path)


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of a wanted field: a column of the file, a constant, or none (null)."""

    field: DataField
    column: int | None = None
    stored: DataField | None = None
    constant: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class _Mapping:
    in_file: RowType
    system_columns: int
    never_null: tuple[int, ...]
    sources: tuple[_Source, ...]
    schema: pa.Schema
    identity: bool

    @staticmethod
    def of(
        file_schema: TableSchema, read_type: RowType, *, partition: bytes | None, key_value: bool
    ) -> _Mapping:
        stored = {f.id: f for f in file_schema.fields}
        constants = _partition_values(file_schema, partition)
        in_file: list[DataField] = [SEQUENCE_FIELD, KIND_FIELD] if key_value else []
        system_columns = len(in_file)
        keys = file_schema.trimmed_primary_keys if key_value else ()
        sources = []
        for field in read_type.fields:
            source = stored.get(field.id)
            if source is None or not readable(source.type, field.type):
                sources.append(_Source(field))
            elif source.name in constants:
                column = evolve(constants[source.name], source.type, field.type)
                sources.append(_Source(field, constant=column))
            else:
                sources.append(_Source(field, len(in_file), source))
                in_file.append(source)
        return _Mapping(
            RowType(nullable=False, fields=tuple(in_file)),
            system_columns,
            tuple(
                i
                for i, f in enumerate(in_file)
                if i < system_columns or (f.name in keys and not f.type.nullable)
            ),
            tuple(sources),
            kv_schema(read_type) if key_value else arrow_schema(read_type),
            tuple(in_file[system_columns:]) == read_type.fields,
        )

    def check(self, batch: pa.RecordBatch, path: str) -> None:
        """Raise CorruptTable for rows that cannot be merged.

        A column whose name in the footer is damaged is read as nulls, and merging them would
        silently choose wrong rows.
        """
        for place in self.never_null:
            if batch.column(place).null_count:
                name = self.in_file.names[place]
                raise CorruptTable(f"a data file holds rows without {name}", file=path)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.identity:
            return batch
        arrays = [batch.column(i) for i in range(self.system_columns)]
        arrays += [_column(batch, source) for source in self.sources]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _column(batch: pa.RecordBatch, source: _Source) -> pa.Array:
    if source.column is not None and source.stored is not None:
        return evolve(batch.column(source.column), source.stored.type, source.field.type)
    if source.constant is not None:
        return pa.repeat(source.constant[0], batch.num_rows)
    return pa.nulls(batch.num_rows, arrow_type(source.field.type))


def _partition_values(schema: TableSchema, partition: bytes | None) -> dict[str, pa.Array]:
    if partition is None or not schema.partition_keys:
        return {}
    types = schema.partition_type.types
    values = decode_row(partition, types)
    return {
        name: column_from_internal([value], t)
        for name, value, t in zip(schema.partition_keys, values, types, strict=True)
    }
