"""Changes of single rows of large tables, done by Spark tasks: for UPDATE, DELETE and MERGE of SQL.

Tasks read the files of an append table with the place of each row, and write new files; the driver
learns places and files only.

::

    placed_rows        rows with their places                  a number: file << 40 | position
    changed_places     the places of changed rows by file      compressed bitmaps
    write_changes      files of new rows, by kind
    replace_rows       files of new rows, and the places of those that they replace
    write_kept         files of the rows that stay in files that change (copy on write)

The places that go and the rows that come in their stead are of one Spark job.  Spark may compute
its input again, where an executor is lost, and a query need not give the same rows then.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_core.environment import Environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import Positions
from paimon_core.lsm.merge_engine import DELETE
from paimon_core.manifest.data_file import IndexFileMeta, ManifestEntry
from paimon_core.read.data_file import read_table_file
from paimon_core.read.table_read import bucket_vectors
from paimon_core.types.data_types import RowType
from paimon_core.write.incoming_rows import without_defaults
from paimon_spark.source.distribution import counted_batches, shuffled_for
from paimon_spark.source.rows import arrow_schema_of, converted
from paimon_spark.source.spark_types import spark_schema
from paimon_spark.source.task_writer import ROW_KIND, TaskMessage, TaskWriter
from paimon_spark.source.write_jobs import written_by_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACE: Final = "__paimon_row"
"""The column with the place of a row."""
_SHIFT: Final = 40
_SECOND_JOB: Final = 1 << 14
"""The number of the first task of a second job for one commit."""
Bitmaps = Mapping[int, BitMap]


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file of an append table, its number, and the index files of its bucket."""

    number: int
    entry: ManifestEntry
    index_files: tuple[IndexFileMeta, ...]

    def batches(
        self, table: FileStoreTable, row_type: RowType
    ) -> Iterator[tuple[npt.NDArray[np.int64], pa.RecordBatch]]:
        """Yield the rows that no deletion vector hides, with their positions."""
        entry = self.entry
        deleted = bucket_vectors(table, (entry.partition, entry.bucket), self.index_files).get(
            entry.file.file_name
        )
        first = 0
        for batch in read_table_file(table, entry.partition, entry.bucket, entry.file, row_type):
            positions = np.arange(first, first + batch.num_rows, dtype=np.int64)
            first += batch.num_rows
            if deleted is None:
                yield positions, batch
            else:
                stays = np.isin(positions, deleted, invert=True)
                yield positions[stays], batch.filter(pa.array(stays))


# --- reading ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reader:
    table: FileStoreTable
    row_type: RowType
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in _files(batches):
            for positions, rows in file.batches(self.table, self.row_type):
                places = pa.array(positions + (file.number << _SHIFT))
                columns = [converted(rows.column(f.name), f.type) for f in list(self.schema)[1:]]
                yield pa.RecordBatch.from_arrays([places, *columns], schema=self.schema)


def placed_rows(
    spark: SparkSession, table: FileStoreTable, files: Sequence[PlacedFile], row_type: RowType
) -> DataFrame:
    """These columns of the files, the column `PLACE` first."""
    from pyspark.sql.types import LongType, StructField, StructType  # noqa: PLC0415 - on the driver

    fields = spark_schema(row_type).fields
    for one in fields:
        one.nullable = True
    schema = StructType([StructField(PLACE, LongType()), *fields])
    reader = _Reader(table, row_type, arrow_schema_of(schema))
    return _frame_of(spark, files).mapInArrow(reader, schema)


def _frame_of(spark: SparkSession, files: Sequence[object]) -> DataFrame:
    """One row an object, a task each for some of them."""
    context = spark.sparkContext
    rows: Any = [(bytearray(pickle.dumps(f)),) for f in files]
    slices = max(1, min(len(rows), 4 * context.defaultParallelism))
    return spark.createDataFrame(
        context.parallelize(rows, slices), "file BINARY", verifySchema=False
    )


