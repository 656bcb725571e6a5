"""Rows with their positions in files, and the hidden columns that show them.

=====================  =========================================================================
__paimon_file_path     the data file; of a primary-key table only where nothing has to be merged
__paimon_row_index     the position in that file, deleted rows counted; as above
__paimon_partition     a struct of the partition columns
__paimon_bucket        the bucket
_ROW_ID                the row's id, of tables with row tracking
_SEQUENCE_NUMBER       the number of the snapshot that wrote the row, of tables with row tracking
=====================  =========================================================================

Java: `PaimonMetadataColumn`, `SparkTable.metadataColumns`, `SpecialFields`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import UnsupportedFeature
from paimon_core.features import check_readable, check_snapshot_readable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.merge_engine import DELETE, UPDATE_BEFORE
from paimon_core.manifest.data_file import IndexFileMeta, ManifestEntry
from paimon_core.options import ROW_TRACKING_ENABLED
from paimon_core.predicate import Predicate
from paimon_core.read.data_evolution import has_data_evolution
from paimon_core.read.data_file import read_data_file
from paimon_core.read.table_read import BATCH_ROWS, bucket_vectors, skips_level_0
from paimon_core.scan.scan import in_plan_order, scan_files
from paimon_core.scan.splits import never_merges
from paimon_core.scan.vectors import vector_files
from paimon_core.schema.table_schema import (
    SEQUENCE_NUMBER,
    VALUE_KIND,
)
from paimon_core.schema.tracked import ROW_ID
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.batch_scan import BatchScan
from paimon_core.table.batch_tasks import BucketTask, plan_batch, read_task
from paimon_core.types.arrow import arrow_schema, column_from_internal
from paimon_core.types.binary_row import decode_row
from paimon_core.types.data_types import MAX_LENGTH, AtomicType, DataField, RowType, TypeRoot

FILE_PATH: Final = "__paimon_file_path"
ROW_INDEX: Final = "__paimon_row_index"
PARTITION: Final = "__paimon_partition"
BUCKET: Final = "__paimon_bucket"
METADATA_COLUMNS: Final = (FILE_PATH, ROW_INDEX, PARTITION, BUCKET, ROW_ID, SEQUENCE_NUMBER)
_OF_FILES: Final = frozenset({FILE_PATH, ROW_INDEX, ROW_ID, SEQUENCE_NUMBER})
_BIGINT: Final = AtomicType(kind=TypeRoot.BIGINT)
_TRACKED: Final = (
    DataField(id=2**31 - 1 - 5, name=ROW_ID, type=_BIGINT),
    DataField(id=2**31 - 1 - 1, name=SEQUENCE_NUMBER, type=_BIGINT),
)
"""Columns that a file holds if its rows came from other files (Java: `SpecialFields`)."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """The table's rows; for each, its file (an index into `entries`) and its position in the file.

    Positions count all rows of a file, those that a deletion vector hides too; -1 where rows of
    several files were merged, whose first file stands for the bucket.  `row_ids` and `sequences`
    are for tables with row tracking.
    """

    table: FileStoreTable
    rows: pa.Table
    files: npt.NDArray[np.int32]
    positions: Numbers
    entries: tuple[ManifestEntry, ...]
    row_ids: Numbers | None = None
    sequences: Numbers | None = None


def metadata_columns_in(text: str) -> frozenset[str]:
    """The hidden columns that the text of a query names."""
    lowered = text.lower()
    return frozenset(c for c in METADATA_COLUMNS if c.lower() in lowered)


# --- append tables ------------------------------------------------------------------------------


def placed_rows(
    table: FileStoreTable, snapshot: Snapshot | None, predicate: Predicate | None = None
) -> PlacedRows:
    """The rows of an append table, without files that the predicate excludes.

    UnsupportedFeature for tables whose rows are in several files (data evolution).
    """
    check_readable(table)
    if has_data_evolution(table):
        raise UnsupportedFeature("positions of rows under data evolution", table=table.name)
    if snapshot is not None:
        check_snapshot_readable(table, snapshot)
    entries: list[ManifestEntry] = []
    if snapshot is not None:
        entries = list(in_plan_order(table, scan_files(table, snapshot, predicate=predicate)))
    index_files = {} if snapshot is None else vector_files(table, snapshot)
    collected = _Collected(table)
    for index, entry in enumerate(entries):
        collected.add_file(index, entry, index_files.get((entry.partition, entry.bucket), ()))
    return collected.done(entries)


class _Collected:
    """The rows of the files so far."""

    def __init__(self, table: FileStoreTable) -> None:
        self._table = table
        self._tracked = table.options.value(ROW_TRACKING_ENABLED)
        self._schema = arrow_schema(table.schema.row_type)
        self._batches: list[pa.RecordBatch] = []
        self._files: list[npt.NDArray[np.int32]] = [np.empty(0, np.int32)]
        self._positions: list[Numbers] = [np.empty(0, np.int64)]
        self._ids: list[Numbers] = [np.empty(0, np.int64)]
        self._sequences: list[Numbers] = [np.empty(0, np.int64)]

    def add_file(
        self, index: int, entry: ManifestEntry, index_files: Sequence[IndexFileMeta]
    ) -> None:
        """The rows of one file that no deletion vector hides."""
        bucket = entry.partition, entry.bucket
        deleted = bucket_vectors(self._table, bucket, index_files).get(entry.file.file_name)
        for first, batch in _file_batches(self._table, entry, tracked=self._tracked):
            positions = np.arange(first, first + batch.num_rows, dtype=np.int64)
            stays = np.ones(batch.num_rows, np.bool_)
            if deleted is not None:
                stays = np.isin(positions, deleted, invert=True)
            self._keep(batch, stays)
            self._files.append(np.full(int(stays.sum()), index, np.int32))
            self._positions.append(positions[stays])
            if self._tracked:
                self._track(entry, batch, positions, stays)

    def add_merged(self, index: int, batch: pa.RecordBatch) -> None:
        """Merged rows of a bucket."""
        self._keep(batch, np.ones(batch.num_rows, np.bool_))
        self._files.append(np.full(batch.num_rows, index, np.int32))
        self._positions.append(np.full(batch.num_rows, -1, np.int64))

    def _keep(self, batch: pa.RecordBatch, stays: npt.NDArray[np.bool_]) -> None:
        own = batch.select(list(self._schema.names)).cast(self._schema)
        self._batches.append(own if stays.all() else own.filter(pa.array(stays)))

    def _track(
        self,
        entry: ManifestEntry,
        batch: pa.RecordBatch,
        positions: Numbers,
        stays: npt.NDArray[np.bool_],
    ) -> None:
        first_id = entry.file.first_row_id
        ids = np.full(batch.num_rows, -1, np.int64) if first_id is None else positions + first_id
        sequences = np.full(batch.num_rows, entry.file.max_sequence_number, np.int64)
        for name, otherwise, found in (
            (ROW_ID, ids, self._ids),
            (SEQUENCE_NUMBER, sequences, self._sequences),
        ):
            values = otherwise
            if name in batch.schema.names:
                stored = batch.column(name)
                values = np.asarray(pc.coalesce(stored, pa.array(otherwise))).astype(np.int64)
            found.append(values[stays])

    def done(self, entries: Sequence[ManifestEntry]) -> PlacedRows:
        return PlacedRows(
            self._table,
            pa.Table.from_batches(self._batches, schema=self._schema),
            np.concatenate(self._files),
            np.concatenate(self._positions),
            tuple(entries),
            np.concatenate(self._ids) if self._tracked else None,
            np.concatenate(self._sequences) if self._tracked else None,
        )


def _file_batches(
    table: FileStoreTable, entry: ManifestEntry, *, tracked: bool = False
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches with the position of their first row; row ids and numbers if the file has them."""
    written, read = table.schema_of(entry.file.schema_id), table.schema.row_type
    if tracked and entry.file.write_cols is not None:
        stored = tuple(f for f in _TRACKED if f.name in entry.file.write_cols)
        written = replace(written, fields=(*written.fields, *stored))
        read = RowType(fields=(*read.fields, *stored))
    first = 0
    for batch in read_data_file(
        table.io,
        table.paths.data_file(entry.partition, entry.bucket, entry.file),
        entry.file,
        file_schema=written,
        read_type=read,
        key_value=table.has_primary_key,
        batch_rows=BATCH_ROWS,
        partition=entry.partition,
    ):
        yield first, batch
        first += batch.num_rows


