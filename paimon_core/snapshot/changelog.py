"""Changelogs that outlive their snapshots (Java: `utils/ChangelogManager`, `Changelog`).

A changelog is a copy of the snapshot's JSON in `changelog/changelog-N`, made before snapshot N is
deleted, so that its changelog files can still be read as a stream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from paimon_core.errors import CorruptTable, NotFound
from paimon_core.io.file_io import FileIO, map_parallel
from paimon_core.io.read_retry import read_with_retries
from paimon_core.paths import CHANGELOG_PREFIX, TablePaths
from paimon_core.snapshot.numbered_files import NumberedFiles, NumberedStore
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.snapshot_json import snapshot_from_json, snapshot_to_json


@dataclass(frozen=True, slots=True)
class ChangelogStore(NumberedStore):
    """Reads, writes and deletes `changelog/changelog-N` of one branch."""

    io: FileIO
    paths: TablePaths
    table: str

    def of_branch(self, branch: str) -> ChangelogStore:
        """The changelogs of another branch."""
        return ChangelogStore(self.io, self.paths.of_branch(branch), self.table)

    @property
    def _files(self) -> NumberedFiles:
        return NumberedFiles(self.io, self.paths.changelog_dir, CHANGELOG_PREFIX)

    def get(self, snapshot_id: int) -> Snapshot:
        """The changelog; NotFound if it is not there, CorruptTable if it cannot be read."""
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
        """The changelog, None if it is not there; CorruptTable if it cannot be read."""
        path = self.paths.changelog(snapshot_id)
        try:
            return read_with_retries(self.io, path, snapshot_from_json, table=self.table)
        except FileNotFoundError:
            return None
        except CorruptTable as e:
            e.snapshot = snapshot_id
            raise

    def all(self) -> list[Snapshot]:
        """All changelogs, sorted by id, without those that expire while they are read."""
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
        """Keep the snapshot as a changelog, replacing one of the same id; hints stay as they are."""
        content = snapshot_to_json(changelog).encode()
        self.io.overwrite(self.paths.changelog(changelog.id), content)

    def delete(self, snapshot_id: int) -> bool:
        """Delete the changelog's file (nothing else); False if it is known to have been missing."""
        return self.io.delete(self.paths.changelog(snapshot_id))


def without_lost_changelog(io: FileIO, paths: TablePaths, snapshot: Snapshot) -> Snapshot:
    """The snapshot of a tag, without its changelog if that expired with the snapshot.

    Java keeps the name, and streams that begin with such a snapshot fail.
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
