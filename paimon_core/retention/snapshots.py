"""Expires snapshots (Java: `ExpireSnapshotsImpl`; java-rules H)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

from paimon_core.errors import StalePlan
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import (
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_NUM_RETAINED_MIN,
    CHANGELOG_TIME_RETAINED,
    CONSUMER_CHANGELOG_ONLY,
    SNAPSHOT_CLEAN_EMPTY_DIRECTORIES,
    SNAPSHOT_EXPIRE_LIMIT,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
    STREAMING_READ_OVERWRITE,
    Options,
)
from paimon_core.reachability.files import Metadata
from paimon_core.reachability.garbage import Garbage, find_garbage
from paimon_core.reachability.lost_changelogs import drop_lost_changelogs
from paimon_core.reachability.references import (
    Reference,
    RefKind,
    all_references,
    changelog_reference,
    without,
)
from paimon_core.reachability.release import release
from paimon_core.reachability.stored_files import NOTHING_PLANNED, PlannedFiles
from paimon_core.refs.consumers import Consumer
from paimon_core.retention.deleting import Deleting
from paimon_core.retention.expiry_range import ExpiryRange, Retention, choose_range
from paimon_core.snapshot.line import NewestWatch, unbroken_ids
from paimon_core.snapshot.removal import Removal, Side, remove_oldest, undone
from paimon_core.snapshot.snapshot import STREAM_QUERY, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The snapshots to delete, oldest first, and the files that only they need.

    `newest` is the newest snapshot at the time of the plan.  `interrupted` are journals of runs
    that died, for callers that finish them.
    """

    going: tuple[Reference, ...] = ()
    planned: PlannedFiles = field(default=NOTHING_PLANNED, repr=False)
    keep_changelogs: bool = False
    interrupted: tuple[str, ...] = ()
    clean_folders: bool = False
    consumers_hold: bool = True
    newest: Snapshot | None = None
    metadata: Metadata | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlan:
    """What expires, and why nothing else does.

    `consumer` is the one that is furthest behind, if consumers hold snapshots; `stream_commit` is
    as in `oldest_stream_commit`.
    """

    work: Expiry
    ids: Sequence[int]
    chosen: ExpiryRange
    consumer: Consumer | None
    stream_commit: int | None
    garbage: Garbage
    references: Sequence[Reference]


# --- planning -----------------------------------------------------------------------------------


def snapshot_retention(options: Options, *, now_millis: int) -> Retention:
    """Return the retention that the table's options define."""
    return Retention(
        num_min=options.value(SNAPSHOT_NUM_RETAINED_MIN),
        num_max=options.value(SNAPSHOT_NUM_RETAINED_MAX),
        limit=options.value(SNAPSHOT_EXPIRE_LIMIT),
        older_than_millis=now_millis - options.value(SNAPSHOT_TIME_RETAINED),
    )


def plan_expiry(
    table: FileStoreTable, retention: Retention, *, now_millis: int, only_if_due: bool = False
) -> ExpiryPlan | None:
    """Return what the retention expires; None for a table without snapshots.

    With `only_if_due`, also None if nothing expires, which then costs no more than the listing.
    InvalidArgument for a contradictory retention, CorruptTable if what stays cannot be read.
    """
    ids = unbroken_ids(table.snapshots)
    if not ids:
        return None
    retention.check()
    decoupled = changelogs_are_kept_longer(table, retention, now_millis)
    consumers_hold = not (decoupled and table.options.value(CONSUMER_CHANGELOG_ONLY))
    consumer = table.consumers.furthest_behind() if consumers_hold else None
    if only_if_due:
        due = choose_snapshots(table, ids, retention, consumer)
        if due.end <= due.earliest:
            return None
    references = all_references(table)
    times = commit_times(table, references)
    mine = (r.snapshot for r in _of_branch(table, references))
    stream_commit = oldest_stream_commit(mine, retention)
    chosen = choose_snapshots(table, ids, retention, consumer, times, stream_commit)
    going = in_range(table, references, chosen)
    if only_if_due and not going:
        return None
    metadata = Metadata(table)
    garbage = garbage_of(table, going, references, metadata, keep_changelogs=decoupled)
    work = Expiry(
        going=tuple(going),
        planned=garbage.files.planned(),
        keep_changelogs=decoupled,
        clean_folders=table.options.value(SNAPSHOT_CLEAN_EMPTY_DIRECTORIES),
        consumers_hold=consumers_hold,
        newest=_newest(references, table, going),
        metadata=metadata,
    )
    return ExpiryPlan(
        work=work,
        ids=ids,
        chosen=chosen,
        consumer=consumer,
        stream_commit=stream_commit,
        garbage=garbage,
        references=references,
    )


