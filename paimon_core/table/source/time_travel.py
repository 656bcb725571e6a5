"""A table as of a snapshot, tag, time or watermark (Java: `table/source/snapshot/TimeTravelUtil`).

Time travel reads with the *schema* of that time and today's options.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from paimon_core.errors import InvalidArgument, NoSuchVersion, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.snapshot.snapshot import Snapshot


def travel(
    table: FileStoreTable,
    *,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp_millis: int | None = None,
    watermark: int | None = None,
) -> tuple[FileStoreTable, Snapshot | None]:
    """Return the table with the schema of the chosen snapshot, and that snapshot.

    Without a choice: the newest snapshot with the newest schema, None for an empty table.  A time
    selects the last snapshot committed at or before it, a watermark (milliseconds) the first
    snapshot that has reached it.  NotFound names the available versions.
    """
    chosen = [c for c in (snapshot, tag, timestamp_millis, watermark) if c is not None]
    if len(chosen) > 1:
        raise InvalidArgument(
            "choose one of snapshot, tag, timestamp and watermark", table=table.name
        )
    if snapshot is not None:
        found = _snapshot(table, snapshot)
    elif tag is not None:
        tagged = table.tags.get_or_none(tag)
        if tagged is None:
            raise NoSuchVersion(
                f"Tag '{tag}' doesn't exist in table {table.name}", table=table.name
            )
        found = tagged.snapshot
    elif timestamp_millis is not None:
        at = table.snapshots.at_or_before_time(timestamp_millis)
        if at is None:
            raise NoSuchVersion(
                "There is currently no snapshot earlier than or equal to timestamp "
                f"[{timestamp_millis}]",
                table=table.name,
                next_step="choose a later time; `caretaker inspect` shows the earliest snapshot",
            )
        found = at
    elif watermark is not None:
        found = at_watermark(table, watermark)
    else:
        return table, table.snapshots.latest()
    return at_snapshot(table, found), found


def _snapshot(table: FileStoreTable, snapshot_id: int) -> Snapshot:
    try:
        return table.snapshots.get(snapshot_id)
    except NotFound as e:
        first, last = table.snapshots.earliest_id(), table.snapshots.latest_id()
        reason = e.message
        if first is None or last is None:
            reason = f"There is currently no snapshot. {reason}"
        elif not first <= snapshot_id <= last:
            reason = (
                f"The specified scan snapshotId {snapshot_id} is out of available snapshotId range "
                f"[{first}, {last}]"
            )
        raise NoSuchVersion(reason, table=table.name) from e


def at_watermark(table: FileStoreTable, watermark: int) -> Snapshot:
    """Return a snapshot that has reached this watermark; NotFound if none has.

    This is the first one beyond it, unless the binary search first finds one with exactly this
    watermark (as in Java: `SnapshotManager.laterOrEqualWatermark`).  Watermarks never decrease, and
    snapshots before the first one have none.
    """
    ids = table.snapshots.ids()
    found: Snapshot | None = None
    low = bisect_left(ids, True, key=lambda i: table.snapshots.get(i).watermark is not None)
    high = len(ids) - 1
    if low <= high:
        first = table.snapshots.get(ids[low])
        if (first.watermark or 0) >= watermark:
            return first
    while low <= high:
        middle = (low + high) // 2
        snapshot = table.snapshots.get(ids[middle])
        reached = snapshot.watermark or 0
        if reached < watermark:
            low = middle + 1
            continue
        found = snapshot
        if reached == watermark:
            break
        high = middle - 1
    if found is None:
        raise NotFound(
            f"no snapshot of table {table.name} has reached the watermark {watermark}",
            table=table.name,
            next_step="choose an earlier watermark, or wait for the writers",
        )
    return found


def at_snapshot(table: FileStoreTable, snapshot: Snapshot) -> FileStoreTable:
    """Return the table with the schema that was the newest when the snapshot was committed."""
    if snapshot.schema_id == table.schema.id:
        return table
    schema = table.schemas.get(snapshot.schema_id)
    own = table.schema
    schema = replace(schema, options=own.options, signed_zeros=own.signed_zeros)
    return replace(table, schema=schema)
