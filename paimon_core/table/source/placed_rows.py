"""Rows with their places: the unit that holds them, and their positions in it.

A unit is read on its own, by the driver or by a task of an executor.

============  ==================================================================================
`FileUnit`    a file of an append table, or of a primary-key table where nothing is merged with it
`GroupUnit`   the files with the same rows, under data evolution
`MergedUnit`  files whose rows are merged, and have no place
============  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.errors import UnsupportedFeature
from paimon_core.features import check_readable, check_rows_readable, check_snapshot_readable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import Positions
from paimon_core.lsm.merge_engine import DELETE, UPDATE_BEFORE
from paimon_core.manifest.data_file import IndexFileMeta, ManifestEntry
from paimon_core.options import ROW_TRACKING_ENABLED
from paimon_core.predicate import Predicate, fields_of
from paimon_core.read.data_evolution import (
    deleted_rows,
    has_data_evolution,
    matching_groups,
    read_group,
    row_groups,
    rows_of_group,
)
from paimon_core.read.data_file import read_table_file
from paimon_core.read.row_tracking import read_tracked_rows
from paimon_core.read.table_read import (
    BATCH_ROWS,
    bucket_vectors,
    chosen_rows,
    pruning,
)
from paimon_core.scan.global_index import matching_rows
from paimon_core.scan.scan import in_plan_order, scan_files
from paimon_core.scan.splits import never_merges
from paimon_core.scan.vectors import vector_files
from paimon_core.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_core.schema.tracked import ROW_ID
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.source.batch_scan import BatchScan
from paimon_core.table.source.batch_tasks import (
    BatchTask,
    BucketTask,
    ScanTask,
    plan_batch,
    read_task,
)
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import AtomicType, DataField, TypeRoot, type_roots

Numbers = npt.NDArray[np.int64]
_BIGINT: Final = AtomicType(kind=TypeRoot.BIGINT)
TRACKED_FIELDS: Final = (
    DataField(id=2**31 - 1 - 5, name=ROW_ID, type=_BIGINT),
    DataField(id=2**31 - 1 - 1, name=SEQUENCE_NUMBER, type=_BIGINT),
)
"""Columns that a file holds if its rows came from other files (Java: `SpecialFields`)."""


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Rows; for each, its file (an index into `entries`) and its position in the file.

    Positions count all rows of a file, those that a deletion vector hides too; -1 where rows of
    several files were merged, whose first file stands for the bucket.  Under data evolution, the
    newest file stands for its group.  `row_ids` and `sequences` are for tables with row tracking.
    """

    table: FileStoreTable
    rows: pa.Table
    files: npt.NDArray[np.int32]
    positions: Numbers
    entries: tuple[ManifestEntry, ...]
    row_ids: Numbers | None = None
    sequences: Numbers | None = None


def _of_entry(
    table: FileStoreTable,
    entry: ManifestEntry,
    rows: pa.RecordBatch,
    positions: Numbers,
    row_ids: Numbers | None = None,
    sequences: Numbers | None = None,
) -> PlacedRows:
    files = np.zeros(rows.num_rows, np.int32)
    whole = pa.Table.from_batches([rows])
    return PlacedRows(table, whole, files, positions, (entry,), row_ids, sequences)


# --- units --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileUnit:
    """A data file, and the index files of its bucket; `of` is its table if that is another one."""

    entry: ManifestEntry
    index_files: tuple[IndexFileMeta, ...]
    of: FileStoreTable | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.entry.file.file_size

    def batches(self, table: FileStoreTable, columns: Sequence[str]) -> Iterator[PlacedRows]:
        """Yield these columns of the rows that no deletion vector hides."""
        table, entry = self.of or table, self.entry
        schema = _schema_of(table, columns)
        bucket = entry.partition, entry.bucket
        deleted = bucket_vectors(table, bucket, self.index_files).get(entry.file.file_name)
        tracked = table.options.value(ROW_TRACKING_ENABLED)
        stored = _stored_batches(table, entry, columns, tracked=tracked)
        for batch, positions in _shown(stored, deleted):
            ids = sequences = None
            if tracked:
                ids = np.asarray(batch.column(ROW_ID)).astype(np.int64)
                sequences = np.asarray(batch.column(SEQUENCE_NUMBER)).astype(np.int64)
            rows = batch.select(schema.names).cast(schema)
            yield _of_entry(table, entry, rows, positions, ids, sequences)


