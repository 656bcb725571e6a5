"""Removes deletion vectors of data files that are not live from the newest snapshot.

Java 1.4 leaves them behind if a full compaction rewrites only files of the top level.  They hide no
rows, but their number grows with every such compaction, and our compaction only drops those of the
buckets that it rewrites.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.compaction.vectors import without_stale_vectors
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import delete_abandoned
from paimon_core.manifest.data_file import FileKind, IndexManifestEntry, ManifestEntry
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import VectorFiles, vector_files
from paimon_core.snapshot.snapshot import CommitKind
from paimon_maintenance.job.metadata_job import Action
from paimon_maintenance.job.text import counted
from paimon_maintenance.jobs.repair.fixes import FixResult, place
from paimon_maintenance.verify.findings import Repair

Live = Mapping[tuple[bytes, int], set[str]]
"""Partition (stored row bytes) and bucket -> the names of its live data files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorsFix:
    """Deletion vectors of data files that are not live; `stale` are the names of these files."""

    branch: FileStoreTable
    stale: tuple[str, ...]
    repair: Repair = Repair.DROP_VECTORS

    def actions(self) -> list[Action]:
        return [
            Action(
                f"drop {counted(len(self.stale), 'deletion vectors')}{place(self.branch)}",
                "their data files are not live",
                {"files": list(self.stale)},
            )
        ]

    def apply(self, *, user: str, env: Environment) -> FixResult:
        branch = self.branch
        latest = branch.latest_or_not_found()
        held, live = vector_files(branch, latest), live_names(scan_files(branch, latest))
        dropped = stale_vectors(held, live)
        if not dropped:
            return FixResult()
        entries = tuple(_changes(branch, held, live, env))
        changes = ManifestChanges((), (), entries)
        try:
            made = commit_changes(
                branch,
                lambda _: changes,
                CommitRequest(user=user, kind=CommitKind.COMPACT),
                env=env,
            )
        except CommitConflict:
            delete_abandoned(
                branch.io,
                [
                    branch.paths.index_file(e.partition, e.bucket, e.index_file)
                    for e in entries
                    if e.kind is FileKind.ADD
                ],
            )
            raise
        return FixResult(text=f"{counted(len(dropped), 'stale vectors')} dropped", snapshot=made.id)


def live_names(entries: Iterable[ManifestEntry]) -> Live:
    """The live data files of each bucket."""
    found: dict[tuple[bytes, int], set[str]] = defaultdict(set)
    for entry in entries:
        found[entry.partition, entry.bucket].add(entry.file.file_name)
    return found


def stale_vectors(held: VectorFiles, live: Live) -> tuple[str, ...]:
    """The data files with a deletion vector that are not live in its bucket, sorted."""
    return tuple(
        sorted(
            vector.data_file
            for place_, files in held.items()
            for file in files
            for vector in file.dv_ranges or ()
            if vector.data_file not in live.get(place_, ())
        )
    )


def _changes(
    branch: FileStoreTable, held: VectorFiles, live: Live, env: Environment
) -> Iterable[IndexManifestEntry]:
    for (partition, bucket), files in held.items():
        added, gone = without_stale_vectors(
            *(branch, partition, bucket, files),
            live=live.get((partition, bucket), set()),
            new_uuid=env.new_uuid,
        )
        for file in gone:
            yield IndexManifestEntry(FileKind.DELETE, partition, bucket, file)
        for file in added:
            yield IndexManifestEntry(FileKind.ADD, partition, bucket, file)
