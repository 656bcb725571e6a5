"""Plans and executes the expiry of snapshots (Java: `ExpireSnapshotsImpl`; java-rules H)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, cast

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
)
from paimon_core.reachability.files import Metadata, StoredFile
from paimon_core.reachability.garbage import Garbage, find_garbage
from paimon_core.reachability.lost_changelogs import drop_lost_changelogs
from paimon_core.reachability.references import (
    Reference,
    RefKind,
    all_references,
    changelog_reference,
    without,
)
from paimon_core.reachability.release import finish_interrupted, journals, release
from paimon_core.refs.consumers import Consumer
from paimon_core.snapshot.line import NewestWatch, unbroken_ids
from paimon_core.snapshot.removal import Removal, Side, remove_oldest
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.job.effects import expiry_effect
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.job.plan import Retained, retained_files
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.rules.retention import ExpiryRange, Keep, Retention, choose_range
from paimon_maintenance.rules.times import parse_older_than
from paimon_maintenance.storage.bulk import delete_paths

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The snapshots to delete, oldest first, and the files that only they need.

    `newest` is the newest snapshot at the time of the plan.
    """

    going: tuple[Reference, ...] = ()
    files: frozenset[StoredFile] = frozenset()
    keep_changelogs: bool = False
    interrupted: tuple[str, ...] = ()
    clean_folders: bool = False
    consumers_hold: bool = True
    newest: Snapshot | None = None
    metadata: Metadata | None = field(default=None, compare=False, repr=False)


Plan = MetadataPlan[Expiry]


def make(table: FileStoreTable, arguments: Mapping[str, object], context: RunContext) -> Plan:
    """The snapshots beyond the retention, and the reasons for keeping the others."""
    interrupted = tuple(journals(table))
    ids = unbroken_ids(table.snapshots)
    if not ids:
        return _plan(table, arguments, Expiry(interrupted=interrupted))
    now = context.env.now_millis()
    retention = _retention(table, arguments, context)
    retention.check()
    decoupled = changelogs_are_kept_longer(table, retention, now)
    consumers_hold = not (decoupled and table.options.value(CONSUMER_CHANGELOG_ONLY))
    consumer = table.consumers.furthest_behind() if consumers_hold else None
    chosen = _choose(table, ids, retention, consumer)
    references = all_references(table)
    going = _in_range(table, references, chosen)
    metadata = Metadata(table)
    garbage = _garbage(table, going, references, metadata, keep_changelogs=decoupled)
    kept = retained_files(garbage.held)
    if chosen.stopped_by is Keep.CONSUMER and consumer is not None:
        further = _choose(table, ids, retention, None)
        more = _in_range(table, references, further)
        if len(more) > len(going):
            held = _garbage(table, more, references, metadata, keep_changelogs=decoupled)
            kept.insert(0, _held_by_consumer(consumer, len(more) - len(going), held, garbage))
    stays = len(ids) - len(going)
    kept.insert(0, Retained(what="snapshots", why=_why(chosen, consumer), count=stays))
    work = Expiry(
        going=tuple(going),
        files=frozenset(garbage.files),
        keep_changelogs=decoupled,
        interrupted=interrupted,
        clean_folders=table.options.value(SNAPSHOT_CLEAN_EMPTY_DIRECTORIES),
        consumers_hold=consumers_hold,
        newest=_newest(references, table, going),
        metadata=metadata,
    )
    return _plan(table, arguments, work, garbage, kept, references)


def _plan(
    table: FileStoreTable,
    arguments: Mapping[str, object],
    work: Expiry,
    garbage: Garbage | None = None,
    kept: Sequence[Retained] = (),
    references: Sequence[Reference] = (),
) -> Plan:
    garbage = garbage or Garbage()
    actions = []
    if work.interrupted:
        n = len(work.interrupted)
        actions.append(
            Action(f"finish {counted(n, 'interrupted runs')}", "their files still exist")
        )
    if work.going:
        first, last = work.going[0].snapshot.id, work.going[-1].snapshot.id
        counts = ", ".join(counted(n, f"{role} files") for role, n in garbage.counts().items())
        actions.append(
            Action(
                f"expire {counted(len(work.going), 'snapshots')}, {first} to {last}"
                + (", keeping their changelogs" if work.keep_changelogs else ""),
                f"frees {human_bytes(garbage.bytes)} in {counted(len(garbage.files), 'files')}"
                + (f" ({counts})" if counts else ""),
                {
                    "snapshots": [r.snapshot.id for r in work.going],
                    "files": len(garbage.files),
                    "bytes": garbage.bytes,
                    "files_by_kind": garbage.counts(),
                },
            )
        )
    return MetadataPlan(
        job="expire_snapshots",
        table=table.name,
        pin=latest_pin(table),
        work=work,
        actions=tuple(actions),
        kept=tuple(kept),
        effect=expiry_effect(table, work.going, references, garbage.files),
        arguments=arguments,
    )


# --- selection ----------------------------------------------------------------------------------


def _retention(
    table: FileStoreTable, arguments: Mapping[str, object], context: RunContext
) -> Retention:
    options = table.options
    older_than = cast("str | None", arguments.get("older_than"))

    def chosen(name: str, default: int) -> int:
        value = cast("int | None", arguments.get(name))
        return default if value is None else value

    return Retention(
        num_min=chosen("retain_min", options.value(SNAPSHOT_NUM_RETAINED_MIN)),
        num_max=chosen("retain_max", options.value(SNAPSHOT_NUM_RETAINED_MAX)),
        limit=chosen("max_deletes", options.value(SNAPSHOT_EXPIRE_LIMIT)),
        older_than_millis=context.env.now_millis() - options.value(SNAPSHOT_TIME_RETAINED)
        if older_than is None
        else parse_older_than(older_than, context.env),
    )


