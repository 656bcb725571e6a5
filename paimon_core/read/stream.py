"""Follows a table, snapshot by snapshot (Java: `table/source/DataTableStreamScan`).

A stream keeps one number: the next snapshot to look at.  Whoever stores it (`ConsumerStore.set`)
may start again from there, and while a consumer file names it, expiry keeps that snapshot and all
later ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from paimon_core.errors import InvalidArgument, NotFound
from paimon_core.features import check_readable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.universal_compaction import number_of_levels
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.options import CHANGELOG_PRODUCER
from paimon_core.read.changes import changes_of, read_changes
from paimon_core.read.table_read import read_table
from paimon_core.snapshot.snapshot import Snapshot


class Start(StrEnum):
    """Where a stream begins (Java: `scan.mode`)."""

    LATEST_FULL = "latest-full"
    LATEST = "latest"
    FROM_SNAPSHOT = "from-snapshot"
    FROM_SNAPSHOT_FULL = "from-snapshot-full"
    FROM_TIMESTAMP = "from-timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan:
    """What one step of a stream reads.

    `next_snapshot` is where the stream goes on once these rows are processed, None while the table
    has no snapshot yet.  `whole` is a snapshot to read as a batch, `changes` the files of changes.
    """

    next_snapshot: int | None
    whole: Snapshot | None = None
    changes: tuple[ManifestEntry, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self.whole is None and not self.changes


@dataclass(slots=True, kw_only=True)
class StreamScan:
    """The plans of one stream, one after the other.

    `at` is the snapshot id or the time (milliseconds since the epoch) that `start` asks for.
    `next_snapshot` given: the stream goes on from there, whatever `start` says.
    """

    table: FileStoreTable
    start: Start = Start.LATEST_FULL
    at: int | None = None
    next_snapshot: int | None = None
    _begun: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        check_readable(self.table)
        needs_at = self.start not in (Start.LATEST_FULL, Start.LATEST)
        if needs_at and self.at is None:
            raise InvalidArgument(f"a stream {self.start} needs a snapshot or a time to start at")

    def plan(self) -> StreamPlan:
        """The next plan; an empty one means that nothing new is there yet.

        NotFound if the next snapshot expired before it was read.
        """
        if self.next_snapshot is None:
            plan = self._first_plan()
            self.next_snapshot = plan.next_snapshot
            return plan
        while True:
            snapshot = self._find(self.next_snapshot)
            if snapshot is None:
                return StreamPlan(next_snapshot=self.next_snapshot)
            changes = changes_of(self.table, snapshot)
            self.next_snapshot += 1
            if changes:
                return StreamPlan(next_snapshot=self.next_snapshot, changes=tuple(changes))

    def _first_plan(self) -> StreamPlan:
        snapshots = self.table.snapshots
        latest = snapshots.latest()
        if latest is None:
            # A table that is empty when a stream begins is read from its first snapshot on.
            begun, self._begun = self._begun, True
            return StreamPlan(next_snapshot=1 if begun and self.start is Start.LATEST else None)
        match self.start:
            case Start.LATEST_FULL:
                return StreamPlan(next_snapshot=latest.id + 1, whole=latest)
            case Start.LATEST:
                return StreamPlan(next_snapshot=1 if self._begun else latest.id + 1)
            case Start.FROM_SNAPSHOT:
                return StreamPlan(next_snapshot=max(self.at or 1, self._earliest(latest)))
            case Start.FROM_SNAPSHOT_FULL:
                first = max(self.at or 1, snapshots.earliest_id() or 1)
                return StreamPlan(next_snapshot=first + 1, whole=snapshots.get(first))
            case Start.FROM_TIMESTAMP:
                before = snapshots.at_or_before_time((self.at or 0) - 1)
                earliest = self._earliest(latest)
                return StreamPlan(next_snapshot=earliest if before is None else before.id + 1)

    def _earliest(self, latest: Snapshot) -> int:
        """The first snapshot whose changes can still be read, among long-lived changelogs too."""
        snapshots = self.table.snapshots
        # Java believes the hint although older snapshots may be there (after a fast-forward).
        hint, _ = snapshots.hints()
        earliest = hint if hint is not None and snapshots.exists(hint) else snapshots.earliest_id()
        kept = self.table.changelogs.earliest_id()
        return min(x for x in (kept, earliest, latest.id) if x is not None)

    def _find(self, snapshot_id: int) -> Snapshot | None:
        table = self.table
        found = table.snapshots.get_or_none(snapshot_id)
        if found is None:
            found = table.changelogs.get_or_none(snapshot_id)
        if found is None and snapshot_id < (table.snapshots.earliest_id() or 0):
            raise NotFound(
                f"snapshot {snapshot_id} of table {table.name} expired before the stream read it",
                table=table.name,
                snapshot=snapshot_id,
                next_step="start the stream anew; a consumer id keeps snapshots until they are read",
            )
        return found


def _least_level(table: FileStoreTable) -> int:
    """Below this level lies what a later compaction will tell in its changelog."""
    if not table.has_primary_key:
        return 0
    match table.options.value(CHANGELOG_PRODUCER):
        case "lookup":
            return 1
        case "full-compaction":
            return number_of_levels(table.options) - 1
        case _:
            return 0


def read_plan(table: FileStoreTable, plan: StreamPlan) -> Iterator[pa.RecordBatch]:
    """The rows of a plan: `_VALUE_KIND` and all columns, changes in the order of their snapshots."""
    if plan.whole is not None:
        return read_table(table, plan.whole, min_level=_least_level(table))
    return read_changes(table, plan.changes, table.schema.names)
