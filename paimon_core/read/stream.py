"""Follows a table, snapshot by snapshot (Java: `table/source/DataTableStreamScan`).

The state of a stream is one number: the next snapshot to read.  A caller that stores it
(`ConsumerStore.set`) can resume there, and while a consumer file names it, expiry keeps that
snapshot and all later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from enum import StrEnum
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.errors import InvalidArgument, NotFound
from paimon_core.features import check_streamable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.lsm.changelog_producers import changelog_producer_of
from paimon_core.lsm.key_column import kind_values
from paimon_core.lsm.tree.universal_compaction import number_of_levels
from paimon_core.manifest.data_file import DataFileMeta, FileKind, ManifestEntry
from paimon_core.options import (
    CHANGELOG_PRODUCER,
    FULL_COMPACTION_DELTA_COMMITS,
    STREAMING_READ_OVERWRITE,
)
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.predicate import Predicate, fields_of
from paimon_core.read.incremental import merged_files
from paimon_core.read.snapshot_changes import changes_of, has_changelog, read_changes
from paimon_core.read.table_read import chosen_rows, read_table
from paimon_core.scan.scan import in_plan_order, scan_delta, scan_files
from paimon_core.schema.table_schema import VALUE_KIND
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from paimon_core.types.buffers import int8_array
from paimon_core.types.datetimes import utc_to_local

_READ_OVERWRITE: Final = STREAMING_READ_OVERWRITE.key
_APPEND_OVERWRITE: Final = "streaming-read-append-overwrite"


class Start(StrEnum):
    """The start of a stream (Java: `scan.mode`)."""

    LATEST_FULL = "latest-full"
    LATEST = "latest"
    FROM_SNAPSHOT = "from-snapshot"
    FROM_SNAPSHOT_FULL = "from-snapshot-full"
    FROM_TIMESTAMP = "from-timestamp"
    COMPACTED_FULL = "compacted-full"
    FROM_FILE_CREATION_TIME = "from-file-creation-time"
    FROM_CREATION_TIMESTAMP = "from-creation-timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan:
    """The input of one step of a stream.

    `next_snapshot` is where the stream continues once these rows are processed, None while the
    table has no snapshot.  `whole` is a snapshot to read as a batch, without files created before
    `since` (epoch milliseconds); `changes` holds the files of changes.  `gone` holds files that an
    overwrite removed, and `changes` then the files that it added.  `ended`: the stream has reached
    its bound.
    """

    next_snapshot: int | None
    whole: Snapshot | None = None
    changes: tuple[ManifestEntry, ...] = ()
    gone: tuple[ManifestEntry, ...] | None = None
    since: int | None = None
    ended: bool = False

    @property
    def is_empty(self) -> bool:
        return self.whole is None and not self.changes and not self.gone


@dataclass(slots=True, kw_only=True)
class StreamScan:
    """Creates the plans of one stream, one after the other.

    `at` is the snapshot id or the time (milliseconds since the epoch) that `start` needs.  If
    `next_snapshot` is given, the stream continues there, whatever `start` says.  The stream ends
    before a snapshot whose watermark is beyond `bounded_watermark` (milliseconds); this does not
    apply to the full snapshot at the start.  Nor does `too_young`, which is true for snapshots that
    the stream does not read yet.
    """

    table: FileStoreTable
    start: Start = Start.LATEST_FULL
    at: int | None = None
    next_snapshot: int | None = None
    bounded_watermark: int | None = None
    too_young: Callable[[Snapshot], bool] | None = None
    _ended: bool = field(default=False, init=False)
    _begun: bool = field(default=False, init=False)
    _last_read: Snapshot | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_streamable(self.table)
        if self.table.options.flag(_READ_OVERWRITE):
            if not self.table.has_primary_key:
                raise InvalidArgument(f"for append tables the option is {_APPEND_OVERWRITE}")
            producer = changelog_producer_of(self.table.options)
            if producer.by_compaction:
                raise InvalidArgument(
                    f"{_READ_OVERWRITE}=true would read changes twice: {CHANGELOG_PRODUCER.key} is "
                    f"{producer.name}, so a later compaction also writes the changes of an overwrite"
                )
        needs_at = self.start not in (Start.LATEST_FULL, Start.LATEST, Start.COMPACTED_FULL)
        if needs_at and self.at is None:
            raise InvalidArgument(f"a stream {self.start} needs a snapshot or a time to start at")

    def plan(self) -> StreamPlan:
        """Return the next plan; an empty one if there is nothing new.

        Raises NotFound if the next snapshot expired before it was read, or the table no longer has
        those before it (Java: `NextSnapshotFetcher`; it does not notice that others have their
        numbers).
        """
        if self.next_snapshot is None:
            plan = self._first_plan()
            self.next_snapshot = plan.next_snapshot
            if plan.next_snapshot is not None:
                before = plan.whole or self.table.snapshots.get_or_none(plan.next_snapshot - 1)
                self._last_read = before
                self._ended = before is not None and self._is_beyond(before)
            return plan
        while True:
            if self._ended:
                return StreamPlan(next_snapshot=self.next_snapshot, ended=True)
            snapshot = self._find(self.next_snapshot)
            if snapshot is None:
                return StreamPlan(next_snapshot=self.next_snapshot)
            self._check_last_read()
            if self._is_beyond(snapshot):
                self._ended = True
                continue
            if self.too_young is not None and self.too_young(snapshot):
                return StreamPlan(next_snapshot=self.next_snapshot)
            self.next_snapshot += 1
            self._last_read = snapshot
            plan = self._changes(snapshot, self.next_snapshot)
            if not plan.is_empty:
                return plan

    def check_position(self, snapshot_id: int) -> None:
        """Raise NotFound if the table has lost snapshots before this one, at its newer end."""
        latest = self.table.snapshots.latest_id() or 0
        if snapshot_id > latest + 1:
            raise _rolled_back(
                self.table,
                snapshot_id,
                f"the stream waits for snapshot {snapshot_id} of table {self.table.name}, whose "
                f"newest snapshot is {latest}",
            )

    def _check_last_read(self) -> None:
        """Raise NotFound if another snapshot has the number of the last one that was read."""
        read = self._last_read
        if read is None:
            return
        now = self.stored(read.id)
        if now is not None and now.identity != read.identity:
            raise self.replaced(read.id)

    def replaced(self, snapshot_id: int) -> NotFound:
        """Return the error for another snapshot with the number of one that the stream has read."""
        return _rolled_back(
            self.table,
            snapshot_id,
            f"snapshot {snapshot_id} of table {self.table.name} is not the one that the stream has read",
        )

    def _is_beyond(self, snapshot: Snapshot) -> bool:
        bound, watermark = self.bounded_watermark, snapshot.watermark
        return bound is not None and watermark is not None and watermark > bound

    def _changes(self, snapshot: Snapshot, following: int) -> StreamPlan:
        keyed = self.table.has_primary_key
        reads_overwrites = self.table.options.flag(_READ_OVERWRITE if keyed else _APPEND_OVERWRITE)
        if snapshot.commit_kind is not CommitKind.OVERWRITE or not reads_overwrites:
            changes = self._readable(changes_of(self.table, snapshot) or ())
            ordered = in_plan_order(self.table, changes)
            return StreamPlan(next_snapshot=following, changes=tuple(ordered))
        delta = self._readable(scan_delta(self.table, snapshot))
        entries = in_plan_order(self.table, delta)
        return StreamPlan(
            next_snapshot=following,
            changes=tuple(e for e in entries if e.kind is FileKind.ADD),
            gone=tuple(e for e in entries if e.kind is FileKind.DELETE) if keyed else None,
        )

    def _readable(self, entries: Sequence[ManifestEntry]) -> Sequence[ManifestEntry]:
        if not _only_real_buckets(self.table):
            return entries
        return [e for e in entries if e.bucket != POSTPONE_BUCKET]

    def _first_plan(self) -> StreamPlan:
        snapshots = self.table.snapshots
        latest = snapshots.latest()
        if latest is None:
            # If the table is empty at the start, the stream begins at its first snapshot.
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
                before = last_before(self.table, self.at or 0)
                earliest = self._earliest(latest)
                return StreamPlan(next_snapshot=earliest if before is None else before + 1)
            case Start.COMPACTED_FULL:
                compacted = newest_compacted(self.table) or latest
                return StreamPlan(next_snapshot=compacted.id + 1, whole=compacted)
            case Start.FROM_CREATION_TIMESTAMP:
                before = last_before(self.table, self.at or 0)
                if before is not None and self._exists(before + 1):
                    return StreamPlan(next_snapshot=before + 1)
        return StreamPlan(next_snapshot=latest.id + 1, whole=latest, since=self.at)

    def _earliest(self, latest: Snapshot) -> int:
        """Return the first snapshot with readable changes, including long-lived changelogs."""
        snapshots = self.table.snapshots
        # Java trusts the hint even if older snapshots exist (after a fast-forward).
        hint, _ = snapshots.hints()
        earliest = hint if hint is not None and snapshots.exists(hint) else snapshots.earliest_id()
        kept = self.table.changelogs.earliest_id()
        return min(x for x in (kept, earliest, latest.id) if x is not None)

    def _exists(self, snapshot_id: int) -> bool:
        table = self.table
        return table.snapshots.exists(snapshot_id) or table.changelogs.exists(snapshot_id)

    def stored(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot, or its long-lived changelog; None if there is neither."""
        found = self.table.snapshots.get_or_none(snapshot_id)
        return self.table.changelogs.get_or_none(snapshot_id) if found is None else found

    def _find(self, snapshot_id: int) -> Snapshot | None:
        table = self.table
        found = self.stored(snapshot_id)
        if found is None and snapshot_id < (table.snapshots.earliest_id() or 0):
            raise NotFound(
                f"snapshot {snapshot_id} of table {table.name} expired before the stream read it",
                table=table.name,
                snapshot=snapshot_id,
                next_step="restart the stream; a consumer id keeps snapshots until they are read",
            )
        if found is None:
            self.check_position(snapshot_id)
        return found


