"""Stream writes: one commit a micro-batch, each micro-batch exactly once.

The commit's identifier is the number of the micro-batch, its user belongs to the checkpoint.  After
a failure Spark writes the last micro-batch again; if its commit is there, the new files are
deleted.

The numbers begin again with each new checkpoint, also with one in the folder of an old one, and two
queries may be given the same commit user.  So a commit stores the id of its query, which Spark
keeps in the checkpoint, and only commits of this query count, also those from before the table was
renamed.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from paimon_core.commit.committer import latest_where
from paimon_core.errors import CommitStateUnknown, InvalidArgument
from paimon_core.io.temporary import folder_of_temporary_files
from paimon_core.options import DYNAMIC_PARTITION_OVERWRITE
from paimon_core.snapshot.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    STREAM_QUERY,
    CommitKind,
    Snapshot,
)
from paimon_core.table.sink.after_commit import AfterCommit
from paimon_core.table.sink.real_buckets import RealBuckets
from paimon_core.table.sink.write_session import commit_overwrite, commit_write
from paimon_spark.source.options import SourceOptions
from paimon_spark.source.writes.batch_writer import Messages, table_to_write
from paimon_spark.source.writes.commit_marker import CommitMarker
from paimon_spark.source.writes.task_writer import (
    TaskMessage,
    TaskWriter,
    delete_written,
    merged_messages,
    task_messages,
)

log = logging.getLogger(__name__)


def commit_user(options: SourceOptions, root: str) -> str:
    """The commit user: the option `commit-user`, else one derived from table and checkpoint.

    InvalidArgument if neither is known: a user that changes would commit a micro-batch twice.
    """
    user, checkpoint = options.text("commit-user"), options.text("checkpointLocation")
    if user is not None:
        return user
    if checkpoint is None:
        raise InvalidArgument(
            "a stream to a Paimon table needs an option checkpointLocation or commit-user",
            next_step='for example .option("checkpointLocation", FOLDER)',
        )
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{root.rstrip('/')}#{checkpoint.rstrip('/')}"))


class PaimonStreamWriter(DataSourceStreamArrowWriter):
    """Appends micro-batches; in complete mode each replaces the whole table."""

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        table = table_to_write(options, schema)
        # Complete mode replaces all partitions, whatever batches overwrite (Java: `PaimonSink`).
        static = table.schema.with_options({DYNAMIC_PARTITION_OVERWRITE.key: "false"})
        self._table = replace(table, schema=static) if overwrite else table
        self._env = options.environment
        self._user = commit_user(options, self._table.root)
        self._shuffled = options.flag("write.shuffled")
        self._markers = folder_of_temporary_files()
        self._overwrite = overwrite
        self._tasks = TaskWriter(
            table=self._table,
            env=self._env,
            user=self._user,
            overwrite=overwrite,
            shuffled=self._shuffled,
            buckets=RealBuckets.of(self._table, tasks=os.cpu_count() or 1),
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """The files of one task."""
        return self._tasks.write(iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit a micro-batch; does nothing if it is already committed."""
        query = _query_of(messages)
        if self._is_committed(batchId, query):
            log.info("table=%s micro-batch %d was committed before", self._table.name, batchId)
            delete_written(self._table, messages)
            return
        merged = merged_messages(self._table, messages, shuffled=self._shuffled)
        commit = commit_overwrite if self._overwrite else commit_write
        marker = CommitMarker(self._user, batchId, self._markers)
        marker.begin()
        try:
            commit(
                self._table,
                merged,
                user=self._user,
                env=self._env,
                identifier=batchId,
                properties=None if query is None else {STREAM_QUERY: query},
                after=AfterCommit(self._table, env=self._env, of_engine=True),
            )
        except CommitStateUnknown:
            raise
        except Exception:
            if not self._is_committed(batchId, query):
                marker.clear()
            raise
        marker.clear()

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Delete the files of the tasks, unless a commit may refer to them."""
        committed = self._is_committed(batchId, _query_of(messages))
        if CommitMarker(self._user, batchId, self._markers).is_there or committed:
            log.warning(
                "table=%s the outcome of micro-batch %d is unknown: no file is deleted",
                self._table.name,
                batchId,
            )
            return
        delete_written(self._table, messages)

    def _is_committed(self, identifier: int, query: str | None) -> bool:
        def mine(snapshot: Snapshot) -> bool:
            if snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER:
                return False
            stored = (snapshot.properties or {}).get(STREAM_QUERY)
            if query is not None and stored is not None:
                # Whatever its user, which changes with the folder when the table is renamed.  The
                # compaction of a micro-batch counts too: the rows came before, and expire first.
                return stored == query
            # Of older versions and unknown queries, any stream of the user may be this one.
            return (
                snapshot.commit_kind is not CommitKind.COMPACT
                and snapshot.commit_user == self._user
            )

        newest = latest_where(self._table, mine)
        return newest is not None and newest.commit_identifier >= identifier


def _query_of(messages: Messages) -> str | None:
    """The id of the query that the tasks belong to; None if no task could tell."""
    return next((m.query for m in task_messages(messages) if m.query is not None), None)
