"""Who holds back files that the newest snapshot does not need: consumers, tags and branches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from paimon_core.errors import PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.entries.columns import EntryColumns
from paimon_core.manifest.merge_columns import place_hashes
from paimon_core.paths import MAIN_BRANCH
from paimon_core.reachability.references import on_branch
from paimon_core.scan.columns import scan_columns
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.health.groups import check_sizes
from paimon_maintenance.health.held import Deletions, contains
from paimon_maintenance.health.measurement import ConsumerLag, Holder

MOST_REFERENCES: Final = 100
"""The number of tags and branches to examine; manifests that they share are read once."""
MOST_SNAPSHOTS: Final = 1000
"""The number of unread snapshots to examine for the lag of a consumer in bytes."""


def lags_of(
    table: FileStoreTable, latest: Snapshot | None, ids: Sequence[int], *, row_bytes: float
) -> list[ConsumerLag]:
    """How far each consumer is behind; `row_bytes` is the mean size of a row on disk."""
    found = []
    for consumer in table.consumers.all():
        unread = [i for i in ids if i >= consumer.next_snapshot]
        newest = unread[-MOST_SNAPSHOTS:]
        rows = sum(abs(s.delta_record_count or 0) for s in table.snapshots.get_many(newest))
        if newest and len(newest) < len(unread):
            rows = rows * len(unread) // len(newest)
        first = table.snapshots.get_or_none(unread[0]) if unread else None
        behind = 0 if latest is None else max(0, latest.id - consumer.next_snapshot + 1)
        found.append(
            ConsumerLag(
                id=consumer.id,
                snapshots=behind,
                since=None if first is None else first.time_millis,
                bytes=int(rows * row_bytes),
                last_seen=consumer.modified_millis,
            )
        )
    return found


def consumer_holders(
    table: FileStoreTable, beyond: Sequence[int], deletions: Deletions
) -> tuple[list[Holder], int, int]:
    """The consumers that hold back snapshots beyond the retention, and what all of them hold.

    `beyond` are the ids that exceed the retention, `deletions` the files that each snapshot
    removed.  Returns the holders, the number of blocked snapshots, and their bytes.
    """

    def freed(first: int) -> int:
        # Snapshot i keeps the files that snapshot i + 1 removed.
        return deletions.bytes(first)

    holders = []
    for consumer in table.consumers.all():
        blocked = [i for i in beyond if i >= consumer.next_snapshot]
        if blocked:
            holders.append(
                Holder(
                    kind="consumer",
                    name=consumer.id,
                    bytes=freed(blocked[0]),
                    snapshots=len(blocked),
                )
            )
    holders.sort(key=lambda h: (-h.snapshots, h.name))
    most = max((h.snapshots for h in holders), default=0)
    return holders, most, max((h.bytes for h in holders), default=0)


def reference_holders(
    table: FileStoreTable, live: EntryColumns, retained: Sequence[int]
) -> list[Holder]:
    """The tags and branches whose files the newest snapshot does not need, the largest first.

    `live` are the files of the newest snapshot, `retained` the snapshots within the retention: a
    tag of one of them holds nothing more.  One file may count for several holders.  Unreadable
    references are left out; `verify` reports them.
    """
    needed: npt.NDArray[np.uint64] | None = None
    holders: list[Holder] = []
    kept = set(retained)
    for kind, name, snapshot in _references(table):
        if kind == "tag" and snapshot.id in kept:
            continue
        if len(holders) >= MOST_REFERENCES:
            break
        try:
            files = scan_columns(table, snapshot, ("file_size",), live.partitions)
        except PaimonError:
            continue
        if needed is None:
            needed = np.sort(place_hashes(live))
        sizes = files.numbers["file_size"][~contains(needed, place_hashes(files))]
        check_sizes(table.name, sizes)
        size = int(sizes.sum())
        holders.append(Holder(kind=kind, name=name, bytes=size, snapshots=1))
    return sorted((h for h in holders if h.bytes), key=lambda h: (-h.bytes, h.name))


def _references(table: FileStoreTable) -> Iterator[tuple[str, str, Snapshot]]:
    for tag in table.tags.all():
        yield "tag", tag.name, tag.snapshot
    if table.branch != MAIN_BRANCH:
        return
    for name in table.branches.names():
        try:
            latest = on_branch(table, name).snapshots.latest()
        except PaimonError:
            continue
        if latest is not None:
            yield "branch", name, latest
