"""Reads system tables by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, tzinfo
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.errors import InvalidArgument, NotFound
from paimon_core.features import check_shown
from paimon_core.file_store_table import FileStoreTable
from paimon_core.schema.table_schema import VALUE_KIND
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.source.batch_scan import BatchScan, batch_scan_of, read_batch
from paimon_core.table.system.audit_log import (
    AUDIT_LOG,
    BINLOG,
    audit_log,
    audit_log_type,
    binlog,
    binlog_type,
    viewed_type,
)
from paimon_core.table.system.content import (
    BUCKETS,
    FILE_KEY_RANGES,
    FILES,
    MANIFESTS,
    PARTITIONS,
    TABLE_INDEXES,
)
from paimon_core.table.system.definition import Row, SystemRead, SystemTable
from paimon_core.table.system.metadata_tables import (
    AGGREGATION_FIELDS,
    BRANCHES,
    CONSUMERS,
    OPTIONS,
    SCHEMAS,
    SNAPSHOTS,
    STATISTICS,
    TAGS,
)
from paimon_core.table.system.row_views import (
    READ_OPTIMIZED,
    ROW_TRACKING,
    read_optimized,
    row_tracking_type,
    tracked_rows,
)
from paimon_core.types.arrow import arrow_schema, column_from_internal
from paimon_core.types.buffers import int8_array
from paimon_core.types.data_types import RowType

SEPARATOR: Final = "$"
_BRANCH: Final = "branch_"
_ROWS_AT_ONCE: Final = 4096

SYSTEM_TABLES: Final[Mapping[str, SystemTable]] = {
    "snapshots": SNAPSHOTS,
    "schemas": SCHEMAS,
    "options": OPTIONS,
    "tags": TAGS,
    "branches": BRANCHES,
    "consumers": CONSUMERS,
    "statistics": STATISTICS,
    "aggregation_fields": AGGREGATION_FIELDS,
    "files": FILES,
    "manifests": MANIFESTS,
    "partitions": PARTITIONS,
    "buckets": BUCKETS,
    "file_key_ranges": FILE_KEY_RANGES,
    "table_indexes": TABLE_INDEXES,
}
VIEWS: Final = (AUDIT_LOG, BINLOG, READ_OPTIMIZED, ROW_TRACKING)
"""The rows of the table in another form."""
VIEWS_OF_KINDS: Final = (AUDIT_LOG, BINLOG)
"""Those with the kind of each row."""

_OF_NO_SNAPSHOT: Final = frozenset(
    {
        *("snapshots", "schemas", "options", "tags", "branches", "consumers"),
        *("aggregation_fields", "buckets"),
    }
)
"""Those that list the same, whatever snapshot the options choose."""


def split_system_name(identifier: str) -> tuple[str, str | None, str | None]:
    """Return table, branch and system table of "db.t$branch_b$snapshots".

    Raises InvalidArgument for other names.
    """
    table, *parts = identifier.split(SEPARATOR)
    branch = None
    if parts and parts[0].startswith(_BRANCH):
        branch = parts.pop(0).removeprefix(_BRANCH)
    if len(parts) > 1 or not all([table, *parts]) or branch == "":
        raise InvalidArgument(
            f"not a table name: {identifier!r} "
            "(expected DATABASE.TABLE, optionally with $branch_NAME and $SYSTEM_TABLE)"
        )
    return table, branch, parts[0].lower() if parts else None


def system_scan(table: FileStoreTable, name: str | None, *, zone: tzinfo = UTC) -> BatchScan:
    """Return the scan for a system table, None for the table itself; errors as `batch_scan_of`."""
    if name in _OF_NO_SNAPSHOT:
        return BatchScan(table=table, whole=table.snapshots.latest())
    return batch_scan_of(table, zone=zone)


def read_system_table(
    table: FileStoreTable,
    name: str,
    snapshot: Snapshot | None,
    *,
    zone: tzinfo = UTC,
    like_2_0: bool = False,
) -> tuple[RowType, Iterator[pa.RecordBatch]]:
    """Return columns and rows of `table$name` as of a snapshot (None: the table has none).

    Batches hold `_VALUE_KIND` and all columns, as in `read_table`.  `zone` is the time zone of wall
    clock times.  The columns that Java 2.0 added are there if it writes the table, or `like_2_0`.
    Raises NotFound if the system table does not exist; UnsupportedFeature as `read_table`.
    """
    if name in VIEWS:
        return read_view(BatchScan(table=table, whole=snapshot), name, zone=zone)
    system = _system_table(table, name)
    if system.shows_values:
        check_shown(table)
    read = SystemRead(table=table, snapshot=snapshot, zone=zone, like_2_0=like_2_0)
    row_type = system.row_type(with_2_0=read.with_2_0)
    return row_type, _batches(system.rows(read), row_type)


def _system_table(table: FileStoreTable, name: str) -> SystemTable:
    system = SYSTEM_TABLES.get(name)
    if system is None:
        raise NotFound(
            f"there is no system table {name!r}; "
            f"the system tables are {', '.join(sorted([*SYSTEM_TABLES, *VIEWS]))}",
            table=table.name,
        )
    return system


def system_row_type(
    table: FileStoreTable, name: str, snapshot: Snapshot | None, *, like_2_0: bool = False
) -> RowType:
    """Return the columns of `table$name` without reading it; errors as `read_system_table`."""
    if name == READ_OPTIMIZED:
        return table.schema.row_type
    if name == ROW_TRACKING:
        return row_tracking_type(table)
    if name in VIEWS:
        of_rows = audit_log_type if name == AUDIT_LOG else binlog_type
        return of_rows(viewed_type(table, table.schema.row_type))
    read = SystemRead(table=table, snapshot=snapshot, like_2_0=like_2_0)
    return _system_table(table, name).row_type(with_2_0=read.with_2_0)


def read_view(
    batch: BatchScan, name: str, *, zone: tzinfo = UTC
) -> tuple[RowType, Iterator[pa.RecordBatch]]:
    """Return columns and rows of one of the `VIEWS` for a batch read."""
    shown = system_row_type(batch.table, name, batch.whole)
    if name == READ_OPTIMIZED:
        return shown, read_optimized(batch, zone=zone)
    if name == ROW_TRACKING:
        return shown, tracked_rows(batch)
    viewed = viewed_type(batch.table, batch.table.schema.row_type)
    rows = read_batch(batch, columns=viewed.names, keep_deletes=True, zone=zone)
    return shown, view_of_kinds(name, batch, rows)


def view_of_kinds(
    name: str, batch: BatchScan, rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Return the rows of a batch read, or of one of its tasks, as the audit log or the binlog.

    The rows are of the `viewed_type`, and have their kinds, deletes among them.
    """
    row_type = viewed_type(batch.table, batch.table.schema.row_type)
    if name == AUDIT_LOG:
        return audit_log(rows, row_type)
    return binlog(rows, row_type, packed=batch.between is not None)


def _batches(rows: Iterable[Row], row_type: RowType) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(row_type).insert(0, pa.field(VALUE_KIND, pa.int8()))
    held: list[Row] = []

    def batch() -> pa.RecordBatch:
        columns = [
            column_from_internal([row[i] for row in held], t) for i, t in enumerate(row_type.types)
        ]
        kinds = int8_array(np.zeros(len(held), np.int8))
        return pa.RecordBatch.from_arrays([kinds, *columns], schema=schema)

    for row in rows:
        held.append(row)
        if len(held) == _ROWS_AT_ONCE:
            yield batch()
            held.clear()
    if held:
        yield batch()
