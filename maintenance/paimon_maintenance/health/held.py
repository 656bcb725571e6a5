"""What old snapshots hold back: how many exceed the retention, and which files only they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from paimon_core.errors import NotFound, PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import map_parallel
from paimon_core.manifest.data_file import FileKind
from paimon_core.options import (
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
)
from paimon_core.scan.manifests import delta_manifests, selected_entries
from paimon_core.snapshot.snapshot import Snapshot

MOST_DELTAS: Final = 5_000
"""The number of newest snapshots to examine for retained files."""


def retention_of(table: FileStoreTable, ids: Sequence[int], now: int) -> dict[str, object]:
    """The number of snapshots beyond the retention of the table.

    Snapshot i is beyond it if i + 1 is older than `snapshot.time-retained` (java-rules H2).
    """
    options = table.options
    most = options.value(SNAPSHOT_NUM_RETAINED_MAX)
    least = options.value(SNAPSHOT_NUM_RETAINED_MIN)
    age = options.value(SNAPSHOT_TIME_RETAINED)
    beyond = max(0, len(ids) - most)
    removable = max(0, len(ids) - max(1, least))  # the newest is never deleted
    for position in range(beyond, removable):
        try:
            successor = table.snapshots.get(ids[position + 1])
        except NotFound:
            continue
        if now - successor.time_millis <= age:
            break
        beyond = position + 1
    return {
        "unexpired": beyond,
        "num_retained_min": least,
        "num_retained_max": None if most == SNAPSHOT_NUM_RETAINED_MAX.default else most,
        "time_retained_millis": age,
    }


File = tuple[bytes, int, str]
Deletions = Mapping[int, Mapping[File, int]]
"""Snapshot id -> the data files that the snapshot deleted, with their sizes."""


def consumers_of(
    table: FileStoreTable,
    latest: Snapshot | None,
    ids: Sequence[int],
    deletions: Deletions,
    now: int,
) -> list[dict[str, object]]:
    """The position and lag of each consumer, and the files that it retains.

    A consumer retains everything from the first existing snapshot that it has not read: the time since
    its commit, and the data files that it or later snapshots need but the newest does not.  Tags,
    branches and the retention of the table may retain the same files.
    """
    found: list[dict[str, object]] = []
    for consumer in table.consumers.all():
        unread = next((i for i in ids if i >= consumer.next_snapshot), None)
        since = None if unread is None else table.snapshots.get_or_none(unread)
        found.append(
            {
                "id": consumer.id,
                "next_snapshot": consumer.next_snapshot,
                "lag_snapshots": None
                if latest is None
                else max(0, latest.id - consumer.next_snapshot + 1),
                "held_millis": 0 if since is None else max(0, now - since.time_millis),
                "held": {"files": 0, "bytes": 0}
                if unread is None
                else held_after(deletions, unread),
                "last_seen_millis": consumer.modified_millis,
                "silent_millis": max(0, now - consumer.modified_millis),
            }
        )
    return found


def deletions_of(table: FileStoreTable, ids: Sequence[int]) -> Deletions:
    """The deletions of the newest MOST_DELTAS snapshots; unreadable snapshots count as empty."""

    def deleted(snapshot_id: int) -> Mapping[File, int]:
        try:
            manifests = delta_manifests(table, table.snapshots.get(snapshot_id))
            if not any(m.num_deleted_files for m in manifests):
                return {}
            delta = list(selected_entries(table, manifests))
        except PaimonError:
            return {}  # expired while we looked, or broken, which verify reports
        added = {e.file.file_name for e in delta if e.kind is FileKind.ADD}
        # An upgrade deletes a file and adds it at another level.
        return {
            (e.partition, e.bucket, e.file.file_name): e.file.file_size
            for e in delta
            if e.kind is FileKind.DELETE and e.file.file_name not in added
        }

    looked_at = ids[1:][-MOST_DELTAS:]
    return dict(zip(looked_at, map_parallel(table.io, deleted, looked_at), strict=True))


def held_after(deletions: Deletions, after: int) -> dict[str, int]:
    """Files that snapshots from `after` on retain but the newest does not need."""
    sizes = {
        file: size for i, gone in deletions.items() if i > after for file, size in gone.items()
    }
    return {"files": len(sizes), "bytes": sum(sizes.values())}
