"""Changelogs that outlive their snapshots (Java: `utils/ChangelogManager`, `Changelog`).

A changelog is a copy of the snapshot's JSON in `changelog/changelog-N`, written before snapshot N
is deleted, so that streams can still read its changelog files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from paimon_core.errors import NotFound
from paimon_core.io.file_io import FileIO, map_parallel
from paimon_core.paths import CHANGELOG_PREFIX, TablePaths
from paimon_core.snapshot.numbered_files import NumberedFiles, NumberedStore, read_numbered
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.snapshot_json import snapshot_to_json


@dataclass(frozen=True, slots=True)
class ChangelogStore(NumberedStore):
    """Reads, writes and deletes `changelog/changelog-N` of one branch."""

    io: FileIO
    paths: TablePaths
    table: str

    def of_branch(self, branch: str) -> ChangelogStore:
        """Return the changelogs of another branch."""
        return ChangelogStore(self.io, self.paths.of_branch(branch), self.table)

    @property
    def _files(self) -> NumberedFiles:
        return NumberedFiles(self.io, self.paths.changelog_dir, CHANGELOG_PREFIX)

    def get(self, snapshot_id: int) -> Snapshot:
        """Return the changelog; NotFound if it does not exist, CorruptTable if it is unreadable."""
        found = self.get_or_none(snapshot_id)
        if found is None:
            raise NotFound(
                f"changelog {snapshot_id} of table {self.table} does not exist",
                table=self.table,
                snapshot=snapshot_id,
                next_step="it was never kept, or it expired",
            )
        return found

    def get_or_none(self, snapshot_id: int) -> Snapshot | None:
        """Return the changelog or None if it does not exist; CorruptTable if it is unreadable."""
        found = read_numbered(self._files, snapshot_id, self.table)
        return None if found is None else found[1]

    def all(self) -> list[Snapshot]:
        """Return all changelogs, sorted by id, without those that expire during the call."""
        ids = self.ids()
        found = map_parallel(self.io, self.get_or_none, ids)
        missing = [i for i, s in zip(ids, found, strict=True) if s is None]
        if missing:
            left = self.ids()
            if left and max(missing) >= left[0]:
                raise NotFound(
                    f"changelog {max(missing)} of table {self.table} disappeared while it was read, "
                    "although older ones still exist",
                    table=self.table,
                    snapshot=max(missing),
                    next_step="another job changed the table meanwhile; run again",
                )
        return [s for s in found if s is not None]

    def put(self, changelog: Snapshot) -> None:
        """Write the snapshot as a changelog, replacing one of the same id; hints do not change."""
        content = snapshot_to_json(changelog).encode()
        self.io.overwrite(self.paths.changelog(changelog.id), content)

    def delete(self, snapshot_id: int) -> bool:
        """Delete only the changelog's file.

        Return False if it was missing (object stores cannot tell).
        """
        return self.io.delete(self.paths.changelog(snapshot_id))


def without_lost_changelog(io: FileIO, paths: TablePaths, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot of a tag, without its changelog if that expired with the snapshot.

    Java keeps the name, and streams that start at such a snapshot fail.
    """
    name = snapshot.changelog_manifest_list
    if name is None or io.exists(paths.manifest(name)):
        return snapshot
    return replace(
        snapshot,
        changelog_manifest_list=None,
        changelog_manifest_list_size=None,
        changelog_record_count=None,
    )
