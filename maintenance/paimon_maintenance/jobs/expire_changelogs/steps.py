"""Plans and executes the expiry of long-lived changelogs (Java: `ExpireChangelogImpl`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import SNAPSHOT_CLEAN_EMPTY_DIRECTORIES
from paimon_core.reachability.files import Metadata
from paimon_core.reachability.garbage import find_garbage
from paimon_core.reachability.references import all_references, without
from paimon_core.reachability.release import finish_interrupted, journals
from paimon_core.retention.changelogs import (
    ChangelogExpiry,
    apply_changelogs,
    changelog_retention,
    changelogs_beyond,
    changelogs_of,
    recheck_changelogs,
    wants,
)
from paimon_core.retention.expiry_range import Retention
from paimon_maintenance.job.effects import expiry_effect
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.job.plan import Retained, retained_files
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.rules.retention import with_arguments
from paimon_maintenance.storage.bulk import delete_paths, deleting_in

Arguments = Mapping[str, object]


Plan = MetadataPlan[ChangelogExpiry]


def make(table: FileStoreTable, arguments: Arguments, context: RunContext) -> Plan:
    """The changelogs beyond the retention, and the reasons for keeping the others."""
    interrupted = tuple(journals(table))
    references = all_references(table)
    mine = changelogs_of(table, references)
    retention = _retention(table, arguments, context)
    everything = bool(arguments.get("delete_all"))
    metadata = Metadata(table)
    going, why = (mine, "") if everything else changelogs_beyond(table, mine, retention)
    garbage = find_garbage(table, going, without(references, going), metadata)
    kept = retained_files(garbage.held)
    consumer = None if everything else table.consumers.furthest_behind()
    if consumer is not None:
        further, _ = changelogs_beyond(table, mine, retention, consumers_hold=False)
        if len(further) > len(going):
            held = find_garbage(table, further, without(references, further), metadata)
            kept.insert(
                0,
                Retained(
                    what="changelogs beyond the retention",
                    why=f"{wants(consumer)}; see expire_consumers, reset_consumer",
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
            planned=garbage.files.planned(),
            interrupted=interrupted,
            consumers_hold=not everything,
        ),
        actions=tuple(actions),
        kept=tuple(kept),
        effect=expiry_effect(table, going, references, garbage.files),
        arguments=arguments,
    )


def _retention(table: FileStoreTable, arguments: Arguments, context: RunContext) -> Retention:
    """The arguments, else what the table's options say."""
    now = context.env.now_millis()
    found = changelog_retention(table.options, now_millis=now)
    return with_arguments(found, arguments, context.env)


def recheck(table: FileStoreTable, plan: Plan) -> Plan:
    """The plan without changelogs that a consumer needs now."""
    return replace(plan, work=recheck_changelogs(table, plan.work))


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

    details.update(apply_changelogs(table, work, deleting_in(context)))
    return Committed(details=details)


STEPS: Final = metadata_steps(make, apply, recheck=recheck)
