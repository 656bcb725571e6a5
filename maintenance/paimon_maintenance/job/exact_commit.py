"""Commits that replace exactly what was read of a partition, for rows that move between buckets.

No other file may have been added to the partition since, and no row of it deleted
(java-rules A8).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict, SchemaError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.changelog_producers import changelog_producer_of
from paimon_core.lsm.tree.universal_compaction import number_of_levels
from paimon_core.manifest.data_file import FileKind, IndexManifestEntry, ManifestEntry
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_maintenance.job.plan import SnapshotPin
from paimon_maintenance.job.text import counted


@dataclass(slots=True)
class SoleWriter:
    """The newest snapshot of a table that only this run writes to.

    It starts with the snapshot of the plan and moves on with each commit of the run, so that any
    commit of another writer is found, whatever partition it is about.
    """

    newest: SnapshotPin | None

    def check(self, table: FileStoreTable, latest: Snapshot | None) -> None:
        """CommitConflict unless the table's newest snapshot is still the one known here."""
        known = self.newest
        if latest is None and known is None:
            return
        if latest is not None and known is not None and known.matches(latest):
            return
        found = "no snapshot is left"
        if latest is not None:
            found = f"snapshot {latest.id} was committed by {latest.commit_user}"
        raise CommitConflict(
            f"a writer of table {table.name} is not stopped: {found} after snapshot "
            f"{known.id if known else None}, whose keys were to move between buckets",
            table=table.name,
            snapshot=None if latest is None else latest.id,
            next_step="stop all writers of the table and run again; if the report names rewritten "
            "buckets, that writer may have written moved keys a second time: run `caretaker verify`",
        )

    def note(self, snapshot: Snapshot) -> None:
        """The run committed this snapshot."""
        self.newest = SnapshotPin.of(snapshot)


def index_changed(
    table: FileStoreTable,
    latest: Snapshot | None,
    partition: bytes,
    read: Iterable[IndexManifestEntry],
) -> bool:
    """Whether the partition's index files are others than those that were read.

    A new deletion vector changes rows although every data file is still there.
    """
    if latest is None:
        return False
    now = (e for e in table.index_entries(latest) if e.partition == partition)
    return index_names(now) != index_names(read)


def commit_exact(
    table: FileStoreTable,
    label: str,
    read: Sequence[ManifestEntry],
    read_index: Sequence[IndexManifestEntry],
    added: Sequence[ManifestEntry],
    added_index: Sequence[IndexManifestEntry] = (),
    *,
    user: str,
    env: Environment,
    sole: SoleWriter | None = None,
) -> Snapshot:
    """The OVERWRITE snapshot in which the partition holds what was added instead of what was read.

    CommitConflict if the partition is no longer as it was read; `label` names it.  With `sole`,
    also if another writer committed anything to the table.
    """
    partition = read[0].partition
    changes = ManifestChanges(
        (*(e.as_delete() for e in read), *added),
        (),
        (*(replace(e, kind=FileKind.DELETE) for e in read_index), *added_index),
    )

    def provide(latest: Snapshot | None) -> ManifestChanges:
        if sole is not None:
            sole.check(table, latest)
        if index_changed(table, latest, partition, read_index):
            raise CommitConflict(
                f"rows of {label} of table {table.name} were deleted while it was rewritten",
                table=table.name,
                snapshot=None if latest is None else latest.id,
            )
        return changes

    request = CommitRequest(user=user, kind=CommitKind.OVERWRITE, exact=True)
    made = commit_changes(table, provide, request, env=env)
    if sole is not None:
        sole.note(made)
    return made


def check_changelog_complete(table: FileStoreTable, label: str, levels: Iterable[int]) -> None:
    """SchemaError if a rewrite of these levels would lose changes that no changelog has yet."""
    producer = changelog_producer_of(table.options)
    complete = producer.complete_from(top_level=number_of_levels(table.options) - 1)
    untold = sum(level < complete for level in levels)
    if untold:
        raise SchemaError(
            f"{label} of table {table.name} holds {counted(untold, 'files')} whose changes are not in the "
            f"changelog yet (changelog-producer={producer.name}); rewriting them now would lose these "
            f"changes for readers of the changelog",
            table=table.name,
            next_step="run a full compaction first (caretaker run compact), then this job",
        )


def index_names(entries: Iterable[IndexManifestEntry]) -> set[str]:
    """The names of index files, which are the same as long as no row is deleted."""
    return {e.index_file.file_name for e in entries}
