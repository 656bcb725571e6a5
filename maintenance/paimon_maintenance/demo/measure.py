"""Measures a table: files, time of a full read, and a checksum of its rows."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.types.row_hash import hash_rows

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The measurements of one table at one snapshot.

    `sorted_runs` is the mean over the buckets of a primary-key table, else None.  `seconds` is the
    time to read and merge all rows.  `checksum` does not depend on their order.
    """

    snapshot: int
    files: int
    bytes: int
    sorted_runs: float | None
    rows: int
    checksum: str
    seconds: float

    def same_rows(self, other: Measure) -> bool:
        """Whether both have the same rows."""
        return (self.rows, self.checksum) == (other.rows, other.checksum)


def measure(warehouse: str, name: str) -> Measure:
    """Measure the current table."""
    table = open_table(warehouse, name)
    snapshot = table.latest_or_not_found()
    entries = scan_files(table, snapshot)
    buckets: dict[tuple[bytes, int], list[DataFileMeta]] = defaultdict(list)
    for entry in entries:
        buckets[entry.partition, entry.bucket].append(entry.file)
    rows, total, seconds = 0, np.uint64(0), 0.0
    batches = read_table(table, snapshot)
    while True:
        # Batch by batch, because the table may exceed the memory; hashing is not timed.
        started = time.perf_counter()
        batch = next(batches, None)
        seconds += time.perf_counter() - started
        if batch is None:
            break
        rows += batch.num_rows
        with np.errstate(over="ignore"):
            total += _hash(table, batch).sum(dtype=np.uint64)
    return Measure(
        snapshot=snapshot.id,
        files=len(entries),
        bytes=sum(entry.file.file_size for entry in entries),
        sorted_runs=_runs(list(buckets.values())) if table.has_primary_key else None,
        rows=rows,
        checksum=f"{int(total):016x}",
        seconds=seconds,
    )


def _runs(buckets: list[list[DataFileMeta]]) -> float:
    """Sorted runs per bucket: each file of level 0 and each higher level is one."""
    runs = [
        sum(f.level == 0 for f in files) + len({f.level for f in files if f.level})
        for files in buckets
    ]
    return sum(runs) / max(1, len(runs))


def _hash(table: FileStoreTable, batch: pa.RecordBatch) -> np.ndarray:
    """A 64-bit hash of all values of each row.

    The row kind is not included: files of the top level are always read as +I, also in Java, so
    compaction may turn +U into +I.
    """
    fields = table.schema.fields
    columns = [batch.column(field.name) for field in fields]
    types = [field.type for field in fields]
    # Two 32-bit hashes, over the columns forwards and backwards, give a 64-bit hash.
    forth = hash_rows(columns, types).astype(np.uint32).astype(np.uint64)
    back = hash_rows(columns[::-1], types[::-1]).astype(np.uint32).astype(np.uint64)
    with np.errstate(over="ignore"):
        mixed = (forth << np.uint64(32)) | back
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _GOLDEN
    hashed: np.ndarray = mixed ^ (mixed >> np.uint64(27))
    return hashed
