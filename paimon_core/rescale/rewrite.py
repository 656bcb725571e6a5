"""Executes a rescale unit (Java: `RescaleAction`, `RescaleProcedure`).

The result is that of a full compaction of the new layout: merged rows without deletes, with their
old sequence numbers, in one sorted run.  Level 0 is read even if batch reads skip it (Java loses
those rows).

The old buckets are merged together, their rows collected by new bucket, and the row groups of all
new buckets written in turns: nothing is read twice or spilled to disk.  If there are too many input
runs to merge at once, or too many new buckets to keep open, the rows are spilled as sorted runs to
local disk, and the new buckets are written one after the other.  Memory depends neither on the
number of buckets nor on their size.

Only files with new names are written, and nothing is committed, so a task may safely run twice.  On
failure, its files are deleted; a killed task leaves orphans.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa

from paimon_core.compaction.clustered_rows import live_rows, sorted_by
from paimon_core.compaction.unit import CompactResult, CompactUnit
from paimon_core.environment import Environment
from paimon_core.errors import UnsupportedFeature
from paimon_core.features import PK_CLUSTERING
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.parquet.writer import ROW_GROUP_BYTES
from paimon_core.index.deletion_vectors import Positions, without_deleted
from paimon_core.io.file_io import delete_abandoned
from paimon_core.io.temporary import temporary_folder
from paimon_core.lsm.merge_engine import MergeEngine
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.lsm.tree.sort_merge import merge_sorted
from paimon_core.lsm.tree.sorted_run import SortedRun
from paimon_core.lsm.tree.universal_compaction import number_of_levels
from paimon_core.manifest.data_file import DataFileMeta, FileSource
from paimon_core.options import BUCKET_FUNCTION, CLUSTERING_COLUMNS, OVERWRITE_UPGRADE
from paimon_core.read.data_file import read_table_file
from paimon_core.read.read_ahead import one_after_the_other, side_by_side, source_of
from paimon_core.read.section import MOST_ROWS, batch_rows, fan_in, plain_rows
from paimon_core.read.table_read import deletion_vectors
from paimon_core.read.version_reader import VersionReader
from paimon_core.rescale.bucket_runs import BucketRuns
from paimon_core.rescale.bucket_stage import Numbers, Piece, by_bucket, row_group_share
from paimon_core.rescale.unit import RescaleResult, RescaleUnit
from paimon_core.scan.engine import merge_engine_for
from paimon_core.scan.key_bounds import is_clustered
from paimon_core.scan.splits import skips_level_0
from paimon_core.types.buffers import RecordBatches
from paimon_core.types.row_hash import assign_buckets
from paimon_core.write.data_file_writer import RollingAppendWriter, RollingKeyValueWriter
from paimon_core.write.on_failure import aborted_on_failure, write_all
from paimon_core.write.row_writer import data_file_paths

MOST_OPEN_WRITERS: Final = 128
"""The maximum of new buckets written in parallel; more of them means smaller row groups."""
READING_SHARE: Final = 2 / 3
"""The share of the memory for open files that a merge gets: much more is buffered for writing."""
MOST_STAGED_BUCKETS: Final = 1024
"""The maximum of new buckets per pass over the old ones."""

Writer = RollingAppendWriter | RollingKeyValueWriter


def rescale(
    table: FileStoreTable,
    unit: RescaleUnit,
    *,
    env: Environment,
) -> RescaleResult:
    """Execute the unit and return the new files, which exist when this returns.

    The system's temporary folder needs about the decoded size of the unit's input.
    """
    work = _Work(table, unit, env)
    try:
        if is_clustered(table):
            work.cluster()
        else:
            work.rewrite()
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


def rows_of_unit(table: FileStoreTable, unit: RescaleUnit) -> RecordBatches:
    """Yield all merged rows of the unit's buckets, one after the other, without deletes."""
    work = _Work(table, unit, None)
    for source in unit.sources:
        yield from work.rows_of(source)


def output_level(table: FileStoreTable) -> int:
    """Return the level of rewritten files: the top level, as for Java's overwrites (java-rules K3).

    Without `overwrite-upgrade` it is level 0, unless batch reads skip that.
    """
    options = table.options
    if options.value(OVERWRITE_UPGRADE) or skips_level_0(table):
        return number_of_levels(options) - 1
    return 0


