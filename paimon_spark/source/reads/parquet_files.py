"""Which files of a scan Spark's own Parquet reader can read, and as which columns.

A file qualifies if each row of it is a row of the table or none (`read.hidden_rows`), and each
wanted column is in the file with its current type, or was added after it.  Everything else is left
to `read_task`.

Not left to Spark:

- TIME, and timestamps of more than 6 digits (INT96), whose types Spark does not have;
- VARIANT, whose values Java may have shredded in a way of its own, and VECTOR;
- timestamps of files without a source, that is, older than Paimon 0.9: up to 0.5 those without a
  zone are marked as UTC, and Spark refuses them;
- partition columns that the file may lack (tables migrated from Hive): its statistics must show the
  partition's value;
- columns whose names differ in case only; hidden file names, which Spark leaves out silently; paths
  that it takes for patterns;
- tables whose reads pass over damaged files;
- files with hidden rows whose names Spark escapes or that two folders have, and columns
  `_metadata`: rows are skipped by the name of their file and their number in it, which Spark gives
  there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.data_format import format_of
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.predicate import Predicate
from paimon_core.read.damaged_files import ignores_damage
from paimon_core.read.data_evolution import has_data_evolution
from paimon_core.read.evolution import same_values
from paimon_core.read.hidden_rows import shows_stored_rows
from paimon_core.read.table_read import by_file_indexes
from paimon_core.scan.prune import column_stats
from paimon_core.scan.splits import batch_splits
from paimon_core.schema.table_schema import (
    KEY_PREFIX,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    TableSchema,
)
from paimon_core.table.source.batch_tasks import BatchTask, BucketTask
from paimon_core.types.binary_row import decode_row
from paimon_core.types.data_types import (
    TIMESTAMP_TYPES,
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)

_MICROS: Final = 6
_HIDDEN: Final = ("_", ".")
_PATTERN: Final = frozenset("{}[]*?\\")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_NOT_SPARKS: Final = (TypeRoot.TIME, TypeRoot.BLOB, TypeRoot.VARIANT, TypeRoot.VECTOR)
_FILE_METADATA: Final = "_metadata"
MOST_ROWS: Final = 1 << 28
"""Rows of files with hidden rows that one read hands to Spark: it is sent a bit for each."""

Columns = tuple[DataField | None, ...]
"""For each wanted column its field in a file; None if the file was written before it was added."""


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """A file that Spark reads, its bytes and its columns."""

    path: str
    size: int
    columns: Columns


@dataclass(frozen=True, slots=True)
class MergedFiles:
    """Files of one bucket with hidden rows, which `hidden_rows` finds in `task`."""

    task: BucketTask
    files: tuple[ParquetFile, ...]


@dataclass(slots=True)
class Readers:
    """Who reads which files: Spark all rows of `plain` and some rows of `merged`, Python `rest`."""

    plain: list[ParquetFile] = field(default_factory=list)
    merged: list[MergedFiles] = field(default_factory=list)
    rest: list[BatchTask] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)
    _rows: int = 0

    def take(self, task: BucketTask, files: Sequence[ParquetFile | None]) -> bool:
        """Take these files of the task, with hidden rows, unless Spark cannot skip the rows."""
        names = {e.file.file_name for e in task.entries}
        rows = sum(e.file.row_count for e in task.entries)
        found = [f for f in files if f is not None and not _has_metadata_column(f)]
        if (
            len(found) < len(task.entries)
            or not all(map(_PLAIN_NAME.fullmatch, names))
            or not self._names.isdisjoint(names)
            or self._rows + rows > MOST_ROWS
        ):
            return False
        self._names |= names
        self._rows += rows
        self.merged.append(MergedFiles(task, tuple(found)))
        return True


def readers_of(
    tasks: Sequence[BatchTask], columns: Sequence[str], predicate: Predicate | None
) -> Readers:
    """Who reads the files of these tasks.

    Files without hidden rows that `predicate` rules out by their indexes are left out.
    """
    readers = Readers()
    if any(ignores_damage(t.table) for t in tasks if isinstance(t, BucketTask)):
        return Readers(rest=list(tasks))
    known: dict[tuple[int, bool], Columns | None] = {}
    for task in tasks:
        if not isinstance(task, BucketTask):
            readers.rest.append(task)
            continue
        table, left = task.table, []
        plain, other = _by_hidden_rows(task)
        for entry in plain if predicate is None else by_file_indexes(table, plain, predicate):
            file = _parquet_file(table, entry, columns, known)
            if file is None:
                left.append(entry)
            else:
                readers.plain.append(file)
        for entries in other:
            part = replace(task, entries=tuple(entries))
            files: list[ParquetFile | None] = [None]
            if shows_stored_rows(table):
                files = [_parquet_file(table, e, columns, known) for e in entries]
            if not readers.take(part, files):
                left += entries
        if left:
            readers.rest.append(replace(task, entries=tuple(left)))
    return readers


def _by_hidden_rows(task: BucketTask) -> tuple[list[ManifestEntry], list[list[ManifestEntry]]]:
    """The files of the task whose rows are all shown, and the others: what merges is together."""
    table, entries = task.table, task.entries
    # The JVM finds local files at the same paths; it may not know other stores.
    if "://" in table.root or has_data_evolution(table):
        return [], [list(entries)]
    together: list[list[ManifestEntry]] = []
    if table.has_primary_key:
        of_file = {e.file.file_name: e for e in entries}
        splits = batch_splits(table, [e.file for e in entries])
        together = [[of_file[f.file_name] for f in s.files] for s in splits if not s.raw]
    merged = {e.file.file_name for part in together for e in part}
    deleted = {r.data_file for f in task.index_files for r in f.dv_ranges or ()} - merged
    together += [[e] for e in entries if e.file.file_name in deleted]
    return [e for e in entries if e.file.file_name not in merged | deleted], together


def _parquet_file(
    table: FileStoreTable,
    entry: ManifestEntry,
    columns: Sequence[str],
    known: dict[tuple[int, bool], Columns | None],
) -> ParquetFile | None:
    """The file as Spark reads it; None if Spark cannot read these columns from it."""
    fields = _columns_of(table, entry, columns, known)
    if fields is None:
        return None
    path = table.paths.data_file(entry.partition, entry.bucket, entry.file)
    return ParquetFile(path, entry.file.file_size, fields)


def _has_metadata_column(file: ParquetFile) -> bool:
    return any(f is not None and f.name.lower() == _FILE_METADATA for f in file.columns)


def _columns_of(
    table: FileStoreTable,
    entry: ManifestEntry,
    columns: Sequence[str],
    known: dict[tuple[int, bool], Columns | None],
) -> Columns | None:
    """The fields of the file that hold the columns; None if Spark cannot read them from it."""
    file = entry.file
    path = table.paths.data_file(entry.partition, entry.bucket, file)
    if (
        format_of(file.file_name) != "parquet"
        or file.write_cols is not None
        or path.rpartition("/")[2].startswith(_HIDDEN)
        or "://" in path
        or not _PATTERN.isdisjoint(path)
    ):
        return None
    is_old = file.file_source is None
    key = (file.schema_id, is_old)
    if key not in known:
        known[key] = _mapping(table, table.schema_of(file.schema_id), columns, is_old=is_old)
    fields = known[key]
    return None if fields is None or not _holds_partition(table, entry, fields) else fields


def _mapping(
    table: FileStoreTable, written: TableSchema, columns: Sequence[str], *, is_old: bool
) -> Columns | None:
    stored = {f.id: f for f in written.fields}
    names = [n.lower() for n in written.names]
    if table.has_primary_key:
        names += [SEQUENCE_NUMBER.lower(), VALUE_KIND.lower()]
        names += [f"{KEY_PREFIX}{k}".lower() for k in written.trimmed_primary_keys]
    fields: list[DataField | None] = []
    for wanted in table.schema.row_type.project(columns).fields:
        field = stored.get(wanted.id)
        if field is None:
            fields.append(None)
            continue
        if not same_values(field.type, wanted.type) or names.count(field.name.lower()) > 1:
            return None
        if not _is_spark_s(field.type, is_old=is_old):
            return None
        fields.append(field)
    return tuple(fields)


def _is_spark_s(data_type: DataType, *, is_old: bool) -> bool:
    """Whether Spark reads values of the type from Parquet as we do."""
    match data_type:
        case RowType():
            names = {f.name.lower() for f in data_type.fields}
            return 0 < len(names) == len(data_type.fields) and all(
                _is_spark_s(f.type, is_old=is_old) for f in data_type.fields
            )
        case ArrayType():
            return _is_spark_s(data_type.element, is_old=is_old)
        case MapType():
            return _is_spark_s(data_type.key, is_old=is_old) and _is_spark_s(
                data_type.value, is_old=is_old
            )
        case MultisetType():
            return _is_spark_s(data_type.element, is_old=is_old)
    if data_type.root in TIMESTAMP_TYPES:
        return not is_old and (getattr(data_type, "precision", None) or 0) <= _MICROS
    return data_type.root not in _NOT_SPARKS


def _holds_partition(
    table: FileStoreTable, entry: ManifestEntry, fields: Sequence[DataField | None]
) -> bool:
    """Whether the file has the partition's values in the partition columns among the fields."""
    keys = table.schema.partition_keys
    wanted = [f for f in fields if f is not None and f.name in keys]
    if not wanted:
        return True
    values = dict(
        zip(keys, decode_row(entry.partition, table.schema.partition_type.types), strict=True)
    )
    stats = column_stats(entry.file, table.schema_of(entry.file.schema_id))
    for column in wanted:
        value = values[column.name]
        if value is None:
            # A column that is missing is null as well.
            continue
        low, high, _ = stats.get(column.name, (None, None, None))
        if low != value or high != value:
            return False
    return True
