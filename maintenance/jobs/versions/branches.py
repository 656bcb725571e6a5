"""create_branch, rename_branch and delete_branch (Java: `utils/FileSystemBranchManager`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from maintenance.job import Committed, RunContext
from maintenance.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from maintenance.plan import Effect, human_bytes
from paimon_core.errors import InvalidArgument, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import MAIN_BRANCH
from paimon_core.reachability.files import Metadata, StoredFile
from paimon_core.reachability.garbage import find_garbage
from paimon_core.reachability.references import Reference, all_references, without
from paimon_core.reachability.release import finish_interrupted, journals, release
from paimon_core.refs.branches import check_branch_name

Arguments = Mapping[str, object]


def _name(arguments: Arguments, argument: str) -> str:
    name = cast("str | None", arguments.get(argument))
    if not name:
        raise InvalidArgument(f"argument {argument} is required")
    return name


def make_create(
    table: FileStoreTable, arguments: Arguments, _: RunContext
) -> MetadataPlan[tuple[str, str | None]]:
    """The branch, and the tag that it begins with."""
    name = _name(arguments, "branch_name")
    tag = cast("str | None", arguments.get("tag"))
    table.branches.check_new(name, tag=tag)
    if tag is not None:
        table.tags.get(tag)
    start = "empty" if tag is None else f"at tag {tag!r}"
    return MetadataPlan(
        job="create_branch",
        table=table.name,
        pin=latest_pin(table),
        work=(name, tag),
        actions=(Action(f"begin branch {name!r}, {start}"),),
        arguments=arguments,
    )


def apply_create(
    table: FileStoreTable, plan: MetadataPlan[tuple[str, str | None]], _: RunContext
) -> Committed:
    """Write the branch's metadata."""
    name, tag = plan.work
    table.branches.create(name, tag=tag)
    return Committed(details={"branch_name": name})


def make_rename(
    table: FileStoreTable, arguments: Arguments, _: RunContext
) -> MetadataPlan[tuple[str, str]]:
    """The old and the new name."""
    name, target = _name(arguments, "branch_name"), _name(arguments, "target_branch")
    _check_exists(table, name)
    check_branch_name(target)
    return MetadataPlan(
        job="rename_branch",
        table=table.name,
        pin=latest_pin(table),
        work=(name, target),
        actions=(Action(f"rename branch {name!r} to {target!r}"),),
        arguments=arguments,
    )


def apply_rename(
    table: FileStoreTable, plan: MetadataPlan[tuple[str, str]], _: RunContext
) -> Committed:
    """Move the branch's folder."""
    table.branches.rename(*plan.work)
    return Committed(details={"branch_name": plan.work[1]})


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchDeletion:
    """The branch, its references, and the files that may go with it."""

    name: str | None = None
    going: tuple[Reference, ...] = ()
    files: frozenset[StoredFile] = field(default=frozenset(), repr=False)
    interrupted: tuple[str, ...] = ()
    without_schema: bool = False


def make_delete(
    table: FileStoreTable, arguments: Arguments, _: RunContext
) -> MetadataPlan[BranchDeletion]:
    """The branch's references, and what only they need."""
    name: str | None = _name(arguments, "branch_name")
    interrupted = tuple(journals(table))
    if name == table.branch:
        raise InvalidArgument(f"branch {name!r} cannot be deleted from within", table=table.name)
    if not (interrupted and name not in table.branches.names()):
        _check_exists(table, name or "")
    else:
        name = None  # an interrupted run deleted the branch, but not all of its files
    # Nobody can tell what a branch without schema needs: its files are left to the orphan job.
    without_schema = name is not None and table.schemas.of_branch(name).latest() is None
    references = [] if without_schema else all_references(table)
    going = [r for r in references if r.table.branch == name]
    garbage = find_garbage(table, going, without(references, going), Metadata(table))
    actions = []
    if without_schema:
        why = "it has no schema; what only it needs is left to remove_orphan_files"
        actions.append(Action(f"delete branch {name!r}", why))
    elif name is not None:
        actions.append(
            Action(
                f"delete branch {name!r} with {len(going)} snapshots, tags and changelogs",
                f"frees {human_bytes(garbage.bytes)} in {len(garbage.files):,} files",
            )
        )
    if interrupted:
        actions.append(Action(f"finish {len(interrupted)} interrupted runs"))
    return MetadataPlan(
        job="delete_branch",
        table=table.name,
        pin=latest_pin(table),
        work=BranchDeletion(
            name=name,
            going=tuple(going),
            files=frozenset(garbage.files),
            interrupted=interrupted,
            without_schema=without_schema,
        ),
        actions=tuple(actions),
        effect=Effect(deleted_files=len(garbage.files), deleted_bytes=garbage.bytes),
        arguments=arguments,
    )


def apply_delete(
    table: FileStoreTable, plan: MetadataPlan[BranchDeletion], context: RunContext
) -> Committed:
    """Delete the branch, its schemas last, for a branch without schema stops every other job."""
    work = plan.work
    details: dict[str, object] = {}
    if work.name is not None and work.without_schema:
        # First of all, for while it is there nobody can tell what is garbage.
        table.branches.delete(work.name)
        details["branch_name"] = work.name
    if work.interrupted:
        details["finished"] = finish_interrupted(table, work.interrupted).to_json()

    def delete_references() -> None:
        if work.name is None:
            return
        paths = table.paths.of_branch(work.name)
        for folder in (
            paths.snapshot_dir,
            paths.changelog_dir,
            paths.tag_dir,
            paths.consumer_dir,
        ):
            table.io.delete_dir(folder)
        table.branches.delete(work.name)

    if work.name is not None and not work.without_schema:
        removed = release(
            table,
            work.going,
            delete_references,
            new_uuid=context.env.new_uuid,
            planned=work.files,
        )
        details.update({"branch_name": work.name, **removed.to_json()})
    return Committed(details=details)


def _check_exists(table: FileStoreTable, name: str) -> None:
    if name == MAIN_BRANCH:
        raise InvalidArgument("the main branch can be neither deleted nor renamed")
    if not table.branches.exists(name):
        raise NotFound(f"branch {name!r} of table {table.name} does not exist", table=table.name)


CREATE: Final = metadata_steps(make_create, apply_create)
RENAME: Final = metadata_steps(make_rename, apply_rename)
DELETE: Final = metadata_steps(make_delete, apply_delete)
