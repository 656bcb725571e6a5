"""The live content of a snapshot as tables: files, manifests, partitions, buckets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.data_format import format_of
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX
from paimon_core.manifest.data_file import DataFileMeta, FileKind, ManifestEntry
from paimon_core.options import DELETION_VECTORS_ENABLED
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.scan.key_bounds import bound_fields
from paimon_core.scan.manifests import changelog_manifests, data_manifests, selected_entries
from paimon_core.scan.prune import column_stats
from paimon_core.scan.scan import scan_files
from paimon_core.table.system.definition import Row, SystemRead, SystemTable, local_millis
from paimon_core.types.arrow import column_from_internal, column_to_internal
from paimon_core.types.binary_row import decode_row
from paimon_core.types.casts.cast import cast_column
from paimon_core.types.casts.text import java_to_string
from paimon_core.types.data_types import AtomicType, DataType
from paimon_core.types.partition_text import partition_text

K = TypeVar("K")


def _row_text(table: FileStoreTable, row: bytes) -> str:
    """Format a partition like Java's cast of a row to STRING: "{2024-01-01, 7}"."""
    row_type = table.schema.partition_type
    return java_to_string(decode_row(row, row_type.types), row_type)


def _value_text(value: object, data_type: DataType) -> str:
    """Format an internal value like Java's `toString`; bytes, where that is useless, in hex."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str):
        return value
    if isinstance(data_type, AtomicType):
        return partition_text(value, data_type, legacy_name=True) or ""
    return str(value)


# --- files --------------------------------------------------------------------------------------


def _files(read: SystemRead) -> Iterator[Row]:
    table = read.table
    if read.snapshot is None:
        return
    for entry in scan_files(table, read.snapshot):
        file = entry.file
        if entry.bucket == POSTPONE_BUCKET:
            continue
        nulls, low, high = _bounds(table, file)
        yield (
            _row_text(table, entry.partition),
            entry.bucket,
            table.paths.data_file(entry.partition, entry.bucket, file),
            format_of(file.file_name),
            file.schema_id,
            file.level,
            file.row_count,
            file.file_size,
            _key_text(table, file, file.min_key),
            _key_text(table, file, file.max_key),
            nulls,
            low,
            high,
            file.min_sequence_number,
            file.max_sequence_number,
            local_millis(file.creation_time),
            file.delete_row_count,
            None if file.file_source is None else file.file_source.name,
            file.first_row_id,
            None if file.write_cols is None else list(file.write_cols),
        )


def _key_text(table: FileStoreTable, file: DataFileMeta, key: bytes) -> str | None:
    types = [field.type for field in bound_fields(table, file)]
    if not types:
        return None
    values = decode_row(key, types)
    return f"[{', '.join(_value_text(v, t) for v, t in zip(values, types, strict=True))}]"


def _bounds(table: FileStoreTable, file: DataFileMeta) -> tuple[str, str, str]:
    """Return null counts, minima and maxima of the current columns, each as "{a=1, b=null}"."""
    written = table.schema_of(file.schema_id)
    stats = column_stats(file, written)
    old = {f.id: f for f in written.fields}
    nulls: dict[str, str] = {}
    low: dict[str, str] = {}
    high: dict[str, str] = {}
    for field in table.schema.fields:
        source = old.get(field.id)
        if source is None:
            nulls[field.name], low[field.name], high[field.name] = (
                str(file.row_count),
                "null",
                "null",
            )
            continue
        least, most, count = stats.get(source.name, (None, None, None))
        nulls[field.name] = "null" if count is None else str(count)
        low[field.name] = _value_text(_evolved(least, source.type, field.type), field.type)
        high[field.name] = _value_text(_evolved(most, source.type, field.type), field.type)
    return _sorted_text(nulls), _sorted_text(low), _sorted_text(high)


def _evolved(value: object, source: DataType, target: DataType) -> object:
    if value is None or source.with_nullable(True) == target.with_nullable(True):
        return value
    cast = cast_column(column_from_internal([value], source), source, target)
    return column_to_internal(cast, target)[0]


def _sorted_text(values: dict[str, str]) -> str:
    # Java uses a TreeMap of strings, which compare by UTF-16 code units.
    ordered = sorted(values.items(), key=lambda item: item[0].encode("utf-16-be"))
    return "{" + ", ".join(f"{k}={v}" for k, v in ordered) + "}"


_FILE_COLUMNS: Final = {
    "partition": "STRING",
    "bucket": "INT NOT NULL",
    "file_path": "STRING NOT NULL",
    "file_format": "STRING NOT NULL",
    "schema_id": "BIGINT NOT NULL",
    "level": "INT NOT NULL",
    "record_count": "BIGINT NOT NULL",
    "file_size_in_bytes": "BIGINT NOT NULL",
    "min_key": "STRING",
    "max_key": "STRING",
}

FILES: Final = SystemTable(
    {
        **_FILE_COLUMNS,
        "null_value_counts": "STRING NOT NULL",
        "min_value_stats": "STRING NOT NULL",
        "max_value_stats": "STRING NOT NULL",
        "min_sequence_number": "BIGINT",
        "max_sequence_number": "BIGINT",
        "creation_time": "TIMESTAMP(3)",
        "deleteRowCount": "BIGINT",
        "file_source": "STRING",
        "first_row_id": "BIGINT",
        "write_cols": "ARRAY<STRING>",
    },
    _files,
    shows_values=True,
)


def _key_ranges(read: SystemRead) -> Iterator[Row]:
    for row in _files(read):
        yield (*row[:10], row[18])


FILE_KEY_RANGES: Final = SystemTable(
    {
        **_FILE_COLUMNS,
        "first_row_id": "BIGINT",
    },
    _key_ranges,
    shows_values=True,
)


# --- indexes ------------------------------------------------------------------------------------


def _indexes(read: SystemRead) -> Iterator[Row]:
    if read.snapshot is None:
        return
    for entry in read.table.index_entries(read.snapshot):
        index = entry.index_file
        ranges = index.dv_ranges
        yield (
            _row_text(read.table, entry.partition),
            entry.bucket,
            index.index_type,
            index.file_name,
            index.file_size,
            index.row_count,
            None
            if ranges is None
            else [(r.data_file, r.offset, r.length, r.cardinality) for r in ranges],
            *_global_index(read.table, index.global_index),
        )


def _global_index(table: FileStoreTable, meta: Mapping[str, object] | None) -> Row:
    """The range of row ids of a global index, the id of its column, and the columns' names."""
    if meta is None:
        return (None,) * 4
    names = {f.id: f.name for f in table.schema.fields}
    extra = meta.get("_EXTRA_FIELD_IDS")
    ids = [meta["_INDEX_FIELD_ID"], *(extra if isinstance(extra, list) else ())]
    known = all(i in names for i in ids)
    return (
        meta["_ROW_RANGE_START"],
        meta["_ROW_RANGE_END"],
        meta["_INDEX_FIELD_ID"],
        ",".join(names[i] for i in ids) if known else None,
    )


