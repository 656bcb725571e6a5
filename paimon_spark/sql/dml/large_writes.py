"""Large writes of the rows of queries: executors write the files, the driver commits.

The driver writes small ones itself (`insert`), without a Python worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from paimon_core.commit.message import CommitMessage
from paimon_core.file_store_table import FileStoreTable
from paimon_core.snapshot.snapshot import Identity
from paimon_core.table.sink.real_buckets import RealBuckets
from paimon_core.types.data_types import DataField
from paimon_spark.sql.frames.characters import stored_text
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LARGE_WRITE: Final = 64 * 1024**2
"""Bytes of rows, as Spark estimates them."""


def writes_distributed(frame: DataFrame) -> bool:
    """Whether the executors should write the rows of a query."""
    if not hasattr(frame, "_jdf"):
        return False  # Spark Connect reports no size
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - PySpark has no other way
    return int(str(plan.stats().sizeInBytes())) > LARGE_WRITE


def rows_to_write(
    table: FileStoreTable,
    frame: DataFrame,
    fields: Sequence[DataField],
    static: Mapping[str, str] | None = None,
) -> DataFrame:
    """The query's columns, by position, as these fields.

    `static` holds the SQL of the values of partition columns that the statement gives.
    """
    from paimon_spark.source.writes.task_writer import check_columns  # noqa: PLC0415 - imports PySpark

    plain = frame.toDF(*(f"c{i}" for i in range(len(fields))))
    columns = [f"{stored_text(f'c{i}', f)} AS {quoted(f.name)}" for i, f in enumerate(fields)]
    types = {f.name.lower(): f for f in table.schema.partition_type.fields}
    for column, text in (static or {}).items():
        field = types[column.lower()]
        columns.append(f"{stored_text(text, field)} AS {quoted(field.name)}")
    rows = plain.selectExpr(*columns)
    check_columns(table, rows.schema)
    return rows


@contextmanager
def bucketed(
    table: FileStoreTable, rows: DataFrame, *, replaced: bool, emptied: bool = False
) -> Iterator[tuple[DataFrame, RealBuckets | None]]:
    """The rows, those of a bucket in one partition, clustered, and the buckets that they need.

    Where these depend on all rows, the rows are computed once, and kept on the executors' disks
    until the block ends.  `replaced` as in `RealBuckets`; `emptied`: what is there does not count.
    """
    from pyspark import StorageLevel  # noqa: PLC0415 - only with a session

    from paimon_spark.source.writes.distribution import (  # noqa: PLC0415 - imports PySpark
        clustered_for,
        shuffled_for,
    )
    from paimon_spark.source.writes.partition_counts import sizes_of_partitions  # noqa: PLC0415 - same

    buckets = RealBuckets.of(table, tasks=1)
    if buckets is None:
        yield clustered_for(shuffled_for(rows, table), table), None
        return
    if emptied:
        buckets = buckets.of_emptied()
    kept = rows.persist(StorageLevel.DISK_ONLY)
    try:
        sizes = sizes_of_partitions(kept, table)
        buckets = buckets.for_sizes(table, sizes, replaced=replaced)
        yield shuffled_for(kept, table, buckets), buckets
    finally:
        kept.unpersist()


def write_distributed(
    session: SqlSession,
    table: FileStoreTable,
    rows: DataFrame,
    *,
    overwrite: Mapping[str, object] | None,
    operation: str | None = None,
    rows_at: Identity | None = None,
) -> None:
    """Commit rows of `rows_to_write`; the other arguments as in `insert.write`."""
    from paimon_spark.source.writes.batch_writer import (  # noqa: PLC0415 - imports PySpark
        BatchWrite,
        write_and_commit,
    )
    from paimon_spark.source.writes.distribution import counted_batches  # noqa: PLC0415 - same

    with (
        bucketed(table, rows, replaced=overwrite is not None) as (shuffled, buckets),
        counted_batches(session.spark),
    ):
        env = session.env if operation is None else session.env.doing(operation)
        batch = BatchWrite.of(
            table,
            env=env,
            shuffled=True,
            replaced=overwrite,
            buckets=buckets,
            rows_at=rows_at,
        )
        write_and_commit(shuffled, batch)


def written_files(
    session: SqlSession, table: FileStoreTable, rows: DataFrame, *, user: str
) -> list[CommitMessage]:
    """Write rows of `rows_to_write` for an overwrite of all rows that this user commits later."""
    from paimon_spark.source.writes.batch_writer import BatchWrite  # noqa: PLC0415 - imports PySpark
    from paimon_spark.source.writes.distribution import counted_batches  # noqa: PLC0415 - same
    from paimon_spark.source.writes.task_writer import merged_messages  # noqa: PLC0415 - same
    from paimon_spark.source.writes.write_jobs import written_by_tasks  # noqa: PLC0415 - same

    with (
        bucketed(table, rows, replaced=True, emptied=True) as (shuffled, buckets),
        counted_batches(session.spark),
    ):
        batch = BatchWrite.of(
            table, env=session.env, user=user, shuffled=True, replaced={}, buckets=buckets
        )
        written = written_by_tasks(shuffled, batch.tasks.write, table)
    return merged_messages(table, written, shuffled=True)
