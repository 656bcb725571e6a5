"""Adds the files of one branch to another (Java 2.0: `FileSystemBranchManager.mergeBranch`).

Branches share the folders of the table, so no file is copied: both branches refer to it afterwards.
Neither branch may have replaced a file, because it is unknown where one began; therefore both need
all of their snapshots, each of which only appended rows.

Other jobs may work meanwhile.  One snapshot of the source is read, and its files are safe if it
still exists after the commit.  Each attempt to commit looks at the history of the target again,
because a compaction hides the files that both branches had.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from paimon_core.commit.base_check import revert_commit
from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges, append_changes
from paimon_core.commit.message import CommitMessage
from paimon_core.commit.request import CommitRequest, Origin
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict, InvalidArgument
from paimon_core.features import check_committable, check_writable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.options import DATA_EVOLUTION_ENABLED, ROW_TRACKING_ENABLED
from paimon_core.reachability.references import snapshot_reference
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind, Snapshot

_FIRST_SNAPSHOT = 1
_APPENDS = (CommitKind.APPEND, CommitKind.ANALYZE)


def merge_branch(
    source: FileStoreTable, target: FileStoreTable, *, env: Environment
) -> Snapshot | None:
    """Commit the files that only `source` has to `target`; None if there are none.

    Rows of tables with row tracking get new ids.  Raises InvalidArgument for branches that cannot
    be merged, UnsupportedFeature for tables that cannot be written, CommitConflict if another
    commit added the same files or replaced files of `target`, StalePlan if another job removed the
    snapshot of `source` before its files were part of `target`.
    """
    source_at, target_at = source.snapshots.latest(), target.snapshots.latest()
    problem = next(_problems(source, source_at, target, target_at), None)
    if problem is not None:
        raise InvalidArgument(
            f"Cannot merge branch '{source.branch}' into '{target.branch}': {problem}",
            table=target.name,
            next_step="merge branches that have the same schemas and only appended rows",
        )
    check_writable(target)
    check_committable(target)
    assert source_at is not None
    assert target_at is not None
    there = {e.identity for e in scan_files(target, target_at)}
    files = [e for e in scan_files(source, source_at) if e.identity not in there]
    missing = _schemas_that_differ(source, target, files)
    if missing:
        raise InvalidArgument(
            f"Cannot merge branch '{source.branch}' into '{target.branch}', schema history "
            f"mismatch for schema id {', '.join(map(str, missing))}.",
            table=target.name,
        )
    if not files:
        return None
    changes = append_changes(_messages(files))

    def provide(latest: Snapshot | None) -> ManifestChanges:
        problem = None if latest == target_at else next(_history(target, latest), None)
        if problem is not None:
            raise CommitConflict(
                f"Cannot merge branch '{source.branch}' into '{target.branch}', which changed "
                f"meanwhile: {problem}",
                table=target.name,
            )
        return changes

    request = CommitRequest(user=env.new_uuid(), kind=CommitKind.APPEND, origin=Origin.ROWS)
    made = commit_changes(target, provide, request, env=env)
    keeper = snapshot_reference(source, source_at)
    if not keeper.is_alive():
        revert_commit(target, made, f"{keeper.label}, which protected its files, was removed")
        keeper.prove_alive()
    return made


def _problems(
    source: FileStoreTable,
    source_at: Snapshot | None,
    target: FileStoreTable,
    target_at: Snapshot | None,
) -> Iterator[str]:
    if source.branch == target.branch:
        yield "both are one branch."
    for branch, latest in ((source, source_at), (target, target_at)):
        if branch.has_primary_key:
            yield f"only append tables are merged, but branch '{branch.branch}' has primary keys."
        if branch.options.value(DATA_EVOLUTION_ENABLED):
            yield f"branch '{branch.branch}' has data evolution."
        yield from _history(branch, latest)
    if source.options.value(ROW_TRACKING_ENABLED) != target.options.value(ROW_TRACKING_ENABLED):
        yield "row-tracking settings must match."
    if source.schema.fields != target.schema.fields:
        yield "schema mismatch."


def _history(branch: FileStoreTable, latest: Snapshot | None) -> Iterator[str]:
    """Yield why the snapshots of a branch up to `latest` are not a complete history of appends."""
    if latest is None:
        yield f"branch '{branch.branch}' does not have any snapshot."
        return
    ids = sorted(i for i in branch.snapshots.ids() if i < latest.id)
    if ids != list(range(_FIRST_SNAPSHOT, latest.id)):
        yield f"branch '{branch.branch}' has lost snapshots before {latest.id}."
        return
    for snapshot in (*map(branch.snapshots.get, ids), latest):
        kind = snapshot.commit_kind
        if kind not in _APPENDS:
            yield f"snapshot {snapshot.id} on branch '{branch.branch}' has commit kind '{kind}'."


def _schemas_that_differ(
    source: FileStoreTable, target: FileStoreTable, files: list[ManifestEntry]
) -> list[int]:
    there = set(target.schemas.ids())
    return sorted(
        i
        for i in {e.file.schema_id for e in files}
        if i not in there or source.schemas.get(i) != target.schemas.get(i)
    )


def _messages(files: list[ManifestEntry]) -> list[CommitMessage]:
    of_bucket: dict[tuple[bytes, int, int], list[ManifestEntry]] = defaultdict(list)
    for entry in files:
        of_bucket[entry.partition, entry.bucket, entry.total_buckets].append(entry)
    return [
        CommitMessage(
            partition=partition,
            bucket=bucket,
            total_buckets=total,
            # The commit gives them the next row ids of the target.
            new_files=tuple(replace(e.file, first_row_id=None) for e in entries),
        )
        for (partition, bucket, total), entries in of_bucket.items()
    ]