@dataclass(slots=True)
class _Work:
    """The files written so far for one unit, by new bucket; `env` is None for reading only."""

    table: FileStoreTable
    unit: RescaleUnit
    env: Environment | None
    written: dict[int, list[DataFileMeta]] = field(default_factory=lambda: defaultdict(list))
    vectors: Mapping[str, Positions] = field(init=False)

    def __post_init__(self) -> None:
        at = self.unit.snapshot
        mine = {(s.partition, s.bucket) for s in self.unit.sources}
        self.vectors = (
            {} if at is None else deletion_vectors(self.table, self.table.snapshots.get(at), mine)
        )

    def rewrite(self) -> None:
        """Write all rows of the old buckets to the new ones."""
        for begin in range(0, len(self.unit.new_buckets), MOST_STAGED_BUCKETS):
            buckets = self.unit.new_buckets[begin : begin + MOST_STAGED_BUCKETS]
            streams = self.streams()
            if len(streams) == 1 and len(buckets) <= MOST_OPEN_WRITERS:
                self.split(streams[0], buckets)
            else:
                self.by_way_of_runs(streams, buckets)

    def split(self, rows: RecordBatches, buckets: Sequence[int]) -> None:
        """Write the rows of these new buckets in parallel."""
        row_group_bytes = row_group_share(len(buckets))
        writers: dict[int, Writer] = {}
        with aborted_on_failure(writers.values()):
            for piece in self.staged(rows, buckets):
                bucket = piece.bucket
                if bucket not in writers:
                    writers[bucket] = self.writer(bucket, row_group_bytes)
                writers[bucket].write(piece.rows)
                if piece.is_last:
                    self.written[bucket] += writers[bucket].close()
                    del writers[bucket]
            for bucket, writer in writers.items():
                self.written[bucket] += writer.close()

    def by_way_of_runs(self, streams: Sequence[RecordBatches], buckets: Sequence[int]) -> None:
        """Spill the rows of these new buckets to disk, then write one bucket after the other."""
        at_once = self.rows_at_once(len(streams))
        with (
            temporary_folder("rescale-") as folder,
            BucketRuns(Path(folder) / "runs", batch_rows=at_once) as runs,
        ):
            for number, stream in enumerate(streams):
                for piece in self.staged(stream, buckets):
                    runs.write(piece.bucket, number, piece.rows)
            runs.written()
            for bucket in runs.buckets():
                rows = self.together(runs.runs(bucket), at_once)
                self.written[bucket] += write_all(self.writer(bucket), rows)

    def cluster(self) -> None:
        """Spill the rows of all new buckets, then sort those of one bucket after the other."""
        if self.unit.is_mixed:
            # A row may be hidden by one of the other layout, which no deletion vector says.
            raise UnsupportedFeature(
                f"{PK_CLUSTERING} with buckets of several layouts in a partition",
                table=self.table.name,
                next_step="write the partition anew with INSERT OVERWRITE",
            )
        columns = self.table.options.value(CLUSTERING_COLUMNS)
        size = self.unit.read_bytes // len(self.unit.new_buckets)
        for begin in range(0, len(self.unit.new_buckets), MOST_STAGED_BUCKETS):
            buckets = self.unit.new_buckets[begin : begin + MOST_STAGED_BUCKETS]
            with (
                temporary_folder("rescale-") as folder,
                BucketRuns(Path(folder) / "runs", batch_rows=MOST_ROWS) as runs,
            ):
                for source in self.unit.sources:
                    rows = live_rows(self.table, source, source.append_files, self.vectors)
                    for piece in self.staged(rows, buckets):
                        runs.write(piece.bucket, 0, piece.rows)
                runs.written()
                for bucket in runs.buckets():
                    found = chain.from_iterable(runs.runs(bucket))
                    ordered = sorted_by(self.table, columns, found, file_bytes=size)
                    self.written[bucket] += write_all(self.writer(bucket), ordered)

    def staged(self, batches: RecordBatches, buckets: Sequence[int]) -> Iterator[Piece]:
        """Yield the rows of these new buckets, collected by bucket."""
        schema = self.table.schema
        keys = schema.bucket_keys
        types = schema.row_type.project(keys).types
        function = self.table.options.value(BUCKET_FUNCTION)

        def bucket_of(batch: pa.RecordBatch) -> Numbers:
            columns = [batch.column(k) for k in keys]
            return assign_buckets(columns, types, self.unit.new_total, function=function)

        everything = len(buckets) == len(self.unit.new_buckets)
        return by_bucket(
            batches,
            bucket_of,
            buckets=len(buckets),
            wanted=None if everything else frozenset(buckets),
        )

    # --- reading ---

    def streams(self) -> list[RecordBatches]:
        """Return the merged rows of all old buckets.

        Bucket by bucket if there are too many files.
        """
        buckets = [self.rows_of(s) for s in self.unit.sources]
        if not self.table.has_primary_key or len(buckets) == 1:
            return [self.together(buckets, MOST_ROWS)]
        merged = None if self.unit.is_mixed else self.merged_at_once()
        return buckets if merged is None else [merged]

    def merged_at_once(self) -> RecordBatches | None:
        """Merge all runs at once: no key has versions in two old buckets."""
        row_type = self.table.schema.row_type
        runs = [(s, run) for s in self.unit.sources for run in self.runs_of(s)]
        together = tuple(run for _, run in runs)
        if len(runs) > READING_SHARE * fan_in(together, row_type):
            return None
        rows = batch_rows(together, row_type, side_by_side=len(runs))
        readers = [source_of(run.total_size, self.reader(s).run, run, rows) for s, run in runs]
        return self.merge_of(side_by_side(self.table.io, readers), rows)

    def runs_of(self, source: CompactUnit) -> list[SortedRun]:
        """Return the old bucket's files as the fewest sorted runs, from oldest to newest."""
        sections = interval_partition(source.append_files, self.table.schema.key_type)
        depth = max(map(len, sections), default=0)
        return [
            SortedRun(tuple(f for s in sections if i < len(s) for f in s[i].files))
            for i in range(depth)
        ]

    def together(self, runs: Sequence[RecordBatches], buffered_rows: int) -> RecordBatches:
        """Combine runs of several buckets: by key, or for append tables one after the other."""
        if len(runs) == 1 or not self.table.has_primary_key:
            return (rows for run in runs for rows in run)
        return self.merge_of(runs, buffered_rows)

    def merge_of(self, runs: Sequence[RecordBatches], buffered_rows: int) -> RecordBatches:
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

    def rows_of(self, source: CompactUnit) -> RecordBatches:
        """Yield the merged rows of an old bucket by key, or those of an append bucket in order."""
        if not self.table.has_primary_key:
            sources = [
                source_of(f.file_size, self.append_rows, source, f) for f in source.append_files
            ]
            yield from one_after_the_other(self.table.io, sources)
            return
        reader, engine = self.reader(source), self.engine()
        # A delete in one layout may hide a row of the other.
        drop = not self.unit.is_mixed
        for section in interval_partition(source.append_files, self.table.schema.key_type):
            yield from reader.merged(section, engine, drop_deletes=drop)

    def append_rows(self, source: CompactUnit, file: DataFileMeta) -> RecordBatches:
        table = self.table
        batches = read_table_file(
            table,
            source.partition,
            source.bucket,
            file,
            table.schema.row_type,
            batch_rows=plain_rows(file, table.schema.row_type),
        )
        return without_deleted(batches, self.vectors.get(file.file_name))

    def reader(self, source: CompactUnit) -> VersionReader:
        limits = self.unit.key_range
        return VersionReader(
            table=self.table,
            partition=source.partition,
            bucket=source.bucket,
            read_type=self.table.schema.row_type,
            low=None if limits is None else limits.low,
            high=None if limits is None else limits.high,
            windows={} if limits is None else limits.rows,
            vectors=self.vectors,
            with_levels=merge_engine_for(self.table).with_levels,
        )

    def engine(self) -> MergeEngine:
        return merge_engine_for(self.table).of_files

    def rows_at_once(self, runs: int) -> int:
        """Return the rows per batch on disk, so that a few batches of each run fit into memory."""
        whole = tuple(SortedRun((f,)) for f in self.unit.files)
        return batch_rows(whole, self.table.schema.row_type, side_by_side=runs)

    # --- writing ---

    def writer(self, bucket: int, row_group_bytes: int = ROW_GROUP_BYTES) -> Writer:
        table, partition = self.table, self.unit.partition
        assert self.env is not None
        if table.has_primary_key:
            sort_type = None
            if is_clustered(table):
                columns = table.options.value(CLUSTERING_COLUMNS)
                sort_type = table.schema.row_type.project(columns)
            return RollingKeyValueWriter(
                table.io,
                table.paths,
                partition,
                bucket,
                table.schema,
                level=output_level(table),
                file_source=FileSource.APPEND,
                env=self.env,
                row_group_bytes=row_group_bytes,
                sort_type=sort_type,
            )
        return RollingAppendWriter(
            table.io,
            table.paths,
            partition,
            bucket,
            table.schema,
            file_source=FileSource.APPEND,
            first_sequence_number=self.unit.first_sequence_number,
            env=self.env,
            row_group_bytes=row_group_bytes,
        )

    def undo(self) -> None:
        """Delete the written files."""
        delete_abandoned(
            self.table.io,
            [
                path
                for bucket, files in self.written.items()
                for file in files
                for path in data_file_paths(self.table, self.unit.partition, bucket, file)
            ],
        )
