"""create_branch, rename_branch and delete_branch (Java: `utils/FileSystemBranchManager`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, cast

from paimon_core.errors import SEE_INSPECT, AlreadyExists, InvalidArgument, NotFound
from paimon_core.features import ChainRole
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH
from paimon_core.paths import MAIN_BRANCH
from paimon_core.reachability.files import Metadata
from paimon_core.reachability.garbage import find_garbage
from paimon_core.reachability.references import Reference, on_branch, references_of, without
from paimon_core.reachability.release import finish_interrupted, journals, release
from paimon_core.reachability.stored_files import NOTHING_PLANNED, PlannedFiles
from paimon_core.refs.tags import Tag
from paimon_core.retention.registered_partitions import synchronise_partitions
from paimon_maintenance.job.arguments import Argument
from paimon_maintenance.job.effects import expiry_effect
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.job.plan import Loss, LossKind, Retained, retained_files
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.jobs.versions.definition import BRANCH, BRANCHES, FROM_BRANCH, NEW_NAME
from paimon_maintenance.jobs.versions.reference_text import describe_references
from paimon_maintenance.storage.bulk import delete_paths

Arguments = Mapping[str, object]
_READ_WITH_TABLE: Final = (SCAN_FALLBACK_BRANCH.key, SCAN_PRIMARY_BRANCH.key, *ChainRole)
"""The options that name a branch whose rows are read with those of the table."""


def _name(arguments: Arguments, argument: Argument) -> str:
    name = cast("str | None", arguments.get(argument.name))
    if not name:
        raise InvalidArgument(f"argument {argument.option} is required")
    return name


@dataclass(frozen=True, slots=True)
class NewBranch:
    """The branch to create, and the tag that it starts from."""

    name: str
    tag: Tag | None


def make_create(
    table: FileStoreTable, arguments: Arguments, _: RunContext
) -> MetadataPlan[NewBranch]:
    """The branch, and the tag that it starts from."""
    name = _name(arguments, BRANCH)
    tag = cast("str | None", arguments.get("tag"))
    source: Tag | None = None
    kept: list[Retained] = []
    try:
        table.branches.check_new(name, tag=tag)
    except AlreadyExists:
        if not arguments.get("ignore_if_exists"):
            raise
        kept.append(Retained(what=f"branch {name!r}", why="it already exists", count=1))
    else:
        if tag is not None:
            source = _source(table, name, tag)
    start = "empty" if tag is None else f"at tag {tag!r}"
    return MetadataPlan(
        job="create_branch",
        table=table.name,
        pin=latest_pin(table),
        work=NewBranch(name, source),
        actions=() if kept else (Action(f"create branch {name!r}, {start}"),),
        kept=tuple(kept),
        arguments=arguments,
    )


def _source(table: FileStoreTable, name: str, tag: str) -> Tag:
    """The tag; NotFound has a next step if the creation of the branch was interrupted."""
    try:
        return table.tags.get(tag)
    except NotFound as e:
        if table.branches.begun(name) is not None:
            e.next_step = f"run delete_branch for branch {name!r}, whose creation from this tag was interrupted"
        raise


def apply_create(table: FileStoreTable, plan: MetadataPlan[NewBranch], _: RunContext) -> Committed:
    """Write the metadata of the branch; removes it again if the tag was deleted after the plan."""
    name, tag = plan.work.name, plan.work.tag
    if table.versions is not None:
        table.versions.create_branch(name, tag=None if tag is None else tag.name)
    elif tag is None:
        table.branches.create(name)
    else:
        table.branches.create(name, tag=tag.name, expected=tag.snapshot)
    return Committed(details={"branch_name": name})


def make_rename(
    table: FileStoreTable, arguments: Arguments, _: RunContext
) -> MetadataPlan[tuple[str, str]]:
    """The old and the new name.

    InvalidArgument for a branch that is read with the table.
    """
    name, target = _name(arguments, FROM_BRANCH), _name(arguments, NEW_NAME)
    _check_exists(table, name)
    _check_not_read(table, name)
    table.branches.check_free(name, target)
    return MetadataPlan(
        job="rename_branch",
        table=table.name,
        pin=latest_pin(table),
        work=(name, target),
        actions=(Action(f"rename branch {name!r} to {target!r}"),),
        arguments=arguments,
    )


def apply_rename(
    table: FileStoreTable, plan: MetadataPlan[tuple[str, str]], context: RunContext
) -> Committed:
    """Move the branch's folder."""
    context.fence()
    if table.versions is not None:
        table.versions.rename_branch(*plan.work)
    else:
        table.branches.rename(*plan.work)
    return Committed(details={"branch_name": plan.work[1]})


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchDeletion:
    """The branches, their references, and the files that only they need.

    The files of branches `without_schema` are unknown, so they are left to remove_orphan_files.
    """

    names: tuple[str, ...] = ()
    going: tuple[Reference, ...] = ()
    planned: PlannedFiles = field(default=NOTHING_PLANNED, repr=False)
    interrupted: tuple[str, ...] = ()
    without_schema: tuple[str, ...] = ()


