"""The table's rows in other forms: only those of the top level, or with their row ids.

Java: `table/system/ReadOptimizedTable`, `RowTrackingTable`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from typing import Final

import pyarrow as pa

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.features import check_rows_readable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.tree.universal_compaction import number_of_levels
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.options import ROW_TRACKING_ENABLED
from paimon_core.read.data_evolution import has_data_evolution
from paimon_core.read.table_read import read_table
from paimon_core.schema.tracked import tracked_schema
from paimon_core.table.source.batch_scan import BatchScan, read_batch
from paimon_core.table.source.batch_tasks import BatchTask, plan_batch, plan_snapshot
from paimon_core.table.source.placed_rows import (
    FileUnit,
    GroupUnit,
    file_units,
    group_units,
    tracked_batches,
)
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
    units: Sequence[FileUnit | GroupUnit]
    if has_data_evolution(table):
        units = group_units(table, batch.whole)
    else:
        units = file_units(table, batch.whole)
    for unit in units:
        yield from tracked_batches(table, unit, table.schema.names)
