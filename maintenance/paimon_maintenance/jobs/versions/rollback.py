"""rollback (Java: `table/RollbackHelper`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, cast

from paimon_core.errors import InvalidArgument, NotFound, StalePlan
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import SNAPSHOT_CLEAN_EMPTY_DIRECTORIES
from paimon_core.reachability.files import Metadata
from paimon_core.reachability.garbage import Garbage, find_garbage
from paimon_core.reachability.references import (
    Reference,
    RefKind,
    all_references,
    snapshot_reference,
    tag_reference,
    without,
)
from paimon_core.reachability.release import (
    journals,
    read_journals,
    release,
)
from paimon_core.reachability.stored_files import NOTHING_PLANNED, PlannedFiles
from paimon_core.refs.tags import Tag
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.changelog import without_lost_changelog
from paimon_core.snapshot.removal import Removal, Side, remove_newest
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.job.effects import history_effect
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, metadata_steps
from paimon_maintenance.job.plan import Retained, SnapshotPin, retained_files
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.jobs.versions.consumers_ahead import left_ahead
from paimon_maintenance.jobs.versions.inflight_commits import wait_for_inflight_commits
from paimon_maintenance.jobs.versions.other_buckets import with_other_buckets
from paimon_maintenance.jobs.versions.reference_text import describe_references
from paimon_maintenance.jobs.versions.removal_steps import (
    follow_removal,
    prepare_removal,
    prove_moved,
)
from paimon_maintenance.jobs.versions.target import check_same_columns, target_of
from paimon_maintenance.rules.safety_tag import (
    BEFORE_ROLLBACK,
    is_safety_tag,
    safety_tag,
)
from paimon_maintenance.storage.bulk import delete_paths

Arguments = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """The target, the references to delete, and the safety tag of the newest snapshot.

    `source` is the snapshot or tag that holds the target.  `revives`: the snapshot of the target
    has expired, and its file is created from the tag.  `named` is the tag that the caller names.
    """

    target: Snapshot
    source: Reference
    named: Reference | None
    latest: Snapshot
    going: tuple[Reference, ...]
    planned: PlannedFiles = field(default=NOTHING_PLANNED, repr=False)
    safety: Tag | None = None
    interrupted: tuple[str, ...] = ()

    @property
    def revives(self) -> bool:
        return self.source.kind is RefKind.TAG


Plan = MetadataPlan[Rollback]


def make(table: FileStoreTable, arguments: Arguments, context: RunContext) -> Plan:
    """The references later than the target, which the rollback deletes."""
    target = target_of(table, arguments, context)
    latest = table.latest_or_not_found()
    _check_in_line(table, target, latest)
    source = _source(table, target)
    name = cast("str | None", arguments.get("tag"))
    references = all_references(table)
    going = [r for r in references if _is_later(table, r, target)]
    kept: list[Retained] = []
    interrupted = tuple(journals(table))
    safety = None
    if going and table.versions is not None:
        why = "the catalog removes tags of later snapshots"
        kept.append(Retained(what="no safety tag", why=why, count=0))
    elif going:
        safety = safety_tag(
            table,
            latest,
            prefix=BEFORE_ROLLBACK,
            name=f"{latest.id}-to-{target.id}",
            retained_millis=cast("int | None", arguments.get("safety_tag")),
            env=context.env,
            kept=kept,
            interrupted=read_journals(table, interrupted),
        )
    staying = [*without(references, going), snapshot_reference(table, target)]
    if safety is not None:
        staying.append(tag_reference(table, safety))
    garbage = find_garbage(table, going, staying, Metadata(table))
    live = scan_files(table, latest)
    actions = []
    if going or source.kind is RefKind.TAG:
        actions = _actions(latest, target, going, garbage, safety)
    else:
        why = "it is already the newest"
        kept.append(Retained(what=f"snapshot {target.id}", why=why))
    kept += retained_files(garbage.held)
    kept += left_ahead(table, going)
    if target.schema_id != table.schema.id:  # a rescale changes the schema
        kept += with_other_buckets(table, scan_files(table, target))
    if interrupted:
        actions.append(Action(f"finish {counted(len(interrupted), 'interrupted runs')}"))
    return MetadataPlan(
        job="rollback",
        table=table.name,
        pin=SnapshotPin.of(latest),
        work=Rollback(
            target=target,
            source=source,
            named=None if name is None else tag_reference(table, Tag(name, target)),
            latest=latest,
            going=tuple(going),
            planned=garbage.files.planned(),
            safety=safety,
            interrupted=interrupted,
        ),
        actions=tuple(actions),
        kept=tuple(kept),
        effect=history_effect(
            *(table, going, references, garbage.files, live),
            newest=snapshot_reference(table, target),
        ),
        arguments=arguments,
    )


def _is_later(table: FileStoreTable, reference: Reference, target: Snapshot) -> bool:
    """Whether a rollback to the target deletes the reference.

    Safety tags stay until they expire, including those of earlier rollbacks; a catalog that rolls
    back by itself keeps none.
    """
    if reference.table.branch != table.branch or reference.snapshot.id <= target.id:
        return False
    is_tag = reference.kind is RefKind.TAG
    return not (table.versions is None and is_tag and is_safety_tag(reference.name))


def _actions(
    latest: Snapshot,
    target: Snapshot,
    going: Sequence[Reference],
    garbage: Garbage,
    safety: Tag | None,
) -> list[Action]:
    actions = []
    if safety is not None:
        actions.append(Action(f"tag snapshot {latest.id} as {safety.name!r}", "safety"))
    actions.append(
        Action(
            f"roll back from snapshot {latest.id} to {target.id}, deleting {describe_references(going)}",
            f"frees {human_bytes(garbage.bytes)} in {counted(len(garbage.files), 'files')}",
            {"target": target.id, "deleted": [r.label for r in going]},
        )
    )
    return actions


def _source(table: FileStoreTable, target: Snapshot) -> Reference:
    """The reference that holds the target: its snapshot, or else a tag."""
    source = snapshot_reference(table, target)
    if source.is_alive():
        return source
    tags = (t for t in table.tags.all() if t.snapshot.identity == target.identity)
    tag = next(tags, None)
    if tag is None:
        raise NotFound(
            f"snapshot {target.id} of table {table.name} has expired",
            table=table.name,
            snapshot=target.id,
        )
    return tag_reference(table, tag)


def _check_in_line(table: FileStoreTable, target: Snapshot, latest: Snapshot) -> None:
    """InvalidArgument for a version that is not part of the current history.

    A tag from before a rollback or fast-forward may have an id that another snapshot has now, or a
    later id, so that the snapshots in between are missing.
    """
    there = table.snapshots.get_or_none(target.id)
    if there is not None and there.identity != target.identity:
        why = f"snapshot {target.id} of table {table.name} has been replaced"
    elif there is None and target.id > latest.id + 1:
        why = (
            f"the newest snapshot of table {table.name} is {latest.id}: the snapshots between it and "
            f"{target.id} are missing"
        )
    else:
        return
    raise InvalidArgument(
        f"{why}, so rollback to it is not possible",
        table=table.name,
        snapshot=target.id,
        next_step="use rollback_to_as_latest to commit its content as the newest snapshot",
    )


def recheck(table: FileStoreTable, plan: Plan) -> Plan:
    """The plan; StalePlan after new commits, which the rollback would silently delete.

    UnsupportedFeature if the table was replaced since the target.
    """
    latest = table.snapshots.latest()
    if latest is None or latest.identity != plan.work.latest.identity:
        raise StalePlan(
            f"table {table.name} has a new snapshot {latest.id if latest else None} since the plan "
            f"from {plan.work.latest.id}",
            table=table.name,
        )
    check_same_columns(table, plan.work.target)  # later than the look at the newest snapshot
    return plan


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Create the safety tag, roll back, and delete the files that only later versions need."""
    work = plan.work
    details: dict[str, object] = {"rolled_back_to": work.target.id}
    work.source.prove_alive()
    if work.named is not None:
        work.named.prove_alive()  # if it names a later version by now, that one is wanted
    Metadata(table).prove_readable(work.target)
    details |= prepare_removal(
        table,
        context,
        interrupted=work.interrupted,
        safety=work.safety,
        latest=work.latest,
        going=work.going,
    )
    removed = release(
        table,
        work.going,
        partial(_ask_catalog if table.versions is not None else _go_back, table, work, context),
        new_uuid=context.env.new_uuid,
        planned=work.planned,
        clean_folders=table.options.value(SNAPSHOT_CLEAN_EMPTY_DIRECTORIES),
        delete=partial(delete_paths, context=context),
    )
    details |= follow_removal(table, context, going=work.going)
    return Committed(details={**details, **removed.to_json()})


