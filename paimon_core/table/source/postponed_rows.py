"""Merges the rows of the postpone bucket into what a batch reads (`postpone.merge-on-read`).

Java: `PostponeMergeReadBuilder`, `MergeFileSplitRead.createPostponeMergeReader`,
`spark/PostponeMergeOnRead`.

::

    bucket-postpone/  f1 f2 f3    --by bucket-->   0: k3 k1 k3     --sorted, merged-->   k1 k3
                                                                                           |
    bucket-0/         files of the real bucket    --merged-->      k1 k2 k3        --->    rows

What is read is what a compaction would leave: postponed rows are newer than all rows in the real
buckets, those of an older file are older, and sequence fields go first.  One partition is one task,
because each file may hold rows of all its buckets; `routed` and `merged` let an engine with a
shuffle spread it.  Rows that wait for the others of their bucket are on local disk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.compaction.postpone import known_buckets
from paimon_core.errors import UnsupportedFeature
from paimon_core.features import check_rows_readable, shows_postponed
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.chosen_engine import ChosenEngine
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.lsm.tree.lookup_merge import LEVEL
from paimon_core.lsm.tree.sort_merge import merge_sorted
from paimon_core.manifest.data_file import IndexFileMeta, ManifestEntry
from paimon_core.options import POSTPONE_MERGE_ON_READ, SEQUENCE_FIELD
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.predicate import Predicate, evaluate, fields_of
from paimon_core.read.data_file import read_table_file
from paimon_core.read.managed_blobs import with_managed_blobs
from paimon_core.read.section import MOST_ROWS, WAITING_BYTES, row_width
from paimon_core.read.table_read import (
    BATCH_ROWS,
    bucket_vectors,
    chosen_rows,
    least_level,
)
from paimon_core.read.version_reader import VersionReader
from paimon_core.scan.engine import merge_engine_for
from paimon_core.scan.prune import key_condition, prune_by_keys
from paimon_core.scan.scan import in_plan_order, partition_condition, scan_files
from paimon_core.scan.splits import SPLIT_TARGET_SIZE, are_sorted_by_key, cannot_merge
from paimon_core.scan.vectors import vector_files
from paimon_core.schema.scan_options import scan_mode
from paimon_core.schema.table_schema import SEQUENCE_NUMBER
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.data_types import RowType
from paimon_core.write.route import fixed_buckets
from paimon_core.write.row_buffer import RowBuffer, SpillFolder
from paimon_core.write.sequence_numbers import sequence_numbers

Piece = tuple[int, pa.RecordBatch]
"""A bucket, and some of its postponed rows with their sequence numbers."""
_WAITING_BYTES: Final = 64 * 1024**2
"""Memory of the rows that wait for the others of their bucket."""
_LEAST_ROWS: Final = 64
_OTHER_MODES: Final = ("incremental", "from-file-creation-time", "from-creation-timestamp")


def merges_postponed(table: FileStoreTable) -> bool:
    """Return whether batch reads show the rows in the postpone bucket.

    Not those of the newest compacted snapshot, as in Java.
    """
    return shows_postponed(table) and scan_mode(table.options) != "compacted-full"


def check_whole_snapshot(table: FileStoreTable) -> None:
    """Raise UnsupportedFeature if a table with postponed rows is read otherwise than as a whole."""
    mode = scan_mode(table.options)
    if merges_postponed(table) and mode in _OTHER_MODES:
        raise UnsupportedFeature(
            f"{POSTPONE_MERGE_ON_READ.key} with scan.mode={mode}",
            f"Postpone merge-on-read requires a full snapshot scan, but found scan mode '{mode}'.",
            table=table.name,
            next_step=f"set {POSTPONE_MERGE_ON_READ.key}=false for this query",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponedTask:
    """The files of one partition that has postponed rows.

    `postponed` are in the order of their rows, which get sequence numbers from `first_sequence` on;
    `real` are those of `buckets` buckets, whose `index_files` hold deletion vectors.
    """

    table: FileStoreTable
    partition: bytes
    buckets: int
    real: tuple[ManifestEntry, ...]
    postponed: tuple[ManifestEntry, ...]
    first_sequence: int
    index_files: Mapping[int, tuple[IndexFileMeta, ...]] = field(default_factory=dict)

    @property
    def entries(self) -> tuple[ManifestEntry, ...]:
        """All files."""
        return (*self.real, *self.postponed)

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(e.file.file_size for e in self.entries)

    @property
    def first_sequences(self) -> list[int]:
        """The sequence number of the first row of each postponed file."""
        counts = [e.file.row_count for e in self.postponed]
        return [*accumulate(counts[:-1], initial=self.first_sequence)]


def postponed_tasks(
    table: FileStoreTable,
    snapshot: Snapshot,
    *,
    predicate: Predicate | None = None,
    keep: Callable[[ManifestEntry], bool] | None = None,
    columns: Collection[str] | None = None,
) -> list[PostponedTask]:
    """Return a task for each partition with postponed files that may match; none if not merged.

    Other partitions are read as usual.  `keep` chooses files, `columns` are those that will be
    read; None: all.  UnsupportedFeature as in `read_table`.
    """
    if not merges_postponed(table):
        return []
    needed = None if columns is None else {*columns, *(fields_of(predicate) if predicate else ())}
    check_rows_readable(table, snapshot, needed)
    condition = partition_condition(table, predicate)
    found = in_plan_order(table, scan_files(table, snapshot, predicate=condition))
    partitions: dict[bytes, list[ManifestEntry]] = defaultdict(list)
    for entry in found if keep is None else filter(keep, found):
        partitions[entry.partition].append(entry)
    partitions = {
        p: entries
        for p, entries in partitions.items()
        if any(e.bucket == POSTPONE_BUCKET for e in entries)
    }
    if not partitions:
        return []
    known = known_buckets(table, chain.from_iterable(partitions.values()))
    index_files, lowest = vector_files(table, snapshot), least_level(table)
    tasks = []
    for partition, entries in partitions.items():
        real = [e for e in entries if e.bucket != POSTPONE_BUCKET]
        postponed = [e for e in entries if e.bucket == POSTPONE_BUCKET]
        postponed.sort(key=lambda e: e.file.creation_time or 0)
        shown = [e for e in prune_by_keys(table, real, predicate) if e.file.level >= lowest]
        size = sum(e.file.file_size for e in postponed)
        tasks.append(
            PostponedTask(
                table=table,
                partition=partition,
                # Without real buckets, they only divide the work.
                buckets=known.get(partition) or 1 + size // table.options.value(SPLIT_TARGET_SIZE),
                real=tuple(shown),
                postponed=tuple(postponed),
                first_sequence=1 + max((e.file.max_sequence_number for e in real), default=-1),
                index_files={
                    b: tuple(index_files.get((partition, b), ())) for b in {e.bucket for e in shown}
                },
            )
        )
    return tasks


def beside(
    tasks: Sequence[PostponedTask], keep: Callable[[ManifestEntry], bool] | None
) -> Callable[[ManifestEntry], bool] | None:
    """Return which files the tasks leave to a usual read that `keep` limits."""
    if not tasks:
        return keep
    taken = {t.partition for t in tasks}
    return lambda e: e.partition not in taken and (keep is None or keep(e))


def read_postponed(
    task: PostponedTask, columns: Sequence[str], predicate: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the partition that match: `_VALUE_KIND` and the columns."""
    needed = {*columns, *(fields_of(predicate) if predicate is not None else ())}
    rows = merged(task, routed(task, needed, predicate), needed)
    return chosen_rows(rows, columns, predicate)


