"""Brings the rows of a bucket to one task before they are written.

Java: `spark/commands/PaimonSparkWriter`.

==================  ==============================================================================
buckets             rows are shuffled by
==================  ==============================================================================
fixed               partition and bucket
dynamic             partition: its index of keys has one owner
across partitions   nothing: one task writes all rows
postpone            partition and real bucket, where their numbers are known, else nothing
none                nothing: each task writes its own files; with `clustering.columns`, ranges
==================  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from paimon_core.clustering.on_write import clustering_on_write
from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.options import BUCKET, BUCKET_FUNCTION
from paimon_core.table.sink.real_buckets import RealBuckets
from paimon_core.types.arrow import arrow_type
from paimon_core.types.row_hash import assign_buckets
from paimon_core.write.external_sort import CODE, OrderStrategy
from paimon_spark.source.options import SourceOptions
from paimon_spark.source.own_names import own_name
from paimon_spark.source.rows import converted
from paimon_spark.source.writes.batch_writer import batch_of_options, write_and_commit

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_MODES: Final = ("append", "overwrite")
_BUCKET_COLUMN: Final = "__paimon_bucket"
_ARROW: Final = "spark.sql.execution.arrow."
_BATCHES: Final = {
    f"{_ARROW}maxBytesPerBatch": str(2**31 - 1),
    f"{_ARROW}maxRecordsPerBatch": "4096",
}


def write(df: DataFrame, *, mode: str = "append", **options: str) -> None:
    """Write the rows as `df.write.format("paimon")` does, shuffled first.

    `options` are those of the source; `**{"overwrite-partition": ...}` for names with a dash.
    """
    table = SourceOptions.of(options).open_table()
    rows = clustered_for(shuffled_for(df, table), table)
    given = {**options, "write.shuffled": "true"}
    with counted_batches(df.sparkSession):
        if mode in _MODES and hasattr(df, "_jdf"):
            # Only for tables that need it: to count the partitions, Spark runs all stages but the
            # last one, and they run again for the write.
            postponed = table.bucket_mode is BucketMode.POSTPONE
            batch = batch_of_options(
                SourceOptions.of(given),
                rows.schema,
                overwrite=mode == "overwrite",
                tasks=rows.rdd.getNumPartitions() if postponed else None,
            )
            write_and_commit(rows, batch)
        else:
            rows.write.format("paimon").mode(mode).options(**given).save()


@contextmanager
def counted_batches(spark: SparkSession) -> Iterator[None]:
    """Let Spark bound the batches that it sends to Python by rows, unless the session says how.

    To bound them by bytes, Spark measures the batch before each row, which takes as long as to fill
    it.  Writers put the batches together.
    """
    if any(spark.conf.get(key, None) is not None for key in _BATCHES):
        yield
        return
    try:
        for key, value in _BATCHES.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in _BATCHES:
            spark.conf.unset(key)


def shuffled(df: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """The rows, those of a bucket in one partition; of a batch or a stream.

    `options` say which table, as for the source.  With the option `write.shuffled` the writer
    relies on it.
    """
    return shuffled_for(df, SourceOptions.of(options).open_table())


def shuffled_for(
    df: DataFrame, table: FileStoreTable, buckets: RealBuckets | None = None
) -> DataFrame:
    """The rows for a table, those of a bucket in one partition.

    `buckets` are the real ones of a table that postpones the choice.
    """
    partition_keys = list(table.schema.partition_keys)
    match table.bucket_mode:
        case BucketMode.POSTPONE if buckets is not None:
            bucketed = df.withColumn(_BUCKET_COLUMN, _real_bucket(df, table, buckets))
            keys = [bucketed[f"`{k}`"] for k in partition_keys]
            return bucketed.repartition(*keys, bucketed[_BUCKET_COLUMN]).drop(_BUCKET_COLUMN)
        case BucketMode.FIXED:
            bucketed = df.withColumn(_BUCKET_COLUMN, _bucket(df, table))
            keys = [bucketed[f"`{k}`"] for k in partition_keys]
            return bucketed.repartition(*keys, bucketed[_BUCKET_COLUMN]).drop(_BUCKET_COLUMN)
        case BucketMode.DYNAMIC if partition_keys:
            return df.repartition(*[df[f"`{k}`"] for k in partition_keys])
        case BucketMode.DYNAMIC | BucketMode.CROSS_PARTITION:
            return df.repartition(1)
    return df


def clustered_for(df: DataFrame, table: FileStoreTable) -> DataFrame:
    """The rows in ranges of the table's clustering, sorted within each (Java: `TableSorter`)."""
    from pyspark.sql.pandas.functions import arrow_udf  # noqa: PLC0415 - only with a session

    clustering = clustering_on_write(table)
    known = {own_name(table.schema.names, c): c for c in df.columns}
    if clustering is None or not set(clustering.columns) <= known.keys():
        return df
    columns = [df[f"`{known[c]}`"] for c in clustering.columns]
    if clustering.strategy is OrderStrategy.ORDER:
        return df.repartitionByRange(*columns).sortWithinPartitions(*columns)
    row_type = table.schema.row_type.project(clustering.columns)
    targets = [arrow_type(t) for t in row_type.types]

    def codes(*arrays: pa.Array) -> pa.Array:
        values = [converted(a, t) for a, t in zip(arrays, targets, strict=True)]
        batch = pa.RecordBatch.from_arrays(values, names=list(row_type.names))
        return clustering.with_codes(batch, row_type).column(CODE).cast(pa.binary())

    udf = arrow_udf(codes, "binary")  # type: ignore[call-overload]  # the type hints say its kind
    coded = df.withColumn(CODE, udf(*columns))
    return coded.repartitionByRange(CODE).sortWithinPartitions(CODE).drop(CODE)