def _ask_catalog(table: FileStoreTable, work: Rollback, context: RunContext) -> None:
    """Have the catalog roll back; it may delete files, too."""
    if table.versions is None:
        raise TypeError(f"table {table.name} has no catalog that rolls back")
    context.fence()
    tag = work.source.name if work.revives else None
    table.versions.rollback_to(work.target.id, tag=tag, base=work.latest.id)
    prove_moved(table, work.latest, work.going)


def _go_back(table: FileStoreTable, work: Rollback, context: RunContext) -> None:
    """Delete from newest to oldest, so that an interruption leaves no gap.

    Java writes the LATEST hint first.  If the target then expires, the hint is dangling and Java
    cannot read the table.  Without a hint, readers list the folder.
    """
    target = work.target
    by_kind = {k: [r for r in work.going if r.kind is k] for k in RefKind}
    going = sorted((r.snapshot for r in by_kind[RefKind.SNAPSHOT]), key=lambda s: s.id)
    removal = Removal(table.snapshots, Side.END, fence=context.fence)
    context.fence()
    table.snapshots.delete_latest_hint()
    if work.revives:
        # Roll back to a tag whose snapshot expired before the plan.  Keep the oldest snapshot until
        # the target exists: a table must always have a snapshot.
        if going[1:]:
            remove_newest(removal, going[1:], back_to=going[0].id, prove=work.source.prove_alive)
        removal.add(without_lost_changelog(table.io, table.paths, target))
        going = going[:1]
    alive = snapshot_reference(table, target)

    def prove() -> None:
        work.source.prove_alive()
        alive.prove_alive()

    remove_newest(
        removal,
        going,
        back_to=target.id,
        prove=prove,
        settle=partial(wait_for_inflight_commits, table, work.latest, context.env),
    )
    if work.revives and target.id == min(table.snapshots.ids()):
        table.snapshots.write_earliest_hint(target.id)
    Metadata(table).prove_readable(target)
    table.snapshots.write_latest_hint(target.id)
    for reference in sorted(by_kind[RefKind.CHANGELOG], key=lambda r: -r.snapshot.id):
        context.fence()
        table.changelogs.delete(reference.snapshot.id)
    if by_kind[RefKind.CHANGELOG]:
        table.changelogs.delete_hints()
    for reference in by_kind[RefKind.TAG]:
        context.fence()
        if reference.is_alive():
            table.tags.delete(reference.name)


ROLLBACK: Final = metadata_steps(make, apply, recheck=recheck)
