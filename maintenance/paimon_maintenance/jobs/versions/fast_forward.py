"""fast_forward (Java: `FileSystemBranchManager.fastForward`): replaces main with a branch.

From the first snapshot of the branch on, deletes the versions of main that the branch does not
have, and tags whose names other tags of the branch have, then copies the schemas, snapshots and
tags of the branch.  A tag that somebody makes meanwhile stays.  After an interruption, main is a
shorter history of one of the two, and the next run continues: it skips versions that are already
equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, cast

from paimon_core.errors import SEE_INSPECT, InvalidArgument, LeaseLost, NotFound, StalePlan
from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import MAIN_BRANCH
from paimon_core.reachability.files import Metadata
from paimon_core.reachability.garbage import Garbage, find_garbage
from paimon_core.reachability.lost_changelogs import drop_lost_changelogs
from paimon_core.reachability.lost_history import check_history
from paimon_core.reachability.references import (
    Reference,
    RefKind,
    all_references,
    on_branch,
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
from paimon_core.snapshot.line import gaps_in
from paimon_core.snapshot.removal import Removal, Side, check_no_straggler, remove_newest, undone
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.job.effects import history_effect
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.job.plan import Retained, retained_files
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.jobs.versions.consumers_ahead import left_ahead
from paimon_maintenance.jobs.versions.inflight_commits import wait_for_inflight_commits
from paimon_maintenance.jobs.versions.reference_text import describe_references
from paimon_maintenance.jobs.versions.removal_steps import (
    follow_removal,
    prepare_removal,
    prove_moved,
)
from paimon_maintenance.jobs.versions.schema_copy import SchemaCopy, stored_schema
from paimon_maintenance.rules.safety_tag import (
    BEFORE_FAST_FORWARD,
    is_safety_tag,
    safety_tag,
)
from paimon_maintenance.storage.bulk import delete_paths


@dataclass(frozen=True, slots=True, kw_only=True)
class FastForward:
    """The branch and its newest snapshot, the references to delete from main and to copy to it, and
    the newest snapshot of main.

    `safety` is the tag that keeps that snapshot, if there is one.
    """

    branch: FileStoreTable
    newest: Reference
    going: tuple[Reference, ...]
    coming: tuple[Reference, ...]
    latest: Snapshot | None
    safety: Tag | None = None
    planned: PlannedFiles = field(default=NOTHING_PLANNED, repr=False)
    interrupted: tuple[str, ...] = ()


Plan = MetadataPlan[FastForward]


def make(table: FileStoreTable, arguments: Mapping[str, object], context: RunContext) -> Plan:
    """The references to delete and to copy; NotFound for a missing or empty branch."""
    name = cast("str | None", arguments.get("branch_name"))
    if not name or name == MAIN_BRANCH or table.branch != MAIN_BRANCH:
        raise InvalidArgument("pass a branch other than main, and run the job on main")
    if not table.branches.exists(name):
        raise NotFound(
            f"branch {name!r} of table {table.name} does not exist",
            table=table.name,
            next_step=SEE_INSPECT,
        )
    references = all_references(table)
    theirs = [r for r in references if r.table.branch == name and r.kind is not RefKind.CHANGELOG]
    line = sorted((r for r in theirs if r.kind is RefKind.SNAPSHOT), key=lambda r: r.snapshot.id)
    if not line:
        raise NotFound(f"branch {name!r} of table {table.name} has no snapshot", table=table.name)
    newest, first = line[-1], line[0].snapshot.id
    _check_adjoins(table, references, line)
    mine = [r for r in references if r.table.branch == MAIN_BRANCH]
    branch = on_branch(table, name)
    shared = _shared_schemas(table, branch)
    going = _going(table, mine, theirs, first, shared)
    there = {_same(r) for r in mine}
    coming = [r for r in theirs if _same(r) not in there]
    left: list[Retained] = []
    latest = table.snapshots.latest()
    if latest is None:
        check_history(table, references)
    interrupted = tuple(journals(table))
    _check_stays(table, newest, read_journals(table, interrupted))
    safety = _safety_tag(table, latest, going, shared, interrupted, arguments, context, left)
    staying = list(without(references, going))
    if safety is not None:
        staying.append(tag_reference(table, safety))
    garbage = find_garbage(table, going, staying, Metadata(table))
    left += retained_files(garbage.held)
    left += left_ahead(table, going)
    live = scan_files(table, latest) if latest is not None else []
    return MetadataPlan(
        job="fast_forward",
        table=table.name,
        pin=latest_pin(table),
        work=FastForward(
            branch=branch,
            newest=newest,
            going=tuple(going),
            coming=tuple(coming),
            latest=latest,
            safety=safety,
            planned=garbage.files.planned(),
            interrupted=interrupted,
        ),
        actions=tuple(_actions(name, going, coming, garbage, safety, interrupted)),
        kept=tuple(left),
        effect=history_effect(
            *(table, going, references, garbage.files, live),
            newest=newest,
        ),
        arguments=arguments,
    )


def _going(
    table: FileStoreTable,
    mine: Sequence[Reference],
    theirs: Sequence[Reference],
    first: int,
    shared: set[int],
) -> list[Reference]:
    """The references of main to delete: from the first snapshot of the branch on, or taken names.

    Safety tags stay until they expire, if main can read them afterwards.
    """
    taken = set() if table.versions is not None else {r.name for r in theirs if _is_tag(r)}
    kept = {_same(r) for r in theirs}

    def is_safe(reference: Reference) -> bool:
        return (
            table.versions is None
            and _is_tag(reference)
            and is_safety_tag(reference.name)
            and reference.name not in taken
            and reference.snapshot.schema_id in shared
        )

    return [
        r
        for r in mine
        if (r.snapshot.id >= first or (_is_tag(r) and r.name in taken))
        and _same(r) not in kept
        and not is_safe(r)
    ]


def _actions(
    branch: str,
    going: Sequence[Reference],
    coming: Sequence[Reference],
    garbage: Garbage,
    safety: Tag | None,
    interrupted: Sequence[str],
) -> Iterator[Action]:
    if going or coming:
        if safety is not None:
            yield Action(f"tag snapshot {safety.snapshot.id} as {safety.name!r}", "safety")
        yield Action(
            f"move main to branch {branch!r}: delete {describe_references(going)} of main, "
            f"copy {describe_references(coming)}",
            f"frees {human_bytes(garbage.bytes)} in {counted(len(garbage.files), 'files')}",
            {"deleted": [r.label for r in going], "copied": [r.label for r in coming]},
        )
    if interrupted:
        yield Action(f"finish {counted(len(interrupted), 'interrupted runs')}")


def _check_adjoins(
    table: FileStoreTable, references: Sequence[Reference], line: Sequence[Reference]
) -> None:
    """InvalidArgument if the branch has a gap, or if there is a gap between main and the branch."""
    gaps = gaps_in([r.snapshot.id for r in line])
    first = line[0].snapshot.id
    older = [
        r.snapshot.id
        for r in references
        if r.table.branch == MAIN_BRANCH and r.kind is RefKind.SNAPSHOT and r.snapshot.id < first
    ]
    if not gaps and (not older or max(older) == first - 1):
        return
    before, after = (gaps[0].before, gaps[0].after) if gaps else (max(older), first)
    raise InvalidArgument(
        f"main of table {table.name} would have snapshot {after} directly after {before}",
        table=table.name,
        snapshot=after,
        next_step="snapshots must not have a gap: repair the branch, or expire the older snapshots "
        "of main",
    )


def _check_stays(table: FileStoreTable, newest: Reference, removed: Sequence[Reference]) -> None:
    """StalePlan if an interrupted run was to remove the end of the branch.

    A branch that is half deleted has its snapshots, but no tags any more.
    """
    if newest.key in {r.key for r in removed}:
        raise StalePlan(
            f"the deletion, or a rollback, of branch {newest.table.branch!r} of table {table.name} was "
            f"interrupted: its tags may be gone, and snapshot {newest.name} was to go",
            table=table.name,
            next_step="run that job again first",
        )


def _shared_schemas(table: FileStoreTable, branch: FileStoreTable) -> set[int]:
    """The ids of the oldest schemas that are identical in main and the branch.

    A version of main stays readable after the move only if its schema and the older schemas of its
    files do not change.
    """
    shared: set[int] = set()
    for number in table.schemas.ids():
        there = stored_schema(table, number)
        if there is None or stored_schema(branch, number) != there:
            break
        shared.add(number)
    return shared


def _safety_tag(
    table: FileStoreTable,
    latest: Snapshot | None,
    going: Sequence[Reference],
    shared: set[int],
    interrupted: Sequence[str],
    arguments: Mapping[str, object],
    context: RunContext,
    left: list[Retained],
) -> Tag | None:
    """The tag for the newest snapshot of main.

    None if it stays, or is unreadable after the move.
    """
    lost = {r.snapshot.identity for r in going if r.kind is RefKind.SNAPSHOT}
    retained = cast("int | None", arguments.get("safety_tag"))
    if latest is None or latest.identity not in lost or not retained:
        return None
    if table.versions is not None:
        left.append(Retained(what="no safety tag", why="the catalog replaces main", count=0))
        return None
    if latest.schema_id not in shared:
        why = "main and the branch have different schemas, so a tag would be unreadable"
        left.append(Retained(what="no safety tag", why=why, count=0))
        return None
    return safety_tag(
        table,
        latest,
        prefix=BEFORE_FAST_FORWARD,
        name=f"{latest.id}-to-{arguments['branch_name']}",
        retained_millis=retained,
        env=context.env,
        kept=left,
        interrupted=read_journals(table, interrupted),
    )


def _is_tag(reference: Reference) -> bool:
    return reference.kind is RefKind.TAG


def _same(reference: Reference) -> tuple[object, ...]:
    """The key by which references of both branches are compared."""
    return (reference.kind, reference.name, reference.snapshot.identity)


def recheck(table: FileStoreTable, plan: Plan) -> Plan:
    """The plan; StalePlan if main has new commits, which the move would silently delete."""
    now, then = table.snapshots.latest(), plan.work.latest
    if (now and now.identity) != (then and then.identity):
        raise StalePlan(f"table {table.name} has new commits since the plan", table=table.name)
    return plan


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Delete the versions that only main has, copy those of the branch, then delete files."""
    work = plan.work
    details: dict[str, object] = {"moved_to": work.branch.branch}
    work.newest.prove_alive()
    metadata = Metadata(work.branch)
    for reference in work.coming:
        metadata.prove_readable(reference.snapshot)
    details |= prepare_removal(
        table,
        context,
        interrupted=work.interrupted,
        safety=work.safety,
        latest=work.latest,
        going=work.going,
    )

    def move() -> None:
        if table.versions is not None:
            _ask_catalog(table, work, context)
        elif kept := _move(table, work, context):
            details["tags_not_copied"] = kept

    removed = release(
        table,
        work.going,
        move,
        new_uuid=context.env.new_uuid,
        planned=work.planned,
        delete=partial(delete_paths, context=context),
    )
    details |= follow_removal(table, context, going=work.going)
    return Committed(details={**details, **removed.to_json()})


