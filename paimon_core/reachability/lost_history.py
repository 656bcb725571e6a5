"""Tells a table that lost its snapshots from one without commits.

A `snapshot/` folder that is not mounted, or was emptied, looks like that of a table to which nobody has
committed yet.  Then nothing refers to the live files.  But each commit has left manifest lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import MAIN_BRANCH
from paimon_core.reachability.references import Reference, RefKind
from paimon_core.snapshot.snapshot import Snapshot

_MANIFEST_LIST: Final = "manifest-list-"


def check_history(table: FileStoreTable, references: Iterable[Reference]) -> None:
    """Raise CorruptTable if main has no snapshot, but the table has manifest lists of unknown commits.

    `references` are all of the table.  The manifest lists are listed only if no snapshot of main is
    among them.
    """
    mentioned: set[str | None] = set()
    branch_commits = had_commits = False
    for reference in references:
        of_main = reference.table.branch == MAIN_BRANCH
        if reference.kind is RefKind.SNAPSHOT:
            if of_main:
                return
            branch_commits = True
        had_commits |= of_main  # a tag or a changelog outlives its snapshot, but not all of them
        mentioned.update(_lists_of(reference.snapshot))
    names = {file.name for file in table.io.list_dir(table.paths.manifest_dir)}
    lists = {name for name in names - mentioned if name.startswith(_MANIFEST_LIST)}
    folder = table.paths.of_branch(MAIN_BRANCH).snapshot_dir
    # Where only branches have commits, as of a chain table, the lists are left of their failed ones.
    never = branch_commits and not had_commits and not table.io.exists(folder)
    if not lists or never:
        return
    raise CorruptTable(
        f"table {table.name} has no snapshot, but {len(lists)} manifest lists of commits, such as "
        f"{min(lists)}: {folder} is not mounted, or has lost its files",
        table=table.name,
        file=folder,
        next_step="mount or restore the folder. If the table never had a snapshot, its first commits "
        "failed or are going on: run again after one has succeeded",
    )


def _lists_of(snapshot: Snapshot) -> Iterable[str | None]:
    return (
        snapshot.base_manifest_list,
        snapshot.delta_manifest_list,
        snapshot.changelog_manifest_list,
    )
