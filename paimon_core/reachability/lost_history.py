"""Tells a table that lost its snapshots from one without commits.

A `snapshot/` folder that is not mounted, or was emptied, looks like that of a table to which nobody has
committed yet.  Then nothing refers to the live files.  But each commit has left manifest lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.reachability.references import Reference
from paimon_core.snapshot.snapshot import Snapshot

_MANIFEST_LIST: Final = "manifest-list-"


def check_history(table: FileStoreTable, references: Callable[[], Iterable[Reference]]) -> None:
    """Raise CorruptTable if the branch has no snapshot, and the table manifest lists of unknown commits.

    `references` returns those of all branches; it is called only if there is no snapshot.
    """
    if table.snapshots.latest() is not None:
        return
    names = (file.name for file in table.io.list_dir(table.paths.manifest_dir))
    lists = {name for name in names if name.startswith(_MANIFEST_LIST)}
    for reference in references() if lists else ():
        lists.difference_update(_lists_of(reference.snapshot))
    if not lists:
        return
    raise CorruptTable(
        f"table {table.name} has no snapshot, but {len(lists)} manifest lists of commits, such as "
        f"{min(lists)}: {table.paths.snapshot_dir} is not mounted, or has lost its files",
        table=table.name,
        file=table.paths.snapshot_dir,
        next_step="mount or restore the folder. If the table never had a snapshot, its first commits "
        "failed or are going on: run again after one has succeeded",
    )


def _lists_of(snapshot: Snapshot) -> Iterable[str | None]:
    return (
        snapshot.base_manifest_list,
        snapshot.delta_manifest_list,
        snapshot.changelog_manifest_list,
    )