def _ask_catalog(table: FileStoreTable, work: FastForward, context: RunContext) -> None:
    """Have the catalog replace main."""
    if table.versions is None:
        raise TypeError(f"table {table.name} has no catalog that moves branches")
    context.fence()
    table.versions.fast_forward(work.branch.branch)
    prove_moved(table, work.latest, work.going)


def _move(table: FileStoreTable, work: FastForward, context: RunContext) -> list[str]:
    """Move snapshots first; if the branch or main changes during the move, restore main.

    Return as `_replace_changelogs_and_tags`.
    """
    going = sorted(
        (r.snapshot for r in work.going if r.kind is RefKind.SNAPSHOT), key=lambda s: s.id
    )
    coming = sorted(
        (r.snapshot for r in work.coming if r.kind is RefKind.SNAPSHOT), key=lambda s: s.id
    )
    removal = Removal(table.snapshots, Side.END, fence=context.fence)
    last: Snapshot | None = None
    if going:
        if coming and coming[0].id <= going[0].id and not table.snapshots.exists(going[0].id - 1):
            # A writer that finds no snapshot begins a new history, so one stays
            # until another is there.
            last, *going = going
        context.fence()
        table.snapshots.delete_latest_hint()
    if going:
        back_to = going[0].id - 1
        remove_newest(removal, going, back_to=back_to, prove=work.newest.prove_alive)
    schemas = SchemaCopy(table, work.branch, fence=context.fence)
    try:
        schemas.copy()
        if last is not None:
            _replace_last(removal, last, coming[0], work)
        if coming and not table.snapshots.exists(coming[0].id - 1):
            # Java's expiry starts at EARLIEST and would leave the snapshots below it behind.
            context.fence()
            table.snapshots.write_earliest_hint(coming[0].id)
        _add_snapshots(table, work, coming if last is None else coming[1:], removal, context)
    except LeaseLost:
        removal.rescue()
        raise
    except StalePlan as e:
        schemas.undo()
        reason = undone(removal, e)
        drop_lost_changelogs(table, coming)
        raise reason from e
    return _replace_changelogs_and_tags(table, work, context)


