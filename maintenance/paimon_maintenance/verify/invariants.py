"""Invariants of the live files of one snapshot (java-rules A2, A9, D4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

import numpy as np

from paimon_core.commit.row_tracking import free_row_id
from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import IndexManifestEntry, ManifestFileMeta
from paimon_core.manifest.entries.columns import EntryColumns
from paimon_core.read.data_evolution import has_data_evolution
from paimon_core.scan.key_bounds import is_clustered
from paimon_core.scan.row_ranges import are_dedicated
from paimon_core.schema.replaced import older_than_replacement
from paimon_maintenance.job.text import counted
from paimon_maintenance.verify.findings import Finding, Problem, Repair, Severity
from paimon_maintenance.verify.key_ranges import overlapping
from paimon_maintenance.verify.live import Live
from paimon_maintenance.verify.references import Reference

_INT_BITS: Final = 32
_LOW_INT: Final = (1 << _INT_BITS) - 1


def check_live_files(reference: Reference, live: Live) -> Iterator[Finding]:
    """Findings about levels, bucket numbers and hidden files of whole partitions of a snapshot."""
    if reference.table.has_primary_key:
        yield from key_overlaps(reference, live.files)
    if has_data_evolution(reference.table):
        yield from shared_row_ids(reference, live.files)
    yield from mixed_buckets(reference, live.files)
    yield from hidden_files(reference, live)


def key_overlaps(reference: Reference, files: EntryColumns) -> Iterator[Finding]:
    """Findings about overlapping key ranges in one bucket and level >= 1.

    Touching ranges overlap.  None where the levels are not sorted by key.
    """
    table = reference.table
    if is_clustered(table):
        return
    for left, right in overlapping(files, table.schema.key_type):
        level, name = int(files.level[left]), files.name(right)
        yield Finding(
            problem=Problem.KEY_OVERLAP,
            severity=Severity.ERROR,
            message=f"files {files.name(left)} and {name} of level {level} have overlapping keys, "
            f"but readers treat the level as one sorted run",
            reference=reference.label,
            branch=table.branch,
            snapshot=reference.snapshot.id,
            partition=partition_text(table, _partition(files, right)),
            bucket=int(files.bucket[right]),
            file=name,
            repair=Repair.MOVE_DOWN,
        )


def shared_row_ids(reference: Reference, files: EntryColumns) -> Iterator[Finding]:
    """Findings about files of one partition that share some of their row ids, but not all.

    `files` has the columns `first_row_id` and `row_count`.  Files of BLOBs may have a part of the
    row ids of others.
    """
    table, first = reference.table, files.numbers["first_row_id"]
    end = first + files.numbers["row_count"]
    known = np.flatnonzero((first >= 0) & (end >= first) & ~are_dedicated(files))
    order = known[np.lexsort((end[known], first[known], files.partition[known]))]
    left, right = order[:-1], order[1:]
    shares = (files.partition[left] == files.partition[right]) & (first[right] < end[left])
    shares &= (first[left] != first[right]) | (end[left] != end[right])
    for one, other in zip(left[shares].tolist(), right[shares].tolist(), strict=True):
        name = files.name(other)
        yield Finding(
            problem=Problem.SHARED_ROW_IDS,
            severity=Severity.ERROR,
            message=f"files {files.name(one)} and {name} share some of their row ids, but not all: "
            f"readers refuse the partition",
            reference=reference.label,
            branch=table.branch,
            snapshot=reference.snapshot.id,
            partition=partition_text(table, _partition(files, other)),
            bucket=int(files.bucket[other]),
            file=name,
            repair=Repair.ROLL_BACK,
        )


def hidden_files(reference: Reference, live: Live) -> Iterator[Finding]:
    """Findings about live files that Java treats as deleted: it ignores the order of entries."""
    table, files = reference.table, live.files
    for position in live.hidden:
        name = files.name(position)
        yield Finding(
            problem=Problem.HIDDEN_FILE,
            severity=Severity.ERROR,
            message=f"file {name} was deleted and added again, and both entries are in the "
            f"manifests of {reference.label}: Java readers do not see it",
            reference=reference.label,
            branch=table.branch,
            snapshot=reference.snapshot.id,
            partition=partition_text(table, _partition(files, position)),
            bucket=int(files.bucket[position]),
            file=name,
            repair=Repair.COMPACT_MANIFEST,
        )


def mixed_buckets(reference: Reference, files: EntryColumns) -> Iterator[Finding]:
    """Findings about partitions with files for different numbers of buckets."""
    table = reference.table
    layouts = files.partition.astype(np.int64) << _INT_BITS | files.total_buckets
    layouts, counts = np.unique(layouts[files.total_buckets > 0], return_counts=True)
    codes = layouts >> _INT_BITS
    for code in np.unique(codes[1:][codes[1:] == codes[:-1]]).tolist():
        mine = codes == code
        totals = (layouts[mine] & _LOW_INT).tolist()
        found = ", ".join(
            f"{counted(n, 'buckets')} ({counted(count, 'files')})"
            for n, count in zip(totals, counts[mine].tolist(), strict=True)
        )
        yield Finding(
            problem=Problem.MIXED_BUCKETS,
            severity=Severity.ERROR,
            message=f"a partition has files for {found}: a key may be in two buckets, because "
            f"a writer continued with the old number after a rescale",
            reference=reference.label,
            branch=table.branch,
            snapshot=reference.snapshot.id,
            partition=partition_text(table, files.partitions.rows[code]),
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


def next_row_id(reference: Reference, manifests: Iterable[ManifestFileMeta]) -> Iterator[Finding]:
    """A finding if new rows would get ids that rows of a snapshot have; these are its manifests."""
    snapshot, free = reference.snapshot, free_row_id(manifests)
    told = snapshot.next_row_id or 0
    if told < free:
        yield Finding(
            problem=Problem.WRONG_NEXT_ROW_ID,
            severity=Severity.ERROR,
            message=f"{reference.label} says that new rows have ids from {told:,} on, but its files "
            f"have ids below {free:,}: the next rows that Java writes hide others",
            reference=reference.label,
            branch=reference.table.branch,
            snapshot=snapshot.id,
            repair=Repair.ROLL_BACK,
        )


def replaced_columns(
    reference: Reference, schemas: Iterable[int], *, newest: bool
) -> Iterator[Finding]:
    """A finding if live files, which have these schemas, are older than CREATE OR REPLACE TABLE.

    Readers of the newest snapshot use the schema of the table, others that of the snapshot.
    """
    table, snapshot = reference.table, reference.snapshot
    try:
        schema = table.schema if newest else table.schema_of(snapshot.schema_id)
        old = older_than_replacement(table.schemas, schemas, schema)
    except CorruptTable:
        return  # the check of schemas reports it
    if old:
        yield Finding(
            problem=Problem.REPLACED_COLUMNS,
            severity=Severity.ERROR,
            message=f"files of {reference.label} have schema {old[0]}, but the table was replaced, and "
            f"schema {schema.id} has none of its columns: a Java writer or rollback came later, and "
            f"all values of these rows read as null",
            reference=reference.label,
            branch=table.branch,
            snapshot=snapshot.id,
        )


def vectors_without_file(
    reference: Reference,
    index: Iterable[IndexManifestEntry],
    files: AbstractSet[tuple[bytes, int, str]],
) -> Iterator[Finding]:
    """Findings about deletion vectors of data files that are not live in their bucket.

    `files` are partition, bucket and name of the live files.
    """
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


def _partition(files: EntryColumns, position: int) -> bytes:
    return files.partitions.rows[int(files.partition[position])]


def partition_text(table: FileStoreTable, partition: bytes) -> str:
    """The partition path: "dt=1/hh=2", "" for an unpartitioned table."""
    return table.paths.partition_path(partition)
