"""Batch reads as DataFrames that Spark's own Parquet reader feeds where it can.

A source of Spark's Python API returns rows that Python has read, reports no size and never learns
which columns are wanted.  Here Spark reads all files that it can itself (`parquet_files`): in its
JVM, the columns and row groups that it needs, and with a size that it can plan joins by.  Of files
that merge with others, or have deleted rows, it skips the rows that the table does not show
(`skipped_rows`).  Python tasks read the rest, merged, and both are one DataFrame.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from paimon_core.errors import InvalidArgument
from paimon_core.options import parse_memory_size
from paimon_core.predicate import Predicate, parse_where
from paimon_core.table.source.batch_scan import BatchScan, batch_scan_of
from paimon_core.table.source.batch_tasks import (
    BatchTask,
    ScanTask,
    pack_tasks,
    plan_batch,
    read_task,
)
from paimon_core.table.system.audit_log import viewed_type
from paimon_core.table.system.read import system_row_type, view_of_kinds
from paimon_core.types.data_types import RowType
from paimon_spark.source.options import SourceOptions
from paimon_spark.source.reads.parquet_files import Columns, MergedFiles, ParquetFile, readers_of
from paimon_spark.source.reads.postponed_reads import is_spread, spread
from paimon_spark.source.reads.skipped_rows import (
    SkippedRows,
    hidden_key,
    hidden_rows_of,
    without_hidden,
)
from paimon_spark.source.rows import arrow_schema_of, to_spark
from paimon_spark.source.spark_types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_AS_WRITTEN: Final = {
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}
"""Options of Spark's reader: each file named is read, every value as it stands."""
_BROADCAST: Final = "spark.sql.autoBroadcastJoinThreshold"


