"""The oracle's `manifests` and `files` answers, made from our own reading of a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from paimon_core.io.file_io import FileIO
from paimon_core.manifest.data_file import (
    FileKind,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)
from paimon_core.manifest.index_manifest import read_index_manifest
from paimon_core.manifest.manifest_file import read_manifest
from paimon_core.manifest.manifest_list import read_manifest_list
from paimon_core.manifest.merge_entries import live_entries
from paimon_core.paths import TablePaths
from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.binary_row import decode_row, row_arity
from paimon_core.types.data_types import DataType, RowType, TypeRoot
from paimon_core.types.json_values import json_value

Json = dict[str, Any]


class MetadataJson:
    """Prints what a table's metadata says as the oracle prints it."""

    def __init__(self, io: FileIO, root: str, branch: str = "main") -> None:
        self.io = io
        self.paths = TablePaths(root=root, branch=branch)
        self.schemas = SchemaStore(io, self.paths, "db.t")
        latest = self.schemas.latest()
        assert latest is not None
        self.schema: TableSchema = latest

    def manifests(self, snapshot: Snapshot) -> Json:
        lists = {
            "base": snapshot.base_manifest_list,
            "delta": snapshot.delta_manifest_list,
            "changelog": snapshot.changelog_manifest_list,
        }
        return {
            kind: {
                "list": name,
                "manifests": [
                    self.manifest(m) for m in read_manifest_list(self.io, self.paths.manifest(name))
                ],
            }
            for kind, name in lists.items()
            if name is not None
        }

    def manifest(self, m: ManifestFileMeta) -> Json:
        return {
            "file": m.file_name,
            "size": m.file_size,
            "added": m.num_added_files,
            "deleted": m.num_deleted_files,
            "schema_id": m.schema_id,
            "min_bucket": m.min_bucket,
            "max_bucket": m.max_bucket,
            "min_level": m.min_level,
            "max_level": m.max_level,
            "min_row_id": m.min_row_id,
            "max_row_id": m.max_row_id,
            "partition_stats": self.stats(m.partition_stats, self.schema.partition_type),
            "entries": [
                self.entry(e, stats=False)
                for e in read_manifest(self.io, self.paths.manifest(m.file_name))
            ],
        }

    def files(self, snapshot: Snapshot) -> Json:
        entries = live_entries(
            e
            for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list)
            for m in read_manifest_list(self.io, self.paths.manifest(name))
            for e in read_manifest(self.io, self.paths.manifest(m.file_name))
        )
        return {
            "files": [self.entry(e, stats=True) for e in entries if e.kind is FileKind.ADD],
            "index_files": []
            if snapshot.index_manifest is None
            else [
                self.index_entry(e)
                for e in read_index_manifest(self.io, self.paths.manifest(snapshot.index_manifest))
            ],
            "snapshot": snapshot.id,
        }

    def entry(self, e: ManifestEntry, *, stats: bool) -> Json:
        f = e.file
        result: Json = {
            "kind": e.kind.name,
            "partition": self.partition(e.partition),
            "bucket": e.bucket,
            "total_buckets": e.total_buckets,
            "level": f.level,
            "file": f.file_name,
            "size": f.file_size,
            "rows": f.row_count,
            "delete_rows": f.delete_row_count,
            "min_seq": f.min_sequence_number,
            "max_seq": f.max_sequence_number,
            "schema_id": f.schema_id,
            "extra_files": list(f.extra_files),
            "embedded_index": f.embedded_index and f.embedded_index.hex(),
            "source": None if f.file_source is None else f.file_source.name,
            "creation_time": _local_time(f.creation_time),
            "value_stats_cols": None if f.value_stats_cols is None else list(f.value_stats_cols),
            "first_row_id": f.first_row_id,
            "write_cols": None if f.write_cols is None else list(f.write_cols),
        }
        if self.schema.primary_keys:
            key_type = self.schema.key_type
            result["min_key"] = self.row(f.min_key, key_type)
            result["max_key"] = self.row(f.max_key, key_type)
            if stats:
                result["key_stats"] = self.stats(f.key_stats, key_type)
        if stats:
            written = self.schemas.get(f.schema_id).row_type
            columns = written if f.value_stats_cols is None else written.project(f.value_stats_cols)
            result["value_stats"] = self.stats(f.value_stats, columns)
        return result

    def index_entry(self, e: IndexManifestEntry) -> Json:
        f = e.index_file
        result: Json = {
            "partition": self.partition(e.partition),
            "bucket": e.bucket,
            "type": f.index_type,
            "file": f.file_name,
            "size": f.file_size,
            "rows": f.row_count,
        }
        if f.dv_ranges is not None:
            result["deletion_vectors"] = {
                r.data_file: {"offset": r.offset, "length": r.length, "cardinality": r.cardinality}
                for r in f.dv_ranges
            }
        return result

    def partition(self, row: bytes) -> Json:
        fields = self.schema.partition_type.fields
        if not fields:
            return {}
        values = decode_row(row, [f.type for f in fields])
        return {f.name: json_value(v, f.type) for f, v in zip(fields, values, strict=True)}

    def row(self, data: bytes, row_type: RowType) -> list[Any]:
        types: Sequence[DataType] = row_type.types[: row_arity(data)]
        return [_json_value(v, t) for v, t in zip(decode_row(data, types), types, strict=True)]

    def stats(self, stats: SimpleStats, row_type: RowType) -> Json:
        return {
            "cols": list(row_type.names),
            "min": self.row(stats.min_values, row_type),
            "max": self.row(stats.max_values, row_type),
            "nulls": list(stats.null_counts or ()),
            "min_bytes": stats.min_values.hex(),
        }


def _json_value(value: object, data_type: DataType) -> Any:
    if value is None and not data_type.nullable:
        # The oracle's getter for a NOT NULL column does not look at the null bit (statistics may
        # still be null), and so prints what an empty slot holds.
        return "" if data_type.root in _SLOT_OF_BYTES else 0
    return json_value(value, data_type)


_SLOT_OF_BYTES = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)


def _local_time(millis: int | None) -> str | None:
    """As Java's LocalDateTime prints it: no fraction if it is zero."""
    if millis is None:
        return None
    time = datetime.fromtimestamp(millis / 1000, UTC).replace(tzinfo=None)
    text = time.isoformat(timespec="milliseconds" if millis % 1000 else "seconds")
    return text.removesuffix(":00") if not millis % 60_000 else text
