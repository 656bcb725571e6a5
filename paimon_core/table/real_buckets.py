"""Real buckets for the rows that Spark writes to tables with bucket = -2.

Java: `PaimonSparkWriter` under `postpone.batch-write-fixed-bucket` (default true), `PostponeUtils`.
Rows of a partition that has real buckets keep their number; a new partition gets as many as the
query has `tasks`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.features import check_writable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.options import parse_bool
from paimon_core.scan.scan import scan_files
from paimon_core.types.arrow import column_from_internal
from paimon_core.types.binary_row import decode_row
from paimon_core.write.incoming_rows import table_rows

_FIXED: Final = "postpone.batch-write-fixed-bucket"
_MOST: Final = "postpone.batch-write-fixed-bucket.max-parallelism"


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

    def split(
        self, table: FileStoreTable, rows: pa.Table | pa.RecordBatch
    ) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """A number of buckets, and the positions of the rows in partitions with this number."""
        row_type = table.schema.partition_type
        if not row_type.fields:
            yield self.known.get((), self.new), np.arange(rows.num_rows, dtype=np.int64)
            return
        given = [n for n in row_type.names if n in rows.schema.names]
        partitions = table_rows(table, pa.table(rows.select(given)), row_type)
        found: dict[int, list[int]] = defaultdict(list)
        for place, values in enumerate(zip(*(c.to_pylist() for c in partitions), strict=True)):
            found[self.known.get(values, self.new)].append(place)
        for number, places in found.items():
            yield number, np.array(places, np.int64)


def with_real_buckets(table: FileStoreTable, number: int) -> FileStoreTable:
    """The table to write rows of such partitions into."""
    options = {"bucket": str(number), "write-only": "true"}
    return replace(table, schema=table.schema.with_options(options))


def _known(table: FileStoreTable) -> dict[tuple[Any, ...], int]:
    """The number of buckets of each partition that has real ones."""
    latest = table.snapshots.latest()
    if latest is None:
        return {}
    fields = table.schema.partition_type.fields
    types = table.schema.partition_type.types
    numbers = {e.partition: e.total_buckets for e in scan_files(table, latest) if e.bucket >= 0}
    found: dict[tuple[Any, ...], int] = {}
    for partition, number in numbers.items():
        values = decode_row(partition, types)
        arrays = [
            column_from_internal([v], f.type.with_nullable(True))
            for v, f in zip(values, fields, strict=True)
        ]
        found[tuple(a.to_pylist()[0] for a in arrays)] = number
    return found
