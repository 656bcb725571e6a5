"""A batch read cut into tasks that run apart: on threads, or on the executors of an engine.

A task holds files of one bucket whose rows nothing else merges with, so that the rows of all tasks
together are those of `read_batch`.  Java: `table/source/snapshot/SnapshotReaderImpl`, `DataSplit`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo

import pyarrow as pa

from paimon_core.features import check_rows_readable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import IndexFileMeta, ManifestEntry
from paimon_core.options import OPEN_FILE_COST
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.predicate import Predicate, fields_of
from paimon_core.read.data_evolution import (
    check_whole,
    has_data_evolution,
    matching_groups,
    row_groups,
)
from paimon_core.read.snapshot_changes import read_between
from paimon_core.read.table_read import (
    bucket_vectors,
    by_file_indexes,
    chosen_rows,
    least_level,
    pruning,
    read_bucket,
)
from paimon_core.scan.global_index import MatchingRows, matching_rows
from paimon_core.scan.scan import in_plan_order, scan_files
from paimon_core.scan.splits import SPLIT_TARGET_SIZE, batch_splits, pack_ordered
from paimon_core.scan.vectors import vector_files
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.source.batch_scan import BatchScan, kept_files, rows_of_scan, tag_for_read
from paimon_core.table.source.postponed_rows import (
    PostponedTask,
    beside,
    check_whole_snapshot,
    postponed_tasks,
    read_postponed,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTask:
    """Files of one bucket to read together, with the index files that hold their deleted rows."""

    table: FileStoreTable
    entries: tuple[ManifestEntry, ...]
    index_files: tuple[IndexFileMeta, ...] = ()

    @property
    def size(self) -> int:
        """Bytes to read; each file counts `source.split.open-file-cost` at least."""
        cost = self.table.options.value(OPEN_FILE_COST)
        return sum(max(e.file.file_size, cost) for e in self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """A scan that is read in one piece: changes of a snapshot, two compared snapshots, chains."""

    scan: BatchScan

    @property
    def size(self) -> int:
        """Bytes, unknown before the read: one split's."""
        return self.scan.table.options.value(SPLIT_TARGET_SIZE)


BatchTask = BucketTask | PostponedTask | ScanTask


def plan_batch(
    scan: BatchScan,
    *,
    predicate: Predicate | None = None,
    zone: tzinfo = UTC,
    columns: Collection[str] | None = None,
) -> list[BatchTask]:
    """The tasks of a scan, in the order of the plan; none if it reads nothing.

    `predicate` prunes by partition, bucket and statistics; `read_task` still has to be given it.
    `columns` are those that it may be asked for; None: all.  Errors as in `read_batch`.  Tags for
    the read (`read_tags`) stay for their time, as nobody here sees its end.
    """
    tasks = tasks_of(scan, predicate, zone, columns)
    tag_for_read(scan)  # as Java, of what can be read
    return tasks


def tasks_of(
    scan: BatchScan, predicate: Predicate | None, zone: tzinfo, columns: Collection[str] | None
) -> list[BatchTask]:
    """The tasks of `plan_batch`, without tags for the read."""
    check_whole_snapshot(scan.table)
    if scan.diff is not None:
        return [ScanTask(scan=scan)]
    if scan.between is not None:
        return list(_of_changes(scan, *scan.between))
    tasks: list[BatchTask] = []
    seen: set[bytes] = set()
    at: BatchScan | None = scan
    while at is not None:
        if at.chain is not None:
            chain = replace(at.chain, skip=frozenset(seen))
            tasks.append(ScanTask(scan=BatchScan(table=at.table, chain=chain)))
        elif at.whole is not None:
            keep = kept_files(at, frozenset(seen), zone)
            postponed = postponed_tasks(
                at.table, at.whole, predicate=predicate, keep=keep, columns=columns
            )
            tasks += postponed
            tasks += plan_snapshot(
                at.table,
                at.whole,
                predicate=predicate,
                keep=beside(postponed, keep),
                columns=columns,
            )
            if at.then is not None:
                seen |= {e.partition for e in scan_files(at.table, at.whole)}
        at = at.then
    return tasks


def _of_changes(scan: BatchScan, start: int, end: int) -> Iterator[ScanTask]:
    # Checks that all snapshots are there; rows come only when they are asked for.
    read_between(scan.table, start, end, mode=scan.mode)
    for snapshot_id in range(start + 1, end + 1):
        yield ScanTask(scan=replace(scan, between=(snapshot_id - 1, snapshot_id)))