def _rolled_back(table: FileStoreTable, snapshot_id: int, what: str) -> NotFound:
    """Return the error of a stream whose table no longer has what the stream has read."""
    return NotFound(
        f"{what}: the table was rolled back or created again",
        table=table.name,
        snapshot=snapshot_id,
        next_step="start a new stream, with another checkpoint or consumer id",
    )


def newest_compacted(table: FileStoreTable) -> Snapshot | None:
    """Return the newest snapshot of a compaction, a full one as far as its identifier shows.

    If only full compactions write changes, `full-compaction.delta-commits` determines which commits
    they follow (Java: `CompactedStartingScanner`, `FullCompactedStartingScanner`).
    """
    every = table.options.value(FULL_COMPACTION_DELTA_COMMITS)
    full = every is not None or changelog_producer_of(table.options).top_level_only
    commits = 1 if every is None else every
    for snapshot_id in sorted(table.snapshots.ids(), reverse=True):
        found = table.snapshots.get_or_none(snapshot_id)
        if found is None or found.commit_kind is not CommitKind.COMPACT:
            continue
        identifier = found.commit_identifier
        if not full or identifier % commits == 0 or identifier == BATCH_COMMIT_IDENTIFIER:
            return found
    return None


def last_before(table: FileStoreTable, millis: int) -> int | None:
    """Return the newest snapshot or long-lived changelog that was committed before `millis`.

    Java: `TimeTravelUtil.earlierThanTimeMills`.
    """
    before = table.snapshots.at_or_before_time(millis - 1)
    if before is None:
        before = table.changelogs.at_or_before_time(millis - 1)
    return None if before is None else before.id


