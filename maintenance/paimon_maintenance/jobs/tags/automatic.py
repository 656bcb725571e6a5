"""trigger_tag_automatic_creation (Java: `TagAutoManager`, `Tag{Auto,Batch}Creation`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from paimon_core.errors import InvalidArgument
from paimon_core.features import check_taggable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import (
    TAG_AUTOMATIC_CREATION,
    TAG_DEFAULT_TIME_RETAINED,
    TAG_NUM_RETAINED_MAX,
    TAG_TIME_EXPIRE_ENABLED,
)
from paimon_core.refs.tags import Tag
from paimon_core.retention.tag_schedule import TagPeriod, automatic_tags
from paimon_core.retention.tags import (
    TagDeletion,
    announce_tag,
    batch_tag,
    batch_tags,
    create_automatic,
    is_unannounced,
    make_tag,
    periodic_tags,
)
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.datetimes import wall_clock_text
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, metadata_steps
from paimon_maintenance.job.plan import Retained
from paimon_maintenance.jobs.tags.remove import apply_deletion, expired_tags, plan_deletion
from paimon_maintenance.jobs.tags.remove import recheck as recheck_deletion


@dataclass(frozen=True, slots=True)
class TagChanges:
    """The tags to create, in order, and the tags to delete afterwards.

    `unannounced` is a tag that is not announced, because its creation was interrupted.
    """

    create: tuple[Tag, ...]
    deletion: MetadataPlan[TagDeletion]
    unannounced: str | None = None


Plan = MetadataPlan[TagChanges]


def make(table: FileStoreTable, arguments: Mapping[str, object], context: RunContext) -> Plan:
    """The tags to create, those beyond the maximum number, and those beyond their time to live."""
    mode = table.options.value(TAG_AUTOMATIC_CREATION)
    kept: list[Retained] = []
    tags = table.tags.all()
    due: list[tuple[str, Snapshot]] = []
    beyond: list[str] = []
    match mode:
        case "none":
            kept.append(
                Retained(what="automatic tags", why="tag.automatic-creation is none", count=0)
            )
        case "batch":
            due = _batch_tag(table, tags, context)
        case "process-time" | "watermark":
            due, beyond, kept = _periodic(table, mode, tags, arguments, context)
        case other:
            raise InvalidArgument(f"unknown tag.automatic-creation {other!r}", table=table.name)
    retained = table.options.value(TAG_DEFAULT_TIME_RETAINED)
    if due:
        check_taggable(table)
    create = tuple(make_tag(name, snapshot, retained, context.env) for name, snapshot in due)
    by_name = {t.name: t for t in tags}
    unannounced = _unannounced(table, mode, tags)
    why = f"beyond tag.num-retained-max={table.options.value(TAG_NUM_RETAINED_MAX)}"
    going = [(by_name[n], why) for n in beyond]
    if table.options.value(TAG_TIME_EXPIRE_ENABLED):
        over, others = expired_tags(table, context)
        going += [(t, reason) for t, reason in over if t.name not in beyond]
        kept += [k for k in others if all(k.what != f"tag {n!r}" for n in beyond)]
    name = "trigger_tag_automatic_creation"
    deletion = plan_deletion(name, table, going, kept, arguments)
    actions = [
        Action(f"tag snapshot {t.snapshot.id} as {t.name!r}", mode, {"tag": t.name}) for t in create
    ]
    if unannounced is not None:
        actions.insert(0, Action(f"announce tag {unannounced!r}"))
    return MetadataPlan(
        job=name,
        table=table.name,
        pin=deletion.pin,
        work=TagChanges(create, deletion, unannounced),
        actions=(*actions, *deletion.actions),
        kept=deletion.kept,
        effect=deletion.effect,
        arguments=arguments,
    )


def _unannounced(table: FileStoreTable, mode: str, tags: list[Tag]) -> str | None:
    """The newest automatic tag if it is not announced."""
    if mode == "batch":
        mine = [t.name for t in batch_tags(table, tags)]
    elif mode == "none":
        mine = []
    else:
        period = TagPeriod.of(table.options)
        mine = [t.name for t in automatic_tags(((t.name, t.snapshot.id) for t in tags), period)]
    return mine[-1] if mine and is_unannounced(table, mine[-1]) else None


def _periodic(
    table: FileStoreTable,
    mode: str,
    tags: list[Tag],
    arguments: Mapping[str, object],
    context: RunContext,
) -> tuple[list[tuple[str, Snapshot]], list[str], list[Retained]]:
    found = periodic_tags(
        table,
        mode,
        tags,
        context.env,
        newest_stands_for_now=arguments.get("when_idle") == "latest",
    )
    kept: list[Retained] = []
    schedule, period = found.schedule, found.period
    if schedule.next_period is not None:
        due = schedule.next_period + period.millis + period.delay
        why = f"due with the first commit at or after {wall_clock_text(due)}"
        kept.append(
            Retained(what=f"tag {period.name_of(schedule.next_period)!r}", why=why, count=0)
        )
    return found.create, list(schedule.delete), kept


def _batch_tag(
    table: FileStoreTable, tags: list[Tag], context: RunContext
) -> list[tuple[str, Snapshot]]:
    """The batch tag for the newest snapshot, unless a tag with this name exists.

    Java's batch jobs replace a tag of the same day; we keep the first one of a day, and do not
    count manual tags towards tag.num-retained-max (decision 0008).
    """
    found = batch_tag(table, context.env)
    return [] if found is None or any(t.name == found[0] for t in tags) else [found]


def recheck(table: FileStoreTable, plan: Plan) -> Plan:
    """The plan without tags that changed after it."""
    deletion = recheck_deletion(table, plan.work.deletion)
    create = tuple(
        t
        for t in plan.work.create
        if (now := table.snapshots.get_or_none(t.snapshot.id)) is not None
        and now.identity == t.snapshot.identity
    )
    return replace(plan, work=replace(plan.work, create=create, deletion=deletion))


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Create tags first, then delete, so that an interruption leaves too many tags, not too few."""
    if plan.work.unannounced is not None:
        announce_tag(table, plan.work.unannounced, context.env.now_millis())
    created = create_automatic(table, plan.work.create, context.env)
    committed = apply_deletion(table, plan.work.deletion, context)
    return replace(committed, details={"created_tags": created, **committed.details})


AUTOMATIC: Final = metadata_steps(make, apply, recheck=recheck)