def _bucket(df: DataFrame, table: FileStoreTable) -> Column:
    """The bucket of each row."""
    from pyspark.sql.functions import lit  # noqa: PLC0415 - only with a session
    from pyspark.sql.pandas.functions import arrow_udf  # noqa: PLC0415 - same

    keys = table.schema.bucket_keys
    known = {own_name(table.schema.names, c) for c in df.columns}
    missing = [k for k in keys if k not in known]
    if missing:
        raise InvalidArgument(
            f"the rows lack the bucket key {', '.join(missing)} of table {table.name}",
            table=table.name,
        )
    buckets = table.options.value(BUCKET)
    if buckets == 1:
        return lit(0)
    types = table.schema.row_type.project(keys).types
    targets = [arrow_type(t) for t in types]
    function = table.options.value(BUCKET_FUNCTION)

    def of_keys(*columns: pa.Array) -> pa.Array:
        values = [converted(c, t) for c, t in zip(columns, targets, strict=True)]
        return pa.array(assign_buckets(values, types, buckets, function=function), pa.int32())

    udf = arrow_udf(of_keys, "int")  # type: ignore[call-overload]  # the type hints say its kind
    column: Column = udf(*[df[f"`{k}`"] for k in keys])
    return column


def _real_bucket(df: DataFrame, table: FileStoreTable, buckets: RealBuckets) -> Column:
    """The real bucket of each row."""
    from pyspark.sql.pandas.functions import arrow_udf  # noqa: PLC0415 - only with a session

    names = tuple(dict.fromkeys([*table.schema.partition_keys, *table.schema.bucket_keys]))
    targets = [arrow_type(t) for t in table.schema.row_type.project(names).types]

    def of_keys(*columns: pa.Array) -> pa.Array:
        arrays = [converted(c, t) for c, t in zip(columns, targets, strict=True)]
        return pa.array(buckets.assigned(table, pa.table(arrays, names=names)))

    udf = arrow_udf(of_keys, "int")  # type: ignore[call-overload]  # the type hints say its kind
    column: Column = udf(*[df[f"`{n}`"] for n in names])
    return column
