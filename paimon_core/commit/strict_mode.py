"""Refuses commits next to others of the same partitions (Java: `StrictModeChecker`).

A writer sets `commit.strict-mode.last-safe-snapshot` to the newest snapshot that it knows of.  Its
commits fail if another user has compacted or overwritten one of their partitions since, and those
that overwrite also if another user has added files.
"""

from __future__ import annotations

from collections.abc import Iterator

from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.errors import CommitObstructed
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import COMMIT_LAST_SAFE_SNAPSHOT
from paimon_core.scan.scan import scan_delta
from paimon_core.snapshot.line import newest_first
from paimon_core.snapshot.snapshot import CommitKind, Snapshot


def check_strict_mode(
    table: FileStoreTable, latest: Snapshot | None, changes: ManifestChanges, request: CommitRequest
) -> None:
    """Raise CommitObstructed if the option forbids to commit the changes after `latest`.

    What the writer has committed was checked then.  With -1, its first commit is not checked.
    """
    safe = table.options.value(COMMIT_LAST_SAFE_SNAPSHOT)
    if safe is None or latest is None:
        return
    partitions = {e.partition for e in changes.files}
    partitions |= {e.partition for e in changes.index_files}
    for snapshot in _of_others(table, latest, request.user, safe):
        if snapshot.commit_kind in (CommitKind.COMPACT, CommitKind.OVERWRITE):
            changed = _changed_partitions(table, snapshot)
        elif (snapshot.commit_kind, request.kind) == (CommitKind.APPEND, CommitKind.OVERWRITE):
            changed = _partitions_of_files(table, snapshot, only_buckets=True)
        else:
            continue
        if not partitions.isdisjoint(changed):
            raise _refused(table, snapshot.id, f"{snapshot.commit_kind} by {snapshot.commit_user}")


def _of_others(table: FileStoreTable, latest: Snapshot, user: str, safe: int) -> list[Snapshot]:
    """Return the snapshots after the newest one that is safe, newest first."""
    found: list[Snapshot] = []
    for number, snapshot in newest_first(table.snapshots, latest, down_to=max(1, safe + 1)):
        if snapshot is not None and snapshot.commit_user == user:
            return found
        if snapshot is not None:
            found.append(snapshot)
        elif safe >= 0:
            raise _refused(table, number, "it expired, so that its changes are unknown")
        else:
            break
    return found if safe >= 0 else []


def _changed_partitions(table: FileStoreTable, snapshot: Snapshot) -> Iterator[bytes]:
    yield from _partitions_of_files(table, snapshot)
    before = table.snapshots.get_or_none(snapshot.id - 1)
    manifest = snapshot.index_manifest
    if manifest is None or (before is not None and before.index_manifest == manifest):
        return
    yield from (entry.partition for entry in table.index_entries(snapshot))


def _partitions_of_files(
    table: FileStoreTable, snapshot: Snapshot, *, only_buckets: bool = False
) -> Iterator[bytes]:
    for entry in scan_delta(table, snapshot):
        if entry.bucket >= 0 or not only_buckets:
            yield entry.partition


def _refused(table: FileStoreTable, number: int, what: str) -> CommitObstructed:
    key = COMMIT_LAST_SAFE_SNAPSHOT.key
    return CommitObstructed(
        f"did not commit to table {table.name}: {key} is set, and snapshot {number} may have "
        f"changed the same partitions: {what}",
        table=table.name,
        snapshot=number,
        next_step=f"look at that snapshot, then run again with {key}={number}, or without it",
    )
