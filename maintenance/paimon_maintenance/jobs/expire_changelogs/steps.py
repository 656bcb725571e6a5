"""Plans and executes the expiry of long-lived changelogs (Java: `ExpireChangelogImpl`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, cast

from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import (
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_NUM_RETAINED_MIN,
    CHANGELOG_TIME_RETAINED,
    SNAPSHOT_CLEAN_EMPTY_DIRECTORIES,
    SNAPSHOT_EXPIRE_LIMIT,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
)
from paimon_core.reachability.files import Metadata, StoredFile
from paimon_core.reachability.garbage import find_garbage
from paimon_core.reachability.references import Reference, RefKind, all_references, without
from paimon_core.reachability.release import finish_interrupted, journals, release
from paimon_core.refs.consumers import Consumer
from paimon_maintenance.job.effects import expiry_effect
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.job.plan import Retained, retained_files
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.rules.retention import Keep, Retention, choose_range
from paimon_maintenance.rules.times import parse_older_than
from paimon_maintenance.storage.bulk import delete_paths

Arguments = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogExpiry:
    """The changelogs to delete, oldest first, and the files that only they need."""

    going: tuple[Reference, ...] = ()
    files: frozenset[StoredFile] = field(default=frozenset(), repr=False)
    interrupted: tuple[str, ...] = ()
    consumers_hold: bool = True


Plan = MetadataPlan[ChangelogExpiry]


def make(table: FileStoreTable, arguments: Arguments, context: RunContext) -> Plan:
    """The changelogs beyond the retention, and the reasons for keeping the others."""
    interrupted = tuple(journals(table))
    references = all_references(table)
    mine = [r for r in references if r.kind is RefKind.CHANGELOG and r.table.branch == table.branch]
    mine.sort(key=lambda r: r.snapshot.id)
    everything = bool(arguments.get("delete_all"))
    metadata = Metadata(table)
    going, why = (mine, "") if everything else _beyond(table, mine, arguments, context)
    garbage = find_garbage(table, going, without(references, going), metadata)
    kept = retained_files(garbage.held)
    consumer = None if everything else table.consumers.furthest_behind()
    if consumer is not None:
        further, _ = _beyond(table, mine, arguments, context, consumers_hold=False)
        if len(further) > len(going):
            held = find_garbage(table, further, without(references, further), metadata)
            kept.insert(
                0,
                Retained(
                    what="changelogs beyond the retention",
                    why=f"{_wants(consumer)}; see expire_consumers, reset_consumer",
                    count=len(further) - len(going),
                    bytes=held.bytes - garbage.bytes,
                ),
            )
    actions = []
    if interrupted:
        actions.append(Action(f"finish {counted(len(interrupted), 'interrupted runs')}"))
    if going:
        first, last = going[0].snapshot.id, going[-1].snapshot.id
        actions.append(
            Action(
                f"expire {counted(len(going), 'changelogs')}, {first} to {last}",
                f"frees {human_bytes(garbage.bytes)} in {counted(len(garbage.files), 'files')}",
                {"changelogs": [r.snapshot.id for r in going], "bytes": garbage.bytes},
            )
        )
    left = len(mine) - len(going)
    if left:
        kept.insert(0, Retained(what="changelogs", why=why, count=left))
    elif not mine:
        why = "the table has no long-lived changelogs"
        kept.append(Retained(what="changelogs", why=why, count=0))
    return MetadataPlan(
        job="expire_changelogs",
        table=table.name,
        pin=latest_pin(table),
        work=ChangelogExpiry(
            going=tuple(going),
            files=frozenset(garbage.files),
            interrupted=interrupted,
            consumers_hold=not everything,
        ),
        actions=tuple(actions),
        kept=tuple(kept),
        effect=expiry_effect(table, going, references, garbage.files),
        arguments=arguments,
    )


def _beyond(
    table: FileStoreTable,
    mine: Sequence[Reference],
    arguments: Arguments,
    context: RunContext,
    *,
    consumers_hold: bool = True,
) -> tuple[list[Reference], str]:
    latest = table.snapshots.latest_id()
    if not mine or latest is None:
        return [], ""
    times = {r.snapshot.id: r.snapshot.time_millis for r in mine}
    consumer = table.consumers.furthest_behind() if consumers_hold else None
    chosen = choose_range(
        [r.snapshot.id for r in mine],
        _retention(table, arguments, context),
        latest=latest,
        time_of=times.get,
        next_consumed=None if consumer is None else consumer.next_snapshot,
    )
    # Keep the newest long-lived changelog, so that there is no gap before the snapshots.
    newest = mine[-1].snapshot.id
    why = f"changelog.{chosen.stopped_by}"
    if chosen.stopped_by is Keep.CONSUMER and consumer is not None:
        why = _wants(consumer)
    if newest in chosen:
        why = "the newest changelog is always kept"
    return [r for r in mine if r.snapshot.id in chosen and r.snapshot.id != newest], why


def _wants(consumer: Consumer) -> str:
    return f"consumer {consumer.id} reads snapshot {consumer.next_snapshot} next"


def _retention(table: FileStoreTable, arguments: Arguments, context: RunContext) -> Retention:
    """The arguments, else the changelog options, else those of snapshots, as in Java."""
    options = table.options

    def chosen(name: str, *defaults: int | None) -> int:
        values = (cast("int | None", arguments.get(name)), *defaults)
        return next(v for v in values if v is not None)

    kept = options.value(CHANGELOG_TIME_RETAINED)
    if kept is None:
        kept = options.value(SNAPSHOT_TIME_RETAINED)
    older_than = cast("str | None", arguments.get("older_than"))
    return Retention(
        num_min=chosen(
            "retain_min",
            options.value(CHANGELOG_NUM_RETAINED_MIN),
            options.value(SNAPSHOT_NUM_RETAINED_MIN),
        ),
        num_max=chosen(
            "retain_max",
            options.value(CHANGELOG_NUM_RETAINED_MAX),
            options.value(SNAPSHOT_NUM_RETAINED_MAX),
        ),
        limit=chosen("max_deletes", options.value(SNAPSHOT_EXPIRE_LIMIT)),
        older_than_millis=context.env.now_millis() - kept
        if older_than is None
        else parse_older_than(older_than, context.env),
    )


def recheck(table: FileStoreTable, plan: Plan) -> Plan:
    """The plan without changelogs that a consumer needs now."""
    work = plan.work
    wanted = table.consumers.min_next_snapshot() if work.consumers_hold else None
    going = tuple(r for r in work.going if wanted is None or r.snapshot.id < wanted)
    return replace(plan, work=replace(work, going=going))


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Finish interrupted runs, then expire the changelogs."""
    work = plan.work
    clean = table.options.value(SNAPSHOT_CLEAN_EMPTY_DIRECTORIES)
    details: dict[str, object] = {}
    if work.interrupted:
        context.fence()
        finished = finish_interrupted(
            table,
            work.interrupted,
            clean_folders=clean,
            delete=partial(delete_paths, context=context),
        )
        details["finished"] = finished.to_json()

    def delete_references() -> None:
        for reference in work.going:
            context.fence()
            table.changelogs.delete(reference.snapshot.id)
        earliest = table.changelogs.earliest_id()
        if earliest is None:
            table.changelogs.delete_hints()
        else:
            table.changelogs.write_earliest_hint(earliest)

    if work.going:
        removed = release(
            table,
            work.going,
            delete_references,
            new_uuid=context.env.new_uuid,
            planned=work.files,
            clean_folders=clean,
            delete=partial(delete_paths, context=context),
        )
        details.update(removed.to_json())
    details["expired_changelogs"] = [r.snapshot.id for r in work.going]
    return Committed(details=details)


STEPS: Final = metadata_steps(make, apply, recheck=recheck)
