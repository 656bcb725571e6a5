"""Changes of single rows of large tables, done by Spark tasks: for UPDATE, DELETE and MERGE of SQL.

Tasks read the files of an append table with the place of each row, and write new files; the driver
learns places and files only.

::

    placed_rows        rows with their places                  a number: file << 40 | position
    changed_places     the places of changed rows by file      compressed bitmaps
    write_changes      files of new rows, by kind
    write_kept         files of the rows that stay in files that change (copy on write)
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_core.environment import Environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import Positions
from paimon_core.manifest.data_file import IndexFileMeta, ManifestEntry
from paimon_core.read.data_file import read_table_file
from paimon_core.read.table_read import bucket_vectors
from paimon_core.types.data_types import RowType
from paimon_core.write.incoming_rows import without_defaults
from paimon_spark.source.distribution import counted_batches, shuffled_for
from paimon_spark.source.rows import arrow_schema_of, converted
from paimon_spark.source.spark_types import spark_schema
from paimon_spark.source.task_writer import TaskMessage, TaskWriter
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
    for field in fields:
        field.nullable = True
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


def _bitmaps_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The places of a task as one bitmap a file."""
    found: dict[int, BitMap] = {}
    for batch in batches:
        places = np.asarray(batch.column(0).drop_null()).astype(np.int64)
        numbers = places >> _SHIFT
        for number in np.unique(numbers):
            positions = places[numbers == number] & ((1 << _SHIFT) - 1)
            found.setdefault(int(number), BitMap()).update(positions.astype(np.uint32))
    yield pa.RecordBatch.from_arrays(
        [
            pa.array(list(found), pa.int32()),
            pa.array([b.serialize() for b in found.values()], pa.binary()),
        ],
        names=["file", "positions"],
    )


def changed_places(rows: DataFrame) -> Bitmaps:
    """The positions of the rows by the number of their file; `rows` have the column `PLACE`."""
    merged: dict[int, BitMap] = {}
    answer = rows.select(PLACE).mapInArrow(_bitmaps_of, "file INT, positions BINARY")
    for number, data in answer.collect():
        merged.setdefault(number, BitMap()).update(BitMap.deserialize(bytes(data)))
    return merged


def positions_of(bitmap: BitMap) -> Positions:
    """The positions in a bitmap, ascending."""
    return np.asarray(bitmap.to_array(), dtype=np.int64)


# --- writing ------------------------------------------------------------------------------------


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
