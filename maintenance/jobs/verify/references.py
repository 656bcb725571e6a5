"""Everything that keeps files of a table alive: snapshots, tags and changelogs of all branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from paimon_core.errors import NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import MAIN_BRANCH
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.open import open_table_at


class RefKind(StrEnum):
    SNAPSHOT = "snapshot"
    TAG = "tag"
    CHANGELOG = "changelog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One snapshot, tag or changelog, and the branch's handle under which it is read."""

    table: FileStoreTable
    kind: RefKind
    name: str
    snapshot: Snapshot

    @property
    def label(self) -> str:
        """For people: "snapshot 12", "tag t1 of branch b"."""
        place = "" if self.table.branch == MAIN_BRANCH else f" of branch {self.table.branch}"
        return f"{self.kind} {self.name}{place}"

    def still_there(self) -> bool:
        """Whether the reference itself exists now; expiry may have taken it meanwhile."""
        paths, io = self.table.paths, self.table.io
        if self.kind is RefKind.TAG:
            return io.exists(paths.tag(self.name))
        if self.kind is RefKind.CHANGELOG:
            return io.exists(paths.changelog(self.snapshot.id))
        return io.exists(paths.snapshot(self.snapshot.id))


def branches_of(table: FileStoreTable) -> list[FileStoreTable]:
    """The table's handle on every branch, main first; each under its own newest schema."""
    return [
        open_table_at(table.io, table.root, table.name, branch=branch)
        for branch in (MAIN_BRANCH, *table.branches.names())
    ]


def references_of(branch: FileStoreTable) -> Iterator[Reference]:
    """Snapshots oldest first, then tags, then changelogs of one branch.

    A snapshot that expires while we look is skipped; one that cannot be read raises CorruptTable.
    """
    for snapshot_id in sorted(branch.snapshots.ids()):
        try:
            snapshot = branch.snapshots.get(snapshot_id)
        except NotFound:
            continue
        yield Reference(
            table=branch, kind=RefKind.SNAPSHOT, name=str(snapshot_id), snapshot=snapshot
        )
    for tag in branch.tags.all():
        yield Reference(table=branch, kind=RefKind.TAG, name=tag.name, snapshot=tag.snapshot)
    for changelog_id in sorted(branch.changelogs.ids()):
        try:
            changelog = branch.changelogs.get(changelog_id)
        except NotFound:
            continue
        yield Reference(
            table=branch, kind=RefKind.CHANGELOG, name=str(changelog_id), snapshot=changelog
        )