@dataclass(frozen=True, slots=True)
class GroupUnit:
    """A group of files, the newest first, and the index files of their bucket.

    A row's sequence number is that of the newest file.
    """

    group: tuple[ManifestEntry, ...]
    index_files: tuple[IndexFileMeta, ...]

    @property
    def entry(self) -> ManifestEntry:
        """The newest file."""
        return self.group[0]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(e.file.file_size for e in self.group)

    def deleted(self, table: FileStoreTable) -> Positions | None:
        """The positions of deleted rows; errors as in `deleted_rows`."""
        bucket = self.entry.partition, self.entry.bucket
        return deleted_rows(table, self.group, bucket_vectors(table, bucket, self.index_files))

    def batches(self, table: FileStoreTable, columns: Sequence[str]) -> Iterator[PlacedRows]:
        """Yield these columns of the rows that are not deleted; errors as in `read_group`."""
        schema, gone = _schema_of(table, columns), self.deleted(table)
        start, number = rows_of_group(self.group).first, self.entry.file.max_sequence_number
        for batch, positions in _shown(read_group(table, self.group, columns, {}), gone):
            rows = batch.select(schema.names).cast(schema)
            sequences = np.full(len(positions), number, np.int64)
            yield _of_entry(table, self.entry, rows, positions, positions + start, sequences)


@dataclass(frozen=True, slots=True)
class MergedUnit:
    """Files of a bucket of a primary-key table, and its index files; `of` as in `FileUnit`."""

    entries: tuple[ManifestEntry, ...]
    index_files: tuple[IndexFileMeta, ...]
    of: FileStoreTable | None = None

    @property
    def entry(self) -> ManifestEntry:
        """The file that stands for the bucket."""
        return self.entries[0]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(e.file.file_size for e in self.entries)

    def batches(self, table: FileStoreTable, columns: Sequence[str]) -> Iterator[PlacedRows]:
        """Yield these columns of the merged rows."""
        table = self.of or table
        schema = _schema_of(table, columns)
        task = BucketTask(table=table, entries=self.entries, index_files=self.index_files)
        for batch in read_task(task, columns=columns):
            kinds = np.asarray(batch.column(VALUE_KIND))
            added = batch.filter(pa.array(~np.isin(kinds, (UPDATE_BEFORE, DELETE))))
            rows = added.select(schema.names).cast(schema)
            yield _of_entry(table, self.entry, rows, np.full(rows.num_rows, -1, np.int64))


Unit = FileUnit | GroupUnit | MergedUnit


