"""What a table is like: its files, how long a query over it takes, and what its rows are."""

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
    """One table at one snapshot.

    `sorted_runs` is the mean over the buckets of a primary-key table, None for others.  `seconds`
    is how long reading and merging all rows took, `checksum` does not depend on their order.
    """

    snapshot: int
    files: int
    bytes: int
    sorted_runs: float | None
    rows: int
    checksum: str
    seconds: float

    def same_rows(self, other: Measure) -> bool:
        """Whether both hold the same rows."""
        return (self.rows, self.checksum) == (other.rows, other.checksum)


def measure(warehouse: str, name: str) -> Measure:
    """The table as it is now."""
    table = open_table(warehouse, name)
    snapshot = table.latest_or_not_found()
    entries = scan_files(table, snapshot)
    buckets: dict[tuple[bytes, int], list[DataFileMeta]] = defaultdict(list)
    for entry in entries:
        buckets[entry.partition, entry.bucket].append(entry.file)
    rows, total, seconds = 0, np.uint64(0), 0.0
    batches = read_table(table, snapshot)
    while True:
        # A batch at a time, as the table may be larger than memory; hashing is not timed.
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
    """Sorted runs a bucket: each file of level 0 is one, and so is each higher level."""
    runs = [
        sum(f.level == 0 for f in files) + len({f.level for f in files if f.level})
        for files in buckets
    ]
    return sum(runs) / max(1, len(runs))


def _hash(table: FileStoreTable, batch: pa.RecordBatch) -> np.ndarray:
    """64 bits for each row, of all of its values.

    The row kind is no part of it: files of the top level are read as +I whatever they hold, in Java
    too, so compaction may turn +U into +I.
    """
    fields = table.schema.fields
    columns = [batch.column(field.name) for field in fields]
    types = [field.type for field in fields]
    # Two hashes of 32 bits, over the columns forth and back, make one that hardly collides.
    forth = hash_rows(columns, types).astype(np.uint32).astype(np.uint64)
    back = hash_rows(columns[::-1], types[::-1]).astype(np.uint32).astype(np.uint64)
    with np.errstate(over="ignore"):
        mixed = (forth << np.uint64(32)) | back
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _GOLDEN
    hashed: np.ndarray = mixed ^ (mixed >> np.uint64(27))
    return hashed
