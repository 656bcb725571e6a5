"""Batch reads: splits packed by size, Arrow batches.

Spark does not push filters down to this source.  It keeps what a source planned for the filters of
one query with the DataFrame that was loaded, and takes it for other queries of that DataFrame, also
in joins and unions with itself: they would lack rows, or have too many.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import tzinfo
from itertools import chain

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from paimon_core.errors import InvalidArgument, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.predicate import parse_where
from paimon_core.read.table_read import chosen_rows
from paimon_core.table.source.batch_scan import BatchScan
from paimon_core.table.source.batch_tasks import BatchTask, pack_tasks, plan_batch, read_task
from paimon_core.table.source.nullability import never_null
from paimon_core.table.system.audit_log import (
    AUDIT_LOG,
    audit_log_type,
    binlog_type,
    viewed_type,
)
from paimon_core.table.system.read import VIEWS, read_system_table, read_view, system_scan
from paimon_core.types.data_types import RowType
from paimon_spark.source.options import SourceOptions
from paimon_spark.source.rows import arrow_schema_of, to_spark
from paimon_spark.source.spark_types import spark_schema


@dataclass(frozen=True, slots=True)
class TaskPartition(InputPartition):
    """What one Spark task reads."""

    tasks: tuple[BatchTask, ...]


@dataclass(frozen=True, slots=True)
class SystemPartition(InputPartition):
    """A system table as of the scan's snapshot, read in one Spark task."""

    scan: BatchScan
    name: str


def row_type_of(options: SourceOptions) -> RowType:
    """The columns of a read: those of the option `columns`, else all of the (system) table."""
    scan = _scan_of(options)
    row_type = _system_type(scan, options.system_table, options.zone)
    columns = options.columns
    return row_type if columns is None else _projected(row_type, columns, scan.table.name)


def table_to_follow(options: SourceOptions) -> FileStoreTable:
    """The table of a stream, with the schema that `row_type_of` shows.

    Spark asks for the columns before it says whether a read is a stream, so a stream that starts at
    an old snapshot has the columns of that snapshot, as in Java.
    """
    table, shown = options.open_table(), _scan_of(options).table
    return replace(table, schema=shown.schema) if shown.branch == table.branch else table


def _scan_of(options: SourceOptions) -> BatchScan:
    table = options.open_table()
    try:
        return system_scan(table, options.system_table, zone=options.zone)
    except (InvalidArgument, NotFound):
        # A stream accepts more start options than a batch; the reader of a batch rejects them.
        return BatchScan(table=table)


def _system_type(scan: BatchScan, name: str | None, zone: tzinfo) -> RowType:
    row_type = _as_nullable(scan)
    if name is None:
        return row_type
    if name in VIEWS:
        row_type = viewed_type(scan.table, row_type)
        return audit_log_type(row_type) if name == AUDIT_LOG else binlog_type(row_type)
    return read_system_table(scan.table, name, scan.whole, zone=zone)[0]


def _as_nullable(scan: BatchScan) -> RowType:
    """The columns of the table, NOT NULL where no row of it, nor of its changes, has a null."""
    schema = scan.table.schema
    never = frozenset(schema.primary_keys) or never_null(scan)
    fields = (replace(f, type=f.type.with_nullable(f.name not in never)) for f in schema.fields)
    return RowType(fields=tuple(fields))


def _projected(row_type: RowType, columns: Iterable[str], table: str) -> RowType:
    names = list(columns)
    unknown = [c for c in names if row_type.get(c) is None]
    if unknown:
        raise InvalidArgument(
            f"{table} has no column {', '.join(unknown)}; it has {', '.join(row_type.names)}",
            table=table,
        )
    return row_type.project(names)


def checked_columns(schema: StructType, row_type: RowType, table: str) -> tuple[str, ...]:
    """The columns that Spark asks for; InvalidArgument if their types differ from the table's."""
    wanted = _projected(row_type, schema.fieldNames(), table)
    for field, own in zip(schema.fields, spark_schema(wanted).fields, strict=True):
        if field.dataType != own.dataType:
            raise InvalidArgument(
                f"column {field.name} of {table} is {own.dataType.simpleString()}, the schema given "
                f"says {field.dataType.simpleString()}",
                table=table,
                next_step="read without .schema(...), and cast afterwards",
            )
    return wanted.names


class PaimonBatchReader(DataSourceReader):
    """Reads what the options say as of the moment when Spark plans the query."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._zone = options.zone
        self._system = options.system_table
        self._scan = system_scan(options.open_table(), self._system, zone=self._zone)
        self._row_type = _system_type(self._scan, self._system, self._zone)
        self._columns = checked_columns(schema, self._row_type, self._scan.table.name)
        self._arrow_schema = arrow_schema_of(schema)
        where = options.where
        self._predicate = None if where is None else parse_where(where, self._row_type)

    def partitions(self) -> list[InputPartition]:
        """One partition for each pack of splits; for a system table, one."""
        if self._system is not None:
            return [SystemPartition(self._scan, self._system)]
        tasks = plan_batch(self._scan, predicate=self._predicate, zone=self._zone)
        packs = pack_tasks(tasks, parallelism=os.cpu_count() or 1)
        # Without partitions, Spark would pass an invented one to read().
        return [TaskPartition(p) for p in packs] or [TaskPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the partition."""
        return to_spark(self._rows(partition), self._arrow_schema)

    def _rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, SystemPartition):
            return chosen_rows(self._system_rows(partition), self._columns, self._predicate)
        assert isinstance(partition, TaskPartition)
        return chain.from_iterable(
            read_task(task, columns=self._columns, predicate=self._predicate, zone=self._zone)
            for task in partition.tasks
        )

    def _system_rows(self, partition: SystemPartition) -> Iterator[pa.RecordBatch]:
        scan, name = partition.scan, partition.name
        if name in VIEWS:
            return read_view(scan, name, zone=self._zone)[1]
        return read_system_table(scan.table, name, scan.whole, zone=self._zone)[1]