def tracked_batches(
    table: FileStoreTable, unit: FileUnit | GroupUnit, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows with `_VALUE_KIND`, these columns, `_ROW_ID` and `_SEQUENCE_NUMBER`."""
    names = [VALUE_KIND, *columns, ROW_ID, SEQUENCE_NUMBER]
    for placed in unit.batches(table, columns):
        kinds = pa.array(np.zeros(placed.rows.num_rows, np.int8))
        hidden = (pa.array(numbers) for numbers in (placed.row_ids, placed.sequences))
        whole = pa.table([kinds, *placed.rows.columns, *hidden], names=names)
        yield from whole.to_batches()


def _shown(
    batches: Iterator[pa.RecordBatch], deleted: Positions | None
) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
    """Yield the rows that are not deleted, with their positions among all."""
    first = 0
    for batch in batches:
        positions: Numbers = np.arange(first, first + batch.num_rows, dtype=np.int64)
        first += batch.num_rows
        if deleted is None:
            yield batch, positions
        else:
            stays = np.isin(positions, deleted, invert=True)
            yield batch.filter(pa.array(stays)), positions[stays]


def _schema_of(table: FileStoreTable, columns: Sequence[str]) -> pa.Schema:
    # A column that is NOT NULL now can have nulls from before.
    fields = arrow_schema(table.schema.row_type.project(columns))
    return pa.schema([f.with_nullable(True) for f in fields])


def _stored_batches(
    table: FileStoreTable, entry: ManifestEntry, columns: Sequence[str], *, tracked: bool
) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a file; with `tracked`, row ids and sequence numbers too."""
    read_type = table.schema.row_type.project(columns)
    if not tracked:
        return read_table_file(
            table,
            entry.partition,
            entry.bucket,
            entry.file,
            read_type,
            key_value=table.has_primary_key,
            batch_rows=BATCH_ROWS,
        )
    return read_tracked_rows(
        table.io,
        table.paths.data_file(entry.partition, entry.bucket, entry.file),
        entry.file,
        file_schema=table.schema_of(entry.file.schema_id),
        read_type=read_type,
        batch_rows=BATCH_ROWS,
        partition=entry.partition,
    )


def cheap_column(table: FileStoreTable) -> str:
    """Return a column whose values are in no file of BLOBs, to read where none is asked for."""
    return next(f.name for f in table.schema.fields if TypeRoot.BLOB not in type_roots(f.type))


def read_tracked_task(
    task: BatchTask, *, columns: Sequence[str], predicate: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task as `read_task`, for columns with `_ROW_ID` or `_SEQUENCE_NUMBER`.

    Raises UnsupportedFeature for changes.
    """
    if not isinstance(task, BucketTask):
        table = task.scan.table if isinstance(task, ScanTask) else task.table
        raise UnsupportedFeature("row ids of changes", table=table.name)
    table = task.table
    needed = {*columns, *(fields_of(predicate) if predicate is not None else ())}
    names = [n for n in table.schema.names if n in needed] or [cheap_column(table)]
    units: Sequence[FileUnit | GroupUnit] = [FileUnit(e, task.index_files) for e in task.entries]
    if has_data_evolution(table):
        units = [GroupUnit(tuple(g), task.index_files) for g in row_groups(task.entries, table)]
    rows = chain.from_iterable(tracked_batches(table, unit, names) for unit in units)
    yield from chosen_rows(rows, columns, predicate)


# --- plans --------------------------------------------------------------------------------------


def file_units(
    table: FileStoreTable, snapshot: Snapshot | None, predicate: Predicate | None = None
) -> list[FileUnit]:
    """The files of an append table, without those that the predicate excludes.

    UnsupportedFeature for tables whose rows are in several files (data evolution).
    """
    check_readable(table)
    if has_data_evolution(table):
        raise UnsupportedFeature("positions of rows under data evolution", table=table.name)
    if snapshot is None:
        return []
    check_snapshot_readable(table, snapshot)
    vectors = vector_files(table, snapshot)
    entries = in_plan_order(table, scan_files(table, snapshot, predicate=predicate))
    return [FileUnit(e, tuple(vectors.get((e.partition, e.bucket), ()))) for e in entries]


def group_units(
    table: FileStoreTable, snapshot: Snapshot | None, predicate: Predicate | None = None
) -> list[GroupUnit]:
    """The groups of a table with data evolution, by their row ids; errors as in `row_groups`.

    Without groups that the predicate excludes.
    """
    if snapshot is None:
        return []
    check_rows_readable(table, snapshot)
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in scan_files(table, snapshot, predicate=pruning(table, predicate)):
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
    vectors, matching = vector_files(table, snapshot), matching_rows(table, snapshot, predicate)
    units = [
        GroupUnit(tuple(group), tuple(vectors.get(bucket, ())))
        for bucket, entries in buckets.items()
        for group in matching_groups(table, row_groups(entries, table), predicate, matching)
    ]
    return sorted(units, key=lambda u: rows_of_group(u.group).first)


def scan_units(
    scan: BatchScan,
    *,
    needs_files: bool,
    lenient: bool = False,
    predicate: Predicate | None = None,
    columns: Collection[str] | None = None,
) -> Sequence[Unit]:
    """The units of a scan, without files that the predicate excludes.

    With `needs_files`, rows must have places in files: UnsupportedFeature under data evolution, and
    if some have to be merged, unless `lenient` allows such rows.
    """
    table = scan.table
    if scan.whole is not None and scan.then is None and not table.has_primary_key:
        if has_data_evolution(table) and not needs_files:
            return group_units(table, scan.whole, predicate)
        return file_units(table, scan.whole, predicate)
    units: list[Unit] = []
    for task in plan_batch(scan, predicate=predicate, columns=columns):
        if not isinstance(task, BucketTask):
            raise UnsupportedFeature("metadata columns in incremental queries", table=table.name)
        of = None if task.table is table else task.table  # that of a fallback branch
        raw = never_merges(table, [e.file for e in task.entries]) or (
            len(task.entries) == 1 and not task.entries[0].file.delete_row_count
        )
        if raw or not table.has_primary_key:
            units += [FileUnit(e, task.index_files, of) for e in task.entries]
            continue
        if needs_files and not lenient:
            raise UnsupportedFeature(
                "metadata columns of rows that have to be merged",
                "Only append table or deletion vector table support querying metadata columns.",
                table=table.name,
                next_step="compact the table fully first",
            )
        units.append(MergedUnit(task.entries, task.index_files, of))
    return units


def collected(table: FileStoreTable, units: Sequence[Unit], columns: Sequence[str]) -> PlacedRows:
    """These columns of all rows of the units; `files` are the numbers of their units."""
    parts = [
        (number, rows) for number, unit in enumerate(units) for rows in unit.batches(table, columns)
    ]
    schema = _schema_of(table, columns)
    files = [np.full(len(p.positions), number, np.int32) for number, p in parts]
    tracked = table.options.value(ROW_TRACKING_ENABLED)
    return PlacedRows(
        table,
        pa.concat_tables([schema.empty_table(), *(p.rows for _, p in parts)]),
        np.concatenate([np.empty(0, np.int32), *files]),
        _joined(p.positions for _, p in parts),
        tuple(unit.entry for unit in units),
        _joined(p.row_ids for _, p in parts if p.row_ids is not None) if tracked else None,
        _joined(p.sequences for _, p in parts if p.sequences is not None) if tracked else None,
    )


def _joined(parts: Iterator[Numbers]) -> Numbers:
    return np.concatenate([np.empty(0, np.int64), *parts])


def with_new_values(rows: pa.Table, new: pa.Table, source: Numbers) -> pa.Table:
    """The rows with values of `new` in its columns; the others stay.

    `source` says for each row where its values are: it counts on in `new` behind the last of the
    rows.
    """
    for name in new.schema.names:
        old = rows.column(name)
        both = pa.chunked_array([*old.chunks, *new.column(name).cast(old.type).chunks], old.type)
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), both.take(pa.array(source)))
    return rows
