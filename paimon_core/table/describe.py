"""Describes the files of a snapshot as JSON values, for users, tests and tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry, SimpleStats
from paimon_core.scan.key_bounds import bound_fields
from paimon_core.scan.scan import scan_files
from paimon_core.schema.tracked import tracked_schema
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.binary_row import decode_row
from paimon_core.types.data_types import AtomicType, DataField, DataType, RowType, TypeRoot
from paimon_core.types.datetimes import local_date_time_text
from paimon_core.types.decimals import from_unscaled
from paimon_core.types.json_values import json_value

Json = dict[str, Any]


def describe_files(table: FileStoreTable, snapshot: Snapshot | None) -> Json:
    """Return live data and index files of a snapshot, sorted by partition, bucket and level."""
    if snapshot is None:
        return {"files": [], "index_files": []}
    files = [
        {**describe_entry(table, e), **_statistics(table, e.file)}
        for e in scan_files(table, snapshot)
    ]
    files.sort(
        key=lambda f: (str(f["partition"]), f["bucket"], f["level"], f["min_seq"], f["file"])
    )
    return {
        "snapshot": snapshot.id,
        "files": files,
        "index_files": _index_files(table, snapshot),
    }


def partition_json(table: FileStoreTable, partition: bytes) -> Json:
    """Return the partition as column -> value."""
    return _row(table.schema.partition_type.fields, partition)


def describe_entry(table: FileStoreTable, entry: ManifestEntry) -> Json:
    """Return one manifest entry with decoded keys, without statistics."""
    f = entry.file
    described: Json = {
        "kind": entry.kind.name,
        "partition": partition_json(table, entry.partition),
        "bucket": entry.bucket,
        "total_buckets": entry.total_buckets,
        "level": f.level,
        "file": f.file_name,
        "size": f.file_size,
        "rows": f.row_count,
        "delete_rows": f.delete_row_count,
        "min_seq": f.min_sequence_number,
        "max_seq": f.max_sequence_number,
        "schema_id": f.schema_id,
        "extra_files": list(f.extra_files),
        "embedded_index": None if f.embedded_index is None else f.embedded_index.hex(),
        "source": None if f.file_source is None else f.file_source.name,
        "creation_time": (
            None if f.creation_time is None else local_date_time_text(f.creation_time * 1_000_000)
        ),
        "value_stats_cols": None if f.value_stats_cols is None else list(f.value_stats_cols),
        "first_row_id": f.first_row_id,
        "write_cols": None if f.write_cols is None else list(f.write_cols),
        "external_path": f.external_path,
    }
    key_fields = bound_fields(table, f)
    if key_fields:
        described["min_key"] = list(_row(key_fields, f.min_key).values())
        described["max_key"] = list(_row(key_fields, f.max_key).values())
    return described


def _statistics(table: FileStoreTable, file: DataFileMeta) -> Json:
    schema = table.schema_of(file.schema_id)
    names = file.value_stats_cols
    if names is None:
        names = file.write_cols or schema.names
    row_type = tracked_schema(schema).row_type
    if unknown := [name for name in names if row_type.get(name) is None]:
        raise CorruptTable(
            f"file {file.file_name} has statistics of column {unknown[0]!r}, which schema "
            f"{file.schema_id} does not have",
            table=table.name,
            file=table.paths.schema(file.schema_id),
        )
    described: Json = {}
    if table.has_primary_key:
        described["key_stats"] = describe_stats(table.schema.key_type.fields, file.key_stats)
    described["value_stats"] = describe_stats(row_type.project(names).fields, file.value_stats)
    return described


def describe_stats(fields: Sequence[DataField], stats: SimpleStats) -> Json:
    """Return statistics by column, and the stored bytes of the minima in hex.

    A NOT NULL column without minimum or maximum gets zero or an empty string: Java's getters do not
    check such a column for null, and tools compare this output with Java's.
    """
    return {
        "cols": [f.name for f in fields],
        "min": _bounds(fields, stats.min_values),
        "max": _bounds(fields, stats.max_values),
        "nulls": list(stats.null_counts or ()),
        "min_bytes": stats.min_values.hex(),
    }


def _bounds(fields: Sequence[DataField], row: bytes) -> list[Any]:
    values = _row(fields, row)
    return [
        json_value(_blank(f.type), f.type) if v is None and not f.type.nullable else v
        for f, v in zip(fields, values.values(), strict=False)
    ]


def _blank(data_type: DataType) -> Any:
    """Return the internal value of a zeroed slot; None for types without one."""
    match data_type.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return ""
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return b""
        case TypeRoot.DECIMAL if isinstance(data_type, AtomicType):
            return from_unscaled(0, data_type.scale or 0)
        case TypeRoot.BOOLEAN:
            return False
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return 0.0
    return 0 if isinstance(data_type, AtomicType) else None


def _index_files(table: FileStoreTable, snapshot: Snapshot) -> list[Json]:
    described: list[Json] = []
    for entry in table.index_entries(snapshot):
        f = entry.index_file
        one: Json = {
            "partition": partition_json(table, entry.partition),
            "bucket": entry.bucket,
            "type": f.index_type,
            "file": f.file_name,
            "size": f.file_size,
            "rows": f.row_count,
        }
        if f.dv_ranges is not None:
            one["deletion_vectors"] = {
                r.data_file: {
                    "offset": r.offset,
                    "length": r.length,
                    "cardinality": r.cardinality,
                }
                for r in f.dv_ranges
            }
        described.append(one)
    return described


def _row(fields: Iterable[DataField], row: bytes) -> Json:
    row_type = RowType(fields=tuple(fields))
    if len(row) <= 12 and len(row_type):
        return {}
    values = decode_row(row, row_type.types)
    return {f.name: json_value(v, f.type) for f, v in zip(row_type, values, strict=True)}