def changelogs_are_kept_longer(table: FileStoreTable, retention: Retention, now: int) -> bool:
    """Return whether the changelog retention exceeds that of snapshots (Java: `ExpireConfig`).

    The procedure of 1.4.2 ignores the changelog options and deletes the changelogs; we keep them.
    """
    options = table.options
    least = options.value(CHANGELOG_NUM_RETAINED_MIN)
    most = options.value(CHANGELOG_NUM_RETAINED_MAX)
    time = options.value(CHANGELOG_TIME_RETAINED)
    return (
        (least is not None and least > retention.num_min)
        or (most is not None and most > retention.num_max)
        or (time is not None and time > now - retention.older_than_millis)
    )


def commit_times(table: FileStoreTable, references: Sequence[Reference]) -> dict[int, int]:
    """Return the commit times of the snapshots of the table's branch, in milliseconds by id."""
    return {r.snapshot.id: r.snapshot.time_millis for r in _of_branch(table, references)}


def _of_branch(table: FileStoreTable, references: Sequence[Reference]) -> Iterator[Reference]:
    """Yield the snapshots of the table's branch."""
    for r in references:
        if r.kind is RefKind.SNAPSHOT and r.table.branch == table.branch:
            yield r


def choose_snapshots(
    table: FileStoreTable,
    ids: Sequence[int],
    retention: Retention,
    consumer: Consumer | None,
    times: Mapping[int, int] | None = None,
    stream_commit: int | None = None,
) -> ExpiryRange:
    """Return the range of snapshots to expire; `consumer` is the one furthest behind.

    `times` holds the commit times of all existing snapshots, if they were read before.
    `stream_commit` is as in `oldest_stream_commit`.
    """

    @cache
    def time_of(snapshot_id: int) -> int | None:
        if times is not None:
            return times.get(snapshot_id)
        snapshot = table.snapshots.get_or_none(snapshot_id)
        return None if snapshot is None else snapshot.time_millis

    return choose_range(
        ids,
        retention,
        latest=ids[-1],
        time_of=time_of,
        next_consumed=None if consumer is None else first_needed(table, consumer),
        stream_commit=stream_commit,
    )


def oldest_stream_commit(snapshots: Iterable[Snapshot], retention: Retention) -> int | None:
    """Return the oldest of the newest commits of Spark streams; None if there is none.

    A stream that starts again finds its last micro-batch by it, and would write the rows twice.  A
    number of snapshots to retain says nothing about that, so the age decides: commits that are old
    enough to expire do not count.  In Java, each may expire.
    """
    newest: dict[str, Snapshot] = {}
    for snapshot in sorted(snapshots, key=lambda s: s.id):
        query = (snapshot.properties or {}).get(STREAM_QUERY)
        if query is not None:
            newest[query] = snapshot
    young = (s.id for s in newest.values() if s.time_millis >= retention.older_than_millis)
    return min(young, default=None)


def first_needed(table: FileStoreTable, consumer: Consumer) -> int:
    """Return the first snapshot whose files the consumer needs.

    A stream of overwrites also reads the files that an overwrite removes: they belong to the
    snapshot before it.  Java does not keep that one, and its stream fails.
    """
    reads_removed = table.has_primary_key and table.options.value(STREAMING_READ_OVERWRITE)
    return consumer.next_snapshot - 1 if reads_removed else consumer.next_snapshot


def in_range(
    table: FileStoreTable, references: Sequence[Reference], chosen: ExpiryRange
) -> list[Reference]:
    """Return the snapshots of the table's branch in this range."""
    return [r for r in _of_branch(table, references) if r.snapshot.id in chosen]


def _newest(
    references: Sequence[Reference], table: FileStoreTable, going: Sequence[Reference]
) -> Snapshot | None:
    """Return the newest snapshot; StalePlan if another job removed snapshots during the read."""
    mine = [r.snapshot for r in _of_branch(table, references)]
    newest = max(mine, key=lambda s: s.id, default=None)
    if newest is not None and going and going[-1].snapshot.id >= newest.id:
        raise StalePlan(
            f"another job removed snapshots of table {table.name} while this job read them: the "
            f"newest is now {newest.id}",
            table=table.name,
            snapshot=newest.id,
        )
    return newest


def garbage_of(
    table: FileStoreTable,
    going: Sequence[Reference],
    references: Sequence[Reference],
    metadata: Metadata,
    *,
    keep_changelogs: bool,
) -> Garbage:
    """Return the files that only these snapshots need."""
    staying = without(references, going)
    if keep_changelogs:
        staying += [changelog_reference(r.table, r.snapshot) for r in going]
    return find_garbage(table, going, staying, metadata)


