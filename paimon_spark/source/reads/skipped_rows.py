"""Has Spark's Parquet reader skip the rows that a table does not show.

::

    merged files --> Python tasks: keys alone, merged --> hidden rows of each file, on the driver
    Parquet scan --> (file name, row number) --> left anti join with a bitmap of each file

The bitmaps are broadcast.  They depend on the files alone, which never change, so the driver
keeps those of the last reads: after a commit only the buckets that it changed are merged again.
"""

from __future__ import annotations

import hashlib
import pickle
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.index.deletion_vectors import packed, unpacked
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.read.hidden_rows import hidden_rows
from paimon_core.table.source.batch_tasks import BucketTask, pack_tasks
from paimon_spark.source.reads.parquet_files import MergedFiles, ParquetFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEPT_BYTES: Final = 64 * 1024**2
"""Bitmaps that the driver keeps."""
_OVERHEAD: Final = 256
_FILE: Final = "__paimon_file"
_OF_FILE: Final = "__paimon_of_file"
_ROW: Final = "__paimon_row"
_BITS: Final = "__paimon_bits"

Words = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HiddenRows:
    """How many rows of a file are not shown, and which, as `packed`."""

    count: int
    packed: bytes


OfFiles = dict[str, HiddenRows]
"""By file name."""


def hidden_rows_of(spark: SparkSession, merged: Sequence[MergedFiles]) -> OfFiles:
    """The rows of these files that are not shown; found by a Spark job if unknown.

    For classic Spark, whose driver is this process.
    """
    keys = [hidden_key(m.task) for m in merged]
    found = {key: known for key in keys if (known := _kept.get(key)) is not None}
    missing = {key: m.task for key, m in zip(keys, merged, strict=True) if key not in found}
    if missing:
        new = _by_job(spark, list(missing.values()))
        for key, task in missing.items():
            found[key] = {n: new[n] for n in (e.file.file_name for e in task.entries)}
            _kept.put(key, found[key])
    return {name: rows for part in found.values() for name, rows in part.items()}


@dataclass(frozen=True, slots=True)
class SkippedRows:
    """A file, and its rows that are not shown."""

    file: ParquetFile
    meta: DataFileMeta
    hidden: HiddenRows

    @property
    def bits(self) -> Words:
        """A bit for each row, 64 in a number, the first in its lowest bit."""
        bits = np.zeros(-(-self.meta.row_count // 64) * 64, np.uint8)
        bits[unpacked(self.hidden.packed)] = 1
        return np.packbits(bits, bitorder="little").view(np.int64)


def without_hidden(
    spark: SparkSession, frame: DataFrame, files: Sequence[SkippedRows]
) -> DataFrame:
    """The rows of a Parquet scan of these files without those to skip."""
    from pyspark.sql.functions import broadcast, col, expr  # noqa: PLC0415 - with a session

    of_file, ids = _ids(files)
    skipped = pa.table(
        {_OF_FILE: ids, _BITS: pa.array([f.bits for f in files], pa.list_(pa.int64()))}
    )
    numbered = frame.select("*", col(of_file).alias(_FILE), col("_metadata.row_index").alias(_ROW))
    is_skipped = expr(
        f"{_FILE} = {_OF_FILE} AND "
        f"shiftright(get({_BITS}, CAST(shiftright({_ROW}, 6) AS INT)), CAST({_ROW} & 63 AS INT)) & 1 "
        "= 1"
    )
    return numbered.join(broadcast(spark.createDataFrame(skipped)), is_skipped, "left_anti")


def _ids(files: Sequence[SkippedRows]) -> tuple[str, pa.Array]:
    """The column of a scan that tells the files apart, and its value for each of them.

    Their sizes on disk, unless two are equal: Spark looks up a number for each row much faster
    than a text.
    """
    try:
        sizes = [Path(f.file.path).stat().st_size for f in files]
    except OSError:
        sizes = []  # Spark reports the missing file
    if len(set(sizes)) == len(files):
        return "_metadata.file_size", pa.array(sizes, pa.int64())
    return "_metadata.file_name", pa.array([f.meta.file_name for f in files], pa.string())


def forget_hidden_rows() -> None:
    """Drop the results of earlier reads, as after a restart of the driver."""
    _kept.clear()


# --- found by tasks -----------------------------------------------------------------------------


def _by_job(spark: SparkSession, tasks: Sequence[BucketTask]) -> OfFiles:
    context = spark.sparkContext
    packs = [pickle.dumps(p) for p in pack_tasks(tasks, parallelism=context.defaultParallelism)]
    return dict(context.parallelize(packs, len(packs)).flatMap(_of_pack).collect())


def _of_pack(pack: bytes) -> Iterator[tuple[str, HiddenRows]]:
    tasks: tuple[BucketTask, ...] = pickle.loads(pack)  # noqa: S301 - the driver's own
    for task in tasks:
        found = hidden_rows(task.table, task.entries, task.index_files)
        for name, positions in found.items():
            yield name, HiddenRows(len(positions), packed(positions))


# --- kept by the driver -------------------------------------------------------------------------


def hidden_key(task: BucketTask) -> bytes:
    """What the hidden rows of the files depend on, as a digest."""
    table = task.table
    what = (
        table.root,
        table.schema,
        [(e.partition, e.bucket, e.file.file_name, e.file.level) for e in task.entries],
        [(f.file_name, f.dv_ranges) for f in task.index_files],
    )
    return hashlib.sha256(repr(what).encode()).digest()


@dataclass(slots=True)
class _Kept:
    """The results of the last reads, up to `KEPT_BYTES`."""

    size: int = 0
    _found: OrderedDict[bytes, OfFiles] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def get(self, key: bytes) -> OfFiles | None:
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
            return self._found.get(key)

    def put(self, key: bytes, found: OfFiles) -> None:
        with self._lock:
            if key in self._found:
                return
            self._found[key] = found
            self.size += _size(found)
            while self.size > KEPT_BYTES and len(self._found) > 1:
                self.size -= _size(self._found.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._found.clear()
            self.size = 0


def _size(found: OfFiles) -> int:
    return sum(_OVERHEAD + len(name) + len(rows.packed) for name, rows in found.items())


_kept: Final = _Kept()
