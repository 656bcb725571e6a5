"""What a commit changes in each partition (Java: `manifest/PartitionEntry`)."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_core.environment import Environment, ahead_of_utc
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind, ManifestEntry
from paimon_core.snapshot.snapshot_commit import PartitionStatistics


def partition_statistics(
    table: FileStoreTable, entries: Sequence[ManifestEntry], *, env: Environment
) -> list[PartitionStatistics]:
    """One element for each partition that the entries touch; deleted files count negatively.

    Empty if the table's catalog has no use for them.
    """
    snapshot_commit = table.snapshots.snapshot_commit
    if snapshot_commit is None or not snapshot_commit.accepts_partition_statistics:
        return []
    return summed(table, entries, offset_millis=ahead_of_utc(env))


def summed(
    table: FileStoreTable, entries: Sequence[ManifestEntry], *, offset_millis: int
) -> list[PartitionStatistics]:
    """The sums of the entries by partition; `offset_millis`: of the writers' zone, from UTC."""
    by_partition: dict[bytes, list[ManifestEntry]] = {}
    for entry in entries:
        by_partition.setdefault(entry.partition, []).append(entry)
    return [
        _of_partition(table.paths.partition_values(partition), found, offset_millis)
        for partition, found in by_partition.items()
    ]


def _of_partition(
    spec: dict[str, str], entries: Sequence[ManifestEntry], offset_millis: int
) -> PartitionStatistics:
    signed = [(-1 if e.kind is FileKind.DELETE else 1, e.file) for e in entries]
    return PartitionStatistics(
        spec=spec,
        record_count=sum(sign * file.row_count for sign, file in signed),
        file_size=sum(sign * file.file_size for sign, file in signed),
        file_count=sum(sign for sign, _ in signed),
        last_file_creation_millis=max((f.creation_time or 0) - offset_millis for _, f in signed),
        total_buckets=entries[-1].total_buckets,
    )
