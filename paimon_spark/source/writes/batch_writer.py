"""Batch writes: files by tasks, one commit by the driver."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from paimon_core.commit.commit_user import new_commit_user
from paimon_core.commit.committer import latest_of_user
from paimon_core.environment import Environment
from paimon_core.errors import CommitStateUnknown, InvalidArgument
from paimon_core.features import check_writable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import DYNAMIC_PARTITION_OVERWRITE
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, Identity
from paimon_core.table.sink.after_commit import AfterCommit
from paimon_core.table.sink.real_buckets import RealBuckets
from paimon_core.table.sink.write_session import commit_overwrite, commit_write
from paimon_spark.source.options import SourceOptions
from paimon_spark.source.writes.commit_marker import CommitMarker
from paimon_spark.source.writes.schema_merge import merge_schema
from paimon_spark.source.writes.task_writer import (
    TaskMessage,
    TaskWriter,
    check_columns,
    delete_written,
    merged_messages,
)
from paimon_spark.source.writes.write_jobs import written_by_tasks
from paimon_spark.write_options import EXPLICIT_CAST, MERGE_SCHEMA, TYPE_WIDENING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

Messages = Sequence[WriterCommitMessage | None]


def table_to_write(options: SourceOptions, schema: StructType) -> FileStoreTable:
    """The table, with its schema merged with that of the rows if the options say so.

    InvalidArgument for a system table, and for columns that do not fit.
    """
    if options.system_table is not None:
        raise InvalidArgument(f"system table {options.system_table} cannot be written")
    dynamic = "true" if options.overwrites_dynamically else "false"
    table = options.open_table({DYNAMIC_PARTITION_OVERWRITE.key: dynamic})
    check_writable(table)
    if options.flag(MERGE_SCHEMA):
        table = merge_schema(
            table,
            schema,
            explicit=options.flag(EXPLICIT_CAST),
            widen=options.flag(TYPE_WIDENING),
            now_millis=options.environment.now_millis(),
        )
    check_columns(table, schema)
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWrite:
    """A batch: files by tasks, and one commit of them.

    `replaced` are the values of the partition that it overwrites, none for the whole table or,
    under `dynamic-partition-overwrite`, the partitions of the rows; None appends.  Spark sends a
    batch to executors, and to the processes that commit and abort.
    """

    tasks: TaskWriter
    replaced: Mapping[str, object] | None
    marker: CommitMarker
    before: int
    """The newest snapshot when the batch began."""
    rows_at: Identity | None = None
    """The snapshot of the table from whose rows those of an overwrite are computed."""

    @staticmethod
    def of(
        table: FileStoreTable,
        *,
        env: Environment,
        user: str | None = None,
        shuffled: bool,
        replaced: Mapping[str, object] | None = None,
        buckets: RealBuckets | None = None,
        rows_at: Identity | None = None,
    ) -> BatchWrite:
        """A batch that begins now; the fields of `TaskWriter` say what the arguments mean."""
        tasks = TaskWriter(
            table=table,
            env=env,
            user=user or new_commit_user(table, env),
            overwrite=replaced is not None,
            shuffled=shuffled,
            buckets=buckets,
        )
        marker = CommitMarker(env.new_uuid(), BATCH_COMMIT_IDENTIFIER)
        return BatchWrite(
            tasks=tasks,
            replaced=replaced,
            marker=marker,
            before=table.snapshots.latest_id() or 0,
            rows_at=rows_at,
        )

    @property
    def table(self) -> FileStoreTable:
        """The table that is written to."""
        return self.tasks.table

    def commit(self, messages: Messages) -> None:
        """One snapshot of all that the tasks wrote; a second one if that makes compaction due."""
        table, env, user = self.table, self.tasks.env, self.tasks.user
        if env.operation is None:
            env = env.doing("WRITE" if self.replaced is None else "OVERWRITE")
        merged = merged_messages(table, messages, shuffled=self.tasks.shuffled)
        after = AfterCommit(table, env=env, of_engine=True)
        self.marker.begin()
        try:
            if self.replaced is not None:
                commit_overwrite(
                    table,
                    merged,
                    user=user,
                    env=env,
                    partition=self.replaced,
                    after=after,
                    rows_at=self.rows_at,
                )
            else:
                commit_write(table, merged, user=user, env=env, after=after)
        except CommitStateUnknown:
            raise
        except Exception:
            # The failure may also have happened after the commit.
            if not self._is_committed():
                self.marker.clear()
            raise
        self.marker.clear()

    def abort(self, messages: Messages) -> None:
        """Delete the files of the tasks, unless a commit may refer to them."""
        if self.marker.is_there or self._is_committed():
            log.warning(
                "table=%s the outcome of the commit is unknown: no file is deleted",
                self.table.name,
            )
            return
        delete_written(self.table, messages)

    def _is_committed(self) -> bool:
        newest = latest_of_user(self.table, self.tasks.user)
        return newest is not None and newest.id > self.before


def batch_of_options(
    options: SourceOptions, schema: StructType, *, overwrite: bool, tasks: int | None = None
) -> BatchWrite:
    """The batch that the options of the source describe; `tasks` write it, if that is known.

    InvalidArgument as in `table_to_write`, and for partitions to replace where nothing is replaced.
    """
    table, env = table_to_write(options, schema), options.environment
    partition = options.overwritten_partition(table)
    if partition and (not overwrite or options.overwrites_dynamically):
        raise InvalidArgument(
            "overwrite-partition is for static overwrites: mode('overwrite') without dynamic",
            table=table.name,
        )
    return BatchWrite.of(
        table,
        env=env,
        user=options.text("commit-user"),
        shuffled=options.flag("write.shuffled"),
        replaced=partition if overwrite else None,
        buckets=RealBuckets.of(table, tasks=tasks or os.cpu_count() or 1),
    )


def write_and_commit(rows: DataFrame, batch: BatchWrite) -> None:
    """Write the rows as Spark does with a `PaimonBatchWriter`, in fewer processes (`write_jobs`).

    For classic Spark, whose driver is this process.
    """
    messages = written_by_tasks(rows, batch.tasks.write, batch.table)
    try:
        batch.commit(messages)
    except BaseException:
        batch.abort(messages)
        raise


class PaimonBatchWriter(DataSourceArrowWriter):
    """Appends a DataFrame's rows, or replaces the table or partitions by them, in one commit."""

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        self._batch = batch_of_options(options, schema, overwrite=overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """The files of one task."""
        return self._batch.tasks.write(iterator)

    def commit(self, messages: Messages) -> None:
        """Commit what the tasks wrote."""
        self._batch.commit(messages)

    def abort(self, messages: Messages) -> None:
        """Clean up after a failure."""
        self._batch.abort(messages)