# --- what a query reads -------------------------------------------------------------------------


def scanned_rows(scan: BatchScan, wanted: Collection[str], *, lenient: bool = False) -> PlacedRows:
    """The rows of a scan, of append and primary-key tables.

    `wanted` are the hidden columns that are asked for.  UnsupportedFeature if one of them is about
    files, and rows have to be merged; with `lenient`, such rows have no file.
    """
    table = scan.table
    if scan.whole is not None and scan.then is None and not table.has_primary_key:
        return placed_rows(table, scan.whole)
    collected = _Collected(table)
    entries: list[ManifestEntry] = []
    for task in plan_batch(scan):
        if not isinstance(task, BucketTask):
            raise UnsupportedFeature("metadata columns in incremental queries", table=table.name)
        index = len(entries)
        entries += task.entries
        raw = never_merges([e.file for e in task.entries], never_merged=skips_level_0(table)) or (
            len(task.entries) == 1 and not task.entries[0].file.delete_row_count
        )
        if raw or not table.has_primary_key:
            for i, entry in enumerate(task.entries):
                collected.add_file(index + i, entry, task.index_files)
            continue
        if _OF_FILES & set(wanted) and not lenient:
            raise UnsupportedFeature(
                "metadata columns of rows that have to be merged",
                "Only append table or deletion vector table support querying metadata columns.",
                table=table.name,
                next_step="compact the table fully first",
            )
        for batch in read_task(task, columns=table.schema.names):
            kinds = np.asarray(batch.column(VALUE_KIND))
            added = pa.array(~np.isin(kinds, (UPDATE_BEFORE, DELETE)))
            collected.add_merged(index, batch.filter(added))
    return collected.done(entries)