def _replace_last(removal: Removal, last: Snapshot, first: Snapshot, work: FastForward) -> None:
    """Replace the only snapshot of main with the first one of the branch."""
    if first.id == last.id:
        removal.replace(last, first)
    else:
        removal.add(first)
        remove_newest(removal, [last], back_to=first.id, prove=work.newest.prove_alive)


def _add_snapshots(
    table: FileStoreTable,
    work: FastForward,
    coming: Sequence[Snapshot],
    removal: Removal,
    context: RunContext,
) -> None:
    """Add the oldest first.  Afterwards each source must exist, or its files may be deleted."""
    for snapshot in coming:
        removal.add(snapshot)
    newest = work.newest.snapshot.id
    table.snapshots.write_latest_hint(newest)
    if work.latest is not None and work.going:
        wait_for_inflight_commits(table, work.latest, context.env)
    check_no_straggler(table.snapshots, newest)
    for reference in (*work.coming, work.newest):
        if reference.kind is RefKind.SNAPSHOT:
            reference.prove_alive()


def _replace_changelogs_and_tags(
    table: FileStoreTable, work: FastForward, context: RunContext
) -> list[str]:
    """Return the names of the branch's tags that main has given to other tags since the plan."""
    for reference in work.going:
        if reference.kind is RefKind.SNAPSHOT or not reference.is_alive():
            continue
        context.fence()
        if reference.kind is RefKind.TAG:
            table.tags.delete(reference.name)
        else:
            table.changelogs.delete(reference.snapshot.id)
    kept = []
    for reference in filter(_is_tag, work.coming):
        context.fence()
        try:
            content = table.io.read_bytes(work.branch.paths.tag(reference.name))
        except FileNotFoundError:
            continue  # it was deleted after the plan
        if not table.io.create_if_absent(table.paths.tag(reference.name), content):
            kept.append(reference.name)  # it was made after the plan
        elif not reference.is_alive():
            # Its files may have been deleted before the copy existed.
            table.tags.delete(reference.name)
    return kept


STEPS: Final = metadata_steps(make, apply, recheck=recheck)
