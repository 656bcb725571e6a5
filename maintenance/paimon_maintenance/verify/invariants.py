"""Invariants of the live files of one snapshot (java-rules A2, A9, D4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.key_order import stored_key_order
from paimon_core.manifest.data_file import FileKind, IndexManifestEntry, ManifestEntry
from paimon_maintenance.job.text import counted
from paimon_maintenance.verify.findings import Finding, Problem, Repair, Severity
from paimon_maintenance.verify.references import Reference


def check_live_files(reference: Reference, entries: Sequence[ManifestEntry]) -> Iterator[Finding]:
    """Findings about levels and bucket numbers of live files of one snapshot, of whole partitions."""
    if reference.table.has_primary_key:
        yield from key_overlaps(reference, entries)
    yield from mixed_buckets(reference, entries)


def key_overlaps(reference: Reference, entries: Sequence[ManifestEntry]) -> Iterator[Finding]:
    """Findings about overlapping key ranges in one bucket and level >= 1; touching ranges overlap."""
    table = reference.table
    order = stored_key_order(table.schema.key_type)
    runs: dict[tuple[bytes, int, int], list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        if entry.file.level > 0:
            runs[entry.partition, entry.bucket, entry.file.level].append(entry)
    for (partition, bucket, level), files in runs.items():
        ranges = sorted(
            ((order(e.file.min_key), order(e.file.max_key), e.file.file_name) for e in files),
            key=lambda r: r[0],
        )
        for (_, last, left), (first, _, right) in pairwise(ranges):
            if last >= first:
                yield Finding(
                    problem=Problem.KEY_OVERLAP,
                    severity=Severity.ERROR,
                    message=f"files {left} and {right} of level {level} have overlapping keys, "
                    f"but readers treat the level as one sorted run",
                    reference=reference.label,
                    branch=table.branch,
                    snapshot=reference.snapshot.id,
                    partition=partition_text(table, partition),
                    bucket=bucket,
                    file=right,
                    repair=Repair.MOVE_DOWN,
                )


def hidden_files(
    reference: Reference, entries: Iterable[ManifestEntry], live: Iterable[ManifestEntry]
) -> Iterator[Finding]:
    """Findings about live files that Java treats as deleted, because it ignores the order of entries."""
    table = reference.table
    deleted = {e.identity for e in entries if e.kind is FileKind.DELETE}
    for entry in live:
        if entry.identity in deleted:
            yield Finding(
                problem=Problem.HIDDEN_FILE,
                severity=Severity.ERROR,
                message=f"file {entry.file.file_name} was deleted and added again, and both entries "
                f"are in the manifests of {reference.label}: Java readers do not see it",
                reference=reference.label,
                branch=table.branch,
                snapshot=reference.snapshot.id,
                partition=partition_text(table, entry.partition),
                bucket=entry.bucket,
                file=entry.file.file_name,
                repair=Repair.COMPACT_MANIFEST,
            )


def mixed_buckets(reference: Reference, entries: Sequence[ManifestEntry]) -> Iterator[Finding]:
    """Findings about partitions with files for different numbers of buckets."""
    table = reference.table
    totals: dict[bytes, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for entry in entries:
        if entry.total_buckets > 0:
            totals[entry.partition][entry.total_buckets] += 1
    for partition, counts in totals.items():
        if len(counts) > 1:
            found = ", ".join(
                f"{counted(n, 'buckets')} ({counted(files, 'files')})"
                for n, files in sorted(counts.items())
            )
            yield Finding(
                problem=Problem.MIXED_BUCKETS,
                severity=Severity.ERROR,
                message=f"a partition has files for {found}: a key may be in two buckets, because "
                f"a writer continued with the old number after a rescale",
                reference=reference.label,
                branch=table.branch,
                snapshot=reference.snapshot.id,
                partition=partition_text(table, partition),
                repair=Repair.RESCALE,
            )


def record_total(reference: Reference, rows: int) -> Iterator[Finding]:
    """A finding if the record count of a snapshot differs from that of its live files, `rows`."""
    snapshot = reference.snapshot
    if snapshot.total_record_count is not None and snapshot.total_record_count != rows:
        yield Finding(
            problem=Problem.WRONG_RECORD_TOTAL,
            severity=Severity.WARNING,
            message=f"{reference.label} says {snapshot.total_record_count:,} records, but its files "
            f"contain {rows:,}",
            reference=reference.label,
            branch=reference.table.branch,
            snapshot=snapshot.id,
        )


def vectors_without_file(
    reference: Reference, index: Iterable[IndexManifestEntry], live: Iterable[ManifestEntry]
) -> Iterator[Finding]:
    """Findings about deletion vectors of data files that are not live in their bucket."""
    files = {(e.partition, e.bucket, e.file.file_name) for e in live}
    for entry in index:
        for vector in entry.index_file.dv_ranges or ():
            if (entry.partition, entry.bucket, vector.data_file) not in files:
                yield Finding(
                    problem=Problem.VECTOR_WITHOUT_FILE,
                    severity=Severity.WARNING,
                    message=f"index file {entry.index_file.file_name} has a deletion vector for "
                    f"{vector.data_file}, which is not live",
                    reference=reference.label,
                    branch=reference.table.branch,
                    snapshot=reference.snapshot.id,
                    partition=partition_text(reference.table, entry.partition),
                    bucket=entry.bucket,
                    file=entry.index_file.file_name,
                    repair=Repair.DROP_VECTORS,
                )


def partition_text(table: FileStoreTable, partition: bytes) -> str:
    """The partition path: "dt=1/hh=2", "" for an unpartitioned table."""
    return table.paths.partition_path(partition)
