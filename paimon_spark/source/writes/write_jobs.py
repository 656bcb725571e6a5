"""Spark jobs whose tasks write files, for a driver that commits them itself.

Spark makes a writer of its Python API in one process of its own and commits in another one, and
both import everything first, which costs 5 CPU seconds.  Here the caller is the driver, and the
tasks are those of `mapInArrow`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.accumulators import AccumulatorParam

from paimon_core.file_store_table import FileStoreTable
from paimon_spark.source.writes.task_writer import TaskMessage, delete_written

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame

WriteTask = Callable[[Iterator[pa.RecordBatch]], TaskMessage]


class _Messages(AccumulatorParam[list[TaskMessage]]):
    """Adds lists of messages."""

    def zero(self, value: list[TaskMessage]) -> list[TaskMessage]:  # noqa: ARG002 - Spark's
        return []

    def addInPlace(  # noqa: N802 - Spark's name
        self, value1: list[TaskMessage], value2: list[TaskMessage]
    ) -> list[TaskMessage]:
        value1 += value2
        return value1


@dataclass(frozen=True, slots=True)
class _Task:
    """Passes the rows of a Spark task to `write`; sent to the executor."""

    write: WriteTask
    written: Accumulator[list[TaskMessage]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = self.write(b for b in batches if b.num_rows)
        self.written.add([message])
        yield pa.RecordBatch.from_arrays(
            [pa.array([pickle.dumps(message)], pa.binary())], names=["message"]
        )


def written_by_tasks(rows: DataFrame, write: WriteTask, table: FileStoreTable) -> list[TaskMessage]:
    """What the tasks wrote, one message a task; `write` gets the rows of a task.

    If a task fails in all attempts, the files of the others are deleted, except those of tasks that
    still run.  For classic Spark, whose driver is this process.
    """
    # The messages of tasks that succeed, also when the job fails: its result has none then.
    written: Any = rows.sparkSession.sparkContext.accumulator([], _Messages())
    try:
        answer = rows.mapInArrow(_Task(write, written), "message BINARY").collect()
    except BaseException:
        delete_written(table, written.value)
        raise
    finally:
        written.value = []  # Spark keeps accumulators as long as the application
    return [pickle.loads(bytes(row[0])) for row in answer]  # noqa: S301 - our own tasks
