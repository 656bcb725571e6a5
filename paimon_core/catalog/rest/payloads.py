"""What requests and answers of a REST catalog hold (Java: `rest/requests`, `rest/responses`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from paimon_core.catalog.catalog import Partition
from paimon_core.ddl.schema_change import (
    AddColumn,
    DropColumn,
    DropPrimaryKey,
    MoveColumn,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateTableComment,
)
from paimon_core.errors import UNREADABLE, StorageError, UnsupportedFeature
from paimon_core.io.json_text import to_flat_json
from paimon_core.names import checked_long, checked_text
from paimon_core.paths import MAIN_BRANCH
from paimon_core.schema.table_schema import TableSchema
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.snapshot_commit import CommitAttempt, PartitionStatistics
from paimon_core.snapshot.snapshot_json import snapshot_from_json, snapshot_to_json
from paimon_core.table.open import split_identifier
from paimon_core.types.sql import field_to_json, type_to_json

_AUDIT: Final = ("owner", "createdAt", "createdBy", "updatedAt", "updatedBy")


def object_name(table: str, branch: str | None) -> str:
    """How the API names a table, or a branch of one."""
    return table if branch in (None, MAIN_BRANCH) else f"{table}$branch_{branch}"


def identifier_json(identifier: str) -> dict[str, object]:
    database, table = split_identifier(identifier)
    return {"database": database, "object": table}


def audit_of(response: Mapping[str, Any]) -> dict[str, str]:
    """Who made a table, view or database, and who changed it last (Java: `AuditRESTResponse`)."""
    return {k: str(response[k]) for k in _AUDIT if response.get(k) is not None}


def schema_json(schema: TableSchema) -> dict[str, object]:
    found: dict[str, object] = {
        "fields": [field_to_json(f) for f in schema.fields],
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    if schema.comment is not None:
        found["comment"] = schema.comment
    return found


def change_json(change: SchemaChange) -> dict[str, object]:
    """A schema change as the API takes it (Java: `SchemaChange`)."""
    match change:
        case SetOption(key, value):
            return {"action": "setOption", "key": key, "value": value}
        case RemoveOption(key):
            return {"action": "removeOption", "key": key}
        case UpdateTableComment(comment):
            return {"action": "updateComment", "comment": comment}
        case AddColumn(path, data_type, description, position):
            return {
                "action": "addColumn",
                "fieldNames": list(path),
                "dataType": type_to_json(data_type),
                "comment": description,
                "move": None if position is None else _move(path[-1], position),
            }
        case RenameColumn(path, new_name):
            return {"action": "renameColumn", "fieldNames": list(path), "newName": new_name}
        case DropColumn(path):
            return {"action": "dropColumn", "fieldNames": list(path)}
        case UpdateColumnType(path, data_type, keep):
            return {
                "action": "updateColumnType",
                "fieldNames": list(path),
                "newDataType": type_to_json(data_type),
                "keepNullability": keep,
            }
        case UpdateColumnNullability(path, nullable):
            return {
                "action": "updateColumnNullability",
                "fieldNames": list(path),
                "newNullability": nullable,
            }
        case UpdateColumnComment(path, description):
            return {
                "action": "updateColumnComment",
                "fieldNames": list(path),
                "newComment": description,
            }
        case UpdateColumnDefault(path, default):
            return {
                "action": "updateColumnDefaultValue",
                "fieldNames": list(path),
                "newDefaultValue": default,
            }
        case MoveColumn(name, position, parent):
            if parent:
                raise UnsupportedFeature(
                    "moving a nested column in a REST catalog",
                    f"the API moves columns only, and not {'.'.join((*parent, name))}",
                    next_step="drop the field, and add it where it belongs",
                )
            return {"action": "updateColumnPosition", "move": _move(name, position)}
        case DropPrimaryKey():
            return {"action": "dropPrimaryKey"}


def _move(name: str, position: Position) -> dict[str, object]:
    return {
        "fieldName": name,
        "referenceFieldName": position.reference,
        "type": position.place.name,
    }


def commit_json(attempt: CommitAttempt, table_id: str) -> dict[str, object]:
    """The body of `commitTable`.

    `baseSnapshotUuid` is known to servers after 1.4.2, and only snapshots of Java 2.0 have one.
    """
    body: dict[str, object] = {
        "tableId": table_id,
        "snapshot": json.loads(snapshot_to_json(attempt.snapshot)),
        "statistics": [_statistics_json(s) for s in attempt.statistics],
    }
    base = None if attempt.base is None else attempt.base.extra.get("uuid")
    if base is not None:
        body["baseSnapshotUuid"] = base
    return body


def _statistics_json(statistics: PartitionStatistics) -> dict[str, object]:
    return {
        "spec": dict(statistics.spec),
        "recordCount": statistics.record_count,
        "fileSizeInBytes": statistics.file_size,
        "fileCount": statistics.file_count,
        "lastFileCreationTime": statistics.last_file_creation_millis,
        "totalBuckets": statistics.total_buckets,
    }


def snapshot_of(parts: object, *, table: str) -> Snapshot:
    """The snapshot of an answer; StorageError if it is none."""
    try:
        return snapshot_from_json(to_flat_json(parts))
    except UNREADABLE as e:
        raise StorageError(
            f"the REST catalog answered with an unreadable snapshot of table {table}: {e}",
        ) from e


def partition_of(parts: Mapping[str, Any]) -> Partition:
    """A partition of an answer; one of `UNREADABLE` for anything else."""

    def number(key: str) -> int:
        return checked_long(parts[key], key)

    return Partition(
        PartitionStatistics(
            spec={k: checked_text(v, k) for k, v in parts["spec"].items()},
            record_count=number("recordCount"),
            file_size=number("fileSizeInBytes"),
            file_count=number("fileCount"),
            last_file_creation_millis=number("lastFileCreationTime"),
            total_buckets=checked_long(parts.get("totalBuckets") or 0, "totalBuckets"),
        ),
        done=bool(parts.get("done")),
    )


def changes_json(changes: Sequence[SchemaChange]) -> dict[str, object]:
    """The body of `alterTable`."""
    return {"changes": [change_json(change) for change in changes]}
