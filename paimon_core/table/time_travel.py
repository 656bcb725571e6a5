"""A table as of a snapshot, tag or moment (Java: `table/source/snapshot/TimeTravelUtil`).

Reading the past means reading with the *schema* of that time, under the options of today.
"""

from __future__ import annotations

from dataclasses import replace

from paimon_core.errors import InvalidArgument, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.snapshot.snapshot import Snapshot


def travel(
    table: FileStoreTable,
    *,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp_millis: int | None = None,
) -> tuple[FileStoreTable, Snapshot | None]:
    """The table under the schema of the chosen snapshot, and that snapshot.

    Nothing chosen: the newest snapshot under the newest schema, None for an empty table.  A moment
    means the last snapshot committed at or before it.  NotFound names what is there instead.
    """
    chosen = [c for c in (snapshot, tag, timestamp_millis) if c is not None]
    if len(chosen) > 1:
        raise InvalidArgument("choose one of snapshot, tag and timestamp", table=table.name)
    if snapshot is not None:
        found = table.snapshots.get(snapshot)
    elif tag is not None:
        found = table.tags.get(tag).snapshot
    elif timestamp_millis is not None:
        at = table.snapshots.at_or_before_time(timestamp_millis)
        if at is None:
            raise NotFound(
                f"table {table.name} has no snapshot at or before {timestamp_millis}",
                table=table.name,
                next_step="choose a later time; `caretaker inspect` shows the earliest snapshot",
            )
        found = at
    else:
        return table, table.snapshots.latest()
    return at_snapshot(table, found), found


def at_snapshot(table: FileStoreTable, snapshot: Snapshot) -> FileStoreTable:
    """The table under the schema that was the newest when the snapshot was committed."""
    if snapshot.schema_id == table.schema.id:
        return table
    schema = table.schemas.get(snapshot.schema_id)
    return replace(table, schema=replace(schema, options=table.schema.options))
