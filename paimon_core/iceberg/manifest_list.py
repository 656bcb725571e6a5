"""Manifest lists: the manifests of one snapshot (Java: `iceberg/manifest/IcebergManifestList`)."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from io import BytesIO
from typing import Any, Final

import fastavro

from paimon_core.errors import CorruptTable
from paimon_core.format.avro.container import Container
from paimon_core.format.avro.schema import physical_schema
from paimon_core.iceberg.manifest import IcebergEntry, avro_field, check_known
from paimon_core.iceberg.schema import SPEC_ID
from paimon_core.iceberg.values import from_avro, from_bytes, to_bytes
from paimon_core.manifest.avro_codec import RecordWriter, avro_codec, read_records
from paimon_core.types.data_types import DataType, RowType, TypeRoot

_ZSTD_LEVEL: Final = 1
_NOT_COMPARABLE: Final = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_FLOATING: Final = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_COUNTS: Final = ("added", "existing", "deleted")


class ManifestContent(IntEnum):
    DATA = 0
    DELETES = 1


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """The range of one partition key in a manifest; bounds are Iceberg's bytes."""

    contains_null: bool
    contains_nan: bool
    lower: bytes | None
    upper: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergManifest:
    """A manifest in a manifest list: counts of files and rows by status, and its partitions."""

    path: str
    length: int
    content: ManifestContent
    sequence_number: int
    min_sequence_number: int
    snapshot_id: int
    files: Mapping[str, int]
    rows: Mapping[str, int]
    partitions: tuple[PartitionSummary, ...]

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    @property
    def live_files(self) -> int:
        return self.files["added"] + self.files["existing"]

    @property
    def live_rows(self) -> int:
        return self.rows["added"] + self.rows["existing"]


def describe(
    path: str,
    length: int,
    entries: Sequence[IcebergEntry],
    *,
    snapshot_id: int,
    content: ManifestContent,
    partition_type: RowType,
) -> IcebergManifest:
    """Return the description of a manifest that was written for a snapshot."""
    files, rows = dict.fromkeys(_COUNTS, 0), dict.fromkeys(_COUNTS, 0)
    for e in entries:
        kind = e.status.name.lower()
        files[kind] += 1
        rows[kind] += e.row_count
    return IcebergManifest(
        path=path,
        length=length,
        content=content,
        sequence_number=snapshot_id,
        min_sequence_number=min(e.sequence_number for e in entries),
        snapshot_id=snapshot_id,
        files=files,
        rows=rows,
        partitions=tuple(
            _summary([e.data_file["partition"][f.name] for e in entries], f.type)
            for f in partition_type.fields
        ),
    )


def _summary(stored: Sequence[Any], t: DataType) -> PartitionSummary:
    values = [from_avro(t, v) for v in stored if v is not None]
    nan = t.root in _FLOATING and any(math.isnan(v) for v in values)
    ordered = [v for v in values if not (t.root in _FLOATING and math.isnan(v))]
    has_bounds = bool(ordered) and t.root not in _NOT_COMPARABLE
    return PartitionSummary(
        contains_null=len(values) < len(stored),
        contains_nan=nan,
        lower=to_bytes(t, min(ordered)) if has_bounds else None,
        upper=to_bytes(t, max(ordered)) if has_bounds else None,
    )


def may_hold(
    manifest: IcebergManifest, partitions: Sequence[tuple[Any, ...]], partition_type: RowType
) -> bool:
    """Return whether a manifest may have files of these partitions (internal values)."""
    if len(manifest.partitions) != len(partition_type.fields):
        return True
    ranges = [
        (s, _bound(s.lower, t), _bound(s.upper, t))
        for s, t in zip(manifest.partitions, partition_type.types, strict=True)
    ]
    return any(
        all(_within(value, *r) for value, r in zip(row, ranges, strict=True)) for row in partitions
    )


def _bound(data: bytes | None, t: DataType) -> Any:
    try:
        return None if data is None else from_bytes(t, data)
    except (ValueError, struct.error):
        return None


def _within(value: Any, summary: PartitionSummary, low: Any, high: Any) -> bool:
    if value is None:
        return summary.contains_null
    if low is None or high is None or value != value:  # noqa: PLR0124 - NaN has no order
        return True
    return bool(low <= value <= high)