def metadata_of(placed: PlacedRows, wanted: Collection[str]) -> list[tuple[DataField, pa.Array]]:
    """The hidden columns `wanted` of the rows, as far as the table has them."""
    text = AtomicType(kind=TypeRoot.VARCHAR, length=MAX_LENGTH)
    found: list[tuple[DataField, pa.Array]] = []
    if FILE_PATH in wanted:
        found.append((DataField(id=0, name=FILE_PATH, type=text), _paths(placed)))
    if ROW_INDEX in wanted:
        values = pa.array(placed.positions)
        found.append((DataField(id=0, name=ROW_INDEX, type=_BIGINT), values))
    if PARTITION in wanted:
        found.append(_partitions(placed))
    if BUCKET in wanted:
        number = AtomicType(kind=TypeRoot.INT)
        buckets = np.array([e.bucket for e in placed.entries], np.int32)
        values = pa.array(_of_entries(buckets, placed.files))
        found.append((DataField(id=0, name=BUCKET, type=number), values))
    for field, tracked in zip(_TRACKED, (placed.row_ids, placed.sequences), strict=True):
        if field.name in wanted and tracked is not None:
            found.append((field, pa.array(tracked)))
    return found


def _of_entries(
    values: npt.NDArray[np.int32], files: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    return values[files] if len(values) else np.empty(0, np.int32)


def _paths(placed: PlacedRows) -> pa.Array:
    """The path of each row's file, empty for merged rows."""
    table = placed.table
    paths = [table.paths.data_file(e.partition, e.bucket, e.file) for e in placed.entries]
    places = np.where(placed.positions < 0, len(paths), placed.files)
    return pa.array([*paths, ""], pa.string()).take(pa.array(places))


def _partitions(placed: PlacedRows) -> tuple[DataField, pa.Array]:
    row_type = placed.table.schema.partition_type
    decoded = [decode_row(e.partition, row_type.types) for e in placed.entries]
    schema = arrow_schema(row_type)
    places = pa.array(placed.files)
    columns = [
        column_from_internal([row[i] for row in decoded], f.type.with_nullable(True))
        .cast(schema.field(i).type)
        .take(places)
        for i, f in enumerate(row_type.fields)
    ]
    values = pa.StructArray.from_arrays(columns, fields=[f.with_nullable(True) for f in schema])
    if not columns:
        values = pa.array([{}] * len(placed.files), pa.struct([]))
    return DataField(id=0, name=PARTITION, type=row_type), values
