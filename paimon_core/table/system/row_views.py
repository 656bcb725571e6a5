"""The table's rows in other forms: only those of the top level, or with their row ids.

Java: `table/system/ReadOptimizedTable`, `RowTrackingTable`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import tzinfo
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.features import check_rows_readable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import without_deleted
from paimon_core.lsm.tree.universal_compaction import number_of_levels
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.options import ROW_TRACKING_ENABLED
from paimon_core.read.data_evolution import (
    Group,
    deleted_rows,
    has_data_evolution,
    read_group,
    row_groups,
)
from paimon_core.read.row_tracking import read_tracked_rows
from paimon_core.read.table_read import BATCH_ROWS, bucket_vectors, read_table
from paimon_core.scan.scan import in_plan_order, scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_core.schema.tracked import ROW_ID, tracked_schema
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.batch_scan import BatchScan, read_batch
from paimon_core.table.batch_tasks import BatchTask, plan_batch, plan_snapshot
from paimon_core.types.data_types import RowType

READ_OPTIMIZED: Final = "ro"
ROW_TRACKING: Final = "row_tracking"


def read_optimized(batch: BatchScan, *, zone: tzinfo) -> Iterator[pa.RecordBatch]:
    """Yield rows that need no merge: of a primary-key table, only those of the top level.

    Raises UnsupportedFeature for changes of a primary-key table.
    """
    table = batch.table
    if not table.has_primary_key:
        return read_batch(batch, zone=zone)
    _check_optimized(batch)
    if batch.whole is None:
        return iter(())
    return read_table(table, batch.whole, keep=_of_top_level(table))


def optimized_tasks(batch: BatchScan, *, zone: tzinfo) -> list[BatchTask]:
    """Return the tasks (`plan_batch`) of what `read_optimized` reads; errors as there."""
    table = batch.table
    if not table.has_primary_key:
        return plan_batch(batch, zone=zone)
    _check_optimized(batch)
    if batch.whole is None:
        return []
    return list(plan_snapshot(table, batch.whole, keep=_of_top_level(table)))


def _check_optimized(batch: BatchScan) -> None:
    """Raise UnsupportedFeature for changes of a primary-key table."""
    if batch.between is not None or batch.diff is not None or batch.then is not None:
        raise UnsupportedFeature("changes of a read-optimized table", table=batch.table.name)


def _of_top_level(table: FileStoreTable) -> Callable[[ManifestEntry], bool]:
    top = number_of_levels(table.options) - 1
    return lambda entry: entry.file.level == top


def row_tracking_type(table: FileStoreTable) -> RowType:
    """Return the columns of `table$row_tracking`.

    Raises InvalidArgument if the table has no row tracking.
    """
    if not table.options.value(ROW_TRACKING_ENABLED):
        raise InvalidArgument(
            f"Table {table.name} does not support row tracking, please enable "
            "'row-tracking.enabled' option to use 'with_metadata' table.",
            table=table.name,
        )
    return tracked_schema(table.schema).row_type


def tracked_rows(batch: BatchScan) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a snapshot with `_ROW_ID` and `_SEQUENCE_NUMBER`.

    Raises UnsupportedFeature for changes.
    """
    table = batch.table
    if batch.between is not None or batch.diff is not None or batch.then is not None:
        raise UnsupportedFeature("row ids of changes", table=table.name)
    if batch.whole is None:
        return
    check_rows_readable(table, batch.whole)
    rows = _of_groups if has_data_evolution(table) else _of_files
    for found in rows(table, batch.whole):
        kinds = pa.array(np.zeros(found.num_rows, np.int8))
        names = [VALUE_KIND, *found.schema.names]
        yield pa.RecordBatch.from_arrays([kinds, *found.columns], names=names)


def _of_files(table: FileStoreTable, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    vectors = vector_files(table, snapshot)
    for entry in in_plan_order(table, scan_files(table, snapshot)):
        bucket = entry.partition, entry.bucket
        rows = read_tracked_rows(
            table.io,
            table.paths.data_file(entry.partition, entry.bucket, entry.file),
            entry.file,
            file_schema=table.schema_of(entry.file.schema_id),
            read_type=table.schema.row_type,
            batch_rows=BATCH_ROWS,
            partition=entry.partition,
        )
        deleted = bucket_vectors(table, bucket, vectors.get(bucket, ())).get(entry.file.file_name)
        yield from without_deleted(rows, deleted)


def _of_groups(table: FileStoreTable, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    index_files = vector_files(table, snapshot)
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in scan_files(table, snapshot):
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
    for bucket, entries in buckets.items():
        vectors = bucket_vectors(table, bucket, index_files.get(bucket, ()))
        for group in row_groups(entries, table):
            rows = _of_group(table, group)
            yield from without_deleted(rows, deleted_rows(table, group, vectors))


def _of_group(table: FileStoreTable, group: Group) -> Iterator[pa.RecordBatch]:
    """Yield all rows of one group, whose newest file has the sequence number of all of them."""
    at = group[0].file.first_row_id or 0
    for batch in read_group(table, group, table.schema.names, {}):
        ids = np.arange(at, at + batch.num_rows, dtype=np.int64)
        numbers = np.full(batch.num_rows, group[0].file.max_sequence_number, np.int64)
        at += batch.num_rows
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(ids), pa.array(numbers)],
            names=[*batch.schema.names, ROW_ID, SEQUENCE_NUMBER],
        )
