"""ORC files of format tables that Python tasks read and write: those with timestamps.

Spark stores TIMESTAMP_NTZ as a number in ORC, reads no ORC timestamp as one, and takes those with a
time zone for times in the zone of its JVM.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from paimon_core.errors import UnsupportedFeature
from paimon_core.format.data_format import open_writer, read_batches
from paimon_core.io.file_io import FileIO
from paimon_core.options import Options
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import DataField, RowType
from paimon_spark.source.changes.placed_frames import packed_frame, unpacked
from paimon_spark.source.rows import arrow_schema_of, converted
from paimon_spark.source.spark_types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMAT: Final = "orc"
_FILE_BYTES: Final = 256 * 1024**2

Written = tuple[str, tuple[str, ...]]
"""The path of a new file, and the texts of the keys of its rows."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads (path, text) pairs: the columns, and the text in each row; sent to the executor."""

    io: FileIO
    fields: RowType
    options: Options
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path, text in unpacked(batches):
            for rows in read_batches(
                self.io, path, self.fields, file_format=_FORMAT, options=self.options
            ):
                columns = [
                    converted(rows.column(i), field.type)
                    for i, field in enumerate(list(self.schema)[:-1])
                ]
                texts = pa.repeat(pa.scalar(text, pa.string()), rows.num_rows)
                yield pa.RecordBatch.from_arrays([*columns, texts], schema=self.schema)


def orc_dataframe(
    spark: SparkSession,
    io: FileIO,
    files: Sequence[tuple[str, str]],
    fields: Sequence[DataField],
    options: Options,
    text_column: str,
) -> DataFrame:
    """The columns of the files, and in `text_column` the text that stands beside a file's path."""
    check_classic(spark)
    row_type = RowType(fields=tuple(fields))
    columns = spark_schema(row_type).fields
    for one in columns:
        one.nullable = True
    schema = StructType([*columns, StructField(text_column, StringType())])
    reader = _Reader(io, row_type, options, arrow_schema_of(schema))
    return packed_frame(spark, files).mapInArrow(reader, schema)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes the rows of a task, sorted by the last `keys` columns; sent to the executor."""

    io: FileIO
    folder: str
    fields: RowType
    keys: int
    compression: str
    options: Options

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written: list[Written] = []
        pieces = (piece for batch in batches for piece in self._pieces(batch))
        for texts, found in groupby(pieces, key=lambda piece: piece[0]):
            written += [(path, texts) for path in self._write(rows for _, rows in found)]
        packed = pa.array([pickle.dumps(one) for one in written], pa.binary())
        yield pa.RecordBatch.from_arrays([packed], names=["packed"])

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, ...], pa.RecordBatch]]:
        """Yield the batch in pieces whose rows have the same keys."""
        count = batch.num_columns - self.keys
        columns = [batch.column(count + i).to_pylist() for i in range(self.keys)]
        texts = list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows
        target = arrow_schema(self.fields)
        plain = [converted(batch.column(i), target.field(i).type) for i in range(count)]
        start = 0
        for key, same in groupby(texts):
            length = len(list(same))
            part = [column.slice(start, length) for column in plain]
            yield key, pa.RecordBatch.from_arrays(part, names=list(self.fields.names))
            start += length

    def _write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
        """Yield the paths of the files that hold the rows."""
        writer, path = None, ""
        for batch in batches:
            if writer is None:
                path = f"{self.folder}/part-{uuid4().hex}.{_FORMAT}"
                writer = open_writer(
                    self.io,
                    path,
                    self.fields,
                    file_format=_FORMAT,
                    compression=self.compression,
                    options=self.options,
                )
            writer.write(batch)
            if writer.bytes_written() >= _FILE_BYTES:
                writer.close()
                writer = None
                yield path
        if writer is not None:
            writer.close()
            yield path


def written_orc(
    rows: DataFrame,
    io: FileIO,
    folder: str,
    fields: Sequence[DataField],
    keys: Sequence[str],
    *,
    compression: str,
    options: Options,
) -> list[Written]:
    """Write the rows, whose columns are these fields and then the keys, below the folder.

    Files of attempts that failed stay there, and are not named.
    """
    check_classic(rows.sparkSession)
    row_type = RowType(fields=tuple(fields))
    writer = _Writer(io, folder, row_type, len(keys), compression, options)
    ordered = rows.sortWithinPartitions(*keys) if keys else rows
    answer = ordered.mapInArrow(writer, "packed BINARY").collect()
    return [pickle.loads(row.packed) for row in answer]  # noqa: S301 - our own tasks'


def check_classic(spark: SparkSession) -> None:
    """UnsupportedFeature through Spark Connect, where tasks get no objects of this process."""
    if not hasattr(spark, "_jsparkSession"):
        raise UnsupportedFeature(
            "ORC files with timestamps through Spark Connect",
            next_step="use a format table of Parquet files, or classic Spark",
        )
