"""The readable references of a table, and the errors of the unreadable ones.

Jobs that delete files use `paimon_core.reachability.references`, which raises the first error.
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
    """A handle on every branch with a schema, main first, each with its newest schema."""
    return [b for _, b in each_branch(table) if isinstance(b, FileStoreTable)]


def each_branch(table: FileStoreTable) -> Iterator[tuple[str, FileStoreTable | PaimonError]]:
    """Name and handle of every branch, main first.

    An error instead of a handle for a broken schema.
    """
    for branch in (MAIN_BRANCH, *table.branches.names()):
        try:
            yield branch, open_table_at(table.io, table.root, table.name, branch=branch)
        except (NotFound, CorruptTable) as e:
            yield branch, e


def references_of(branch: FileStoreTable) -> Iterator[Reference | CorruptTable]:
    """Snapshots (oldest first), tags and changelogs of one branch.

    Yields the error of an unreadable reference; skips references that expire during the check.
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
