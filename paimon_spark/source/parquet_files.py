"""Which files of a scan Spark's own Parquet reader can read, and as which columns.

A file qualifies if its rows are the table's rows: nothing merges with them, none of them is deleted,
and each wanted column is in the file with its current type, or was added after it.  Everything else
is left to `read_task`.

Not left to Spark:

- TIME, and timestamps of more than 6 digits (INT96), whose types Spark does not have;
- timestamps of files without a source, that is, older than Paimon 0.9: up to 0.5 those without a
  zone are marked as UTC, and Spark refuses them;
- partition columns that the file may lack (tables migrated from Hive): its statistics must show the
  partition's value;
- columns whose names differ in case only; hidden file names, which Spark leaves out silently; paths
  that it takes for patterns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.data_format import format_of
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.predicate import Predicate
from paimon_core.read.data_evolution import has_data_evolution
from paimon_core.read.evolution import same_values
from paimon_core.read.table_read import by_file_indexes, skips_level_0
from paimon_core.scan.prune import column_stats
from paimon_core.scan.splits import batch_splits
from paimon_core.schema.table_schema import (
    KEY_PREFIX,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    TableSchema,
)
from paimon_core.table.batch_tasks import BatchTask, BucketTask
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


Columns = tuple[DataField | None, ...]
"""For each wanted column its field in a file; None if the file was written before it was added."""


@dataclass(frozen=True, slots=True)
class ParquetGroup:
    """Files with the same columns, and their bytes."""

    paths: tuple[str, ...]
    columns: Columns
    size: int


def split_off_parquet(
    tasks: Sequence[BatchTask], columns: Sequence[str], predicate: Predicate | None
) -> tuple[list[ParquetGroup], list[BatchTask]]:
    """The files that Spark can read itself, and the tasks that remain.

    Files that `predicate` rules out by their indexes are in neither.
    """
    found: dict[Columns, list[tuple[str, int]]] = defaultdict(list)
    rest: list[BatchTask] = []
    known: dict[tuple[int, bool], Columns | None] = {}
    for task in tasks:
        if not isinstance(task, BucketTask):
            rest.append(task)
            continue
        table, left = task.table, []
        plain, other = _unmerged(task)
        for entry in plain if predicate is None else by_file_indexes(table, plain, predicate):
            fields = _columns_of(table, entry, columns, known)
            if fields is None:
                left.append(entry)
                continue
            path = table.paths.data_file(entry.partition, entry.bucket, entry.file)
            found[fields].append((path, entry.file.file_size))
        if left or other:
            rest.append(replace(task, entries=(*left, *other)))
    groups = [
        ParquetGroup(tuple(p for p, _ in files), fields, sum(size for _, size in files))
        for fields, files in found.items()
    ]
    return groups, rest


def _unmerged(task: BucketTask) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
    """The files of the task whose rows are read as they are, and the others."""
    table, entries = task.table, task.entries
    # The JVM finds local files at the same paths; it may not know other stores.
    if "://" in table.root or has_data_evolution(table):
        return [], list(entries)
    merged = {r.data_file for f in task.index_files for r in f.dv_ranges or ()}
    if table.has_primary_key:
        splits = batch_splits(
            [e.file for e in entries],
            table.schema.key_type,
            table.options,
            never_merged=skips_level_0(table),
        )
        merged |= {f.file_name for s in splits if not s.raw for f in s.files}
    plain = [e for e in entries if e.file.file_name not in merged]
    return plain, [e for e in entries if e.file.file_name in merged]


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
    return data_type.root is not TypeRoot.TIME


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
    for field in wanted:
        value = values[field.name]
        if value is None:
            # A column that is missing is null as well.
            continue
        low, high, _ = stats.get(field.name, (None, None, None))
        if low != value or high != value:
            return False
    return True