# --- removing -----------------------------------------------------------------------------------


def recheck_expiry(table: FileStoreTable, work: Expiry) -> Expiry:
    """Return the work without snapshots that a consumer needs now or that were replaced."""
    consumer = table.consumers.furthest_behind() if work.consumers_hold else None
    going: list[Reference] = []
    for reference in work.going:
        wanted = consumer is not None and first_needed(table, consumer) <= reference.snapshot.id
        if wanted or not _is_same(reference):
            break
        going.append(reference)
    return replace(work, going=tuple(going))


def _is_same(reference: Reference) -> bool:
    """Return whether the snapshot is still the planned one or is gone; False if it was replaced."""
    now = reference.table.snapshots.get_or_none(reference.snapshot.id)
    return now is None or now.identity == reference.snapshot.identity


def apply_expiry(table: FileStoreTable, work: Expiry, deleting: Deleting) -> dict[str, object]:
    """Delete the snapshots, then the files that only they needed; return the figures for reports.

    Errors as in `release`; StalePlan if another job changed the line meanwhile: then all snapshots
    are there again.
    """
    details: dict[str, object] = {}
    if work.going and work.newest is not None:
        try:
            removed = release(
                table,
                work.going,
                partial(_remove, table, work, work.newest, deleting),
                new_uuid=deleting.env.new_uuid,
                metadata=work.metadata,
                planned=work.planned,
                clean_folders=work.clean_folders,
                delete=deleting.delete,
                leased=deleting.leased,
            )
        finally:
            # Also if it met what another expiry deletes at the same time.
            lost: list[int] = []
            if work.keep_changelogs:
                lost = drop_lost_changelogs(table, [r.snapshot for r in work.going])
        details.update(removed.to_json())
        if lost:
            details["lost_changelogs"] = lost
    details["expired_snapshots"] = [r.snapshot.id for r in work.going]
    return details


def _remove(table: FileStoreTable, work: Expiry, newest: Snapshot, deleting: Deleting) -> None:
    """Delete the oldest first, so that an interruption leaves no gap."""
    watch = NewestWatch(table.snapshots, newest)

    def keep_changelogs(going: Sequence[Snapshot]) -> None:
        # Not earlier: an expiry of changelogs takes their files, which the snapshots still need.
        if not work.keep_changelogs:
            return
        deleting.fence()
        for snapshot in going:
            table.changelogs.put(snapshot)
        last = work.going[-1].snapshot.id
        if going[-1].id == last:
            table.changelogs.write_latest_hint(last)

    removal = Removal(table.snapshots, Side.BEGINNING, fence=deleting.fence)
    try:
        remove_oldest(removal, [r.snapshot for r in work.going], watch, before=keep_changelogs)
        earliest = table.snapshots.earliest_id()
        _prove_gone(table, work, removal, earliest)
        _prove_unneeded(table, work, removal)
    except StalePlan:
        if work.keep_changelogs:
            # A changelog replaces a snapshot that was deleted here.  What a rollback has deleted
            # takes its changelog along.
            for reference in work.going:
                if reference.is_alive() or not removal.took(reference.snapshot.id):
                    table.changelogs.delete(reference.snapshot.id)
        raise
    if earliest is not None:
        table.snapshots.write_earliest_hint(earliest)


def _prove_gone(
    table: FileStoreTable, work: Expiry, removal: Removal, earliest: int | None
) -> None:
    """Restore the snapshots and raise StalePlan if one of them is there still.

    A store that said for a moment that it was missing would leave it without its files, and a gap.
    """
    if earliest is None or earliest > work.going[-1].snapshot.id:
        return
    reason = StalePlan(
        f"snapshot {earliest} of table {table.name} seemed to be missing while it expired, but is there",
        table=table.name,
        snapshot=earliest,
    )
    raise undone(removal, reason)


def _prove_unneeded(table: FileStoreTable, work: Expiry, removal: Removal) -> None:
    """Restore the snapshots and raise StalePlan if a consumer needs one since the re-check."""
    consumer = table.consumers.furthest_behind() if work.consumers_hold else None
    if consumer is None:
        return
    needed = first_needed(table, consumer)
    if needed > work.going[-1].snapshot.id:
        return
    reason = StalePlan(
        f"consumer {consumer.id} of table {table.name} began to need snapshot {needed} while it "
        "expired",
        table=table.name,
        snapshot=needed,
    )
    raise undone(removal, reason)
