"""Carries a unit of rescaling out (Java: `RescaleAction`, `RescaleProcedure`).

What comes out is what a full compaction of the new layout would give: merged rows without deletes,
with the sequence numbers that they had, in one sorted run.  Level 0 is read, too, where batch reads
skip it (Java loses those rows).

One or two old buckets that go to few new ones are split while they are merged, and so are append
buckets, which need no merging, and what is small.  Otherwise each old bucket is first split into runs
on local disk, and the new buckets are written one after the other, so that memory depends neither on
the number of buckets nor on their size.

Only new files are written, under fresh names, and nothing is committed: a task that runs twice does
no harm.  When it fails, the files that it wrote are deleted; a task that is killed leaves orphans.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Never

import numpy as np
import pyarrow as pa

from paimon_core.compaction.rescale_unit import RescaleResult, RescaleUnit
from paimon_core.compaction.unit import CompactResult, CompactUnit
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import Positions, without_deleted
from paimon_core.io.file_io import delete_abandoned
from paimon_core.lsm.interval_partition import interval_partition
from paimon_core.lsm.merge_engine import MergeEngine
from paimon_core.lsm.sort_merge import merge_sorted
from paimon_core.lsm.sorted_run import SortedRun
from paimon_core.lsm.universal_compaction import number_of_levels
from paimon_core.manifest.data_file import DataFileMeta, FileSource
from paimon_core.options import BUCKET_FUNCTION, OVERWRITE_UPGRADE
from paimon_core.read.ahead import one_after_the_other, source_of
from paimon_core.read.data_file import read_data_file
from paimon_core.read.section import MOST_ROWS, batch_rows
from paimon_core.read.table_read import deletion_vectors, skips_level_0
from paimon_core.read.versions import VersionReader
from paimon_core.scan.engine import merge_engine_for
from paimon_core.types.buffers import index_array
from paimon_core.types.row_hash import assign_buckets
from paimon_core.write.data_file_writer import RollingAppendWriter, RollingKeyValueWriter
from paimon_core.write.table_write import data_file_paths

MOST_OPEN_WRITERS: Final = 4
"""New buckets that are written side by side; each holds a row group in memory."""
MOST_OPEN_SOURCES: Final = 2
"""Old buckets that are merged side by side."""
SMALL_BYTES: Final = 64 * 1024**2
"""File bytes of a unit that may wait in memory as a whole, however many buckets it goes to."""
MOST_OPEN_RUNS: Final = 128
"""New buckets that one reading of the old ones is spilled to."""

Batches = Iterator[pa.RecordBatch]
Writer = RollingAppendWriter | RollingKeyValueWriter


def rescale(
    table: FileStoreTable,
    unit: RescaleUnit,
    *,
    new_uuid: Callable[[], str],
    creation_time: Callable[[], int],
    spill_dir: str | None = None,
) -> RescaleResult:
    """The new files, which exist when this returns.

    `creation_time` is the wall clock in milliseconds, `spill_dir` a local folder (default: the
    system's temporary one) that takes about what the unit reads, decoded.
    """
    work = _Work(table, unit, new_uuid, creation_time, spill_dir)
    try:
        buckets = unit.new_buckets
        few = len(buckets) <= MOST_OPEN_WRITERS or unit.read_bytes <= SMALL_BYTES
        if few and (not table.has_primary_key or len(unit.sources) <= MOST_OPEN_SOURCES):
            work.split()
        else:
            for begin in range(0, len(buckets), MOST_OPEN_RUNS):
                work.spill_and_write(buckets[begin : begin + MOST_OPEN_RUNS])
    except BaseException:
        work.undo()
        raise
    return RescaleResult(
        tuple(
            CompactResult(
                partition=unit.partition,
                bucket=bucket,
                total_buckets=unit.new_total,
                after=tuple(files),
            )
            for bucket, files in sorted(work.written.items())
        )
    )


def rows_of_unit(
    table: FileStoreTable, unit: RescaleUnit, *, spill_dir: str | None = None
) -> Batches:
    """All merged rows of the unit's buckets, one after the other; no deletes."""
    work = _Work(table, unit, _never, _never, spill_dir)
    for source in unit.sources:
        yield from work.rows_of(source)


def _never() -> Never:
    raise AssertionError("reading writes nothing")


def output_level(table: FileStoreTable) -> int:
    """The level of rewritten files: the top, as Java moves what an overwrite writes (JAVA_RULES K).

    Without `overwrite-upgrade` level 0, unless batch reads skip that.
    """
    options = table.options
    if options.value(OVERWRITE_UPGRADE) or skips_level_0(options):
        return number_of_levels(options) - 1
    return 0


@dataclass(slots=True)
class _Work:
    """The files written so far for one unit, by new bucket."""

    table: FileStoreTable
    unit: RescaleUnit
    new_uuid: Callable[[], str]
    creation_time: Callable[[], int]
    spill_dir: str | None
    written: dict[int, list[DataFileMeta]] = field(default_factory=lambda: defaultdict(list))
    vectors: Mapping[str, Positions] = field(init=False)

    def __post_init__(self) -> None:
        at = self.unit.snapshot
        mine = {(s.partition, s.bucket) for s in self.unit.sources}
        self.vectors = (
            {} if at is None else deletion_vectors(self.table, self.table.snapshots.get(at), mine)
        )

    def split(self) -> None:
        """Write the rows of the old buckets to the new ones side by side."""
        writers: dict[int, Writer] = {}
        waiting = _Waiting()
        try:
            for bucket, rows in self.parted(self.all_rows(), waiting):
                if bucket not in writers:
                    writers[bucket] = self.writer(bucket)
                writers[bucket].write(rows)
            for bucket, writer in writers.items():
                self.written[bucket] += writer.close()
        except BaseException:
            for writer in writers.values():
                writer.abort()
            raise

    def spill_and_write(self, buckets: Sequence[int]) -> None:
        """Split every old bucket into runs on disk, then write these new buckets one by one."""
        with tempfile.TemporaryDirectory(prefix="rescale-", dir=self.spill_dir) as name:
            folder = Path(name)
            wanted = frozenset(buckets)
            for number, source in enumerate(self.unit.sources):
                self.spill(source, wanted, folder, number)
            for bucket in buckets:
                paths = sorted(folder.glob(f"{bucket}-*"))
                if paths:
                    self.write_bucket(bucket, paths)

    def spill(self, source: CompactUnit, wanted: frozenset[int], folder: Path, number: int) -> None:
        """Files `BUCKET-NUMBER` with the source's rows of these new buckets."""
        options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
        writers: dict[int, pa.RecordBatchStreamWriter] = {}
        waiting = _Waiting(self.rows_at_once())
        try:
            for bucket, rows in self.parted(self.rows_of(source), waiting, wanted):
                if bucket not in writers:
                    path = str(folder / f"{bucket}-{number:06}")
                    writers[bucket] = pa.ipc.new_stream(path, rows.schema, options=options)
                writers[bucket].write_batch(rows)
        finally:
            for writer in writers.values():
                writer.close()

    def write_bucket(self, bucket: int, paths: Sequence[Path]) -> None:
        """Write one new bucket from its runs, which go as they are read."""
        writer = self.writer(bucket)
        runs = [_spilled(path) for path in paths]
        merged = self.together(runs, self.rows_at_once())
        try:
            for rows in merged:
                writer.write(rows)
            self.written[bucket] += writer.close()
        except BaseException:
            writer.abort()
            raise

    def parted(
        self, batches: Batches, waiting: _Waiting, wanted: frozenset[int] | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows by new bucket (of the wanted ones), in their order, a fair number at a time."""
        schema = self.table.schema
        keys = schema.bucket_keys
        types = schema.row_type.project(keys).types
        function = self.table.options.value(BUCKET_FUNCTION)
        for batch in batches:
            columns = [batch.column(k) for k in keys]
            numbers = assign_buckets(columns, types, self.unit.new_total, function=function)
            order = np.argsort(numbers, kind="stable")
            arranged = numbers[order]
            starts = np.flatnonzero(np.r_[True, arranged[1:] != arranged[:-1]])
            for begin, end in zip(starts, [*starts[1:], len(order)], strict=True):
                if wanted is not None and int(arranged[begin]) not in wanted:
                    continue
                whole = end - begin == batch.num_rows
                part = batch if whole else batch.take(index_array(order[begin:end]))
                yield from waiting.add(int(arranged[begin]), part)
        yield from waiting.rest()

    # --- reading ---

    def all_rows(self) -> Batches:
        """The rows of all old buckets, merged."""
        return self.together([self.rows_of(s) for s in self.unit.sources], MOST_ROWS)

    def together(self, runs: Sequence[Batches], buffered_rows: int) -> Batches:
        """Runs of several buckets as one: by key, or for append tables one after the other."""
        if len(runs) == 1 or not self.table.has_primary_key:
            return (rows for run in runs for rows in run)
        order = self.reader(self.unit.sources[0]).order
        return merge_sorted(
            runs,
            key=order.key,
            sequence_fields=order.sequence_fields,
            descending=order.descending,
            engine=self.engine(),
            drop_deletes=True,
            buffered_rows=buffered_rows,
        )

    def rows_of(self, source: CompactUnit) -> Batches:
        """Merged rows of an old bucket in key order, or an append bucket's in their order."""
        if not self.table.has_primary_key:
            sources = [
                source_of(f.file_size, self.append_rows, source, f) for f in source.append_files
            ]
            yield from one_after_the_other(self.table.io, sources)
            return
        reader, engine = self.reader(source), self.engine()
        # A delete of one layout may hide a row of the other.
        drop = not self.unit.is_mixed
        for section in interval_partition(source.append_files, self.table.schema.key_type):
            yield from reader.merged(section, engine, drop_deletes=drop)

    def append_rows(self, source: CompactUnit, file: DataFileMeta) -> Batches:
        table = self.table
        batches = read_data_file(
            table.io,
            table.paths.data_file(source.partition, source.bucket, file),
            file,
            file_schema=table.schema_of(file.schema_id),
            read_type=table.schema.row_type,
            key_value=False,
            batch_rows=MOST_ROWS,
            partition=source.partition,
        )
        deleted = self.vectors.get(file.file_name)
        return batches if deleted is None else without_deleted(batches, deleted)

    def reader(self, source: CompactUnit) -> VersionReader:
        limits = self.unit.key_range
        return VersionReader(
            table=self.table,
            partition=source.partition,
            bucket=source.bucket,
            read_type=self.table.schema.row_type,
            low=None if limits is None else limits.low,
            high=None if limits is None else limits.high,
            spill_dir=self.spill_dir,
            vectors=self.vectors,
            with_levels=merge_engine_for(self.table).with_levels,
        )

    def engine(self) -> MergeEngine:
        return merge_engine_for(self.table).of_files

    def rows_at_once(self) -> int:
        """Rows of a spilled batch, so that a batch of every source fits into memory."""
        runs = tuple(SortedRun((f,)) for f in self.unit.files)
        at_once = max(len(self.unit.sources), min(MOST_OPEN_RUNS, len(self.unit.new_buckets)))
        return batch_rows(runs, self.table.schema.row_type, side_by_side=at_once)

    # --- writing ---

    def writer(self, bucket: int) -> Writer:
        table, partition = self.table, self.unit.partition
        if table.has_primary_key:
            return RollingKeyValueWriter(
                table.io,
                table.paths,
                partition,
                bucket,
                table.schema,
                level=output_level(table),
                file_source=FileSource.APPEND,
                new_uuid=self.new_uuid,
                creation_time=self.creation_time,
            )
        return RollingAppendWriter(
            table.io,
            table.paths,
            partition,
            bucket,
            table.schema,
            file_source=FileSource.APPEND,
            first_sequence_number=self.unit.first_sequence_number,
            new_uuid=self.new_uuid,
            creation_time=self.creation_time,
        )

    def undo(self) -> None:
        """Delete what was written."""
        delete_abandoned(
            self.table.io,
            [
                path
                for bucket, files in self.written.items()
                for file in files
                for path in data_file_paths(self.table, self.unit.partition, bucket, file)
            ],
        )


class _Waiting:
    """Rows of new buckets that wait until there are enough of them to be worth writing."""

    def __init__(self, enough: int = MOST_ROWS) -> None:
        self._enough = enough
        self._parts: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        self._rows: dict[int, int] = defaultdict(int)

    def add(self, bucket: int, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        self._parts[bucket].append(rows)
        self._rows[bucket] += rows.num_rows
        if self._rows[bucket] >= self._enough:
            yield bucket, self._take(bucket)

    def rest(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        for bucket in sorted(b for b, n in self._rows.items() if n):
            yield bucket, self._take(bucket)

    def _take(self, bucket: int) -> pa.RecordBatch:
        parts = self._parts.pop(bucket)
        self._rows[bucket] = 0
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


def _spilled(path: Path) -> Batches:
    """The rows of a run on disk; the file goes once it is read."""
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as reader:
        yield from reader
    path.unlink()
