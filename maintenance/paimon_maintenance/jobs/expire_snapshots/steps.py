"""Plans and executes the expiry of snapshots (Java: `ExpireSnapshotsImpl`; java-rules H)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from paimon_core.file_store_table import FileStoreTable
from paimon_core.reachability.files import Metadata
from paimon_core.reachability.garbage import Garbage
from paimon_core.reachability.references import Reference
from paimon_core.reachability.release import finish_interrupted, journals
from paimon_core.refs.consumers import Consumer
from paimon_core.retention.expiry_range import ExpiryRange, Keep, Retention
from paimon_core.retention.snapshots import (
    Expiry,
    apply_expiry,
    choose_snapshots,
    commit_times,
    garbage_of,
    in_range,
    plan_expiry,
    recheck_expiry,
    snapshot_retention,
)
from paimon_maintenance.job.effects import expiry_effect
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.job.plan import Retained, retained_files
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.rules.retention import with_arguments
from paimon_maintenance.storage.bulk import delete_paths, deleting_in

Plan = MetadataPlan[Expiry]


def make(table: FileStoreTable, arguments: Mapping[str, object], context: RunContext) -> Plan:
    """The snapshots beyond the retention, and the reasons for keeping the others."""
    interrupted = tuple(journals(table))
    now = context.env.now_millis()
    retention = _retention(table, arguments, context)
    found = plan_expiry(table, retention, now_millis=now)
    if found is None:
        return _plan(table, arguments, Expiry(interrupted=interrupted))
    work = replace(found.work, interrupted=interrupted)
    garbage, consumer, chosen = found.garbage, found.consumer, found.chosen
    references, going = found.references, work.going
    kept = retained_files(garbage.held)
    if chosen.stopped_by is Keep.CONSUMER and consumer is not None:
        times = commit_times(table, references)
        further = choose_snapshots(table, found.ids, retention, None, times, found.stream_commit)
        more = in_range(table, references, further)
        if len(more) > len(going):
            held = garbage_of(
                table,
                more,
                references,
                work.metadata or Metadata(table),
                keep_changelogs=work.keep_changelogs,
            )
            kept.insert(0, _held_by_consumer(consumer, len(more) - len(going), held, garbage))
    stays = len(found.ids) - len(going)
    kept.insert(0, Retained(what="snapshots", why=_why(chosen, consumer), count=stays))
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
        which = f"{first}" if first == last else f"{first} to {last}"
        counts = ", ".join(counted(n, f"{role} files") for role, n in garbage.counts().items())
        actions.append(
            Action(
                f"expire {counted(len(work.going), 'snapshots')}, {which}"
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
    """The arguments, else what the table's options say."""
    found = snapshot_retention(table.options, now_millis=context.env.now_millis())
    return with_arguments(found, arguments, context.env)


# --- reasons ------------------------------------------------------------------------------------


def _why(chosen: ExpiryRange, consumer: Consumer | None) -> str:
    if chosen.stopped_by is Keep.CONSUMER and consumer is not None:
        return f"consumer {consumer.id} reads snapshot {consumer.next_snapshot} next"
    if chosen.stopped_by is Keep.STREAM:
        return f"a Spark stream finds its last micro-batch by snapshot {chosen.end} when it starts again"
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
    return replace(plan, work=recheck_expiry(table, plan.work))


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

    details.update(apply_expiry(table, work, deleting_in(context)))
    return Committed(details=details)


STEPS: Final = metadata_steps(make, apply, recheck=recheck)
