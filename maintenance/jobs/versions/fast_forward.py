"""fast_forward (Java: `FileSystemBranchManager.fastForward`): main becomes what a branch is.

What main and the branch do not share from the branch's first snapshot on goes from main, then the
branch's schemas, snapshots and tags are copied.  Interrupted at any point, main is a shorter
history of either, and a second run goes on: what is equal by then is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from maintenance.job import Committed, RunContext
from maintenance.jobs.versions.told import in_words
from maintenance.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from maintenance.plan import Effect, Kept, counted, human_bytes, kept_files
from maintenance.safety_tag import BEFORE_FAST_FORWARD, is_safety_tag, safety_tag
from paimon_core.errors import InvalidArgument, NotFound, StalePlan
from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import MAIN_BRANCH
from paimon_core.reachability.files import Metadata, StoredFile
from paimon_core.reachability.garbage import find_garbage
from paimon_core.reachability.references import (
    Reference,
    RefKind,
    all_references,
    on_branch,
    tag_reference,
    without,
)
from paimon_core.reachability.release import (
    finish_interrupted,
    journals,
    read_journals,
    release,
)
from paimon_core.refs.tags import Tag
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.snapshot_json import snapshot_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class FastForward:
    """The branch, what goes from main, what is copied, and main's newest snapshot now.

    `safety` is the tag that keeps that snapshot, where one is made.
    """

    branch: FileStoreTable
    going: tuple[Reference, ...]
    coming: tuple[Reference, ...]
    latest: Snapshot | None
    safety: Tag | None = None
    files: frozenset[StoredFile] = field(default=frozenset(), repr=False)
    interrupted: tuple[str, ...] = ()


Plan = MetadataPlan[FastForward]


def make(table: FileStoreTable, arguments: Mapping[str, object], context: RunContext) -> Plan:
    """What main loses and what it gets; NotFound for a branch that is not there or is empty."""
    name = cast("str | None", arguments.get("branch_name"))
    if not name or name == MAIN_BRANCH or table.branch != MAIN_BRANCH:
        raise InvalidArgument("name a branch other than main; it is main that is moved forward")
    if not table.branches.exists(name):
        raise NotFound(f"branch {name!r} of table {table.name} does not exist", table=table.name)
    references = all_references(table)
    theirs = [r for r in references if r.table.branch == name and r.kind is not RefKind.CHANGELOG]
    first = min((r.snapshot.id for r in theirs if r.kind is RefKind.SNAPSHOT), default=None)
    if first is None:
        raise NotFound(f"branch {name!r} of table {table.name} has no snapshot", table=table.name)
    mine = [r for r in references if r.table.branch == MAIN_BRANCH and r.snapshot.id >= first]
    kept = {_same(r) for r in theirs}
    there = {_same(r) for r in references if r.table.branch == MAIN_BRANCH}
    branch = on_branch(table, name)
    shared = _shared_schemas(table, branch)
    going = [
        r
        for r in mine
        if _same(r) not in kept
        # Safety tags stay until their time is over, if main can read them afterwards.
        and not (r.kind is RefKind.TAG and is_safety_tag(r.name) and r.snapshot.schema_id in shared)
    ]
    coming = [r for r in theirs if _same(r) not in there]
    left: list[Kept] = []
    latest = table.snapshots.latest()
    interrupted = tuple(journals(table))
    safety = _safety_tag(table, latest, going, shared, interrupted, arguments, context, left)
    staying = list(without(references, going))
    if safety is not None:
        staying.append(tag_reference(table, safety))
    garbage = find_garbage(table, going, staying, Metadata(table))
    left += kept_files(garbage.held)
    live = scan_files(table, latest) if latest is not None else []
    actions = []
    if going or coming:
        actions.append(
            Action(
                f"move main to branch {name!r}: {in_words(going)} of main go, "
                f"{in_words(coming)} come",
                f"frees {human_bytes(garbage.bytes)} in {counted(len(garbage.files), 'files')}",
                {"deleted": [r.label for r in going], "copied": [r.label for r in coming]},
            )
        )
        if safety is not None:
            tagged = f"tag snapshot {safety.snapshot.id} as {safety.name!r}"
            actions.insert(0, Action(tagged, "safety"))
    if interrupted:
        actions.append(Action(f"finish {counted(len(interrupted), 'interrupted runs')}"))
    return MetadataPlan(
        job="fast_forward",
        table=table.name,
        pin=latest_pin(table),
        work=FastForward(
            branch=branch,
            going=tuple(going),
            coming=tuple(coming),
            latest=latest,
            safety=safety,
            files=frozenset(garbage.files),
            interrupted=interrupted,
        ),
        actions=tuple(actions),
        kept=tuple(left),
        effect=Effect(
            deleted_files=len(garbage.files),
            deleted_bytes=garbage.bytes,
            table_files=len(live),
            table_bytes=sum(e.file.file_size for e in live),
        ),
        arguments=arguments,
    )


def _shared_schemas(table: FileStoreTable, branch: FileStoreTable) -> set[int]:
    """Numbers up to which main's schemas and the branch's are the same files.

    A version of main can be read after the move only if its schema, and those of its files, which
    are older, stay what they are.
    """
    ours, theirs = table.schemas.ids(), set(branch.schemas.ids())
    shared: set[int] = set()
    for number in ours:
        there = table.io.read_bytes(table.paths.schema(number))
        if number not in theirs or table.io.read_bytes(branch.paths.schema(number)) != there:
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
    left: list[Kept],
) -> Tag | None:
    """The tag that keeps main's newest snapshot; None if it stays, or could not be read later."""
    lost = {r.snapshot.identity for r in going if r.kind is RefKind.SNAPSHOT}
    retained = cast("int | None", arguments.get("safety_tag"))
    if latest is None or latest.identity not in lost or not retained:
        return None
    if latest.schema_id not in shared:
        why = "main and the branch have other schemas, so that it could not be read any more"
        left.append(Kept(what="no safety tag", why=why, count=0))
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


