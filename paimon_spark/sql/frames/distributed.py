"""Large reads and writes: executors do them through the DataFrame source.

The driver reads small tables itself: it needs no Python worker for that, and is done in
milliseconds.  Both ways give the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import BucketMode
from paimon_core.predicate import Predicate, to_sql
from paimon_core.table.batch_scan import BatchScan
from paimon_core.table.nullability import never_null
from paimon_core.types.data_types import DataField, RowType
from paimon_spark.sql.frames.characters import stored_text, with_metadata
from paimon_spark.sql.session import OVERWRITE_MODE, ZONE_KEY, SqlSession, TableName
from paimon_spark.sql.text.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.source.reading import ScanPlan

LARGE_READ: Final = 8 * 1024**2
"""Bytes of data files, compressed, some of which have to be merged."""
PARQUET_READ: Final = 1024**2
"""Bytes of data files that Spark reads itself."""
LARGE_WRITE: Final = 64 * 1024**2
"""Bytes of rows, as Spark estimates them."""
_WIDE: Final = 200
"""Columns, all of which are planned for queries of some."""
_STORE: Final = ("s3.", "s3a.", "fs.", "fsspec.")
_QUOTES: Final = "'\""


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
    if not isinstance(session.catalog_for(name), FileSystemCatalog) or scan.whole is None:
        return None
    frame = _read(session, name, scan, columns, predicate)
    if frame is None:
        return None
    return with_metadata(session, frame, scan.table.schema.row_type.project(columns).fields)


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


# --- writes -------------------------------------------------------------------------------------


def writes_distributed(session: SqlSession, name: TableName, frame: DataFrame) -> bool:
    """Whether the executors should write the rows of a query."""
    postponed = session.open(name, to_write=True).bucket_mode is BucketMode.POSTPONE
    if postponed or not isinstance(session.catalog_for(name), FileSystemCatalog):
        return False
    if not hasattr(frame, "_jdf"):
        return False  # Spark Connect reports no size
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - PySpark has no other way
    return int(str(plan.stats().sizeInBytes())) > LARGE_WRITE


def write_distributed(
    session: SqlSession,
    name: TableName,
    frame: DataFrame,
    fields: Sequence[DataField],
    static: Mapping[str, str],
    *,
    overwrite: bool,
) -> None:
    """Write the query's columns, by position, to the fields; one commit.

    `static` holds the SQL of the values of partition columns that the statement gives.
    """
    from paimon_spark.source.distribution import write  # noqa: PLC0415 - imports PySpark

    _register(session)
    plain = frame.toDF(*(f"c{i}" for i in range(len(fields))))
    columns = [f"{stored_text(f'c{i}', f)} AS {quoted(f.name)}" for i, f in enumerate(fields)]
    table = session.open(name, to_write=True)
    types = {f.name.lower(): f for f in table.schema.partition_type.fields}
    given = []
    for column, text in static.items():
        field = types[column.lower()]
        columns.append(f"{stored_text(text, field)} AS {quoted(field.name)}")
        given.append(f"{field.name}={text.strip().strip(_QUOTES)}")
    options = {
        **_options(session, name),
        **{k: v for k, v in table.dynamic_options.items() if v is not None},
    }
    if overwrite:
        dynamic = session.conf.get(OVERWRITE_MODE, "static").lower() == "dynamic"
        options["partitionOverwriteMode"] = "dynamic" if dynamic else "static"
        if given and not dynamic:
            options["overwrite-partition"] = ",".join(given)
    mode = "overwrite" if overwrite else "append"
    write(plain.selectExpr(*columns), mode=mode, **options)
