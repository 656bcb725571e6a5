"""Reads of large partitions with postponed rows, which executors spread by bucket.

Java: `spark/PostponeMergeInputScan`, `execution/PostponeMergeOnReadExec`.

::

    postponed files   --tasks-->   (partition, bucket, rows)
    real files                     (partition, bucket, files)
                                     --shuffle, sort, tasks-->   merged rows

Rows cross the shuffle as Arrow batches with their sequence numbers, so their order does not matter
there.  What is merged at once is one bucket.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import pyarrow as pa

from paimon_core.io.arrow_files import packed
from paimon_core.predicate import Predicate, fields_of
from paimon_core.read.table_read import chosen_rows
from paimon_core.scan.splits import SPLIT_TARGET_SIZE, pack_ordered
from paimon_core.table.source.batch_tasks import BatchTask
from paimon_core.table.source.postponed_rows import Piece, PostponedTask, merged, routed
from paimon_spark.source.rows import arrow_schema_of, to_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_CARRIER: Final = "task INT, bucket INT, kind TINYINT, content BINARY"
_FILES, _ROWS = 0, 1
_SCHEMA: Final = pa.schema(
    [("task", pa.int32()), ("bucket", pa.int32()), ("kind", pa.int8()), ("content", pa.binary())]
)
_HELD_BYTES: Final = 16 * 1024**2
"""Memory of the rows of a task that wait for more of their bucket before the shuffle."""
_Carried = tuple[int, int, int, bytes]


def is_spread(task: BatchTask) -> TypeGuard[PostponedTask]:
    """Whether several tasks of Spark read it: a partition larger than a split."""
    if not isinstance(task, PostponedTask):
        return False
    return task.size > task.table.options.value(SPLIT_TARGET_SIZE)


def spread(
    spark: SparkSession,
    tasks: Sequence[PostponedTask],
    columns: Sequence[str],
    predicate: Predicate | None,
    schema: StructType,
) -> DataFrame:
    """The rows of the tasks that match, from the executors."""
    needed = frozenset({*columns, *(fields_of(predicate) if predicate is not None else ())})
    context = spark.sparkContext
    slices = [(i, part) for i, task in enumerate(tasks) for part in _slices(task)]
    files = [
        (i, bucket, _FILES, pickle.dumps(_of_bucket(task, bucket)))
        for i, task in enumerate(tasks)
        for bucket in range(task.buckets)
    ]

    def frame(rows: Sequence[Any], types: str) -> DataFrame:
        # An RDD, because Spark would take the size of this list for the size of all rows.
        return spark.createDataFrame(
            context.parallelize(rows, max(1, len(rows))), types, verifySchema=False
        )

    packed = frame([(i, bytearray(pickle.dumps(part))) for i, part in slices], "i INT, part BINARY")
    by_bucket = packed.mapInArrow(_Router(needed, predicate), _CARRIER)
    # One task of Spark for all files, as they are few bytes.
    real = spark.createDataFrame(
        context.parallelize([(*row[:3], bytearray(row[3])) for row in files], 1),
        _CARRIER,
        verifySchema=False,
    )
    target = max(1, tasks[0].table.options.value(SPLIT_TARGET_SIZE))
    parts = min(len(files), max(1, *(1 + t.size // target for t in tasks)) * len(tasks))
    parts = min(parts, int(str(spark.conf.get("spark.sql.shuffle.partitions", "200"))))
    gathered = (
        by_bucket.unionAll(real)
        .repartition(max(1, parts), "task", "bucket")
        .sortWithinPartitions("task", "bucket", "kind")
    )
    reader = _Merger(tuple(columns), needed, predicate, arrow_schema_of(schema))
    return gathered.mapInArrow(reader, schema)


def _slices(task: PostponedTask) -> Iterator[PostponedTask]:
    """The postponed files in parts of about a split's size."""
    target = task.table.options.value(SPLIT_TARGET_SIZE)
    numbered = zip(task.postponed, task.first_sequences, strict=True)
    for part in pack_ordered(numbered, lambda p: p[0].file.file_size, target):
        files, firsts = zip(*part, strict=True)
        yield replace(task, real=(), index_files={}, postponed=files, first_sequence=firsts[0])


def _of_bucket(task: PostponedTask, bucket: int) -> PostponedTask:
    """The files of a real bucket."""
    return replace(
        task,
        real=tuple(e for e in task.real if e.bucket == bucket),
        postponed=(),
        index_files={b: f for b, f in task.index_files.items() if b == bucket},
    )


@dataclass(frozen=True, slots=True)
class _Router:
    """Reads parts of postponed files; sent to the executor."""

    needed: Collection[str]
    predicate: Predicate | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                part: PostponedTask = pickle.loads(row["part"])  # noqa: S301 - the driver's own
                for content in self._contents(part):
                    columns = [[row["i"]], [content[0]], [_ROWS], [content[1]]]
                    yield pa.record_batch(columns, schema=_SCHEMA)

    def _contents(self, part: PostponedTask) -> Iterator[tuple[int, bytes]]:
        held: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        size = 0
        for bucket, rows in routed(part, self.needed, self.predicate):
            held[bucket].append(rows)
            size += rows.nbytes
            if size > _HELD_BYTES:
                yield from ((b, packed(found)) for b, found in held.items())
                held.clear()
                size = 0
        yield from ((b, packed(found)) for b, found in held.items())


@dataclass(frozen=True, slots=True)
class _Merger:
    """Merges the buckets of a partition of the shuffle; sent to the executor."""

    columns: tuple[str, ...]
    needed: Collection[str]
    predicate: Predicate | None
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return to_spark(self._rows(batches), self.schema)

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, carried in groupby(_carried(batches), lambda row: row[:2]):
            yield from chosen_rows(self._bucket(carried), self.columns, self.predicate)

    def _bucket(self, carried: Iterator[_Carried]) -> Iterator[pa.RecordBatch]:
        _, bucket, _, files = next(carried)
        task: PostponedTask = pickle.loads(files)  # noqa: S301 - the driver's own
        return merged(task, _pieces(carried), self.needed, [bucket])


def _carried(batches: Iterable[pa.RecordBatch]) -> Iterator[_Carried]:
    for batch in batches:
        for i in range(batch.num_rows):
            task, bucket, kind, content = (c[i].as_py() for c in batch.columns)
            yield task, bucket, kind, content


def _pieces(carried: Iterable[_Carried]) -> Iterator[Piece]:
    for _, bucket, _, content in carried:
        with pa.ipc.open_stream(content) as reader:
            for rows in reader:
                yield bucket, rows