def _same(reference: Reference) -> tuple[object, ...]:
    """What is equal in both branches of a reference that they share."""
    return (reference.kind, reference.name, reference.snapshot.identity)


def recheck(table: FileStoreTable, plan: Plan) -> Plan:
    """The plan; StalePlan if somebody committed to main since, for that would be lost unseen."""
    now, then = table.snapshots.latest(), plan.work.latest
    if (now and now.identity) != (then and then.identity):
        raise StalePlan(f"table {table.name} was committed to since the plan", table=table.name)
    return plan


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Delete what main alone has, copy what the branch has, then free files."""
    work = plan.work
    details: dict[str, object] = {"moved_to": work.branch.branch}
    if work.interrupted:
        details["finished"] = finish_interrupted(table, work.interrupted).to_json()
    if work.safety is not None:
        if not table.tags.exists(work.safety.name):
            table.tags.create(work.safety)
        details["safety_tag"] = work.safety.name

    def change() -> None:
        _delete(table, work)
        _copy(table, work)

    removed = release(table, work.going, change, new_uuid=context.env.new_uuid, planned=work.files)
    return Committed(details={**details, **removed.to_json()})


def _delete(table: FileStoreTable, work: FastForward) -> None:
    snapshots = [r for r in work.going if r.kind is RefKind.SNAPSHOT]
    if snapshots:
        table.snapshots.delete_latest_hint()
    for reference in sorted(snapshots, key=lambda r: -r.snapshot.id):
        table.snapshots.delete(reference.snapshot.id)
    for reference in work.going:
        if reference.kind is RefKind.TAG:
            table.tags.delete(reference.name)
        elif reference.kind is RefKind.CHANGELOG:
            table.changelogs.delete(reference.snapshot.id)


def _copy(table: FileStoreTable, work: FastForward) -> None:
    branch, io = work.branch, table.io
    # Schemas before the snapshots that name them; those that main alone has go.
    newest = branch.schemas.ids()[-1]
    for number in branch.schemas.ids():
        content = io.read_bytes(branch.paths.schema(number))
        path = table.paths.schema(number)
        if not io.exists(path) or io.read_bytes(path) != content:
            io.overwrite(path, content)
    for number in table.schemas.ids():
        if number > newest:
            io.delete(table.paths.schema(number))
    for reference in sorted(work.coming, key=lambda r: (r.kind is RefKind.TAG, r.snapshot.id)):
        if reference.kind is RefKind.TAG:
            content = io.read_bytes(branch.paths.tag(reference.name))
            io.overwrite(table.paths.tag(reference.name), content)
        else:
            _copy_snapshot(table, reference.snapshot)
    latest = branch.snapshots.latest_id()
    if latest is not None:
        table.snapshots.write_latest_hint(latest)
    earliest = table.snapshots.earliest_id()
    if earliest is not None:
        table.snapshots.write_earliest_hint(earliest)


def _copy_snapshot(table: FileStoreTable, snapshot: Snapshot) -> None:
    """Make the branch's snapshot one of main; StalePlan if a writer took its number meanwhile."""
    path = table.paths.snapshot(snapshot.id)
    if table.io.create_if_absent(path, snapshot_to_json(snapshot).encode()):
        return
    there = table.snapshots.get_or_none(snapshot.id)
    if there is None or there.identity != snapshot.identity:
        raise StalePlan(
            f"snapshot {snapshot.id} of table {table.name} was committed while main was moved to "
            f"the branch",
            table=table.name,
            snapshot=snapshot.id,
            next_step="stop the writers of main, then run again",
        )


STEPS: Final = metadata_steps(make, apply, recheck=recheck)