def plan_snapshot(
    table: FileStoreTable,
    snapshot: Snapshot,
    *,
    predicate: Predicate | None = None,
    keep: Callable[[ManifestEntry], bool] | None = None,
    min_level: int | None = None,
    columns: Collection[str] | None = None,
) -> list[BucketTask]:
    """The tasks of a whole snapshot; `keep` and `min_level` as in `read_table`."""
    needed = None if columns is None else {*columns, *(fields_of(predicate) if predicate else ())}
    check_rows_readable(table, snapshot, needed)
    check_whole(table, keep)
    lowest = least_level(table) if min_level is None else min_level
    pruned = pruning(table, predicate)
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in in_plan_order(table, scan_files(table, snapshot, predicate=pruned)):
        if (
            entry.bucket != POSTPONE_BUCKET
            and entry.file.level >= lowest
            and (keep is None or keep(entry))
        ):
            buckets[entry.partition, entry.bucket].append(entry)
    index_files = vector_files(table, snapshot)
    matching = matching_rows(table, snapshot, predicate)
    return [
        BucketTask(table=table, entries=tuple(files), index_files=index_files.get(bucket, ()))
        for bucket, entries in buckets.items()
        for files in _splits(table, entries, predicate, matching)
    ]


def _splits(
    table: FileStoreTable,
    entries: Sequence[ManifestEntry],
    predicate: Predicate | None,
    matching: MatchingRows | None,
) -> Iterable[Sequence[ManifestEntry]]:
    options = table.options
    if has_data_evolution(table):
        return matching_groups(table, row_groups(entries, table), predicate, matching)
    if not table.has_primary_key:
        cost = options.value(OPEN_FILE_COST)
        ordered = sorted(entries, key=lambda e: e.file.min_sequence_number)
        return pack_ordered(
            ordered, lambda e: max(e.file.file_size, cost), options.value(SPLIT_TARGET_SIZE)
        )
    of_file = {e.file.file_name: e for e in entries}
    splits = batch_splits(table, [e.file for e in entries])
    return [[of_file[f.file_name] for f in split.files] for split in splits]


def read_task(
    task: BatchTask,
    *,
    columns: Sequence[str],
    predicate: Predicate | None = None,
    keep_deletes: bool = False,
    zone: tzinfo = UTC,
) -> Iterator[pa.RecordBatch]:
    """The rows of a task that match, as `read_batch` gives them: `_VALUE_KIND` and the columns."""
    if isinstance(task, ScanTask):
        return rows_of_scan(task.scan, columns, predicate, keep_deletes=keep_deletes, zone=zone)
    if isinstance(task, PostponedTask):
        return read_postponed(task, columns, predicate)
    return _bucket_rows(task, columns, predicate, keep_deletes=keep_deletes)


def _bucket_rows(
    task: BucketTask,
    columns: Sequence[str],
    predicate: Predicate | None,
    *,
    keep_deletes: bool,
) -> Iterator[pa.RecordBatch]:
    table, entries = task.table, list(task.entries)
    if predicate is not None:
        entries = by_file_indexes(table, entries, predicate)
    if not entries:
        return
    bucket = (entries[0].partition, entries[0].bucket)
    vectors = bucket_vectors(table, bucket, task.index_files)
    needed = {*columns, *(fields_of(predicate) if predicate is not None else ())}
    rows = read_bucket(table, entries, needed, vectors, keep_deletes=keep_deletes, lenient=True)
    yield from chosen_rows(rows, columns, predicate)


def pack_tasks(tasks: Sequence[BatchTask], *, parallelism: int) -> list[tuple[BatchTask, ...]]:
    """The tasks in order, in bins of one split's size, or smaller to use `parallelism` slots.

    Java: `spark/scan/BinPackingSplits`.
    """
    if not tasks:
        return []
    options = _table_of(tasks[0]).options
    share = sum(t.size for t in tasks) // max(1, parallelism)
    target = min(options.value(SPLIT_TARGET_SIZE), max(options.value(OPEN_FILE_COST), share))
    return [tuple(bin_) for bin_ in pack_ordered(tasks, lambda t: t.size, target)]


def _table_of(task: BatchTask) -> FileStoreTable:
    return task.scan.table if isinstance(task, ScanTask) else task.table
