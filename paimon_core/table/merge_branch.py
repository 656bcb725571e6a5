"""Adds the files of one branch to another (Java 2.0: `FileSystemBranchManager.mergeBranch`).

Branches share the folders of the table, so no file is copied: both branches refer to it afterwards.
Neither branch may have replaced a file, because it is unknown where one began; therefore both need
all of their snapshots, each of which only appended rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from paimon_core.commit.committer import commit
from paimon_core.commit.message import CommitMessage
from paimon_core.environment import Environment
from paimon_core.errors import InvalidArgument
from paimon_core.features import check_writable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.options import DATA_EVOLUTION_ENABLED, ROW_TRACKING_ENABLED
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
    commit added the same files.
    """
    problem = next(_problems(source, target), None)
    if problem is not None:
        raise InvalidArgument(
            f"Cannot merge branch '{source.branch}' into '{target.branch}': {problem}",
            table=target.name,
            next_step="merge branches that have the same schemas and only appended rows",
        )
    check_writable(target)
    there = {e.identity for e in scan_files(target, target.latest_or_not_found())}
    files = [e for e in scan_files(source, source.latest_or_not_found()) if e.identity not in there]
    missing = _schemas_that_differ(source, target, files)
    if missing:
        raise InvalidArgument(
            f"Cannot merge branch '{source.branch}' into '{target.branch}', schema history "
            f"mismatch for schema id {', '.join(map(str, missing))}.",
            table=target.name,
        )
    made = commit(target, _messages(files), user=env.new_uuid(), env=env, check_append=True)
    return made[-1] if made else None


def _problems(source: FileStoreTable, target: FileStoreTable) -> Iterator[str]:
    if source.branch == target.branch:
        yield "both are one branch."
    for branch in (source, target):
        if branch.has_primary_key:
            yield f"only append tables are merged, but branch '{branch.branch}' has primary keys."
        if branch.options.value(DATA_EVOLUTION_ENABLED):
            yield f"branch '{branch.branch}' has data evolution."
        yield from _history(branch)
    if source.options.value(ROW_TRACKING_ENABLED) != target.options.value(ROW_TRACKING_ENABLED):
        yield "row-tracking settings must match."
    if source.schema.fields != target.schema.fields:
        yield "schema mismatch."


def _history(branch: FileStoreTable) -> Iterator[str]:
    """Yield why the snapshots of a branch are not a complete history of appends."""
    ids = sorted(branch.snapshots.ids())
    if not ids:
        yield f"branch '{branch.branch}' does not have any snapshot."
        return
    if ids != list(range(_FIRST_SNAPSHOT, ids[-1] + 1)):
        yield f"branch '{branch.branch}' has lost snapshots before {ids[-1]}."
        return
    for snapshot_id in ids:
        kind = branch.snapshots.get(snapshot_id).commit_kind
        if kind not in _APPENDS:
            yield f"snapshot {snapshot_id} on branch '{branch.branch}' has commit kind '{kind}'."


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
