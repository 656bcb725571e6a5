"""Writes the rows of a Spark task, and combines the results of all tasks on the driver.

Tasks run in parallel and do not know each other.  Java brings all rows of a bucket to one task
(`PaimonSparkWriter`); a source of Spark's Python API cannot do that, only its caller can
(`paimon_spark.source.writes.distribution`).  So that the result is right without it:

- fixed buckets: each task numbers its rows in a range of its own, so that every reader sees the
  same version of a key that two tasks wrote;
- dynamic buckets: a partition that two tasks wrote is refused, because each chose buckets for its
  keys without knowing of the other's; so are two tasks for a table with keys across partitions;
- postpone: rows go to real buckets, which are as fixed ones; with
  `postpone.batch-write-fixed-bucket` = false each task has files of its own name, which are put in
  order when they are compacted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from paimon_core.commit.message import CommitMessage, buckets_known_at
from paimon_core.environment import Environment
from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.lsm.merge_engine import DELETE, UPDATE_BEFORE
from paimon_core.table.sink.real_buckets import RealBuckets, with_real_buckets
from paimon_core.table.sink.write_session import new_writer
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.casts.rules import can_cast
from paimon_core.types.data_types import (
    BINARY_TYPES,
    CHARACTER_TYPES,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)
from paimon_core.types.sql import type_to_sql
from paimon_core.write.incoming_rows import Kinds, fit_to_schema, without_defaults
from paimon_core.write.on_failure import aborted_on_failure
from paimon_core.write.row_writer import RowWriter, delete_new_files
from paimon_spark.source.own_names import named_as, own_name, unknown_fields
from paimon_spark.source.rows import converted
from paimon_spark.source.spark_types import paimon_type

ROW_KIND: Final = "_row_kind_"
"""A column that says what a row does (0 +I, 1 -U, 2 +U, 3 -D), as in the Java connector."""
ROWS_OF_A_TASK: Final = 1 << 30
"""How many rows of one bucket a task may number."""
_QUERY: Final = "sql.streaming.queryId"
"""The local property in which Spark tells tasks the id of their query."""
_BATCH_ROWS: Final = 1 << 16
_BATCH_BYTES: Final = 32 * 1024**2
"""What the writer takes at once, where the rows are narrow enough."""
_SHUFFLE: Final = (
    "write with paimon_spark.source.write(df, ...), or bring the rows of a bucket together with "
    "paimon_spark.source.shuffled(df, ...)"
)


@dataclass(frozen=True, slots=True)
class TaskMessage(WriterCommitMessage):
    """What one task wrote."""

    task: int
    messages: tuple[CommitMessage, ...]
    query: str | None = None
    """The id of the streaming query, which a new checkpoint changes; None in a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWriter:
    """Writes the rows of a task; sent to the executor with Spark's writer.

    `shuffled`: the rows of each bucket are all in one task.  `first_task` is the number of the
    first task, for a second writer of one commit.  `deletes_stored`: rows of the kinds -U and -D
    are as the table holds them, and get no default values that came later.  `buckets` are those of
    a table that postpones the choice.  `tracked`: the rows have the table's types, and their ids
    and sequence numbers (`new_writer`).
    """

    table: FileStoreTable
    env: Environment
    user: str
    overwrite: bool
    shuffled: bool
    first_task: int = 0
    deletes_stored: bool = False
    buckets: RealBuckets | None = None
    tracked: bool = False

    def write(self, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write the rows to files; after a failure no file is left."""
        context = TaskContext.get()
        task = self.first_task + (0 if context is None else context.partitionId())
        query = None if context is None else context.getLocalProperty(_QUERY)
        batches = _larger_batches(batches)
        first = next(batches, None)
        if first is None:
            return TaskMessage(task, (), query)
        writers: dict[int | None, RowWriter] = {}

        def writer_of(number: int | None) -> RowWriter:
            """The writer for partitions with this number of buckets, None for that of the table."""
            if number not in writers:
                table = self.table if number is None else with_real_buckets(self.table, number)
                writers[number] = new_writer(
                    without_defaults(table) if self.deletes_stored else table,
                    env=self.env,
                    overwrite=self.overwrite,
                    user=self.user,
                    writer_id=task,
                    sequence_offset=task * ROWS_OF_A_TASK if self._numbers_apart else 0,
                    tracked=self.tracked,
                )
            return writers[number]

        with aborted_on_failure(writers.values()):
            self._write_all(writer_of, first, batches)
            messages = [m for writer in writers.values() for m in writer.prepare_commit()]
            return TaskMessage(task, tuple(messages), query)

    @property
    def _numbers_apart(self) -> bool:
        # `shuffled` leaves the rows of postponed buckets where they are.
        fixed = self.table.bucket_mode is BucketMode.FIXED and not self.shuffled
        return fixed or self.buckets is not None

    def _write_all(
        self,
        writer_of: Callable[[int | None], RowWriter],
        first: pa.RecordBatch,
        batches: Iterator[pa.RecordBatch],
    ) -> None:
        written = 0
        batch: pa.RecordBatch | None = first
        while batch is not None:
            rows, kinds = (batch, None) if self.tracked else table_rows(self.table, batch)
            written += rows.num_rows
            if self._numbers_apart and written > ROWS_OF_A_TASK:
                raise InvalidArgument(
                    f"a task has more than {ROWS_OF_A_TASK} rows for table {self.table.name}",
                    table=self.table.name,
                    next_step=_SHUFFLE,
                )
            filled = self._filled(rows, kinds) if self.deletes_stored else rows
            if self.buckets is None:
                writer_of(None).write(filled, kinds)
            else:
                for number, places in self.buckets.split(self.table, filled):
                    taken = filled.take(pa.array(places))
                    writer_of(number).write(taken, None if kinds is None else kinds[places])
            batch = next(batches, None)

    def _filled(self, rows: pa.RecordBatch, kinds: Kinds | None) -> pa.Table:
        """The rows with default values in those that are new."""
        stored = None if kinds is None else np.isin(kinds, (UPDATE_BEFORE, DELETE))
        return fit_to_schema(self.table, pa.Table.from_batches([rows]), stored=stored)


def _larger_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches: Spark sends small ones, and each costs the writer time."""
    parts: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        too_large = size + batch.nbytes > _BATCH_BYTES or rows >= _BATCH_ROWS
        # Rows of other files can come with other encodings of a column.
        if parts and (too_large or batch.schema != parts[0].schema):
            yield pa.concat_batches(parts)
            parts, rows, size = [], 0, 0
        parts.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if parts:
        yield pa.concat_batches(parts)


def table_rows(table: FileStoreTable, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Kinds | None]:
    """Spark's rows with the table's types, and their kinds if there is a column of them."""
    target = arrow_schema(table.schema.row_type)
    given = [n for n in batch.schema.names if n != ROW_KIND]
    names = [own_name(table.schema.names, n) for n in given]
    columns = [
        converted(batch.column(g), target.field(n).type) for g, n in zip(given, names, strict=True)
    ]
    rows = pa.RecordBatch.from_arrays(columns, names=names)
    if ROW_KIND not in batch.schema.names:
        return rows, None
    column = batch.column(ROW_KIND)
    if column.null_count:
        raise InvalidArgument(f"null in column {ROW_KIND}", table=table.name)
    kinds = np.asarray(column.cast(pa.int8()))
    if len(kinds) and (kinds.min() < 0 or kinds.max() > 3):
        raise InvalidArgument(
            f"column {ROW_KIND} holds 0 (+I), 1 (-U), 2 (+U) and 3 (-D)", table=table.name
        )
    return rows, kinds


def check_columns(table: FileStoreTable, schema: StructType) -> None:
    """Raise InvalidArgument for columns that the table does not have or whose types do not fit.

    A value may be narrower than its column, not wider, as in Spark's store assignment.
    """
    row_type = table.schema.row_type
    seen: set[str] = set()
    for field in schema.fields:
        if field.name == ROW_KIND:
            continue
        name = own_name(row_type.names, field.name)
        if name in seen:
            raise InvalidArgument(
                f"the rows have column {name} of table {table.name} twice",
                table=table.name,
                next_step="drop one of them",
            )
        seen.add(name)
        own = row_type.get(name)
        if own is None:
            raise InvalidArgument(
                f"table {table.name} has no column {field.name}; "
                f"it has {', '.join(table.schema.names)}",
                table=table.name,
                next_step="drop the column, or set write.merge-schema",
            )
        given = paimon_type(field.dataType)
        named = named_as(
            RowType(fields=(own,)), RowType(fields=(DataField(id=0, name=name, type=given),))
        )
        unknown = ", ".join(unknown_fields(own.type, named.fields[0].type, name))
        if unknown:
            raise InvalidArgument(
                f"table {table.name} has no field {unknown}: column {name} is "
                f"{type_to_sql(own.type)}",
                table=table.name,
                next_step="name the fields as the table does, or set write.merge-schema",
            )
        if not _fits(given, own.type):
            raise InvalidArgument(
                f"column {field.name} of table {table.name} is {type_to_sql(own.type)}; "
                f"{field.dataType.simpleString()} does not fit",
                table=table.name,
                next_step="cast the column first",
            )


def _fits(given: DataType, own: DataType) -> bool:
    """Whether the type can be stored as the other; single values can still be refused."""
    if own.root is TypeRoot.TIME:
        return given.root is TypeRoot.INT
    if given.root in _FAMILIES:
        return own.root in _FAMILIES[given.root]
    return given.root is own.root or can_cast(given, own.with_nullable(True), explicit=False)


_MAPS: Final = (TypeRoot.MAP, TypeRoot.MULTISET)
_FAMILIES: Final = {
    TypeRoot.VARCHAR: CHARACTER_TYPES,
    TypeRoot.CHAR: CHARACTER_TYPES,
    TypeRoot.VARBINARY: (*BINARY_TYPES, TypeRoot.BLOB),
    TypeRoot.MAP: _MAPS,
    TypeRoot.ARRAY: (TypeRoot.ARRAY, TypeRoot.VECTOR),
    TypeRoot.ROW: (TypeRoot.ROW,),
    TypeRoot.TIMESTAMP: (TypeRoot.TIMESTAMP,),
    TypeRoot.TIMESTAMP_LTZ: (TypeRoot.TIMESTAMP_LTZ,),
}


# --- on the driver ------------------------------------------------------------------------------


def merged_messages(
    table: FileStoreTable, written: Iterable[WriterCommitMessage | None], *, shuffled: bool
) -> list[CommitMessage]:
    """One message for each bucket.

    InvalidArgument if several tasks wrote to a place of one owner.
    """
    by_bucket: dict[tuple[bytes, int], list[CommitMessage]] = defaultdict(list)
    owners: dict[object, set[int]] = defaultdict(set)
    for message in task_messages(written):
        for m in message.messages:
            by_bucket[m.partition, m.bucket].append(m)
            owners[_alone(table, m, shuffled=shuffled)].add(message.task)
    for unit, tasks in owners.items():
        if unit is not None and len(tasks) > 1:
            raise InvalidArgument(
                f"{len(tasks)} tasks wrote rows of the same {unit[0]} of table {table.name}, "  # type: ignore[index]
                f"whose buckets are {table.bucket_mode.value}",
                table=table.name,
                next_step=_SHUFFLE,
            )
    return [_joined(parts) for parts in by_bucket.values()]


def _alone(table: FileStoreTable, m: CommitMessage, *, shuffled: bool) -> object:
    """The place that only one task may write to: (kind, value); None if all tasks may write."""
    match table.bucket_mode:
        case BucketMode.CROSS_PARTITION:
            return "table", None
        case BucketMode.DYNAMIC:
            return "partition", m.partition
        case BucketMode.FIXED if shuffled:
            return "bucket", (m.partition, m.bucket)
    return None


def _joined(parts: Sequence[CommitMessage]) -> CommitMessage:
    first = parts[0]
    if len(parts) == 1:
        return first
    return CommitMessage(
        partition=first.partition,
        bucket=first.bucket,
        total_buckets=first.total_buckets,
        new_files=tuple(f for p in parts for f in p.new_files),
        changelog_files=tuple(f for p in parts for f in p.changelog_files),
        new_index_files=tuple(f for p in parts for f in p.new_index_files),
        deleted_index_files=tuple(f for p in parts for f in p.deleted_index_files),
        keys_at=first.keys_at,
        hash_indexes=first.hash_indexes,
        buckets_at=buckets_known_at(parts),
    )


def task_messages(written: Iterable[WriterCommitMessage | None]) -> Iterator[TaskMessage]:
    """The messages of successful tasks."""
    return (m for m in written if isinstance(m, TaskMessage))


def delete_written(table: FileStoreTable, written: Iterable[WriterCommitMessage | None]) -> None:
    """Delete the files of all successful tasks; failed tasks have deleted their own."""
    for message in task_messages(written):
        for m in message.messages:
            delete_new_files(table, m)
