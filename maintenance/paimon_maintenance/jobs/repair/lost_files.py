"""remove_unexisting_files (Java: Flink's `RemoveUnexistingFilesAction`, `ListUnexistingFiles`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.compaction.unit import CompactResult
from paimon_core.compaction.vectors import with_index_files
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict
from paimon_core.features import check_committable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.io.file_io import map_parallel, parent
from paimon_core.manifest.data_file import FileKind, IndexManifestEntry, ManifestEntry
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_maintenance.job.effects import live_effect
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, metadata_steps
from paimon_maintenance.job.plan import Retained, SnapshotPin
from paimon_maintenance.job.text import counted
from paimon_maintenance.verify.inventory import Inventory

Plan = MetadataPlan[tuple[ManifestEntry, ...]]


def lost_files(table: FileStoreTable, live: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The live files that are missing in storage.

    A failed listing raises, so that it does not make files count as missing.
    """
    paths = {table.paths.data_file(e.partition, e.bucket, e.file): e for e in live}
    inventory = Inventory(table.io)
    inventory.prefetch(map(parent, paths))
    return [entry for path, entry in paths.items() if inventory.size(path) is None]


def lost_action(table: FileStoreTable, entry: ManifestEntry) -> Action:
    """The action for a missing file."""
    path = table.paths.data_file(entry.partition, entry.bucket, entry.file)
    return Action(
        f"remove {path} from the table",
        f"it is missing, with {counted(entry.file.row_count, 'rows')}",
        {"file": path, "rows": entry.file.row_count, "bytes": entry.file.file_size},
    )


def remove_lost(
    table: FileStoreTable, lost: Sequence[ManifestEntry], *, user: str, env: Environment
) -> Snapshot | None:
    """Commit an OVERWRITE snapshot without the files that are still missing.

    None if there are none.  CommitConflict if another commit replaced one of them, so
    that it is no longer needed.
    """
    paths = [table.paths.data_file(e.partition, e.bucket, e.file) for e in lost]
    there = map_parallel(table.io, table.io.exists, paths)
    gone = [entry for entry, exists in zip(lost, there, strict=True) if not exists]
    if not gone:
        return None
    latest = table.latest_or_not_found()
    index_files = tuple(_index_changes(table, latest, gone, env))
    # One set of changes for all attempts, so that its files are written once.
    changes = ManifestChanges(tuple(e.as_delete() for e in gone), (), index_files)
    try:
        return commit_changes(
            table,
            lambda _: changes,
            CommitRequest(user=user, kind=CommitKind.OVERWRITE),
            env=env,
        )
    except CommitConflict:
        for entry in index_files:
            if entry.kind is FileKind.ADD:
                table.io.delete(
                    table.paths.index_file(entry.partition, entry.bucket, entry.index_file)
                )
        raise


def _index_changes(
    table: FileStoreTable, latest: Snapshot, gone: Sequence[ManifestEntry], env: Environment
) -> Iterable[IndexManifestEntry]:
    """The changes that drop the deletion vectors of the missing files."""
    indexes = vector_files(table, latest)
    if not indexes:
        return
    unaware = table.bucket_mode is BucketMode.UNAWARE
    live: dict[tuple[bytes, int], set[str]] = defaultdict(set)
    for entry in scan_files(table, latest):
        live[entry.partition, 0 if unaware else entry.bucket].add(entry.file.file_name)
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in gone:
        buckets[entry.partition, 0 if unaware else entry.bucket].append(entry)
    for (partition, bucket), entries in buckets.items():
        held = indexes.get((partition, bucket))
        if not held:
            continue
        result = with_index_files(
            table,
            CompactResult(
                partition=partition,
                bucket=bucket,
                total_buckets=entries[0].total_buckets,
                before=tuple(e.file for e in entries),
                after=(),
            ),
            held,
            live=live[partition, bucket],
            new_uuid=env.new_uuid,
        )
        for file in result.deleted_index_files:
            yield IndexManifestEntry(FileKind.DELETE, partition, bucket, file)
        for file in result.new_index_files:
            yield IndexManifestEntry(FileKind.ADD, partition, bucket, file)


# --- the job ------------------------------------------------------------------------------------


def make(table: FileStoreTable, arguments: Mapping[str, object], _: RunContext) -> Plan:
    """The missing live files of the newest snapshot."""
    check_committable(table)
    latest = table.snapshots.latest()
    live = [] if latest is None else scan_files(table, latest)
    lost = lost_files(table, live)
    return MetadataPlan(
        job="remove_unexisting_files",
        table=table.name,
        pin=None if latest is None else SnapshotPin.of(latest),
        work=tuple(lost),
        actions=tuple(lost_action(table, e) for e in lost),
        kept=(Retained(what="files", why="they exist", count=len(live) - len(lost)),),
        # An unmounted storage lacks all files, so the share must also count for small tables.
        effect=live_effect(lost, live, exact=True),
        arguments=arguments,
    )


def recheck(table: FileStoreTable, plan: Plan) -> Plan:
    """The plan without files that are not live anymore."""
    latest = table.latest_or_not_found()
    live = {e.identity for e in scan_files(table, latest)}
    return replace(plan, work=tuple(e for e in plan.work if e.identity in live))


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Commit one snapshot without the missing files."""
    if not plan.work:
        return Committed(details={"removed_files": 0})
    made = remove_lost(table, plan.work, user=context.commit_user, env=context.env)
    if made is None:
        return Committed(details={"removed_files": 0})
    names = [e.file.file_name for e in plan.work]
    return Committed(snapshots=(made.id,), details={"removed_files": len(names), "files": names})


STEPS: Final = metadata_steps(make, apply, recheck=recheck)
