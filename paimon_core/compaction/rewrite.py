"""Carries a unit of compaction out (Java: `MergeTreeCompactRewriter`,
`BaseAppendFileStoreWrite.compactRewrite`).

Only new files are written, under fresh names, and nothing is committed: a task that runs twice does
no harm.  When it fails, the files that it wrote are deleted; a task that is killed leaves orphans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from paimon_core.compaction.unit import CompactResult, CompactUnit, Rewrite
from paimon_core.compaction.vectors import vectors_of_unit
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import without_deleted
from paimon_core.manifest.data_file import DataFileMeta, FileSource
from paimon_core.read.ahead import one_after_the_other, source_of
from paimon_core.read.data_file import read_data_file
from paimon_core.read.section import SectionReader, plain_rows
from paimon_core.scan.engine import merge_engine_for
from paimon_core.write.data_file_writer import RollingAppendWriter, RollingKeyValueWriter

Progress = Callable[[int], None]
"""Told the number of rows written, now and then."""


def rewrite(
    table: FileStoreTable,
    unit: CompactUnit,
    *,
    new_uuid: Callable[[], str],
    creation_time: Callable[[], int],
    progress: Progress | None = None,
    spill_dir: str | None = None,
) -> CompactResult:
    """The files that go and the files that come; the latter exist when this returns.

    `creation_time` is the wall clock in milliseconds, `spill_dir` a local folder for runs that are
    too many to be merged at once (default: the system's temporary folder).
    """
    work = _Work(table, unit, new_uuid, creation_time, progress or (lambda _: None), spill_dir)
    try:
        if unit.append_files:
            work.concatenate()
        for group in unit.rewrites:
            work.merge(group)
    except BaseException:
        work.undo()
        raise
    owned = unit.owns_inputs
    return CompactResult(
        partition=unit.partition,
        bucket=unit.bucket,
        total_buckets=unit.total_buckets,
        before=(*unit.rewritten_files, *unit.upgrades) if owned else (),
        after=(
            *work.written,
            *(f.upgraded(unit.output_level) for f in unit.upgrades if owned),
        ),
    )


class _Work:
    """The files written so far for one unit."""

    __slots__ = (
        "_creation_time",
        "_new_uuid",
        "_progress",
        "_spill_dir",
        "_table",
        "_unit",
        "_vectors",
        "written",
    )

    def __init__(
        self,
        table: FileStoreTable,
        unit: CompactUnit,
        new_uuid: Callable[[], str],
        creation_time: Callable[[], int],
        progress: Progress,
        spill_dir: str | None,
    ) -> None:
        self._table = table
        self._unit = unit
        self._new_uuid = new_uuid
        self._creation_time = creation_time
        self._progress = progress
        self._spill_dir = spill_dir
        self._vectors = vectors_of_unit(table, unit)
        self.written: list[DataFileMeta] = []

    def merge(self, group: Rewrite) -> None:
        """Merge the sections of a group into one sequence of files."""
        table, unit = self._table, self._unit
        key_range = unit.key_range
        reader = SectionReader(
            table=table,
            partition=unit.partition,
            bucket=unit.bucket,
            read_type=table.schema.row_type,
            low=None if key_range is None else key_range.low,
            high=None if key_range is None else key_range.high,
            spill_dir=self._spill_dir,
            vectors=self._vectors,
        )
        engine = merge_engine_for(table).engine
        writer = RollingKeyValueWriter(
            table.io,
            table.paths,
            unit.partition,
            unit.bucket,
            table.schema,
            level=unit.output_level,
            file_source=FileSource.COMPACT,
            new_uuid=self._new_uuid,
            creation_time=self._creation_time,
        )
        self._write(
            writer,
            (
                batch
                for section in group
                for batch in reader.merged(section, engine, drop_deletes=unit.drop_deletes)
            ),
        )

    def concatenate(self) -> None:
        """Write the rows of append files one file after the other."""
        table, unit = self._table, self._unit
        writer = RollingAppendWriter(
            table.io,
            table.paths,
            unit.partition,
            unit.bucket,
            table.schema,
            file_source=FileSource.COMPACT,
            first_sequence_number=unit.append_files[0].min_sequence_number,
            new_uuid=self._new_uuid,
            creation_time=self._creation_time,
        )
        sources = [source_of(f.file_size, self._append_rows, f) for f in unit.append_files]
        self._write(writer, one_after_the_other(table.io, sources))

    def undo(self) -> None:
        """Delete what was written."""
        table, unit = self._table, self._unit
        for file in self.written:
            table.io.delete(table.paths.data_file(unit.partition, unit.bucket, file))
            for extra in file.extra_files:
                table.io.delete(table.paths.extra_file(unit.partition, unit.bucket, file, extra))

    def _append_rows(self, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        table, unit = self._table, self._unit
        batches = read_data_file(
            table.io,
            table.paths.data_file(unit.partition, unit.bucket, file),
            file,
            file_schema=table.schema_of(file.schema_id),
            read_type=table.schema.row_type,
            key_value=False,
            batch_rows=plain_rows(file, table.schema.row_type),
            partition=unit.partition,
        )
        deleted = self._vectors.get(file.file_name)
        return batches if deleted is None else without_deleted(batches, deleted)

    def _write(
        self, writer: RollingAppendWriter | RollingKeyValueWriter, batches: Iterator[pa.RecordBatch]
    ) -> None:
        try:
            for batch in batches:
                writer.write(batch)
                self._progress(batch.num_rows)
            self.written += writer.close()
        except BaseException:
            writer.abort()
            raise
