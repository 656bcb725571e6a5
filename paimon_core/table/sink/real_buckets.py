"""Real buckets for the rows that Spark writes to tables with bucket = -2.

Java: `PaimonSparkWriter` under `postpone.batch-write-fixed-bucket` (default true), `PostponeUtils`.
Rows of a partition that has real buckets keep their number.  A new partition gets as many as its
rows need, if all rows are there (2.0.0), else as many as the query has `tasks` (1.4.2).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.compaction.postpone import check_target
from paimon_core.features import check_writable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.options import BUCKET_FUNCTION, POSTPONE_TARGET_ROWS, parse_bool, parse_memory_size
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.scan.scan import scan_files
from paimon_core.types.arrow import column_from_internal
from paimon_core.types.binary_row import decode_row, is_compact_timestamp, null_bits_width
from paimon_core.types.data_types import AtomicType, DataType, TypeRoot
from paimon_core.types.decimals import COMPACT_PRECISION
from paimon_core.types.row_hash import assign_buckets
from paimon_core.write.incoming_rows import fit_to_schema

_FIXED: Final = "postpone.batch-write-fixed-bucket"
_MOST: Final = "postpone.batch-write-fixed-bucket.max-parallelism"
_TARGET_SIZE: Final = "postpone.target-size-per-bucket"
_TEXTS: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)
_INLINE: Final = 7
"""So many bytes fit into the fixed part of a row."""


@dataclass(frozen=True, slots=True)
class RealBuckets:
    """How many buckets each partition has: `known` those that have some, `new` all others."""

    new: int
    known: Mapping[tuple[Any, ...], int]

    @staticmethod
    def of(table: FileStoreTable, *, tasks: int) -> RealBuckets | None:
        """None if writes to the table do not put rows into real buckets.

        UnsupportedFeature if the table cannot be written.
        """
        wanted = parse_bool(table.options.get(_FIXED, "true"))
        if table.bucket_mode is not BucketMode.POSTPONE or not wanted:
            return None
        check_writable(table)
        most = int(table.options.get(_MOST, "2048"))
        return RealBuckets(max(1, min(tasks, most)), _known(table))

    @staticmethod
    def for_rows(
        table: FileStoreTable, rows: pa.Table, *, replaced: bool = False, emptied: bool = False
    ) -> RealBuckets | None:
        """As `of`, with the number that each new partition of the rows needs (`for_sizes`).

        If the table is to be `emptied` first, what is there does not count.
        """
        found = RealBuckets.of(table, tasks=1)
        if found is None or not rows.num_rows:
            return found
        if emptied:
            found = found.of_emptied()
        return found.for_sizes(table, partition_sizes(table, rows), replaced=replaced)

    def for_sizes(
        self, table: FileStoreTable, sizes: PartitionSizes, *, replaced: bool
    ) -> RealBuckets:
        """The same, with the number that each new partition needs for rows of these sizes.

        Rows that wait in the postpone bucket count too, unless they are `replaced`.
        InvalidArgument for an invalid size of buckets.
        """
        most, wanted = int(table.options.get(_MOST, "2048")), _Wanted.of(table)
        waiting = {} if replaced else _waiting(table)
        known = dict(self.known)
        for values, size in sizes.items():
            if values not in known:
                number = wanted.number(size.rows, waiting.get(values, 0), size.size)
                known[values] = min(number, most)
        return RealBuckets(self.new, known)

    def of_emptied(self) -> RealBuckets:
        """The same for a table whose partitions are all new."""
        return RealBuckets(self.new, {})

    def assigned(
        self, table: FileStoreTable, rows: pa.Table | pa.RecordBatch
    ) -> npt.NDArray[np.int32]:
        """The bucket of each row; the rows need only the columns of partitions and bucket keys."""
        keys = table.schema.bucket_keys
        types = table.schema.row_type.project(keys).types
        function = table.options.value(BUCKET_FUNCTION)
        found = np.zeros(rows.num_rows, np.int32)
        for number, places in self.split(table, rows):
            columns = [rows.column(k).take(pa.array(places)) for k in keys]
            found[places] = assign_buckets(columns, types, number, function=function)
        return found

    def split(
        self, table: FileStoreTable, rows: pa.Table | pa.RecordBatch
    ) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """A number of buckets, and the positions of the rows in partitions with this number."""
        found: dict[int, list[npt.NDArray[np.int64]]] = defaultdict(list)
        for values, places in _by_partition(table, rows).items():
            found[self.known.get(values, self.new)].append(places)
        for number, parts in found.items():
            yield number, np.sort(np.concatenate(parts))


@dataclass(frozen=True, slots=True)
class PartitionSize:
    """How many rows a partition gets, and their bytes."""

    rows: int
    size: float

    def __add__(self, other: PartitionSize) -> PartitionSize:
        return PartitionSize(self.rows + other.rows, self.size + other.size)


PartitionSizes = Mapping[tuple[Any, ...], PartitionSize]


def partition_sizes(table: FileStoreTable, rows: pa.Table | pa.RecordBatch) -> PartitionSizes:
    """The sizes of the partitions of the rows, in bytes only if buckets are measured by them."""
    by_rows = table.options.value(POSTPONE_TARGET_ROWS) is not None
    sizes = np.zeros(rows.num_rows) if by_rows else row_sizes(table, rows)
    return {
        values: PartitionSize(len(places), float(sizes[places].sum()))
        for values, places in _by_partition(table, rows).items()
    }


@dataclass(frozen=True, slots=True)
class _Wanted:
    """How large a bucket of a new partition is to be: in rows, else in bytes."""

    rows: int | None
    size: int

    @staticmethod
    def of(table: FileStoreTable) -> _Wanted:
        size = parse_memory_size(table.options.get(_TARGET_SIZE, "1 gb"))
        found = _Wanted(table.options.value(POSTPONE_TARGET_ROWS), size)
        if found.rows is None:
            check_target(table, _TARGET_SIZE, size)
        else:
            check_target(table, POSTPONE_TARGET_ROWS.key, found.rows)
        return found

    def number(self, rows: int, waiting: int, size: float) -> int:
        """The buckets for new rows of this size, and rows that wait, which are as large."""
        if self.rows is not None:
            return _shares(rows + waiting, self.rows)
        return _shares(_shares(int(size) * (rows + waiting), rows), self.size)


def _shares(whole: int, share: int) -> int:
    """How many shares there are in the whole, one at least."""
    return max(1, -(-whole // share))


def _by_partition(
    table: FileStoreTable, rows: pa.Table | pa.RecordBatch
) -> dict[tuple[Any, ...], npt.NDArray[np.int64]]:
    """The positions of the rows of each partition."""
    row_type = table.schema.partition_type
    if not row_type.fields:
        return {(): np.arange(rows.num_rows, dtype=np.int64)}
    if not rows.num_rows:
        return {}
    given = [n for n in row_type.names if n in rows.schema.names]
    partitions = fit_to_schema(table, pa.table(rows.select(given)), row_type)
    numbers = np.zeros(rows.num_rows, np.int64)
    for column in partitions.columns:
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        numbers = numbers * (len(encoded.dictionary) + 1) + np.asarray(encoded.indices)
        numbers = np.unique(numbers, return_inverse=True)[1]
    firsts = np.unique(numbers, return_index=True)[1]
    order = np.argsort(numbers, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(numbers))[:-1])
    values = zip(*(c.take(pa.array(firsts)).to_pylist() for c in partitions.columns), strict=True)
    return dict(zip(values, groups, strict=True))


def row_sizes(table: FileStoreTable, rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.float64]:
    """The bytes of each row as Java's BinaryRow; of nested values the mean of their column."""
    fields = table.schema.fields
    sizes = np.full(rows.num_rows, null_bits_width(len(fields)) + 8 * len(fields), np.float64)
    for field in fields:
        if field.name in rows.schema.names:
            sizes += _sizes_beside(field.type, rows.column(field.name))
    return sizes


