"""Large writes of the rows of queries: executors write the files, the driver commits.

The driver writes small ones itself (`insert`), without a Python worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from paimon_core.commit.message import CommitMessage
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.types.data_types import DataField
from paimon_spark.sql.frames.characters import stored_text
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LARGE_WRITE: Final = 64 * 1024**2
"""Bytes of rows, as Spark estimates them."""


def writes_distributed(table: FileStoreTable, frame: DataFrame) -> bool:
    """Whether the executors should write the rows of a query."""
    if table.bucket_mode is BucketMode.POSTPONE:
        return False
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
    """The query's columns, by position, as these fields, the rows of a bucket in one partition.

    `static` holds the SQL of the values of partition columns that the statement gives.
    """
    from paimon_spark.source.distribution import shuffled_for  # noqa: PLC0415 - imports PySpark
    from paimon_spark.source.task_writer import check_columns  # noqa: PLC0415 - same

    plain = frame.toDF(*(f"c{i}" for i in range(len(fields))))
    columns = [f"{stored_text(f'c{i}', f)} AS {quoted(f.name)}" for i, f in enumerate(fields)]
    types = {f.name.lower(): f for f in table.schema.partition_type.fields}
    for column, text in (static or {}).items():
        field = types[column.lower()]
        columns.append(f"{stored_text(text, field)} AS {quoted(field.name)}")
    rows = plain.selectExpr(*columns)
    check_columns(table, rows.schema)
    return shuffled_for(rows, table)


def write_distributed(
    session: SqlSession,
    table: FileStoreTable,
    rows: DataFrame,
    *,
    overwrite: Mapping[str, object] | None,
) -> None:
    """Commit rows of `rows_to_write`; `overwrite` as in `insert.write`."""
    from paimon_spark.source.batch_writer import (  # noqa: PLC0415 - imports PySpark
        BatchWrite,
        write_and_commit,
    )
    from paimon_spark.source.distribution import counted_batches  # noqa: PLC0415 - same

    batch = BatchWrite.of(table, env=session.env, shuffled=True, replaced=overwrite)
    with counted_batches(session.spark):
        write_and_commit(rows, batch)


def written_files(
    session: SqlSession, table: FileStoreTable, rows: DataFrame, *, user: str
) -> list[CommitMessage]:
    """Write rows of `rows_to_write` for an overwrite that this user commits later."""
    from paimon_spark.source.batch_writer import BatchWrite  # noqa: PLC0415 - imports PySpark
    from paimon_spark.source.distribution import counted_batches  # noqa: PLC0415 - same
    from paimon_spark.source.task_writer import merged_messages  # noqa: PLC0415 - same
    from paimon_spark.source.write_jobs import written_by_tasks  # noqa: PLC0415 - same

    batch = BatchWrite.of(table, env=session.env, user=user, shuffled=True, replaced={})
    with counted_batches(session.spark):
        written = written_by_tasks(rows, batch.tasks.write, table)
    return merged_messages(table, written, shuffled=True)
