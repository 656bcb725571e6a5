"""The references of a table as far as they can be read, and the errors of those that cannot.

What deletes files goes by `paimon_core.reachability.references`, which stops at the first error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from paimon_core.errors import CorruptTable, NotFound, PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import map_parallel
from paimon_core.paths import MAIN_BRANCH
from paimon_core.reachability.references import Reference, RefKind
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.open import open_table_at

__all__ = ["RefKind", "Reference", "branches_of", "each_branch", "references_of"]
T = TypeVar("T", int, str)


def branches_of(table: FileStoreTable) -> list[FileStoreTable]:
    """The table's handle on every branch that has a schema, main first; each under its newest."""
    return [b for _, b in each_branch(table) if isinstance(b, FileStoreTable)]


def each_branch(table: FileStoreTable) -> Iterator[tuple[str, FileStoreTable | PaimonError]]:
    """Name and handle of every branch, main first; the error of one without readable schema."""
    for branch in (MAIN_BRANCH, *table.branches.names()):
        try:
            yield branch, open_table_at(table.io, table.root, table.name, branch=branch)
        except (NotFound, CorruptTable) as e:
            yield branch, e


def references_of(branch: FileStoreTable) -> Iterator[Reference | CorruptTable]:
    """Snapshots oldest first, then tags, then changelogs of one branch.

    In place of one that cannot be read comes its error; one that expires meanwhile is skipped.
    """
    yield from _read(branch, RefKind.SNAPSHOT, branch.snapshots.ids(), branch.snapshots.get_or_none)
    yield from _read(branch, RefKind.TAG, branch.tags.names(), lambda n: _tagged(branch, n))
    yield from _read(
        branch, RefKind.CHANGELOG, branch.changelogs.ids(), branch.changelogs.get_or_none
    )


def _tagged(branch: FileStoreTable, name: str) -> Snapshot | None:
    tag = branch.tags.get_or_none(name)
    return None if tag is None else tag.snapshot


def _read(
    branch: FileStoreTable,
    kind: RefKind,
    names: Sequence[T],
    get: Callable[[T], Snapshot | None],
) -> Iterator[Reference | CorruptTable]:
    def attempt(name: T) -> Reference | CorruptTable | None:
        try:
            snapshot = get(name)
        except CorruptTable as e:
            return e
        if snapshot is None:
            return None
        return Reference(table=branch, kind=kind, name=str(name), snapshot=snapshot)

    for found in map_parallel(branch.io, attempt, names):
        if found is not None:
            yield found
