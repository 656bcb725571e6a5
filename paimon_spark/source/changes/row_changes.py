"""Changes of single rows of large tables, done by Spark tasks: for UPDATE, DELETE and MERGE of SQL.

Tasks read the units of a table with the place of each row, and write new files; the driver learns
places and files only.

::

    placed_frames    rows with their places, and hidden columns
    places           the places of changed rows                 compressed bitmaps
    write_changes    files of new rows, by kind                 primary-key tables
    remove_rows      files without deleted rows                 primary-key tables
    replace_rows     files of new rows in place of others       append tables with deletion vectors
    patches          new files of units with changed rows       other append tables

The places that go and the rows that come in their stead are of one Spark job.  Spark may compute
its input again, where an executor is lost, and a query need not give the same rows then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap
from pyspark import TaskContext

from paimon_core.commit.message import CommitMessage
from paimon_core.environment import Environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.merge_engine import DELETE
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.schema.table_schema import SEQUENCE_NUMBER
from paimon_core.schema.tracked import ROW_ID
from paimon_core.table.sink.level_rewrite import without_rows
from paimon_core.table.sink.real_buckets import RealBuckets
from paimon_core.write.row_writer import delete_new_files
from paimon_spark.source.changes.placed_frames import PLACE, packed_frame, unpacked
from paimon_spark.source.changes.places import Bitmaps, Changed, ChangedByTask, Noted, positions_of
from paimon_spark.source.writes.distribution import counted_batches, shuffled_for
from paimon_spark.source.writes.task_writer import ROW_KIND, TaskMessage, TaskWriter, table_rows
from paimon_spark.source.writes.write_jobs import written_by_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class _Replacer:
    """Writes new rows, and notes the places of those that go."""

    writer: TaskWriter

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> TaskMessage:
        noted = Noted()
        return ChangedByTask.of(self.writer.write(self._new(batches, noted)), noted)

    def _new(self, batches: Iterable[pa.RecordBatch], noted: Noted) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            noted.add(batch)
            stays = np.asarray(batch.column(ROW_KIND)) != DELETE
            new = batch.drop_columns([PLACE, ROW_KIND]).filter(pa.array(stays))
            if new.num_rows:
                yield self._with_ids(new) if self.writer.tracked else new

    def _with_ids(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows, _ = table_rows(self.writer.table, batch.drop_columns([ROW_ID]))
        rows = rows.append_column(ROW_ID, batch.column(ROW_ID))
        return rows.append_column(SEQUENCE_NUMBER, pa.nulls(rows.num_rows, pa.int64()))


def write_changes(
    rows: DataFrame,
    table: FileStoreTable,
    buckets: RealBuckets | None,
    *,
    env: Environment,
    user: str,
) -> list[TaskMessage]:
    """Write the rows, those of a bucket in one partition; the files of each task.

    `rows` may have a column `ROW_KIND`; `buckets` are those of a table that postpones the choice.
    A deleted row is written as it was read: a changelog takes back what it told before.
    """
    writer = TaskWriter(
        table=table,
        env=env,
        user=user,
        overwrite=False,
        shuffled=True,
        deletes_stored=True,
        buckets=buckets,
    )
    with counted_batches(rows.sparkSession):
        return written_by_tasks(rows, writer.write, table)


@dataclass(frozen=True, slots=True)
class _Remover:
    """Writes files again without the rows at some positions; sent to the executor."""

    table: FileStoreTable
    env: Environment

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> TaskMessage:
        written: list[CommitMessage] = []
        try:
            for entry, packed in unpacked(batches):
                gone = positions_of(BitMap.deserialize(packed))
                written.append(without_rows(self.table, entry, gone, env=self.env))
        except BaseException:
            for message in written:
                delete_new_files(self.table, message)
            raise
        context = TaskContext.get()
        return TaskMessage(0 if context is None else context.partitionId(), tuple(written))


def remove_rows(
    spark: SparkSession,
    table: FileStoreTable,
    entries: Mapping[int, ManifestEntry],
    places: Bitmaps,
    *,
    env: Environment,
) -> list[TaskMessage]:
    """Write files of a primary-key table again, at their levels, without the rows at these places.

    `entries` are the files by the number of their units.
    """
    files = [(entry, places[number].serialize()) for number, entry in entries.items()]
    return written_by_tasks(packed_frame(spark, files), _Remover(table, env), table)


def replace_rows(rows: DataFrame, table: FileStoreTable, *, env: Environment, user: str) -> Changed:
    """Write the rows of an append table, but those of the kind DELETE.

    `rows` have the columns `PLACE`, null for rows that replace none, and `ROW_KIND`; with a column
    `ROW_ID`, which then has no nulls, rows keep their ids.
    """
    tracked = ROW_ID in rows.columns
    writer = TaskWriter(
        table=table, env=env, user=user, overwrite=False, shuffled=True, tracked=tracked
    )
    with counted_batches(rows.sparkSession):
        return Changed.by(written_by_tasks(shuffled_for(rows, table), _Replacer(writer), table))
