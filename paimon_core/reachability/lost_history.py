"""Tells a table that lost its snapshots from one without commits.

A `snapshot/` folder that is not mounted, or was emptied, looks like that of a table to which nobody
has committed yet.  Then nothing refers to the live files.  But each commit has left manifest lists,
and a branch that begins at a tag begins with its snapshot, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import MAIN_BRANCH
from paimon_core.reachability.references import Reference, RefKind
from paimon_core.snapshot.snapshot import Snapshot

_MANIFEST_LIST: Final = "manifest-list-"


def check_history(
    table: FileStoreTable,
    references: Iterable[Reference],
    *,
    deleted: Collection[str] = (),
) -> None:
    """Raise CorruptTable if a branch has no snapshot, but there are lists of unknown commits.

    That is main, or another branch with tags or changelogs alone, unless it is `deleted` or its
    creation has not finished.  One without a schema may be what Java 1.4 leaves of a branch
    (`on_branch`).  `references` are all of the table.  The manifest lists are listed only if there
    is such a branch.
    """
    mentioned: set[str | None] = set()
    with_commits: set[str] = set()
    held: set[str] = set()
    for reference in references:
        is_snapshot = reference.kind is RefKind.SNAPSHOT
        (with_commits if is_snapshot else held).add(reference.table.branch)
        mentioned.update(_lists_of(reference.snapshot))
    empty = sorted(held - with_commits - {MAIN_BRANCH, *deleted})
    empty = [
        b for b in empty if table.schemas.of_branch(b).ids() and table.branches.begun(b) is None
    ]
    if MAIN_BRANCH not in with_commits:
        # Where only branches have commits, as of a chain table, the lists are left of their failed
        # ones.  A tag or a changelog of main outlives its snapshot, but not all of them.
        folder = table.paths.of_branch(MAIN_BRANCH).snapshot_dir
        if not with_commits or MAIN_BRANCH in held or table.io.exists(folder):
            empty.insert(0, MAIN_BRANCH)
    if not empty:
        return
    names = {file.name for file in table.io.list_dir(table.paths.manifest_dir)}
    lists = {name for name in names - mentioned if name.startswith(_MANIFEST_LIST)}
    if lists:
        raise _lost(table, empty[0], lists)


def _lost(table: FileStoreTable, branch: str, lists: Collection[str]) -> CorruptTable:
    folder = table.paths.of_branch(branch).snapshot_dir
    what = f"branch {branch} of table {table.name}"
    otherwise = "If the branch is not needed, delete it"
    if branch == MAIN_BRANCH:
        what = f"table {table.name}"
        otherwise = (
            "If the table never had a snapshot, its first commits failed or are going on: run again after "
            "one has succeeded"
        )
    return CorruptTable(
        f"{what} has no snapshot, but there are {len(lists)} manifest lists of unknown commits, such as "
        f"{min(lists)}: {folder} is not mounted, or has lost its files",
        table=table.name,
        file=folder,
        next_step=f"mount or restore the folder. {otherwise}",
    )


def _lists_of(snapshot: Snapshot) -> Iterable[str | None]:
    return (
        snapshot.base_manifest_list,
        snapshot.delta_manifest_list,
        snapshot.changelog_manifest_list,
    )