# --- files --------------------------------------------------------------------------------------


def encode_list(
    manifests: Sequence[IcebergManifest], *, compression: str, legacy_names: bool
) -> bytes:
    """Return the bytes of a manifest list."""
    schema = _schema(legacy_names=legacy_names)
    encoder = fastavro.parse_schema(physical_schema(schema))
    writer = RecordWriter(schema, codec=avro_codec(compression), level=_ZSTD_LEVEL)
    for m in manifests:
        buffer = BytesIO()
        fastavro.schemaless_writer(buffer, encoder, _record(m, legacy_names=legacy_names))
        writer.add(buffer.getvalue())
    return writer.finish()


def read_list(container: Container) -> list[IcebergManifest]:
    """Return the manifests of a list; UnsupportedFeature for fields that would get lost."""
    legacy = any(f["name"] == "added_data_files_count" for f in container.schema["fields"])
    check_known(container.schema, _schema(legacy_names=legacy), "")
    return [_manifest(r, legacy_names=legacy) for r in read_records(container)]


def _record(m: IcebergManifest, *, legacy_names: bool) -> dict[str, Any]:
    return {
        "manifest_path": m.path,
        "manifest_length": m.length,
        "partition_spec_id": SPEC_ID,
        "content": int(m.content),
        "sequence_number": m.sequence_number,
        "min_sequence_number": m.min_sequence_number,
        "added_snapshot_id": m.snapshot_id,
        **{_files_count(kind, legacy_names=legacy_names): m.files[kind] for kind in _COUNTS},
        **{f"{kind}_rows_count": m.rows[kind] for kind in _COUNTS},
        "partitions": [
            {
                "contains_null": s.contains_null,
                "contains_nan": s.contains_nan,
                "lower_bound": s.lower,
                "upper_bound": s.upper,
            }
            for s in m.partitions
        ],
    }


def _manifest(record: dict[str, Any], *, legacy_names: bool) -> IcebergManifest:
    if record["partition_spec_id"] != SPEC_ID:
        raise CorruptTable(
            f"an Iceberg manifest has the partition spec {record['partition_spec_id']}",
            file=record["manifest_path"],
        )
    return IcebergManifest(
        path=record["manifest_path"],
        length=record["manifest_length"],
        content=ManifestContent(record["content"]),
        sequence_number=record["sequence_number"],
        min_sequence_number=record["min_sequence_number"],
        snapshot_id=record["added_snapshot_id"],
        files={kind: record[_files_count(kind, legacy_names=legacy_names)] for kind in _COUNTS},
        rows={kind: record[f"{kind}_rows_count"] for kind in _COUNTS},
        partitions=tuple(
            PartitionSummary(
                s["contains_null"], bool(s["contains_nan"]), s["lower_bound"], s["upper_bound"]
            )
            for s in record["partitions"] or ()
        ),
    )


def _files_count(kind: str, *, legacy_names: bool) -> str:
    return f"{kind}_data_files_count" if legacy_names else f"{kind}_files_count"


def _schema(*, legacy_names: bool) -> dict[str, Any]:
    summary = [
        avro_field(509, "contains_null", "boolean"),
        avro_field(518, "contains_nan", "boolean", nullable=True),
        avro_field(510, "lower_bound", "bytes", nullable=True),
        avro_field(511, "upper_bound", "bytes", nullable=True),
    ]
    partitions = {
        "type": "array",
        "items": {"type": "record", "name": "r508", "fields": summary},
        "element-id": 508,
    }
    counts = [
        avro_field(504 + i, _files_count(kind, legacy_names=legacy_names), "int")
        for i, kind in enumerate(_COUNTS)
    ]
    fields = [
        avro_field(500, "manifest_path", "string"),
        avro_field(501, "manifest_length", "long"),
        avro_field(502, "partition_spec_id", "int"),
        avro_field(517, "content", "int"),
        avro_field(515, "sequence_number", "long"),
        avro_field(516, "min_sequence_number", "long"),
        avro_field(503, "added_snapshot_id", "long", nullable=True),
        *counts,
        *(avro_field(512 + i, f"{kind}_rows_count", "long") for i, kind in enumerate(_COUNTS)),
        avro_field(507, "partitions", partitions, nullable=True),
    ]
    return {"type": "record", "name": "manifest_file", "fields": fields}
