"""Large reads: executors do them, as in the DataFrame source.

The driver reads small tables itself: it needs no Python worker for that, and is done in
milliseconds.  Both ways give the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.errors import NotFound, UnsupportedFeature
from paimon_core.predicate import Predicate, to_sql
from paimon_core.scan.scan import scan_files
from paimon_core.schema.table_schema import SEQUENCE_NUMBER
from paimon_core.schema.tracked import ROW_ID
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.table.source.batch_scan import BatchScan, tag_for_read
from paimon_core.table.source.batch_tasks import BatchTask, tasks_of
from paimon_core.table.source.nullability import never_null
from paimon_core.table.source.placed_rows import scan_units
from paimon_core.table.source.postponed_rows import merges_postponed
from paimon_core.table.system.read import VIEWS_OF_KINDS
from paimon_core.table.system.row_views import READ_OPTIMIZED, optimized_tasks, row_tracking_type
from paimon_core.types.data_types import RowType
from paimon_spark.sql.frames.characters import with_metadata
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.spark_settings import ZONE_KEY
from paimon_spark.sql.table_name import TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.source.reads.frames import ScanPlan

LARGE_READ: Final = 8 * 1024**2
"""Bytes of data files, compressed, some of which have to be merged."""
LARGE_CHANGES: Final = 500_000
"""Rows of changes, whose bytes are not known before they are read."""
PARQUET_READ: Final = 1024**2
"""Bytes of data files that Spark reads itself."""
_WIDE: Final = 200
"""Columns, all of which are planned for queries of some."""
_STORE: Final = ("s3.", "s3a.", "fs.", "fsspec.")


def distributed_dataframe(
    session: SqlSession,
    name: TableName,
    scan: BatchScan,
    columns: Sequence[str],
    predicate: Predicate | None,
) -> DataFrame | None:
    """These columns of the table, possibly with others, from the executors, as `arrow_dataframe`
    gives them.

    None if the driver should read them: few rows can match.
    """
    if not _reaches(session, name):
        return None
    if scan.whole is None and not changes_are_large(session, scan):
        return None
    frame = _read(session, name, scan, columns, predicate)
    if frame is None:
        return None
    return with_metadata(session, frame, scan.table.schema.row_type.project(columns).fields)


def distributed_view(session: SqlSession, scan: BatchScan, view: str) -> DataFrame | None:
    """One of the `VIEWS` from the executors; None if the driver should read it."""
    table = scan.table
    if not hasattr(session.spark, "_jsparkSession") or merges_postponed(table):
        return None
    large = changes_are_large(session, scan)
    if scan.whole is not None:
        large = sum(e.file.file_size for e in scan_files(table, scan.whole)) > LARGE_READ
    if not large:
        return None
    from paimon_spark.source.changes.placed_frames import placed_dataframe  # noqa: PLC0415 - imports PySpark
    from paimon_spark.source.reads.frames import plan_dataframe, plan_scan, view_dataframe  # noqa: PLC0415 - same

    spark, zone, names = session.spark, session.zone, table.schema.names
    if view in VIEWS_OF_KINDS:
        return view_dataframe(spark, scan, view, zone)
    if view == READ_OPTIMIZED:
        tasks = optimized_tasks(scan, zone=zone)
        plan = plan_scan(scan, columns=names, predicate=None, zone=zone, tasks=tasks)
        frame = plan_dataframe(spark, plan, never_null=never_null(scan))
        return with_metadata(session, frame, table.schema.fields)
    hidden = (ROW_ID, SEQUENCE_NUMBER)
    row_tracking_type(table)  # it refuses tables without row ids
    units = scan_units(scan, needs_files=False)
    return with_metadata(
        session, placed_dataframe(spark, table, units, names, hidden), table.schema.fields
    )


def changes_are_large(session: SqlSession, scan: BatchScan) -> bool:
    """Whether executors should read the changes of a scan, as far as snapshots tell their number.

    Through Spark Connect, and for chains, the driver reads them.
    """
    if not hasattr(session.spark, "_jsparkSession"):
        return False
    if scan.diff is not None:
        return sum(s.total_record_count or 0 for s in scan.diff) > LARGE_CHANGES
    if scan.between is None:
        return False
    start, end = scan.between
    rows = 0
    with suppress(NotFound):  # the read itself says so
        for snapshot_id in range(start + 1, end + 1):
            snapshot = scan.table.snapshots.get(snapshot_id)
            if snapshot.commit_kind is not CommitKind.OVERWRITE:
                rows += (snapshot.delta_record_count or 0) + (snapshot.changelog_record_count or 0)
            if rows > LARGE_CHANGES:
                return True
    return False


def _reaches(session: SqlSession, name: TableName) -> bool:
    """Whether executors can open the table: through Spark Connect, they need its folder."""
    classic = hasattr(session.spark, "_jsparkSession")
    return classic or isinstance(session.catalog_for(name), FileSystemCatalog)


def _read(
    session: SqlSession,
    name: TableName,
    scan: BatchScan,
    columns: Sequence[str],
    predicate: Predicate | None,
) -> DataFrame | None:
    from paimon_spark.source.reads.frames import plan_dataframe  # noqa: PLC0415 - imports PySpark

    plan = _plan(session, scan, columns, predicate)
    if plan.size <= (LARGE_READ if plan.rest or plan.merged else PARQUET_READ):
        return None
    if hasattr(session.spark, "_jsparkSession"):
        tag_for_read(scan)  # others tag what they read themselves
        never = never_null(scan)
        if plan.rest:
            return plan_dataframe(session.spark, plan, never_null=never)
        bits = sum(e.file.row_count for m in plan.merged for e in m.task.entries) // 8
        key = (plan.identity, tuple(sorted(session.conf.items())))
        return session.frames.frame(
            key, lambda: (plan_dataframe(session.spark, plan, never_null=never), bits)
        )
    dynamic = {k: v for k, v in scan.table.dynamic_options.items() if v is not None}
    options = {**_options(session, name), **dynamic, "columns": ",".join(columns)}
    if predicate is not None:
        options["where"] = to_sql(predicate, scan.table.schema.row_type)
    _register(session)
    return session.spark.read.format("paimon").options(**options).load()


def _plan(
    session: SqlSession,
    scan: BatchScan,
    columns: Sequence[str],
    predicate: Predicate | None,
) -> ScanPlan:
    """The plan for all columns if Spark itself reads them, so that other queries have the same.

    Spark decodes those that a query needs; Python tasks decode all columns of their plan.  The
    tasks are the same for all columns and for some.
    """
    from paimon_spark.source.reads.frames import plan_scan  # noqa: PLC0415 - imports PySpark

    zone = session.zone
    tasks: Sequence[BatchTask] | None = None
    everything = scan.table.schema.names
    if len(columns) < len(everything) <= _WIDE and _are_spark_s(scan.table.schema.row_type):
        with suppress(UnsupportedFeature):  # that of a column which the query does not need
            tasks = tasks_of(scan, predicate, zone, everything)
            plan = plan_scan(scan, columns=everything, predicate=predicate, zone=zone, tasks=tasks)
            if not plan.rest:
                return plan
    if tasks is None:
        tasks = tasks_of(scan, predicate, zone, columns)
    return plan_scan(scan, columns=columns, predicate=predicate, zone=zone, tasks=tasks)


def _are_spark_s(row_type: RowType) -> bool:
    """Whether Spark has the types of all columns."""
    from paimon_spark.source.spark_types import spark_schema  # noqa: PLC0415 - imports PySpark

    try:
        spark_schema(row_type)
    except UnsupportedFeature:
        return False
    return True


def _register(session: SqlSession) -> None:
    """Register the source with Spark, once."""
    if not session.has_source:
        from paimon_spark import register  # noqa: PLC0415 - imports PySpark

        register(session.spark)
        session.has_source = True


def _options(session: SqlSession, name: TableName) -> dict[str, str]:
    """The options that name a table of a filesystem catalog to the source."""
    catalog = session.catalog_for(name)
    assert isinstance(catalog, FileSystemCatalog)
    store = {k: v for k, v in catalog.options.items() if k.startswith(_STORE)}
    options = {**store, "warehouse": catalog.warehouse, "table": name.identifier}
    if name.branch is not None:
        options["branch"] = name.branch
    zone = session.conf.get(ZONE_KEY) or session.spark.conf.get(ZONE_KEY)
    return options if zone is None else {**options, "timezone": zone}