def read(
    spark: SparkSession,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    **options: str,
) -> DataFrame:
    """The rows that `format("paimon")` reads with these options, much faster.

    `columns` are all that merged reads decode (default: all).  Files without rows that meet `where`
    are left out; other rows that do not match may remain, so filter as well.  The snapshot is that
    of this call.  All columns are nullable.  System tables and Spark Connect read as
    `format("paimon")` does.
    """
    given = SourceOptions.of(options)
    names = list(columns) if columns is not None else given.columns
    if given.system_table is not None or not hasattr(spark, "_jsparkSession"):
        frame = spark.read.format("paimon").options(**options)
        if where is not None:
            frame = frame.option("where", where)
        return (frame if names is None else frame.option("columns", ",".join(names))).load()
    scan = batch_scan_of(given.open_table(), zone=given.zone)
    row_type = scan.table.schema.row_type
    unknown = [n for n in names or () if row_type.get(n) is None]
    if unknown:
        raise InvalidArgument(
            f"{scan.table.name} has no column {', '.join(unknown)}; "
            f"it has {', '.join(row_type.names)}",
            table=scan.table.name,
        )
    predicate = None if where is None else parse_where(where, row_type)
    plan = plan_scan(scan, columns=names or row_type.names, predicate=predicate, zone=given.zone)
    return plan_dataframe(spark, plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """What a batch reads: `plain` and `merged` by Spark, `rest` by Python tasks.

    `size` is the bytes of all files, `rest_size` of those in `rest`.
    """

    scan: BatchScan
    columns: tuple[str, ...]
    predicate: Predicate | None
    zone: tzinfo
    plain: tuple[ParquetFile, ...]
    merged: tuple[MergedFiles, ...]
    rest: tuple[BatchTask, ...]

    @property
    def identity(self) -> Hashable:
        """Equal for plans without `rest` whose DataFrames have the same rows and columns."""
        merged = tuple((hidden_key(m.task), m.files) for m in self.merged)
        table = self.scan.table
        return table.root, table.schema.id, self.columns, self.plain, merged

    @property
    def rest_size(self) -> int:
        """Bytes of the files that Python reads; the size of a split for changes, whose size is
        unknown.
        """
        return sum(_bytes(t) for t in self.rest)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        by_spark = [*self.plain, *(f for m in self.merged for f in m.files)]
        return self.rest_size + sum(f.size for f in by_spark)


def plan_scan(
    scan: BatchScan,
    *,
    columns: Sequence[str],
    predicate: Predicate | None,
    zone: tzinfo,
    tasks: Sequence[BatchTask] | None = None,
) -> ScanPlan:
    """Which files Spark and Python read for these columns, without files that the predicate
    excludes; of the `tasks` alone, if they are given.
    """
    if tasks is None:
        tasks = plan_batch(scan, predicate=predicate, zone=zone, columns=columns)
    readers = readers_of(tasks, columns, predicate)
    return ScanPlan(
        scan=scan,
        columns=tuple(columns),
        predicate=predicate,
        zone=zone,
        plain=tuple(readers.plain),
        merged=tuple(readers.merged),
        rest=tuple(readers.rest),
    )


def plan_dataframe(
    spark: SparkSession, plan: ScanPlan, *, never_null: Collection[str] = ()
) -> DataFrame:
    """The rows of the plan, possibly with some that do not match its predicate.

    All columns are nullable but those of `never_null`, which have no nulls in any file.  For
    classic Spark, whose driver is this process.
    """
    row_type = plan.scan.table.schema.row_type
    wanted = row_type.project(plan.columns)
    schema = spark_schema(wanted)
    for field in schema.fields:
        field.nullable = field.name not in never_null
    frames = _by_spark(spark, plan, schema)
    large = [t for t in plan.rest if is_spread(t)]
    if large:
        frames.append(spread(spark, large, plan.columns, plan.predicate, schema))
    rest = [t for t in plan.rest if not is_spread(t)]
    if rest or not frames:
        reader = _Reader(plan.columns, plan.predicate, plan.zone, arrow_schema_of(schema))
        frames.append(_by_python(spark, reader, rest, schema))
    frame: DataFrame = reduce(lambda a, b: a.unionAll(b), frames)
    size = plan.size * _row_size(wanted) // _row_size(row_type)
    if plan.rest and size <= _broadcast_limit(spark):
        # Spark does not know the size of rows that Python reads, and would shuffle the other side
        # of a join.
        return frame.hint("broadcast")
    return frame


def _nullable(schema: StructType) -> StructType:
    for field in schema.fields:
        field.nullable = True
    return schema


# --- read by Spark ------------------------------------------------------------------------------


def _by_spark(spark: SparkSession, plan: ScanPlan, schema: StructType) -> list[DataFrame]:
    """The rows of the files that Spark reads: a DataFrame for those with the same columns."""
    groups: dict[Columns, list[ParquetFile]] = defaultdict(list)
    for file in plan.plain:
        groups[file.columns].append(file)
    frames = []
    if plan.merged:
        hidden = hidden_rows_of(spark, plan.merged)
        merged: dict[Columns, list[SkippedRows]] = defaultdict(list)
        for part in plan.merged:
            for entry, file in zip(part.task.entries, part.files, strict=True):
                skipped = SkippedRows(file, entry.file, hidden[entry.file.file_name])
                if skipped.hidden.count < entry.file.row_count:
                    merged[file.columns].append(skipped)
        for columns, files in merged.items():
            partly = [f for f in files if f.hidden.count]
            whole = [f.file for f in files if not f.hidden.count]
            if sum(f.size for f in whole) > sum(f.file.size for f in partly):
                groups[columns] += whole
            else:
                partly = files  # one scan costs less than to look up rows of some files in vain
            if not partly:
                continue
            scan = _parquet(spark, columns, [f.file for f in partly], schema)
            frames.append(_shown(without_hidden(spark, scan, partly), columns, schema))
    for columns, plain in groups.items():
        frames.append(_shown(_parquet(spark, columns, plain, schema), columns, schema))
    return frames


def _parquet(
    spark: SparkSession, columns: Columns, files: Sequence[ParquetFile], schema: StructType
) -> DataFrame:
    from pyspark.sql.types import StructType as Struct  # noqa: PLC0415 - only with a session

    stored = spark_schema(RowType(fields=tuple(f for f in columns if f is not None)))
    reader = spark.read.schema(_nullable(Struct(list(stored.fields)))).options(**_AS_WRITTEN)
    pairs = zip(columns, schema.fields, strict=True)
    names = {f.name for f, own in pairs if f is not None and not own.nullable}
    return _without_nulls(reader.parquet(*(f"file:{f.path}" for f in files)), names)


def _without_nulls(frame: DataFrame, names: Collection[str]) -> DataFrame:
    """The rows of files with these columns NOT NULL, which Spark's readers of files never say."""
    if not names:
        return frame
    spark: Any = frame.sparkSession
    jvm = spark._jvm  # noqa: SLF001 - PySpark has no other way
    files = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - same
    found, output = files.output(), jvm.java.util.ArrayList()
    for i in range(found.size()):
        column = found.apply(i)
        output.add(column.withNullability(False) if column.name() in names else column)
    relation = jvm.org.apache.spark.sql.execution.datasources.LogicalRelation(
        files.relation(),
        jvm.org.apache.spark.api.python.PythonUtils.toSeq(output),
        files.catalogTable(),
        files.isStreaming(),
        files.stream(),
    )
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(frame._jdf.sparkSession(), relation)  # noqa: SLF001
    made: DataFrame = type(frame)(rows, spark)
    return made


def _shown(frame: DataFrame, columns: Columns, schema: StructType) -> DataFrame:
    """The columns of the table from those of its files."""
    from pyspark.sql.functions import lit  # noqa: PLC0415 - only with a session

    stored = [None if f is None else f.name for f in columns]
    if frame.columns == stored == schema.names and not any(f.metadata for f in schema.fields):
        return frame
    shown: list[Column] = []
    for field, own in zip(columns, schema.fields, strict=True):
        found = lit(None).cast(own.dataType) if field is None else frame[_quoted(field.name)]
        shown.append(found.alias(own.name, metadata=own.metadata))
    return frame.select(*shown)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# --- read by Python -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the splits of a Spark task; sent to the executor."""

    columns: tuple[str, ...]
    predicate: Predicate | None
    zone: tzinfo
    schema: pa.Schema
    view: tuple[str, BatchScan] | None = None
    """The system table that shows the rows, and its scan."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle  # noqa: PLC0415 - on the worker

        for batch in batches:
            for packed in batch.column(0).to_pylist():
                tasks: tuple[BatchTask, ...] = pickle.loads(packed)  # noqa: S301 - the driver's own
                yield from to_spark(self._rows(tasks), self.schema)

    def _rows(self, tasks: Iterable[BatchTask]) -> Iterator[pa.RecordBatch]:
        return chain.from_iterable(self._of_task(task) for task in tasks)

    def _of_task(self, task: BatchTask) -> Iterator[pa.RecordBatch]:
        view = self.view
        rows = read_task(
            task,
            columns=self.columns,
            predicate=self.predicate,
            keep_deletes=view is not None,
            zone=self.zone,
        )
        return rows if view is None else view_of_kinds(view[0], view[1], rows)


def view_dataframe(spark: SparkSession, scan: BatchScan, view: str, zone: tzinfo) -> DataFrame:
    """The rows of a scan as the audit log or the binlog, all of them from Python tasks.

    For classic Spark, whose driver is this process.
    """
    row_type = system_row_type(scan.table, view, scan.whole)
    schema = _nullable(spark_schema(row_type))
    names = viewed_type(scan.table, scan.table.schema.row_type).names
    reader = _Reader(names, None, zone, arrow_schema_of(schema), (view, scan))
    return _by_python(spark, reader, plan_batch(scan, zone=zone), schema)


def _by_python(
    spark: SparkSession, reader: _Reader, tasks: Sequence[BatchTask], schema: StructType
) -> DataFrame:
    import pickle  # noqa: PLC0415 - one use

    context = spark.sparkContext
    packs = pack_tasks(tasks, parallelism=context.defaultParallelism)
    rows: Any = [(bytearray(pickle.dumps(pack)),) for pack in packs]
    # An RDD, because Spark would take the size of a list of tasks for the size of their rows.
    frame = spark.createDataFrame(
        context.parallelize(rows, max(1, len(rows))), "tasks BINARY", verifySchema=False
    )
    return frame.mapInArrow(reader, schema)


def _bytes(task: BatchTask) -> int:
    return task.size if isinstance(task, ScanTask) else sum(e.file.file_size for e in task.entries)


def _row_size(row_type: RowType) -> int:
    """Java: `catalyst/plans/logical/statsEstimation/EstimationUtils.getSizePerRow`."""
    return 8 + sum(_DEFAULT_SIZES.get(f.type.root.name, 20) for f in row_type.fields)


_DEFAULT_SIZES: Final = {
    "BOOLEAN": 1,
    "TINYINT": 1,
    "SMALLINT": 2,
    "INT": 4,
    "DATE": 4,
    "TIME": 4,
    "FLOAT": 4,
    "BIGINT": 8,
    "DOUBLE": 8,
    "DECIMAL": 8,
    "TIMESTAMP": 8,
    "TIMESTAMP_LTZ": 8,
}


def _broadcast_limit(spark: SparkSession) -> int:
    text = str(spark.conf.get(_BROADCAST, "10MB")).strip()
    return -1 if text.startswith("-") else parse_memory_size(text)