def routed(
    task: PostponedTask,
    needed: Collection[str],
    predicate: Predicate | None,
    files: Sequence[int] | None = None,
) -> Iterator[Piece]:
    """Yield the postponed rows by bucket, without those whose keys do not match.

    `files` are the places of some of the files; None: all.
    """
    table, firsts = task.table, task.first_sequences
    read_type, on_keys = _read_type(table, needed), key_condition(table, predicate)
    for place in range(len(task.postponed)) if files is None else files:
        number = firsts[place]
        for batch in read_table_file(
            table,
            task.partition,
            POSTPONE_BUCKET,
            task.postponed[place].file,
            read_type,
            key_value=True,
            batch_rows=MOST_ROWS,
        ):
            rows = _numbered(table, batch, number)
            number += batch.num_rows
            if on_keys is not None:
                rows = rows.filter(evaluate(on_keys, rows))
            if rows.num_rows:
                yield from _by_bucket(task, rows)


def merged(
    task: PostponedTask,
    pieces: Iterable[Piece],
    needed: Collection[str],
    buckets: Iterable[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the merged rows of some buckets, or of all: `_VALUE_KIND`, at least `needed` columns.

    `pieces` hold all postponed rows of these buckets, in any order.
    """
    reader = _BucketReader.of(task, needed)
    rows = chain.from_iterable(reader.buckets(pieces, buckets))
    return with_managed_blobs(task.table, rows, BATCH_ROWS)


@dataclass(frozen=True, slots=True)
class _BucketReader:
    """Merges the buckets of a task, one after the other."""

    task: PostponedTask
    engine: ChosenEngine
    read_type: RowType

    @staticmethod
    def of(task: PostponedTask, needed: Collection[str]) -> _BucketReader:
        return _BucketReader(task, merge_engine_for(task.table), _read_type(task.table, needed))

    def buckets(
        self, pieces: Iterable[Piece], buckets: Iterable[int] | None
    ) -> Iterator[Iterator[pa.RecordBatch]]:
        """Yield the rows of each bucket, to be read before those of the next."""
        real: dict[int, list[ManifestEntry]] = defaultdict(list)
        for entry in self.task.real:
            real[entry.bucket].append(entry)
        with closing(_Waiting(self.task.table.schema.key_type)) as waiting:
            for bucket, rows in pieces:
                waiting.add(bucket, rows)
            wanted = {*real, *waiting.buckets} if buckets is None else set(buckets)
            for bucket in sorted(wanted):
                yield self._bucket(bucket, real.get(bucket, ()), waiting.take(bucket))

    def _bucket(
        self, bucket: int, entries: Sequence[ManifestEntry], postponed: RowBuffer | None
    ) -> Iterator[pa.RecordBatch]:
        task, table = self.task, self.task.table
        rows: list[Iterator[pa.RecordBatch]] = []
        if entries:
            at = (task.partition, bucket)
            if not are_sorted_by_key(table, [e.file for e in entries]):
                raise cannot_merge(table, next_step=f"set {POSTPONE_MERGE_ON_READ.key}=false")
            reader = VersionReader(
                table=table,
                partition=task.partition,
                bucket=bucket,
                read_type=self.read_type,
                vectors=bucket_vectors(table, at, task.index_files.get(bucket, ())),
                with_levels=self.engine.with_levels,
                lenient=True,
            )
            sections = interval_partition([e.file for e in entries], table.schema.key_type)
            rows.append(
                _without_level(
                    chain.from_iterable(
                        reader.merged(s, self.engine.of_files, drop_deletes=False) for s in sections
                    )
                )
            )
        if postponed is None:
            yield from self._merge(rows, MOST_ROWS, drop_deletes=True)
            return
        runs = postponed.runs()
        size = max(_LEAST_ROWS, min(MOST_ROWS, WAITING_BYTES // (3 * len(runs) * self._row_bytes)))
        # As a writer merges them before it writes a file.
        rows.append(self._merge(runs, size, drop_deletes=False))
        yield from self._merge(rows, MOST_ROWS, drop_deletes=True)
        postponed.clear()

    @property
    def _row_bytes(self) -> int:
        files = [e.file for e in self.task.entries]
        rows = max(1, sum(f.row_count for f in files))
        return row_width(self.read_type, sum(f.file_size for f in files) / rows)

    def _merge(
        self, runs: Sequence[Iterator[pa.RecordBatch]], size: int, *, drop_deletes: bool
    ) -> Iterator[pa.RecordBatch]:
        order = VersionReader(
            table=self.task.table,
            partition=self.task.partition,
            bucket=POSTPONE_BUCKET,
            read_type=self.read_type,
        ).order
        return merge_sorted(
            runs,
            key=order.key,
            sequence_fields=order.sequence_fields,
            descending=order.descending,
            engine=self.engine.engine,
            drop_deletes=drop_deletes,
            buffered_rows=size,
        )


class _Waiting:
    """Postponed rows that wait for the others of their bucket, sorted, on local disk if many."""

    def __init__(self, key: RowType) -> None:
        self._key = key
        self._folder = SpillFolder()
        self._buffers: dict[int, RowBuffer] = {}
        self._bytes = 0

    @property
    def buckets(self) -> Collection[int]:
        return self._buffers

    def add(self, bucket: int, rows: pa.RecordBatch) -> None:
        buffer = self._buffers.get(bucket)
        if buffer is None:
            buffer = self._buffers[bucket] = RowBuffer(self._folder, self._key)
        buffer.add(rows)
        self._bytes += rows.nbytes
        while self._bytes > _WAITING_BYTES:
            largest = max(self._buffers.values(), key=lambda b: b.memory)
            self._bytes -= largest.memory
            largest.spill()

    def take(self, bucket: int) -> RowBuffer | None:
        return self._buffers.get(bucket)

    def close(self) -> None:
        self._folder.clear()


def _read_type(table: FileStoreTable, needed: Collection[str]) -> RowType:
    """The needed columns, and those that a merge needs."""
    schema = table.schema
    fields = {
        *needed,
        *schema.trimmed_primary_keys,
        *table.options.value(SEQUENCE_FIELD),
        *merge_engine_for(table).needs,
    }
    return schema.row_type.project([n for n in schema.names if n in fields])


def _numbered(table: FileStoreTable, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    numbers = pa.array(sequence_numbers(first, batch.num_rows, table=table.name))
    at = batch.schema.get_field_index(SEQUENCE_NUMBER)
    return batch.set_column(at, batch.schema.field(at), numbers)


def _by_bucket(task: PostponedTask, rows: pa.RecordBatch) -> Iterator[Piece]:
    if task.buckets == 1:
        yield 0, rows
        return
    buckets = fixed_buckets(task.table, rows, task.buckets)
    order = np.argsort(buckets, kind="stable")
    arranged = buckets[order]
    starts = np.flatnonzero(np.r_[True, arranged[1:] != arranged[:-1]])
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        taken = [pc.take(c, pa.array(order[start:end])) for c in rows.columns]
        yield int(arranged[start]), pa.RecordBatch.from_arrays(taken, schema=rows.schema)


def _without_level(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.drop_columns([LEVEL]) if LEVEL in batch.schema.names else batch
