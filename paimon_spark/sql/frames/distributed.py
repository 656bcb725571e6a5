"""Large reads: executors do them, as in the DataFrame source.

The driver reads small tables itself: it needs no Python worker for that, and is done in
milliseconds.  Both ways give the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.errors import UnsupportedFeature
from paimon_core.predicate import Predicate, to_sql
from paimon_core.table.batch_scan import BatchScan
from paimon_core.table.nullability import never_null
from paimon_core.types.data_types import RowType
from paimon_spark.sql.frames.characters import with_metadata
from paimon_spark.sql.session import ZONE_KEY, SqlSession, TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.source.reading import ScanPlan

LARGE_READ: Final = 8 * 1024**2
"""Bytes of data files, compressed, some of which have to be merged."""
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

    None if the driver should read them: few rows can match, or the read is not a whole snapshot.
    """
    if scan.whole is None or not _reaches(session, name):
        return None
    frame = _read(session, name, scan, columns, predicate)
    if frame is None:
        return None
    return with_metadata(session, frame, scan.table.schema.row_type.project(columns).fields)


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
    from paimon_spark.source.reading import plan_dataframe  # noqa: PLC0415 - imports PySpark

    plan = _plan(session, scan, columns, predicate)
    if plan.size <= (LARGE_READ if plan.rest or plan.merged else PARQUET_READ):
        return None
    if hasattr(session.spark, "_jsparkSession"):
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

    Spark decodes those that a query needs; Python tasks decode all columns of their plan.
    """
    from paimon_spark.source.reading import plan_scan  # noqa: PLC0415 - imports PySpark

    everything = scan.table.schema.names
    if len(columns) < len(everything) <= _WIDE and _are_spark_s(scan.table.schema.row_type):
        plan = plan_scan(scan, columns=everything, predicate=predicate, zone=session.zone)
        if not plan.rest:
            return plan
    return plan_scan(scan, columns=columns, predicate=predicate, zone=session.zone)


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