def _files(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    for batch in batches:
        for packed in batch.column(0).to_pylist():
            yield pickle.loads(packed)  # noqa: S301 - the driver's own


# --- places -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Places:
    """The places of a task: one bitmap a file, and how many there are with repetitions."""

    bitmaps: dict[int, BitMap] = field(default_factory=dict)
    count: int = 0

    def add(self, column: pa.Array) -> None:
        places = np.asarray(column.drop_null()).astype(np.int64)
        self.count += len(places)
        numbers = places >> _SHIFT
        for number in np.unique(numbers):
            positions = places[numbers == number] & ((1 << _SHIFT) - 1)
            self.bitmaps.setdefault(int(number), BitMap()).update(positions.astype(np.uint32))


def _bitmaps_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The places of a task as one bitmap a file."""
    found = _Places()
    for batch in batches:
        found.add(batch.column(0))
    yield pa.RecordBatch.from_arrays(
        [
            pa.array(list(found.bitmaps), pa.int32()),
            pa.array([b.serialize() for b in found.bitmaps.values()], pa.binary()),
        ],
        names=["file", "positions"],
    )


def changed_places(rows: DataFrame) -> Bitmaps:
    """The positions of the rows by the number of their file; `rows` have the column `PLACE`."""
    answer = rows.select(PLACE).mapInArrow(_bitmaps_of, "file INT, positions BINARY")
    return _merged((number, bytes(data)) for number, data in answer.collect())


def _merged(packed: Iterable[tuple[int, bytes]]) -> Bitmaps:
    merged: dict[int, BitMap] = {}
    for number, data in packed:
        merged.setdefault(number, BitMap()).update(BitMap.deserialize(data))
    return merged


def positions_of(bitmap: BitMap) -> Positions:
    """The positions in a bitmap, ascending."""
    return np.asarray(bitmap.to_array(), dtype=np.int64)


# --- writing ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ReplacedByTask(TaskMessage):
    """What one task wrote, and the places of the rows that go, packed; `count` with repetitions."""

    places: tuple[tuple[int, bytes], ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class _Replacer:
    """Writes new rows, and notes the places of those that go."""

    writer: TaskWriter

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> TaskMessage:
        gone = _Places()
        made = self.writer.write(self._new(batches, gone))
        places = tuple((n, b.serialize()) for n, b in gone.bitmaps.items())
        return _ReplacedByTask(made.task, made.messages, made.query, places, gone.count)

    def _new(self, batches: Iterable[pa.RecordBatch], gone: _Places) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            gone.add(batch.column(PLACE))
            stays = np.asarray(batch.column(ROW_KIND)) != DELETE
            new = batch.drop_columns([PLACE, ROW_KIND]).filter(pa.array(stays))
            if new.num_rows:
                yield new


@dataclass(frozen=True, slots=True)
class Replaced:
    """What all tasks wrote, the places of the rows that go, and whether one goes several times."""

    written: list[TaskMessage]
    places: Bitmaps
    repeated: bool


@dataclass(frozen=True, slots=True)
class _Keeper:
    """Rewrites pairs of a file and the positions that go."""

    writer: TaskWriter

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> TaskMessage:
        return self.writer.write(self._kept(batches))

    def _kept(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = self.writer.table
        for file, bitmap in _files(batches):
            gone = positions_of(BitMap.deserialize(bitmap))
            for positions, rows in file.batches(table, table.schema.row_type):
                kept = rows.filter(pa.array(np.isin(positions, gone, invert=True)))
                if kept.num_rows:
                    yield kept


def write_changes(
    rows: DataFrame, table: FileStoreTable, *, env: Environment, user: str
) -> list[TaskMessage]:
    """Write the rows; the files of each task.  `rows` may have a column `ROW_KIND`.

    A deleted row is written as it was read: a changelog takes back what it told before.
    """
    writer = TaskWriter(
        table=table, env=env, user=user, overwrite=False, shuffled=True, deletes_stored=True
    )
    with counted_batches(rows.sparkSession):
        return written_by_tasks(shuffled_for(rows, table), writer.write, table)


def replace_rows(
    rows: DataFrame, table: FileStoreTable, *, env: Environment, user: str
) -> Replaced:
    """Write the rows of an append table, but those of the kind DELETE.

    `rows` have the columns `PLACE`, null for rows that replace none, and `ROW_KIND`.
    """
    writer = TaskWriter(table=table, env=env, user=user, overwrite=False, shuffled=True)
    with counted_batches(rows.sparkSession):
        written = written_by_tasks(shuffled_for(rows, table), _Replacer(writer), table)
    by_tasks = [m for m in written if isinstance(m, _ReplacedByTask)]
    places = _merged(packed for m in by_tasks for packed in m.places)
    count = sum(m.count for m in by_tasks)
    return Replaced(written, places, count > sum(len(b) for b in places.values()))


def write_kept(
    spark: SparkSession,
    table: FileStoreTable,
    files: Sequence[PlacedFile],
    gone: Bitmaps,
    *,
    env: Environment,
    user: str,
) -> list[TaskMessage]:
    """Write what stays of the files once the rows at the places in `gone` are out."""
    writer = TaskWriter(
        table=without_defaults(table),
        env=env,
        user=user,
        overwrite=False,
        shuffled=False,
        first_task=_SECOND_JOB,
    )
    touched = [(f, gone[f.number].serialize()) for f in files if f.number in gone]
    return written_by_tasks(_frame_of(spark, touched), _Keeper(writer), table)
