"""The JSON of snapshots, as Java prints it (Java: `Snapshot`; tags and changelogs share it).

Unknown fields are kept: `uuid` and `operation`, which Java 2.0 writes, at their positions, all
others at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.io.json_text import parse_json_object, to_pretty_json
from paimon_core.names import LARGEST_LONG, checked_long, checked_millis, checked_name, shown
from paimon_core.snapshot.snapshot import CommitKind, Snapshot

NEWEST_VERSION: Final = 3
_FIRST_ID: Final = 1
"""Java: `Snapshot.FIRST_SNAPSHOT_ID`."""

# JSON name -> attribute, in Java's order; None for fields that stay in `extra` but have a fixed
# position.
_FIELDS: Final[Mapping[str, str | None]] = {
    "version": "version",
    "uuid": None,
    "id": "id",
    "schemaId": "schema_id",
    "baseManifestList": "base_manifest_list",
    "baseManifestListSize": "base_manifest_list_size",
    "deltaManifestList": "delta_manifest_list",
    "deltaManifestListSize": "delta_manifest_list_size",
    "changelogManifestList": "changelog_manifest_list",
    "changelogManifestListSize": "changelog_manifest_list_size",
    "indexManifest": "index_manifest",
    "commitUser": "commit_user",
    "commitIdentifier": "commit_identifier",
    "commitKind": "commit_kind",
    "timeMillis": "time_millis",
    "totalRecordCount": "total_record_count",
    "deltaRecordCount": "delta_record_count",
    "changelogRecordCount": "changelog_record_count",
    "watermark": "watermark",
    "statistics": "statistics",
    "properties": "properties",
    "nextRowId": "next_row_id",
    "operation": None,
}
_TEXTS: Final = frozenset({"commit_user", "commit_kind"})
_FILES: Final = frozenset(
    {
        "base_manifest_list",
        "delta_manifest_list",
        "changelog_manifest_list",
        "index_manifest",
        "statistics",
    }
)
_REQUIRED: Final = (
    "id",
    "schemaId",
    "baseManifestList",
    "deltaManifestList",
    "commitUser",
    "commitIdentifier",
    "commitKind",
    "timeMillis",
)


def snapshot_from_json(text: bytes | str) -> Snapshot:
    """Parse the JSON text of a snapshot.

    Raises ValueError, KeyError or TypeError for other content; UnsupportedFeature for a newer
    snapshot version or an unknown commit kind.
    """
    return snapshot_from_object(parse_json_object(text))


def snapshot_from_object(obj: Mapping[str, object]) -> Snapshot:
    """Build the snapshot from its JSON object; errors as `snapshot_from_json`."""
    for name in _REQUIRED:
        if obj.get(name) is None:
            raise KeyError(name)
    values: dict[str, Any] = {}
    extra: dict[str, object] = {}
    for name, value in obj.items():
        attribute = _FIELDS.get(name)
        if attribute is None:
            extra[name] = value
        elif value is not None:
            values[attribute] = _checked(name, attribute, value)
    version = values.setdefault("version", 1)
    if version > NEWEST_VERSION:
        raise UnsupportedFeature(f"snapshot version {version}", snapshot=values["id"])
    try:
        values["commit_kind"] = CommitKind(values["commit_kind"])
    except ValueError as e:
        raise UnsupportedFeature(
            f"commit kind {values['commit_kind']}", snapshot=values["id"]
        ) from e
    return Snapshot(**values, extra=extra)


def check_writable(snapshot: Snapshot, *, table: str) -> None:
    """Raise CorruptTable for a new snapshot that nobody could read: Java's numbers have 64 bits.

    Counts continue those of the snapshot before, which may hold any number.
    """
    for name, attribute in _FIELDS.items():
        value = None if attribute is None else getattr(snapshot, attribute)
        if isinstance(value, int) and not -LARGEST_LONG - 1 <= value <= LARGEST_LONG:
            raise CorruptTable(
                f"{name} of the next snapshot of table {table} would be {value}, which does not fit "
                "into 64 bits",
                table=table,
                snapshot=snapshot.id,
            )


def snapshot_to_json(snapshot: Snapshot) -> str:
    """Return the text of `snapshot/snapshot-N`, byte for byte as Java prints it."""
    return to_pretty_json(snapshot_to_object(snapshot))


def snapshot_to_object(snapshot: Snapshot) -> dict[str, object]:
    """Return the JSON object with its fields in order, without absent fields."""
    result: dict[str, object] = {}
    for name, attribute in _FIELDS.items():
        value = snapshot.extra.get(name) if attribute is None else getattr(snapshot, attribute)
        if value is not None:
            result[name] = value
    for name, value in snapshot.extra.items():
        result.setdefault(name, value)
    return result


def _checked(name: str, attribute: str, value: object) -> object:
    if attribute == "properties":
        if not isinstance(value, Mapping):
            raise TypeError(f"{name} is not an object: {shown(value)}")
        return {str(k): str(v) for k, v in cast("Mapping[object, object]", value).items()}
    if attribute in _FILES:
        return checked_name(value, name)
    if attribute in _TEXTS:
        if not isinstance(value, str):
            raise TypeError(f"{name} is not a text: {shown(value)}")
        return value
    number = checked_long(value, name)
    if attribute == "id" and number < _FIRST_ID:
        raise ValueError(f"{name} is not the number of a snapshot: {number}")
    return checked_millis(number, name) if attribute == "time_millis" else number
