"""What old snapshots hold back: how many exceed the retention, and which files only they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from paimon_core.errors import NotFound, PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import map_parallel
from paimon_core.manifest.data_file import ManifestFileMeta
from paimon_core.manifest.entries.columns import Partitions
from paimon_core.manifest.merge_columns import name_hashes, place_hashes
from paimon_core.options import (
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
)
from paimon_core.scan.columns import entry_columns
from paimon_core.scan.manifests import delta_manifests
from paimon_core.snapshot.snapshot import Snapshot

_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
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


@dataclass(frozen=True, slots=True, eq=False)
class Deletions:
    """The data files that snapshots deleted: snapshot id, a hash of the file's place, its size.

    Hashes, because there may be millions.
    """

    snapshot: npt.NDArray[np.int64]
    file: npt.NDArray[np.uint64]
    size: npt.NDArray[np.int64]

    def bytes(self, after: int = -1) -> int:
        """The bytes that snapshots after this one deleted; a file may count several times."""
        return int(self.size[self.snapshot > after].sum())


NO_DELETIONS: Final = Deletions(
    np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.int64)
)


def consumers_of(
    table: FileStoreTable,
    latest: Snapshot | None,
    ids: Sequence[int],
    deletions: Deletions,
    now: int,
) -> list[dict[str, object]]:
    """The position and lag of each consumer, and the files that it retains.

    A consumer retains everything from the first existing snapshot that it has not read: the time
    since its commit, and the data files that it or later snapshots need but the newest does not.
    Tags, branches and the retention of the table may retain the same files.
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
    looked_at = ids[1:][-MOST_DELTAS:]
    found = map_parallel(table.io, lambda i: _delta_of(table, i), looked_at)
    deltas = [delta for delta in found if delta is not None]
    partitions = Partitions()
    try:
        return _deletions(table, deltas, partitions)
    except PaimonError:
        # A manifest expired while we looked, or is broken, which verify reports.
        parts = [_deletions_if_readable(table, delta, partitions) for delta in deltas]
        return Deletions(
            np.concatenate([p.snapshot for p in parts]),
            np.concatenate([p.file for p in parts]),
            np.concatenate([p.size for p in parts]),
        )


def _delta_of(table: FileStoreTable, snapshot_id: int) -> tuple[int, list[ManifestFileMeta]] | None:
    try:
        manifests = delta_manifests(table, table.snapshots.get(snapshot_id))
    except PaimonError:
        return None
    # Nearly all commits delete nothing.
    return (snapshot_id, manifests) if any(m.num_deleted_files for m in manifests) else None


def _deletions_if_readable(
    table: FileStoreTable, delta: tuple[int, list[ManifestFileMeta]], partitions: Partitions
) -> Deletions:
    try:
        return _deletions(table, [delta], partitions)
    except PaimonError:
        return NO_DELETIONS


def _deletions(
    table: FileStoreTable,
    deltas: Sequence[tuple[int, list[ManifestFileMeta]]],
    partitions: Partitions,
) -> Deletions:
    metas = [meta for _, delta in deltas for meta in delta]
    snapshot_of = np.array([i for i, delta in deltas for _ in delta], np.int64)
    added: list[npt.NDArray[np.uint64]] = [np.zeros(0, np.uint64)]
    deleted: list[tuple[Deletions, npt.NDArray[np.uint64]]] = []
    for part in entry_columns(table, metas, partitions, ("file_size",)):
        snapshot = snapshot_of[part.manifest]
        names = name_hashes(part.names, snapshot.astype(np.uint64) * _FACTOR)
        gone = ~part.added
        added.append(names[part.added])
        deleted.append(
            (
                Deletions(
                    snapshot[gone], place_hashes(part)[gone], part.numbers["file_size"][gone]
                ),
                names[gone],
            )
        )
    # An upgrade deletes a file and adds it at another level.
    upgraded = np.sort(np.concatenate(added))
    left = [(d, ~contains(upgraded, names)) for d, names in deleted if len(names)]
    if not left:
        return NO_DELETIONS
    return Deletions(
        np.concatenate([d.snapshot[keep] for d, keep in left]),
        np.concatenate([d.file[keep] for d, keep in left]),
        np.concatenate([d.size[keep] for d, keep in left]),
    )


def contains(ordered: npt.NDArray[np.uint64], values: npt.NDArray[np.uint64]) -> npt.NDArray[Any]:
    """Return whether each value is one of the ordered ones."""
    if not len(ordered):
        return np.zeros(len(values), bool)
    at = np.searchsorted(ordered, values)
    found: npt.NDArray[Any] = ordered[np.minimum(at, len(ordered) - 1)] == values
    return found


def held_after(deletions: Deletions, after: int) -> dict[str, int]:
    """Files that snapshots from `after` on retain but the newest does not need."""
    chosen = deletions.snapshot > after
    _, first = np.unique(deletions.file[chosen], return_index=True)
    return {"files": len(first), "bytes": int(deletions.size[chosen][first].sum())}
