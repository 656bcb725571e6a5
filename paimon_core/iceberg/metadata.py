"""`vN.metadata.json`: schemas, snapshots and tags (Java: `iceberg/metadata/IcebergMetadata`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from paimon_core.errors import UnsupportedFeature
from paimon_core.iceberg.schema import SPEC_ID
from paimon_core.io.json_text import parse_json_object, to_pretty_json
from paimon_core.names import LARGEST_LONG, checked_long

_KNOWN: Final = frozenset(
    {
        "format-version",
        "table-uuid",
        "location",
        "last-sequence-number",
        "last-updated-ms",
        "last-column-id",
        "schemas",
        "current-schema-id",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "sort-orders",
        "default-sort-order-id",
        "snapshots",
        "current-snapshot-id",
        "properties",
        "refs",
    }
)
_KNOWN_OF_SNAPSHOT: Final = frozenset(
    {
        "sequence-number",
        "snapshot-id",
        "parent-snapshot-id",
        "timestamp-ms",
        "summary",
        "manifest-list",
        "schema-id",
        "first-row-id",
        "added-rows",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSnapshot:
    """A snapshot; its id is also its sequence number.

    `manifest_list` is a path, `summary` holds texts, `extra` the other fields as they are.
    """

    id: int
    parent_id: int | None
    time_millis: int
    summary: Mapping[str, str]
    manifest_list: str
    schema_id: int
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def list_name(self) -> str:
        return self.manifest_list.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergMetadata:
    """One version of a table; the newest snapshot's id is the version.

    `schemas` and `partition_specs` are JSON objects, `tags` maps names to ids of snapshots.
    """

    format_version: int
    table_uuid: str
    location: str
    updated_millis: int
    last_column_id: int
    schemas: tuple[Mapping[str, Any], ...]
    schema_id: int
    partition_specs: tuple[Mapping[str, Any], ...]
    last_partition_id: int
    snapshots: tuple[IcebergSnapshot, ...]
    snapshot_id: int
    tags: Mapping[str, int]

    @property
    def current(self) -> IcebergSnapshot:
        """The newest snapshot; KeyError if it is missing."""
        for snapshot in self.snapshots:
            if snapshot.id == self.snapshot_id:
                return snapshot
        raise KeyError(f"snapshot {self.snapshot_id}")


def metadata_to_json(metadata: IcebergMetadata) -> str:
    """Return the text of a metadata file, as Java prints it."""
    return to_pretty_json(
        {
            "format-version": metadata.format_version,
            "table-uuid": metadata.table_uuid,
            "location": metadata.location,
            "last-sequence-number": metadata.snapshot_id,
            "last-updated-ms": metadata.updated_millis,
            "last-column-id": metadata.last_column_id,
            "schemas": metadata.schemas,
            "current-schema-id": metadata.schema_id,
            "partition-specs": metadata.partition_specs,
            "default-spec-id": SPEC_ID,
            "last-partition-id": metadata.last_partition_id,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "snapshots": [snapshot_to_object(s) for s in metadata.snapshots],
            "current-snapshot-id": metadata.snapshot_id,
            "properties": {},
            "refs": {
                name: {"snapshot-id": number, "type": "tag", "max-ref-age-ms": LARGEST_LONG}
                for name, number in sorted(metadata.tags.items())
            },
        }
    )


def snapshot_to_object(s: IcebergSnapshot) -> dict[str, object]:
    """Return the JSON object of a snapshot."""
    parent = {} if s.parent_id is None else {"parent-snapshot-id": s.parent_id}
    return {
        "sequence-number": s.id,
        "snapshot-id": s.id,
        **parent,
        "timestamp-ms": s.time_millis,
        "summary": s.summary,
        "manifest-list": s.manifest_list,
        "schema-id": s.schema_id,
        **s.extra,
    }


def metadata_from_json(text: bytes | str) -> IcebergMetadata:
    """Parse a metadata file.

    Raises ValueError, KeyError or TypeError for other content, UnsupportedFeature for fields that
    another program added and that would get lost.
    """
    obj = cast("dict[str, Any]", parse_json_object(text))
    _check_fields(obj, _KNOWN)
    specs = tuple(obj["partition-specs"])
    if len(specs) != 1 or obj.get("default-spec-id", SPEC_ID) != SPEC_ID:
        raise UnsupportedFeature("Iceberg metadata with several partition specs")
    return IcebergMetadata(
        format_version=checked_long(obj["format-version"], "format-version"),
        table_uuid=str(obj["table-uuid"]),
        location=str(obj["location"]),
        updated_millis=checked_long(obj["last-updated-ms"], "last-updated-ms"),
        last_column_id=checked_long(obj["last-column-id"], "last-column-id"),
        schemas=tuple(obj["schemas"]),
        schema_id=checked_long(obj["current-schema-id"], "current-schema-id"),
        partition_specs=specs,
        last_partition_id=checked_long(obj["last-partition-id"], "last-partition-id"),
        snapshots=tuple(_snapshot(s) for s in obj["snapshots"]),
        snapshot_id=checked_long(obj["current-snapshot-id"], "current-snapshot-id"),
        tags={
            name: checked_long(ref["snapshot-id"], "snapshot-id")
            for name, ref in (obj.get("refs") or {}).items()
            if ref.get("type", "tag") == "tag"
        },
    )


def _snapshot(obj: dict[str, Any]) -> IcebergSnapshot:
    _check_fields(obj, _KNOWN_OF_SNAPSHOT)
    return IcebergSnapshot(
        id=checked_long(obj["snapshot-id"], "snapshot-id"),
        parent_id=obj.get("parent-snapshot-id"),
        time_millis=checked_long(obj["timestamp-ms"], "timestamp-ms"),
        summary=dict(obj["summary"]),
        manifest_list=str(obj["manifest-list"]),
        schema_id=checked_long(obj["schema-id"], "schema-id"),
        extra={n: obj[n] for n in ("first-row-id", "added-rows") if obj.get(n) is not None},
    )


def _check_fields(obj: Mapping[str, object], known: frozenset[str]) -> None:
    unknown = sorted(set(obj) - known)
    if unknown:
        raise UnsupportedFeature(f"field {unknown[0]} of Iceberg metadata")