def first_since(table: FileStoreTable, millis: int) -> int | None:
    """Return the first snapshot committed since `millis`, if the one before it still exists."""
    before = table.snapshots.at_or_before_time(millis - 1)
    if before is None or not table.snapshots.exists(before.id + 1):
        return None
    return before.id + 1


def stream_least_level(table: FileStoreTable) -> int:
    """Return the lowest level to read: a later compaction reports lower levels in its changelog."""
    if not table.has_primary_key:
        return 0
    top_level = number_of_levels(table.options) - 1
    return changelog_producer_of(table.options).complete_from(top_level=top_level)


def read_plan(
    table: FileStoreTable,
    plan: StreamPlan,
    *,
    columns: Sequence[str] | None = None,
    zone: tzinfo = UTC,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a plan: `_VALUE_KIND` and at least the columns, in snapshot order.

    `columns` are by default those of the table; with a primary key, `_SEQUENCE_NUMBER` can be one.
    `zone` is the time zone of the files' creation times.
    """
    names = table.schema.names if columns is None else columns
    if plan.whole is not None:
        return read_whole(table, plan.whole, columns=names, since=plan.since, zone=zone)
    if plan.gone is not None:
        return _replaced(table, plan.gone, plan.changes, names)
    return read_changes(table, plan.changes, names)


def read_whole(
    table: FileStoreTable,
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    since: int | None = None,
    zone: tzinfo = UTC,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a stream finds in the snapshot at which it starts, as `read_table`."""
    rows = read_table(
        table,
        snapshot,
        columns=columns,
        predicate=predicate,
        min_level=stream_least_level(table),
        keep=None if since is None else created_since(since, zone),
        lenient=True,
    )
    names = table.schema.names if columns is None else columns
    needed = {*names, *(fields_of(predicate) if predicate is not None else ())}
    postponed = read_changes(table, postponed_files(table, snapshot, since, zone), needed)
    return chain(rows, chosen_rows(postponed, names, predicate))


def postponed_files(
    table: FileStoreTable, snapshot: Snapshot, since: int | None, zone: tzinfo
) -> list[ManifestEntry]:
    """Return the postponed files of the snapshot that the stream reads as changes, oldest first.

    Their rows are in no real bucket, and the stream skips the compaction that moves them there.
    """
    if table.bucket_mode is not BucketMode.POSTPONE or _only_real_buckets(table):
        return []
    keep = None if since is None else created_since(since, zone)
    found = (e for e in scan_files(table, snapshot) if e.bucket == POSTPONE_BUCKET)
    files = [e for e in found if keep is None or keep(e)]
    return in_plan_order(table, sorted(files, key=lambda e: e.file.creation_time or 0))


def _only_real_buckets(table: FileStoreTable) -> bool:
    """Return whether a changelog will report the postponed rows (Java: `onlyReadRealBuckets`)."""
    return table.bucket_mode is BucketMode.POSTPONE and has_changelog(table)


def _replaced(
    table: FileStoreTable,
    gone: Sequence[ManifestEntry],
    added: Sequence[ManifestEntry],
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Yield, bucket by bucket, what an overwrite removed as deletes, then what it wrote.

    Java: `IncrementalChangelogReadProvider`.
    """
    names = [VALUE_KIND, *columns]
    buckets: dict[tuple[bytes, int], tuple[list[DataFileMeta], list[DataFileMeta]]] = {}
    for side, entries in enumerate((gone, added)):
        for e in entries:
            buckets.setdefault((e.partition, e.bucket), ([], []))[side].append(e.file)
    for bucket, (before, after) in buckets.items():
        for batch in merged_files(table, bucket, before, {}, keep_deletes=False):
            rows = batch.select(names)
            kinds = int8_array(_REVERSED[kind_values(rows.column(VALUE_KIND))])
            yield rows.set_column(0, VALUE_KIND, kinds)
        for batch in merged_files(table, bucket, after, {}, keep_deletes=False):
            yield batch.select(names)


_REVERSED: Final = np.array([3, 2, 1, 0], np.int8)
"""Maps +I to -D and -U to +U, and the reverse."""


def created_since(epoch_millis: int, zone: tzinfo) -> Callable[[ManifestEntry], bool]:
    """Return a test for files created at this time or later, by the wall clock of the zone."""
    local = utc_to_local(epoch_millis * 1_000_000, zone) // 1_000_000
    return lambda entry: (entry.file.creation_time or 0) >= local
