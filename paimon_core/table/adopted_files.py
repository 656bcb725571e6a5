"""Takes data files of other systems into a table, byte by byte (Java: `migrate/FileMetaUtils`).

Java reads the statistics from the file's footer.  Here all rows of the copy are decoded instead:
what a later read could not decode, or would take for other values, is refused while the file is
still elsewhere too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from paimon_core.environment import Environment
from paimon_core.errors import CorruptTable, InvalidArgument, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.data_format import open_data_file, read_batches
from paimon_core.format.stored_columns import stored_columns
from paimon_core.io.file_io import FileIO, FileStat, delete_abandoned, named_in_errors
from paimon_core.manifest.data_file import DataFileMeta, FileSource
from paimon_core.options import Options
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.arrow import arrow_type
from paimon_core.types.data_types import RowType
from paimon_core.types.not_null import missing_part
from paimon_core.write.file_layout import append_layout
from paimon_core.write.file_stats import FileStats

FORMATS: Final = ("parquet", "orc", "avro")
_CHUNK: Final = 8 * 1024 * 1024
_REWRITE: Final = (
    "let CREATE TABLE ... AS SELECT copy the rows into a new table, or rewrite the file in the system "
    "that wrote it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherFile:
    """A file of another system, its format, and the name of its copy without the extension."""

    io: FileIO
    stat: FileStat
    file_format: str
    name: str


def adopt_file(
    table: FileStoreTable, partition: bytes, other: OtherFile, *, env: Environment
) -> DataFileMeta | None:
    """Copy the file into bucket 0 of the partition and describe it; None if it has no rows.

    Values of partition columns are those of the partition, as in Java.  UnsupportedFeature for
    columns that the copy would be read without or as other values, InvalidArgument for nulls in
    NOT NULL columns, CorruptTable for what cannot be decoded: then no copy is left.
    """
    path = other.stat.path
    if other.file_format not in FORMATS:
        raise UnsupportedFeature(
            f"data files of the format {other.file_format}",
            f"data files cannot be {other.file_format}, but {', '.join(FORMATS)}",
            table=table.name,
            file=path,
            next_step="let CREATE TABLE ... AS SELECT copy the rows into a new table",
        )
    schema = table.schema
    keys = schema.partition_keys
    value_type = schema.row_type.project([n for n in schema.names if n not in keys])
    with named_in_errors(path), open_data_file(other.io, path) as source:
        stored = stored_columns(source, other.file_format, path)
    _check_columns(stored, value_type, _UNITS[other.file_format], table.name, path)
    prefix = append_layout(schema.options).prefix
    name = f"{prefix}{other.name}.{other.file_format}"
    copy = f"{table.paths.bucket_dir(partition, 0)}/{name}"
    try:
        _copy(other, table.io, copy)
        stats, rows = _measured(table.io, copy, other, schema, value_type)
    except BaseException:
        delete_abandoned(table.io, [copy])
        raise
    if not rows:
        delete_abandoned(table.io, [copy])
        return None
    value_stats, value_cols = stats.value_stats()
    return DataFileMeta(
        file_name=name,
        file_size=other.stat.size,
        row_count=rows,
        value_stats=value_stats,
        schema_id=schema.id,
        creation_time=env.local_millis(),
        delete_row_count=0,
        file_source=FileSource.APPEND,
        value_stats_cols=value_cols,
    )


def _copy(other: OtherFile, io: FileIO, copy: str) -> None:
    size = 0
    with (
        named_in_errors(other.stat.path),
        other.io.open_input(other.stat.path) as source,
        named_in_errors(copy),
        io.open_output(copy) as target,
    ):
        while chunk := source.read(_CHUNK):
            target.write(chunk)
            size += len(chunk)
    if size != other.stat.size:
        raise CorruptTable(
            f"the file has {size:,} bytes, and had {other.stat.size:,} when it was listed",
            file=other.stat.path,
            next_step="run again when nobody writes to it",
        )


def _measured(
    io: FileIO, copy: str, other: OtherFile, schema: TableSchema, value_type: RowType
) -> tuple[FileStats, int]:
    """The statistics of the copy, and its rows; those of partition columns stay unknown.

    The file need not have these, and a reader that took their statistics for those of columns in it
    would see nulls.
    """
    unknown = {f"fields.{key}.stats-mode": "none" for key in schema.partition_keys}
    stats = FileStats(
        schema.row_type,
        Options({**schema.options, **unknown}),
        file_format=other.file_format,
        stats_mode=append_layout(schema.options).stats_mode,
    )
    places = {name: i for i, name in enumerate(value_type.names)}
    rows = 0
    for batch in read_batches(
        io, copy, value_type, file_format=other.file_format, options=schema.options
    ):
        rows += batch.num_rows
        for array, field in zip(batch.columns, value_type.fields, strict=True):
            missing = missing_part(array, field.type, field.name)
            if missing is not None or (array.null_count and not field.type.nullable):
                raise InvalidArgument(
                    f"null in column {missing or field.name}, which is NOT NULL",
                    file=other.stat.path,
                    next_step="make the column nullable",
                )
        stats.update(
            [
                batch.column(places[f.name])
                if f.name in places
                else pa.nulls(batch.num_rows, arrow_type(f.type))
                for f in schema.fields
            ]
        )
    return stats, rows


# --- columns --------------------------------------------------------------------------------------


def _check_columns(
    stored: pa.Schema, wanted: RowType, units: Sequence[str], table: str, path: str
) -> None:
    """UnsupportedFeature unless Paimon reads the columns of the table from those of the file.

    A column that is missing was added later; one of the same name in other capitals is not.
    """
    found = {f.name: f.type for f in stored}
    by_case = {name.lower(): name for name in found}
    for field in wanted.fields:
        kind = found.get(field.name)
        other = by_case.get(field.name.lower())
        if kind is None and other is not None:
            raise _refused(f"the column {field.name} is called {other} in the file", table, path)
        if kind is not None and not _is_read_as(kind, arrow_type(field.type), units):
            raise _refused(
                f"the column {field.name} holds {kind}, and not {arrow_type(field.type)}",
                table,
                path,
            )
    if wanted.names and found and not set(wanted.names) & set(found):
        raise _refused(
            f"the file has the columns {_some(list(found))}, and none of the table's", table, path
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def _refused(reason: str, table: str, path: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        "columns that a data file holds otherwise than the table",
        f"the file does not fit table {table}: {reason}",
        table=table,
        file=path,
        next_step=_REWRITE,
    )


def _is_read_as(stored: Any, wanted: Any, units: Sequence[str]) -> bool:
    """Whether all readers take stored values for those of the wanted type.

    Java reads Parquet's numbers by the type of the table, whatever the file says: as other values,
    or not at all.  `units` are those of the format's timestamps.
    """
    types = pa.types
    if types.is_struct(wanted) and types.is_struct(stored):
        fields = {f.name: f.type for f in stored}
        return all(f.name in fields and _is_read_as(fields[f.name], f.type, units) for f in wanted)
    if types.is_map(wanted) and types.is_map(stored):
        return _is_read_as(stored.key_type, wanted.key_type, units) and _is_read_as(
            stored.item_type, wanted.item_type, units
        )
    if types.is_list(wanted) and types.is_list(stored):
        return _is_read_as(stored.value_type, wanted.value_type, units)
    if types.is_timestamp(wanted) and types.is_timestamp(stored):
        return bool(stored.unit in units)
    return bool(stored.equals(wanted)) or (stored in _SMALL and wanted in _SMALL)


_SMALL: Final = (pa.int8(), pa.int16(), pa.int32())
"""Numbers that files hold as INT; values that do not fit are refused when they are decoded."""
_UNITS: Final = {"parquet": ("us",), "orc": ("ns",), "avro": ("ms", "us")}
