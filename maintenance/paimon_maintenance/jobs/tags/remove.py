"""delete_tag and expire_tags (Java: `utils/TagManager.deleteTag`, `tag/TagTimeExpire`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from paimon_core.environment import local_clock
from paimon_core.errors import SEE_INSPECT, InvalidArgument, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import map_parallel
from paimon_core.reachability.release import finish_interrupted, journals
from paimon_core.refs.tags import Tag
from paimon_core.retention.tags import (
    TagDeletion,
    apply_tags,
    plan_tag_deletion,
    recheck_tags,
)
from paimon_core.types.datetimes import wall_clock_text
from paimon_maintenance.job.effects import expiry_effect
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.job.plan import Retained, retained_files
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.rules.times import parse_older_than
from paimon_maintenance.storage.bulk import deleting_in

Arguments = Mapping[str, object]


Plan = MetadataPlan[TagDeletion]
NONE_WRITTEN: Final[Mapping[str, int]] = {}


def make_delete(table: FileStoreTable, arguments: Arguments, _: RunContext) -> Plan:
    """The named tags; missing ones are reported, NotFound if none exists."""
    names = cast("Sequence[str]", arguments.get("tag") or ())
    if not names:
        raise InvalidArgument("argument --tag is required")
    found = [table.tags.get_or_none(name) for name in names]
    missing = [n for n, t in zip(names, found, strict=True) if t is None]
    interrupted = journals(table)
    if len(missing) == len(names) and not interrupted:
        raise NotFound(
            f"tag {', '.join(map(repr, missing))} of table {table.name} does not exist",
            table=table.name,
            next_step=SEE_INSPECT,
        )
    tags = [(t, "it is named") for t in found if t is not None]
    kept = [Retained(what=f"tag {n!r}", why="it does not exist") for n in missing]
    return plan_deletion("delete_tag", table, tags, kept, arguments)


def make_expire(table: FileStoreTable, arguments: Arguments, context: RunContext) -> Plan:
    """The expired tags."""
    older_than = cast("str | None", arguments.get("older_than"))
    before = (
        None
        if older_than is None
        else local_clock(parse_older_than(older_than, context.env), context.env)
    )
    written = {} if before is None else _written(table)
    going, kept = expired_tags(table, context, before=before, written=written)
    return plan_deletion("expire_tags", table, going, kept, arguments, written)


def _written(table: FileStoreTable) -> dict[str, int]:
    """When the files of the tags were written that hold no creation time."""
    names = [tag.name for tag in table.tags.all() if tag.create_time is None]
    times = map_parallel(table.io, table.tags.modified_millis, names)
    return {name: at for name, at in zip(names, times, strict=True) if at is not None}


def expired_tags(
    table: FileStoreTable,
    context: RunContext,
    *,
    before: int | None = None,
    written: Mapping[str, int] = NONE_WRITTEN,
) -> tuple[list[tuple[Tag, str]], list[Retained]]:
    """The tags beyond their time to live or created before a time, with reasons, and the others.

    `written`: when the files of tags were written that hold no creation time.
    """
    now = context.env.local_millis()
    going: list[tuple[Tag, str]] = []
    kept: list[Retained] = []
    for tag in table.tags.all():
        ends = tag.expires_at_millis
        made = None if tag.create_time is None else tag.create_time // 1_000_000
        if made is None and tag.name in written:
            made = local_clock(written[tag.name], context.env)
        if ends is not None and ends < now:
            going.append((tag, f"its time to live ended at {wall_clock_text(ends)}"))
        elif before is not None and made is not None and made < before:
            going.append((tag, f"created at {wall_clock_text(made)}, before older_than"))
        else:
            why = "no time to live" if ends is None else f"until {wall_clock_text(ends)}"
            kept.append(Retained(what=f"tag {tag.name!r}", why=why))
    return going, kept


def plan_deletion(
    job: str,
    table: FileStoreTable,
    tags: Sequence[tuple[Tag, str]],
    kept: Sequence[Retained],
    arguments: Arguments,
    written: Mapping[str, int] = NONE_WRITTEN,
) -> Plan:
    """The plan that deletes these tags and the files that only they need.

    `written` as in `expired_tags`.
    """
    interrupted = tuple(journals(table))
    work, garbage, references = plan_tag_deletion(table, [tag for tag, _ in tags])
    going = work.going
    actions = [
        Action(f"delete tag {tag.name!r} (snapshot {tag.snapshot.id})", why, {"tag": tag.name})
        for tag, why in tags
    ]
    if garbage.files:
        size = human_bytes(garbage.bytes)
        actions.append(
            Action(f"delete {counted(len(garbage.files), 'files')} that only they need", size)
        )
    if interrupted:
        actions.append(Action(f"finish {counted(len(interrupted), 'interrupted runs')}"))
    held = retained_files(garbage.held)
    return MetadataPlan(
        job=job,
        table=table.name,
        pin=latest_pin(table),
        work=replace(work, interrupted=interrupted, written=written),
        actions=tuple(actions),
        kept=(*kept, *held),
        effect=expiry_effect(table, going, references, garbage.files),
        arguments=arguments,
    )


def recheck(table: FileStoreTable, plan: Plan) -> Plan:
    """The plan without tags that were replaced or extended after it."""
    return replace(plan, work=recheck_tags(table, plan.work))


def apply_deletion(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Delete the tag files, then the files that only they need."""
    work = plan.work
    details: dict[str, object] = {}
    if work.interrupted:
        context.fence()
        details["finished"] = finish_interrupted(table, work.interrupted).to_json()
    details.update(apply_tags(table, work, deleting_in(context)))
    return Committed(details=details)


DELETE: Final = metadata_steps(make_delete, apply_deletion, recheck=recheck)
EXPIRE: Final = metadata_steps(make_expire, apply_deletion, recheck=recheck)
