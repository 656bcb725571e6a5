"""Executes a compaction unit.

Java: `MergeTreeCompactRewriter`, `BaseAppendFileStoreWrite.compactRewrite`.

It only writes files with new names and commits nothing, so a task may safely run twice.  On
failure, its files are deleted; a killed task leaves orphans.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

import pyarrow as pa

from paimon_core.compaction.blob_files import blob_field
from paimon_core.compaction.clustered_rows import ClusteredRows, sorted_by
from paimon_core.compaction.copyable_pages import CopyablePages
from paimon_core.compaction.evolution import (
    group_rows,
    merged_blob_file,
    merged_blobs,
    merged_file,
    merged_schema,
    remaining_rows,
    unit_groups,
)
from paimon_core.compaction.merge import UnitMerge
from paimon_core.compaction.page_copy import PageCopy
from paimon_core.compaction.spliced_merge import SplicedMerge
from paimon_core.compaction.unit import ClusteredWork, CompactResult, CompactUnit, Rewrite
from paimon_core.compaction.vectors import superseded_rows, vectors_of_unit
from paimon_core.environment import Environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import Positions, without_deleted
from paimon_core.io.file_io import delete_abandoned
from paimon_core.io.threads import Threads, threads_of
from paimon_core.lsm.changelog import MergeResult
from paimon_core.lsm.merge_engine import without_deletes
from paimon_core.manifest.data_file import DataFileMeta, FileSource
from paimon_core.options import ROW_TRACKING_ENABLED
from paimon_core.read.data_evolution import Group, has_data_evolution, is_dedicated
from paimon_core.read.data_file import read_data_file
from paimon_core.read.read_ahead import one_after_the_other, source_of
from paimon_core.read.row_tracking import read_tracked_rows
from paimon_core.read.section import plain_rows
from paimon_core.schema.tracked import tracked_schema
from paimon_core.types.data_types import TypeRoot, type_roots
from paimon_core.write.blob_writer import BlobColumnWriter, RollingBlobWriter, blob_column_schema
from paimon_core.write.column_file import NEVER_FULL
from paimon_core.write.data_file_writer import RollingAppendWriter, RollingKeyValueWriter
from paimon_core.write.file_layout import key_value_layout
from paimon_core.write.on_failure import aborted_on_failure, write_all
from paimon_core.write.page_splice import StoredRange
from paimon_core.write.page_writer import RollingPageWriter
from paimon_core.write.row_writer import data_file_paths
from paimon_core.write.splice_writer import RollingSpliceWriter, copied_codec
from paimon_core.write.tracked_writer import RollingTrackedWriter

Progress = Callable[[int], None]
"""Called from time to time with the number of rows written."""


def rewrite(
    table: FileStoreTable,
    unit: CompactUnit,
    *,
    env: Environment,
    progress: Progress | None = None,
    spill_dir: str | None = None,
    threads: int = 1,
) -> CompactResult:
    """Execute the unit; return the removed and the added files, which exist when this returns.

    `spill_dir` is a local folder for runs that are too many to be merged at once (default: the
    system's temporary folder).  With more than one of `threads`, merges decode runs and encode row
    groups on that many threads; the rows are the same.
    """
    with threads_of(threads) as started:
        work = _Work(table, unit, env, progress or (lambda _: None), spill_dir, started)
        try:
            if unit.new_row_ids:
                work.drop_deleted_rows()
            elif unit.append_files and has_data_evolution(table):
                if is_dedicated(unit.append_files[0]):
                    work.merge_blobs()
                else:
                    work.merge_columns()
            elif unit.append_files:
                work.concatenate()
            if unit.clustered is not None:
                work.cluster(unit.clustered)
            else:
                for group in unit.rewrites:
                    work.merge(group)
            for file in unit.read_upgrades:
                work.look_through(file)
        except BaseException:
            work.undo()
            raise
    owned = unit.owns_inputs
    return CompactResult(
        partition=unit.partition,
        bucket=unit.bucket,
        total_buckets=unit.total_buckets,
        before=(*unit.rewritten_files, *unit.moved_files) if owned else (),
        after=(
            *work.written,
            *(f.upgraded(unit.output_level) for f in unit.moved_files if owned),
        ),
        changelog_files=tuple(work.changelog_files),
        superseded=superseded_rows(work.superseded),
    )


class _Work:
    """The files written so far for one unit."""

    __slots__ = (
        "_env",
        "_progress",
        "_spill_dir",
        "_table",
        "_threads",
        "_unit",
        "_vectors",
        "changelog_files",
        "superseded",
        "written",
    )

    def __init__(
        self,
        table: FileStoreTable,
        unit: CompactUnit,
        env: Environment,
        progress: Progress,
        spill_dir: str | None,
        threads: Threads | None,
    ) -> None:
        self._table = table
        self._unit = unit
        self._env = env
        self._progress = progress
        self._spill_dir = spill_dir
        self._threads = threads
        self._vectors = vectors_of_unit(table, unit)
        self.written: list[DataFileMeta] = []
        self.changelog_files: list[DataFileMeta] = []
        self.superseded: dict[str, list[Positions]] = defaultdict(list)

    def merge(self, group: Rewrite) -> None:
        """Merge the sections of a group into one sequence of files, and write their changelog."""
        merge = self._unit_merge()
        pages = CopyablePages.of(self._table, self._unit, self._vectors, is_plain=merge.is_plain)
        steps = None if pages is None else pages.steps(group)
        if pages is not None and steps is not None:
            writer = self._splicing_writer()
            self._write_merged(writer, SplicedMerge(merge, pages, group).results(steps))
        elif merge.is_plain:
            self._write(self._merged_writer(), merge.plain_rows(group))
        else:
            self._write_merged(self._merged_writer(), merge.sections(group))

    def cluster(self, clustered: ClusteredWork) -> None:
        """Write the new rows, and those of each group of files, sorted by other columns."""
        rows = ClusteredRows(
            table=self._table, unit=self._unit, vectors=self._vectors, spill_dir=self._spill_dir
        )
        new = rows.new() if self._unit.rewrites else iter(())
        groups = list(clustered.groups)
        if not (clustered.takes_new and groups):
            self._write_sorted(clustered.columns, new)
            new = iter(())
        for group in groups:
            self._write_sorted(clustered.columns, chain(new, rows.of_group(group)))
        staying = {f.file_name for run in self._unit.above for f in run.files}
        staying -= {f.file_name for group in groups for f in group}
        for name in staying & rows.superseded.keys():
            self.superseded[name] += rows.superseded[name]

    def _write_sorted(self, columns: tuple[str, ...], rows: Iterator[pa.RecordBatch]) -> None:
        table, size = self._table, self._unit.rewritten_bytes
        sort_type = table.schema.row_type.project(columns)
        writer = self._key_value_writer(partial(RollingKeyValueWriter, sort_type=sort_type))
        ordered = sorted_by(table, columns, rows, file_bytes=size, spill_dir=self._spill_dir)
        self._write(writer, ordered)

    def look_through(self, file: DataFileMeta) -> None:
        """Write the changelog of a file that only changes its level."""
        self._write_merged(None, self._unit_merge().file(file))

    def _unit_merge(self) -> UnitMerge:
        return UnitMerge(
            table=self._table,
            unit=self._unit,
            vectors=self._vectors,
            on_found=lambda file, rows: self.superseded[file.file_name].append(rows),
            spill_dir=self._spill_dir,
            threads=self._threads,
        )

    def _merged_writer(self) -> RollingKeyValueWriter:
        """Return a writer that encodes on all threads, if its files can be assembled."""
        options = self._table.options
        layout = key_value_layout(options, level=self._unit.output_level)
        if self._threads is None or copied_codec(layout, options) is None:
            return self._key_value_writer()
        return self._splicing_writer()

    def _splicing_writer(self) -> RollingSpliceWriter:
        writer = self._key_value_writer(RollingSpliceWriter)
        assert isinstance(writer, RollingSpliceWriter)
        writer.threads = self._threads
        return writer

    def _key_value_writer(
        self,
        make: Callable[..., RollingKeyValueWriter] = RollingKeyValueWriter,
        *,
        changelog: bool = False,
    ) -> RollingKeyValueWriter:
        table, unit = self._table, self._unit
        return make(
            table.io,
            table.paths,
            unit.partition,
            unit.bucket,
            table.schema,
            level=unit.output_level,
            file_source=FileSource.APPEND if changelog else FileSource.COMPACT,
            env=self._env,
            changelog=changelog,
        )

    def _write_merged(
        self, writer: RollingKeyValueWriter | None, slices: Iterator[MergeResult | StoredRange]
    ) -> None:
        changelog = self._key_value_writer(changelog=True)
        with aborted_on_failure([w for w in (writer, changelog) if w is not None]):
            for result in slices:
                if isinstance(result, StoredRange):
                    assert isinstance(writer, RollingSpliceWriter)
                    writer.take_over(result)
                    self._progress(len(result.rows))
                    continue
                if writer is not None:
                    rows = result.merged
                    writer.write(without_deletes(rows) if self._unit.drop_deletes else rows)
                if result.changelog is not None:
                    changelog.write(result.changelog)
                self._progress(result.merged.num_rows)
            if writer is not None:
                self.written += writer.close()
            self.changelog_files += changelog.close()

    def concatenate(self) -> None:
        """Write the rows of append files one file after the other."""
        table, unit = self._table, self._unit
        tracked = table.options.value(ROW_TRACKING_ENABLED)
        pages = None if tracked else PageCopy.of(table, unit, self._vectors)
        make = RollingAppendWriter if pages is None else RollingPageWriter
        schema = table.schema
        if tracked:
            make, schema = RollingTrackedWriter, tracked_schema(schema)
        writer = make(
            table.io,
            table.paths,
            unit.partition,
            unit.bucket,
            schema,
            file_source=FileSource.COMPACT,
            first_sequence_number=unit.append_files[0].min_sequence_number,
            env=self._env,
        )
        if isinstance(writer, RollingPageWriter) and pages is not None:
            with aborted_on_failure((writer,)):
                pages.run(writer, self._append_rows, self._progress)
                self.written += writer.close()
            return
        sources = [source_of(f.file_size, self._append_rows, f) for f in unit.append_files]
        self._write(writer, one_after_the_other(table.io, sources))

    def merge_columns(self) -> None:
        """Write the rows of groups of files as one file, however large it becomes."""
        table, unit = self._table, self._unit
        schema = merged_schema(table)
        writer = RollingAppendWriter(
            table.io,
            table.paths,
            unit.partition,
            unit.bucket,
            schema,
            file_source=FileSource.APPEND,
            env=self._env,
            target_file_size=NEVER_FULL,
        )
        self._write_groups(writer, partial(group_rows, table, schema.names))
        self.written = [merged_file(table, unit, self.written)]

    def merge_blobs(self) -> None:
        """Write the BLOBs of a column as one file, however large it becomes."""
        table, unit = self._table, self._unit
        writer = BlobColumnWriter(
            table.io,
            table.paths,
            unit.partition,
            unit.bucket,
            blob_column_schema(table.schema, blob_field(table, unit.append_files).name),
            content=_as_it_is,
            file_source=FileSource.COMPACT,
            env=self._env,
            target_file_size=NEVER_FULL,
        )
        self._write(writer, merged_blobs(table, unit))
        self.written = [merged_blob_file(unit, self.written)]

    def drop_deleted_rows(self) -> None:
        """Write all columns of the rows that are left of groups of files, without row ids."""
        table, unit = self._table, self._unit
        has_blobs = TypeRoot.BLOB in type_roots(table.schema.row_type)
        make = partial(RollingBlobWriter, content=_as_it_is)
        writer = (make if has_blobs else RollingAppendWriter)(
            table.io,
            table.paths,
            unit.partition,
            unit.bucket,
            table.schema,
            file_source=FileSource.APPEND,
            env=self._env,
            target_file_size=NEVER_FULL,
        )
        self._write_groups(writer, partial(remaining_rows, table, vectors=self._vectors))

    def _write_groups(
        self, writer: RollingAppendWriter, read: Callable[[Group], Iterator[pa.RecordBatch]]
    ) -> None:
        """Write what `read` yields of each group of files of the unit."""
        table = self._table
        groups = unit_groups(table, self._unit, self._vectors)
        sources = [source_of(sum(e.file.file_size for e in g), read, g) for g in groups]
        self._write(writer, one_after_the_other(table.io, sources))

    def undo(self) -> None:
        """Delete the written files."""
        table, unit = self._table, self._unit
        delete_abandoned(
            table.io,
            [
                path
                for file in (*self.written, *self.changelog_files)
                for path in data_file_paths(table, unit.partition, unit.bucket, file)
            ],
        )

    def _append_rows(
        self, file: DataFileMeta, rows: range | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, or some of them, without the deleted ones."""
        table, unit = self._table, self._unit
        tracked = table.options.value(ROW_TRACKING_ENABLED)
        read = read_tracked_rows if tracked else partial(read_data_file, key_value=False, rows=rows)
        batches = read(
            table.io,
            table.paths.data_file(unit.partition, unit.bucket, file),
            file,
            file_schema=table.schema_of(file.schema_id),
            read_type=table.schema.row_type,
            batch_rows=plain_rows(file, table.schema.row_type),
            partition=unit.partition,
        )
        deleted = self._vectors.get(file.file_name)
        return without_deleted(batches, deleted, 0 if rows is None else rows.start)

    def _write(
        self, writer: RollingAppendWriter | RollingKeyValueWriter, batches: Iterator[pa.RecordBatch]
    ) -> None:
        self.written += write_all(writer, self._reported(batches))

    def _reported(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches, and report each as progress once it is written."""
        for batch in batches:
            yield batch
            self._progress(batch.num_rows)


def _as_it_is(value: bytes) -> bytes:
    """Return the bytes to store for a stored BLOB, which may look like a descriptor."""
    return value