TABLE_INDEXES: Final = SystemTable(
    {
        "partition": "STRING",
        "bucket": "INT NOT NULL",
        "index_type": "STRING NOT NULL",
        "file_name": "STRING NOT NULL",
        "file_size": "BIGINT NOT NULL",
        "row_count": "BIGINT NOT NULL",
        "dv_ranges": "ARRAY<ROW<f0 STRING NOT NULL, f1 INT NOT NULL, f2 INT NOT NULL, "
        "_CARDINALITY BIGINT>>",
    },
    _indexes,
    {
        "row_range_start": "BIGINT",
        "row_range_end": "BIGINT",
        "index_field_id": "INT",
        "index_field_name": "STRING",
    },
)


# --- manifests ----------------------------------------------------------------------------------


def _manifests(read: SystemRead) -> Iterator[Row]:
    table, snapshot = read.table, read.snapshot
    if snapshot is None:
        return
    for meta in [*data_manifests(table, snapshot), *changelog_manifests(table, snapshot)]:
        yield (
            meta.file_name,
            meta.file_size,
            meta.num_added_files,
            meta.num_deleted_files,
            meta.schema_id,
            _row_text(table, meta.partition_stats.min_values),
            _row_text(table, meta.partition_stats.max_values),
            meta.min_row_id,
            meta.max_row_id,
        )


MANIFESTS: Final = SystemTable(
    {
        "file_name": "STRING NOT NULL",
        "file_size": "BIGINT NOT NULL",
        "num_added_files": "BIGINT NOT NULL",
        "num_deleted_files": "BIGINT NOT NULL",
        "schema_id": "BIGINT NOT NULL",
        "min_partition_stats": "STRING",
        "max_partition_stats": "STRING",
        "min_row_id": "BIGINT",
        "max_row_id": "BIGINT",
    },
    _manifests,
)


# --- partitions and buckets ---------------------------------------------------------------------