def _sizes_beside(
    data_type: DataType, column: pa.ChunkedArray | pa.Array
) -> npt.NDArray[np.float64] | float:
    """The bytes of each value that are not in the fixed part of the row."""
    match data_type:
        case AtomicType(kind=TypeRoot.DECIMAL, precision=int(precision)):
            return 0 if precision <= COMPACT_PRECISION else 16
        case AtomicType(kind=TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ):
            return 0 if is_compact_timestamp(data_type) else 8
        case AtomicType() if pa.types.is_primitive(column.type):
            return 0
        case AtomicType(kind=kind) if kind in _TEXTS:
            lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy()
            found: npt.NDArray[np.float64] = np.where(
                lengths > _INLINE, -(-lengths // 8) * 8.0, 0.0
            )
            return found
    return float(column.nbytes / max(1, len(column)))


def with_real_buckets(table: FileStoreTable, number: int) -> FileStoreTable:
    """The table to write rows of such partitions into."""
    options = {"bucket": str(number), "write-only": "true"}
    return replace(table, schema=table.schema.with_options(options))


def _known(table: FileStoreTable) -> dict[tuple[Any, ...], int]:
    """The number of buckets of each partition that has real ones."""
    latest = table.snapshots.latest()
    if latest is None:
        return {}
    numbers = {e.partition: e.total_buckets for e in scan_files(table, latest) if e.bucket >= 0}
    return {_values(table, partition): number for partition, number in numbers.items()}


def _waiting(table: FileStoreTable) -> dict[tuple[Any, ...], int]:
    """The number of rows of each partition in the postpone bucket."""
    latest = table.snapshots.latest()
    counts: dict[bytes, int] = defaultdict(int)
    for entry in () if latest is None else scan_files(table, latest):
        if entry.bucket == POSTPONE_BUCKET:
            counts[entry.partition] += entry.file.row_count
    return {_values(table, partition): count for partition, count in counts.items()}


def _values(table: FileStoreTable, partition: bytes) -> tuple[Any, ...]:
    """The values of a partition as its rows have them."""
    partition_type = table.schema.partition_type
    arrays = [
        column_from_internal([value], field.type.with_nullable(True))
        for value, field in zip(
            decode_row(partition, partition_type.types), partition_type.fields, strict=True
        )
    ]
    return tuple(array.to_pylist()[0] for array in arrays)
