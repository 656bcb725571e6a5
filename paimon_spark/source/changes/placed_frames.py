"""DataFrames of rows with their places, read by executors unit by unit (`placed_rows`)."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.source.placed_rows import Unit
from paimon_core.types.data_types import RowType
from paimon_spark.metadata_columns import metadata_fields, metadata_of
from paimon_spark.source.rows import arrow_schema_of, converted
from paimon_spark.source.spark_types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACE: Final = "__paimon_row"
"""The column with the place of a row: the number of its unit, and the position in it."""
POSITION_BITS: Final = 40
"""How many bits of a place are the position."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads units with their numbers; sent to the executor."""

    table: FileStoreTable
    columns: tuple[str, ...]
    metadata: frozenset[str]
    schema: pa.Schema
    """Of the rows: the place, if it is wanted, the columns, the hidden columns."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        targets = [f.type for f in self.schema if f.name != PLACE]
        for number, unit in unpacked(batches):
            for placed in unit.batches(self.table, self.columns):
                hidden = [values for _, values in metadata_of(placed, self.metadata)]
                for rows in placed.rows.to_batches():
                    found = [
                        converted(column, target)
                        for column, target in zip([*rows.columns, *hidden], targets, strict=True)
                    ]
                    if len(found) < len(self.schema):
                        places = pa.array(placed.positions + np.int64(number << POSITION_BITS))
                        found = [places, *found]
                    yield pa.RecordBatch.from_arrays(found, schema=self.schema)


def placed_dataframe(
    spark: SparkSession,
    table: FileStoreTable,
    units: Sequence[Unit],
    columns: Sequence[str],
    metadata: Collection[str],
    *,
    placed: bool = False,
) -> DataFrame:
    """These columns of the units, the hidden columns behind them; with `placed`, `PLACE` first.

    For classic Spark, whose driver is this process.
    """
    row_type = table.schema.row_type.project(columns)
    hidden = metadata_fields(table, metadata)
    fields = spark_schema(RowType(fields=(*row_type.fields, *hidden))).fields
    for one in fields:
        one.nullable = True
    schema = StructType([*([StructField(PLACE, LongType())] if placed else []), *fields])
    reader = _Reader(table, row_type.names, frozenset(metadata), arrow_schema_of(schema))
    return packed_frame(spark, list(enumerate(units))).mapInArrow(reader, schema)


def packed_frame(spark: SparkSession, things: Sequence[object]) -> DataFrame:
    """A column `packed` with one row for each of the things, a task for some of them each."""
    context = spark.sparkContext
    rows: Any = [(bytearray(pickle.dumps(thing)),) for thing in things]
    slices = max(1, min(len(rows), 4 * context.defaultParallelism))
    return spark.createDataFrame(
        context.parallelize(rows, slices), "packed BINARY", verifySchema=False
    )


def unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """Yield the things of a `packed_frame`."""
    for batch in batches:
        for packed in batch.column(0).to_pylist():
            yield pickle.loads(packed)  # noqa: S301 - the driver's own
