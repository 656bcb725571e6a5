"""Batch writes: files by tasks, one commit by the driver."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from paimon_core.commit.committer import latest_of_user
from paimon_core.errors import CommitStateUnknown, InvalidArgument
from paimon_core.features import check_writable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import DYNAMIC_PARTITION_OVERWRITE
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER
from paimon_core.table.after_commit import AfterCommit
from paimon_core.table.real_buckets import RealBuckets
from paimon_core.table.write_session import commit_overwrite, commit_write
from paimon_spark.source.commit_marker import CommitMarker
from paimon_spark.source.options import SourceOptions
from paimon_spark.source.schema_merge import merge_schema
from paimon_spark.source.task_writer import (
    TaskMessage,
    TaskWriter,
    check_columns,
    delete_written,
    merged_messages,
)
from paimon_spark.source.write_jobs import written_by_tasks
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
            widen=options.flag(TYPE_WIDENING, default=True),
            now_millis=options.environment.now_millis(),
        )
    check_columns(table, schema)
    return table


def write_and_commit(rows: DataFrame, options: SourceOptions, *, overwrite: bool) -> None:
    """Write the rows as Spark does with a `PaimonBatchWriter`, in fewer processes (`write_jobs`).

    For classic Spark, whose driver is this process.
    """
    tasks = rows.rdd.getNumPartitions()
    writer = PaimonBatchWriter(options, rows.schema, overwrite=overwrite, tasks=tasks)
    messages = written_by_tasks(rows, writer.write, writer.table)
    try:
        writer.commit(messages)
    except BaseException:
        writer.abort(messages)
        raise


class PaimonBatchWriter(DataSourceArrowWriter):
    """Appends a DataFrame's rows, or replaces the table or partitions by them, in one commit."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        *,
        overwrite: bool,
        tasks: int | None = None,
    ) -> None:
        table = table_to_write(options, schema)
        self._table = table
        self._env = options.environment
        self._user = options.text("commit-user") or self._env.new_uuid()
        self._shuffled = options.flag("write.shuffled")
        self._overwrite = overwrite
        self._tasks = TaskWriter(
            table=table,
            env=self._env,
            user=self._user,
            overwrite=overwrite,
            shuffled=self._shuffled,
            buckets=RealBuckets.of(table, tasks=tasks or os.cpu_count() or 1),
        )
        self._partition = options.overwritten_partition(table)
        if self._partition and (not overwrite or options.overwrites_dynamically):
            raise InvalidArgument(
                "overwrite-partition is for static overwrites: mode('overwrite') without dynamic",
                table=table.name,
            )
        self._marker = CommitMarker(self._env.new_uuid(), BATCH_COMMIT_IDENTIFIER)
        self._before = table.snapshots.latest_id() or 0

    @property
    def table(self) -> FileStoreTable:
        """The table that is written to."""
        return self._table

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """The files of one task."""
        return self._tasks.write(iterator)

    def commit(self, messages: Messages) -> None:
        """One snapshot of all that the tasks wrote; a second one if that makes compaction due."""
        merged = merged_messages(self._table, messages, shuffled=self._shuffled)
        after = AfterCommit(self._table, env=self._env, of_engine=True)
        self._marker.begin()
        try:
            if self._overwrite:
                commit_overwrite(
                    self._table,
                    merged,
                    user=self._user,
                    env=self._env,
                    partition=self._partition,
                    after=after,
                )
            else:
                commit_write(self._table, merged, user=self._user, env=self._env, after=after)
        except CommitStateUnknown:
            raise
        except Exception:
            # The failure may also have happened after the commit.
            if not self._is_committed():
                self._marker.clear()
            raise
        self._marker.clear()

    def abort(self, messages: Messages) -> None:
        """Delete the files of the tasks, unless a commit may refer to them."""
        if self._marker.is_there or self._is_committed():
            log.warning(
                "table=%s the outcome of the commit is unknown: no file is deleted",
                self._table.name,
            )
            return
        delete_written(self._table, messages)

    def _is_committed(self) -> bool:
        newest = latest_of_user(self._table, self._user)
        return newest is not None and newest.id > self._before
