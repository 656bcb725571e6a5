"""Stream writes: one commit a micro-batch, each micro-batch exactly once.

The commit's identifier is the number of the micro-batch, its user belongs to the checkpoint.  After
a failure Spark writes the last micro-batch again; if its commit is there, the new files are deleted.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from paimon_core.commit.committer import filter_committed
from paimon_core.errors import CommitStateUnknown, InvalidArgument
from paimon_core.table.write_session import commit_overwrite, commit_write
from paimon_spark.source.batch_writer import Messages, table_to_write
from paimon_spark.source.commit_marker import CommitMarker
from paimon_spark.source.options import SourceOptions
from paimon_spark.source.task_writer import (
    TaskMessage,
    TaskWriter,
    delete_written,
    merged_messages,
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
        self._table = table_to_write(options, schema)
        self._env = options.environment
        self._user = commit_user(options, self._table.root)
        self._shuffled = options.flag("write.shuffled")
        self._overwrite = overwrite
        self._tasks = TaskWriter(
            table=self._table,
            env=self._env,
            user=self._user,
            overwrite=overwrite,
            shuffled=self._shuffled,
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """The files of one task."""
        return self._tasks.write(iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit a micro-batch; does nothing if it is already committed."""
        if self._is_committed(batchId):
            log.info("table=%s micro-batch %d was committed before", self._table.name, batchId)
            delete_written(self._table, messages)
            return
        merged = merged_messages(self._table, messages, shuffled=self._shuffled)
        marker = CommitMarker(self._user, batchId)
        marker.begin()
        try:
            if self._overwrite:
                commit_overwrite(
                    self._table, merged, user=self._user, env=self._env, identifier=batchId
                )
            else:
                commit_write(
                    self._table, merged, user=self._user, env=self._env, identifier=batchId
                )
        except CommitStateUnknown:
            raise
        except Exception:
            if not self._is_committed(batchId):
                marker.clear()
            raise
        marker.clear()

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Delete the files of the tasks, unless a commit may refer to them."""
        if CommitMarker(self._user, batchId).is_there or self._is_committed(batchId):
            log.warning(
                "table=%s the outcome of micro-batch %d is unknown: no file is deleted",
                self._table.name,
                batchId,
            )
            return
        delete_written(self._table, messages)

    def _is_committed(self, identifier: int) -> bool:
        return not filter_committed(self._table, [identifier], user=self._user)