@dataclass(slots=True)
class _Sums:
    """The totals of all entries of a partition or bucket.

    The newest time includes deleted files, as long as a manifest names them, as in Java
    (`PartitionEntry.merge`).
    """

    rows: int = 0
    size: int = 0
    files: int = 0
    newest: int = 0
    total_buckets: int = 0

    def add(self, entry: ManifestEntry) -> None:
        sign = 1 if entry.kind is FileKind.ADD else -1
        self.rows += sign * entry.file.row_count
        self.size += sign * entry.file.file_size
        self.files += sign
        self.newest = max(self.newest, entry.file.creation_time or 0)
        self.total_buckets = entry.total_buckets


def _sums(
    read: SystemRead,
    key: Callable[[ManifestEntry], K],
    *,
    keep: Callable[[ManifestEntry], bool] | None = None,
) -> dict[K, _Sums]:
    if read.snapshot is None:
        return {}
    sums: dict[K, _Sums] = defaultdict(_Sums)
    for entry in selected_entries(read.table, data_manifests(read.table, read.snapshot), keep=keep):
        sums[key(entry)].add(entry)
    return {k: s for k, s in sums.items() if s.files > 0}


def _partitions(read: SystemRead) -> Iterable[Row]:
    table = read.table
    deleted = _deleted_rows(read) if read.with_2_0 else {}
    rows = [
        (
            _partition_path(table, partition),
            s.rows,
            s.size,
            s.files,
            local_millis(s.newest),
            None,
            None,
            None,
            None,
            s.total_buckets,
            False,
            deleted.get(partition, 0),
        )
        for partition, s in _sums(
            read, lambda e: e.partition, keep=lambda e: e.bucket != POSTPONE_BUCKET
        ).items()
    ]
    return sorted(rows, key=lambda row: row[0].encode())


def _partition_path(table: FileStoreTable, partition: bytes) -> str:
    row_type = table.schema.partition_type
    values = decode_row(partition, row_type.types)
    default = table.paths.partition_default_name

    def text(value: object, data_type: DataType) -> str:
        # Java first builds a spec, in which the default name also replaces blank strings.
        blank = partition_text(value, data_type, legacy_name=False) is None
        return default if blank else java_to_string(value, data_type)

    return "/".join(
        f"{f.name}={text(v, f.type)}" for f, v in zip(row_type.fields, values, strict=True)
    )


def _deleted_rows(read: SystemRead) -> dict[bytes, int | None]:
    """Return the deleted row counts by partition; None if an old vector has no count."""
    table, snapshot = read.table, read.snapshot
    if snapshot is None or not table.options.value(DELETION_VECTORS_ENABLED):
        return {}
    result: dict[bytes, int | None] = {}
    for entry in table.index_entries(snapshot):
        ranges = entry.index_file.dv_ranges
        if entry.index_file.index_type != DELETION_VECTORS_INDEX or not ranges:
            continue
        known = [r.cardinality for r in ranges if r.cardinality is not None]
        before = result.get(entry.partition, 0)
        whole = before is not None and len(known) == len(ranges)
        result[entry.partition] = (before or 0) + sum(known) if whole else None
    return result


PARTITIONS: Final = SystemTable(
    {
        "partition": "STRING",
        "record_count": "BIGINT NOT NULL",
        "file_size_in_bytes": "BIGINT NOT NULL",
        "file_count": "BIGINT NOT NULL",
        "last_update_time": "TIMESTAMP(3)",
        "created_at": "TIMESTAMP(3)",
        "created_by": "STRING",
        "updated_by": "STRING",
        "options": "STRING",
    },
    _partitions,
    {
        "total_buckets": "INT NOT NULL",
        "done": "BOOLEAN NOT NULL",
        "deleted_record_count": "BIGINT",
    },
)


def _buckets(read: SystemRead) -> Iterable[Row]:
    rows = [
        (_row_text(read.table, partition), bucket, s.rows, s.size, s.files, local_millis(s.newest))
        for (partition, bucket), s in _sums(read, lambda e: (e.partition, e.bucket)).items()
    ]
    return sorted(rows, key=lambda row: (row[0].encode(), row[1]))


BUCKETS: Final = SystemTable(
    {
        "partition": "STRING",
        "bucket": "INT NOT NULL",
        "record_count": "BIGINT NOT NULL",
        "file_size_in_bytes": "BIGINT NOT NULL",
        "file_count": "BIGINT NOT NULL",
        "last_update_time": "TIMESTAMP(3)",
    },
    _buckets,
)