def make_delete(
    table: FileStoreTable, arguments: Arguments, _: RunContext
) -> MetadataPlan[BranchDeletion]:
    """The references of the branches and the files that only they need.

    NotFound for a missing branch, InvalidArgument for one that is read with the table.
    """
    wanted = dict.fromkeys(cast("Sequence[str]", arguments.get("branch_name") or ()))
    if not wanted:
        raise InvalidArgument(f"argument {BRANCHES.option} is required")
    interrupted = tuple(journals(table))
    # An interrupted run may have deleted a branch, but not all of its files.
    there = set(table.branches.names()) if interrupted else None
    names = [n for n in wanted if there is None or n in there]
    for name in names:
        _check_deletable(table, name)
    broken = [n for n in names if table.schemas.of_branch(n).latest() is None]
    whole = [n for n in names if n not in broken]
    left = (on_branch(table, n) for n in table.branches.all_with_main() if n not in broken)
    references = [r for branch in left for r in references_of(branch)] if whole else []
    going = [r for r in references if r.table.branch in whole]
    garbage = find_garbage(table, going, without(references, going), Metadata(table))
    actions = [
        Action(
            f"delete branch {name!r}",
            "it has no schema; its files are left to remove_orphan_files"
            if name in broken
            else f"with {describe_references(r for r in going if r.table.branch == name)}",
        )
        for name in names
    ]
    if garbage.files:
        size = human_bytes(garbage.bytes)
        files = counted(len(garbage.files), "files")
        actions.append(Action(f"delete {files} that only they need", size))
    if interrupted:
        actions.append(Action(f"finish {counted(len(interrupted), 'interrupted runs')}"))
    return MetadataPlan(
        job="delete_branch",
        table=table.name,
        pin=latest_pin(table),
        work=BranchDeletion(
            names=tuple(whole),
            going=tuple(going),
            planned=garbage.files.planned(),
            interrupted=interrupted,
            without_schema=tuple(broken),
        ),
        actions=tuple(actions),
        kept=tuple(retained_files(garbage.held)),
        effect=expiry_effect(
            table,
            going,
            references,
            garbage.files,
            branches=Loss(LossKind.BRANCHES, len(names), len(table.branches.names())),
        ),
        arguments=arguments,
    )


def apply_delete(
    table: FileStoreTable, plan: MetadataPlan[BranchDeletion], context: RunContext
) -> Committed:
    """Delete the branches, schemas last: a branch without a schema makes other jobs fail."""
    work = plan.work
    details: dict[str, object] = {"deleted_branches": [*work.without_schema, *work.names]}
    for name in work.without_schema:
        context.fence()
        # First, because garbage cannot be determined while such a branch exists.
        table.branches.delete(name)
    if work.interrupted:
        context.fence()
        details["finished"] = finish_interrupted(table, work.interrupted).to_json()

    def delete_references() -> None:
        for name in work.names:
            paths = table.paths.of_branch(name)
            if table.versions is not None:
                context.fence()
                table.versions.drop_branch(name)
                continue
            # Snapshots last: tags alone would look like a branch that has lost its snapshots.
            for folder in (
                paths.tag_dir,
                paths.changelog_dir,
                paths.consumer_dir,
                paths.snapshot_dir,
            ):
                context.fence()
                table.io.delete_dir(folder)
            context.fence()
            table.branches.delete(name)

    if work.names:
        removed = release(
            table,
            work.going,
            delete_references,
            new_uuid=context.env.new_uuid,
            planned=work.planned,
            delete=partial(delete_paths, context=context),
        )
        details.update(removed.to_json())
    synchronise_partitions(table)
    return Committed(details=details)


def _check_deletable(table: FileStoreTable, name: str) -> None:
    if name == table.branch:
        raise InvalidArgument(
            f"branch {name!r} is the current branch and cannot be deleted", table=table.name
        )
    _check_exists(table, name)
    _check_not_read(table, name)


def _check_not_read(table: FileStoreTable, name: str) -> None:
    """InvalidArgument if reads of the table include the branch: they would lose its rows."""
    for option in _READ_WITH_TABLE:
        if table.schema.options.get(option, "").strip() == name:
            raise InvalidArgument(
                f"branch {name!r} of table {table.name} is in use as {option}",
                table=table.name,
                next_step=f"unset {option} first",
            )


def _check_exists(table: FileStoreTable, name: str) -> None:
    if name == MAIN_BRANCH:
        raise InvalidArgument("the main branch cannot be deleted or renamed")
    if not table.branches.exists(name):
        raise NotFound(
            f"branch {name!r} of table {table.name} does not exist",
            table=table.name,
            next_step=SEE_INSPECT,
        )


CREATE: Final = metadata_steps(make_create, apply_create)
RENAME: Final = metadata_steps(make_rename, apply_rename)
DELETE: Final = metadata_steps(make_delete, apply_delete)
