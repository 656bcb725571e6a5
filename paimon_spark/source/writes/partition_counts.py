"""The sizes of the partitions of a DataFrame's rows, for the number of their buckets."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.sink.real_buckets import PartitionSize, PartitionSizes, partition_sizes
from paimon_spark.source.writes.task_writer import table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class _Counter:
    """Counts the rows of a Spark task; sent to the executor."""

    table: FileStoreTable

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = _together(
            partition_sizes(self.table, table_rows(self.table, b)[0]) for b in batches
        )
        packed = pa.array([pickle.dumps(found)], pa.binary())
        yield pa.RecordBatch.from_arrays([packed], names=["sizes"])


def sizes_of_partitions(rows: DataFrame, table: FileStoreTable) -> PartitionSizes:
    """The sizes of all partitions that the rows belong to, counted by executors."""
    answer = rows.mapInArrow(_Counter(table), "sizes BINARY").collect()
    return _together(pickle.loads(bytes(row[0])) for row in answer)  # noqa: S301 - our own tasks


def _together(parts: Iterable[PartitionSizes]) -> PartitionSizes:
    found: dict[tuple[Any, ...], PartitionSize] = {}
    for part in parts:
        for values, size in part.items():
            found[values] = found.get(values, PartitionSize(0, 0)) + size
    return found