def changelogs_are_kept_longer(table: FileStoreTable, retention: Retention, now: int) -> bool:
    """Whether the changelog retention exceeds that of snapshots (Java: `ExpireConfig`).

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


def _choose(
    table: FileStoreTable, ids: Sequence[int], retention: Retention, consumer: Consumer | None
) -> ExpiryRange:
    def time_of(snapshot_id: int) -> int | None:
        snapshot = table.snapshots.get_or_none(snapshot_id)
        return None if snapshot is None else snapshot.time_millis

    return choose_range(
        ids,
        retention,
        latest=ids[-1],
        time_of=time_of,
        next_consumed=None if consumer is None else consumer.next_snapshot,
    )


def _in_range(
    table: FileStoreTable, references: Sequence[Reference], chosen: ExpiryRange
) -> list[Reference]:
    return [
        r
        for r in references
        if r.kind is RefKind.SNAPSHOT and r.table.branch == table.branch and r.snapshot.id in chosen
    ]


def _newest(
    references: Sequence[Reference], table: FileStoreTable, going: Sequence[Reference]
) -> Snapshot | None:
    """The newest snapshot; StalePlan if another job removed snapshots during the read."""
    mine = [
        r.snapshot
        for r in references
        if r.kind is RefKind.SNAPSHOT and r.table.branch == table.branch
    ]
    newest = max(mine, key=lambda s: s.id, default=None)
    if newest is not None and going and going[-1].snapshot.id >= newest.id:
        raise StalePlan(
            f"another job removed snapshots of table {table.name} while this job read them: the "
            f"newest is now {newest.id}",
            table=table.name,
            snapshot=newest.id,
        )
    return newest


def _garbage(
    table: FileStoreTable,
    going: Sequence[Reference],
    references: Sequence[Reference],
    metadata: Metadata,
    *,
    keep_changelogs: bool,
) -> Garbage:
    staying = without(references, going)
    if keep_changelogs:
        staying += [changelog_reference(r.table, r.snapshot) for r in going]
    return find_garbage(table, going, staying, metadata)


# --- reasons ------------------------------------------------------------------------------------


def _why(chosen: ExpiryRange, consumer: Consumer | None) -> str:
    if chosen.stopped_by is Keep.CONSUMER and consumer is not None:
        return f"consumer {consumer.id} reads snapshot {consumer.next_snapshot} next"
    return f"snapshot.{chosen.stopped_by}"


def _held_by_consumer(
    consumer: Consumer, snapshots: int, with_it: Garbage, without_it: Garbage
) -> Retained:
    return Retained(
        what="snapshots beyond the retention",
        why=f"consumer {consumer.id} reads snapshot {consumer.next_snapshot} next; "
        "see expire_consumers, reset_consumer",
        count=snapshots,
        bytes=with_it.bytes - without_it.bytes,
    )


# --- execution ----------------------------------------------------------------------------------


def recheck(table: FileStoreTable, plan: Plan) -> Plan:
    """The plan without snapshots that a consumer needs now or that were replaced."""
    work = plan.work
    consumer = table.consumers.furthest_behind() if work.consumers_hold else None
    going: list[Reference] = []
    for reference in work.going:
        wanted = consumer is not None and consumer.next_snapshot <= reference.snapshot.id
        if wanted or not _is_same(reference):
            break
        going.append(reference)
    return replace(plan, work=replace(work, going=tuple(going)))


def _is_same(reference: Reference) -> bool:
    """Whether the snapshot is still the planned one or is gone; False if it was replaced."""
    now = reference.table.snapshots.get_or_none(reference.snapshot.id)
    return now is None or now.identity == reference.snapshot.identity


def _remove(table: FileStoreTable, work: Expiry, newest: Snapshot, context: RunContext) -> None:
    """Delete the oldest first, so that an interruption leaves no gap."""
    watch = NewestWatch(table.snapshots, newest)
    if work.keep_changelogs:
        watch.check()
        context.fence()
        for reference in work.going:
            table.changelogs.put(reference.snapshot)
        table.changelogs.write_latest_hint(work.going[-1].snapshot.id)
    removal = Removal(table.snapshots, Side.BEGINNING, fence=context.fence)
    try:
        remove_oldest(removal, [r.snapshot for r in work.going], watch)
    except StalePlan:
        if work.keep_changelogs:
            # A changelog replaces a deleted snapshot.
            for reference in work.going:
                if reference.is_alive():
                    table.changelogs.delete(reference.snapshot.id)
        raise
    earliest = table.snapshots.earliest_id()
    if earliest is not None:
        table.snapshots.write_earliest_hint(earliest)


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Finish interrupted runs, then expire the snapshots."""
    work = plan.work
    details: dict[str, object] = {}
    if work.interrupted:
        context.fence()
        finished = finish_interrupted(
            table,
            work.interrupted,
            clean_folders=work.clean_folders,
            delete=partial(delete_paths, context=context),
        )
        details["finished"] = finished.to_json()

    if work.going and work.newest is not None:
        removed = release(
            table,
            work.going,
            partial(_remove, table, work, work.newest, context),
            new_uuid=context.env.new_uuid,
            metadata=work.metadata,
            planned=work.files,
            clean_folders=work.clean_folders,
            delete=partial(delete_paths, context=context),
        )
        details.update(removed.to_json())
        if work.keep_changelogs:
            lost = drop_lost_changelogs(table, [r.snapshot for r in work.going])
            if lost:
                details["lost_changelogs"] = lost
    details["expired_snapshots"] = [r.snapshot.id for r in work.going]
    return Committed(details=details)


STEPS: Final = metadata_steps(make, apply, recheck=recheck)
