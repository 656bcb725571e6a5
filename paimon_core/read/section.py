"""Reads the merged rows of a section of a bucket (Java: `MergeTreeReaders`, `MergeSorter`).

A section's runs are read in parallel.  The number of rows buffered per run follows from the number
and width of the runs, so that memory depends neither on the length nor on the number of the runs:
if open files would take too much memory, groups of runs are first merged into runs on local disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.data_format import BATCH_ROWS
from paimon_core.format.parquet.row_window import PagedFile
from paimon_core.index.deletion_vectors import Positions, without_deleted
from paimon_core.io.arrow_files import SpillFile, read_spilled
from paimon_core.io.temporary import temporary_folder
from paimon_core.io.threads import Threads
from paimon_core.lsm.key_order import Key, KeyView, stored_key
from paimon_core.lsm.merge_engine import MergedRows, MergeEngine, MergeSlice
from paimon_core.lsm.tree.sort_merge import MergeOrder, merge_slices, merge_sorted
from paimon_core.lsm.tree.sorted_run import Section, SortedRun
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import SEQUENCE_FIELD, SEQUENCE_FIELD_SORT_ORDER
from paimon_core.read.cursor import RowCursor
from paimon_core.read.data_file import partition_to_read, read_data_file
from paimon_core.read.read_ahead import in_background, side_by_side, source_of
from paimon_core.types.arrow import arrow_type
from paimon_core.types.data_types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    VectorType,
)

MAX_FAN_IN: Final = 64
"""The maximum number of runs that are read in parallel."""
READING_BYTES: Final = 512 * 1024**2
"""The approximate memory of open files: per column, a window of bytes and a decoded page."""
_COLUMN_BYTES: Final = 1024**2
WAITING_BYTES: Final = 128 * 1024**2
"""The approximate memory of decoded rows that wait to be merged, over all runs."""
PLAIN_BYTES: Final = 32 * 1024**2
"""The approximate decoded size of a batch if nothing is merged."""
MOST_ROWS: Final = 8192
LEAST_ROWS: Final = 16
"""Limits on the rows of a batch: more are not faster, fewer cost more per row than they save."""
_EQUAL_RUNS: Final = 10
"""The number of runs of one size of which `MOST_ROWS` are best.  Of fewer runs, or where one has
most of the rows, more rows are: what is merged at once costs a millisecond, however little it is.
"""
_LEAST_SHARE: Final = 0.25
_MOST_NAMES: Final = 10
_EXPANSION: Final = 3
"""Decoded bytes per file byte: a conservative estimate for types of variable width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionReader:
    """Reads sections of one bucket into `read_type`, which holds key and sequence fields."""

    table: FileStoreTable
    partition: bytes
    bucket: int
    read_type: RowType
    low: bytes | None = None
    high: bytes | None = None
    spill_dir: str | None = None
    vectors: Mapping[str, Positions] = field(default_factory=dict)
    """Deleted positions by file name; these rows are skipped."""
    windows: Mapping[str, range] = field(default_factory=dict)
    """By file name, rows outside which no key is >= `low` and < `high`."""
    cursors: Mapping[str, RowCursor] = field(default_factory=dict)
    """By file name, for files of which several readers read one window after the other."""
    footers: dict[str, PagedFile] | None = None
    """By path, for the other files of which several readers read windows."""
    threads: Threads | None = None
    """They decode the next batch of each run while the last ones are merged."""

    @property
    def order(self) -> MergeOrder:
        """Return how the table orders the versions of a key."""
        options = self.table.options
        return MergeOrder(
            key=self.table.schema.key_type,
            sequence_fields=options.value(SEQUENCE_FIELD),
            descending=options.value(SEQUENCE_FIELD_SORT_ORDER) == "descending",
        )

    def merged(
        self, section: Section, engine: MergeEngine, *, drop_deletes: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield key-value batches with one row per key, for keys >= `low` and < `high`."""
        order = self.order
        with ExitStack() as stack:
            rows, runs = self._runs(section, stack)
            yield from merge_sorted(
                runs,
                key=order.key,
                sequence_fields=order.sequence_fields,
                descending=order.descending,
                engine=engine,
                drop_deletes=drop_deletes,
                buffered_rows=rows,
                names=self.names(section, runs),
            )

    def slices(self, section: Section) -> Iterator[MergeSlice]:
        """Yield the versions of all keys, unmerged.

        `parts` name runs by their index in the section.

        Only for sections of up to MAX_FAN_IN runs: runs on disk do not record the origin of rows.
        """
        rows = batch_rows(section, self.read_type, side_by_side=len(section))
        runs = [self.run(run, rows) for run in section]
        yield from merge_slices(
            runs, self.order, buffered_rows=rows, names=self.names(section, runs)
        )

    def names(self, section: Section, runs: Sequence[Iterator[pa.RecordBatch]]) -> list[str]:
        """Return what errors call these runs: those of the section, or its oldest and spilled ones.

        Only the former have files.
        """
        known = section if len(runs) == len(section) else section[:1]
        return [
            ", ".join(
                self.table.paths.data_file(self.partition, self.bucket, file)
                for file in run.files[:_MOST_NAMES]
            )
            for run in known
        ]

    def run(self, run: SortedRun, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a run in batches of up to `rows` rows."""
        for file in run.files:
            if self._meets(file):
                yield from self._limited(self.file(file, rows))

    def file(self, file: DataFileMeta, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, or of its window, without those deleted by its vector."""
        table = self.table
        window = self.windows.get(file.file_name)
        file_schema = table.schema_of(file.schema_id)

        def decode(wanted: range | None, rows: int) -> Iterator[pa.RecordBatch]:
            return read_data_file(
                table.io,
                table.paths.data_file(self.partition, self.bucket, file),
                file,
                file_schema=file_schema,
                read_type=self.read_type,
                key_value=True,
                batch_rows=rows,
                partition=partition_to_read(file_schema, file, self.partition),
                rows=None if wanted == range(file.row_count) else wanted,
                footers=self.footers,
            )

        cursor = self.cursors.get(file.file_name)
        if cursor is None or window is None:
            batches = decode(window, rows)
        else:
            batches = cursor.read(window, rows, decode)
        deleted = self.vectors.get(file.file_name)
        return without_deleted(batches, deleted, 0 if window is None else window.start)

    def _runs(
        self, section: Section, stack: ExitStack
    ) -> tuple[int, list[Iterator[pa.RecordBatch]]]:
        """Return (rows to buffer per run, the runs), few enough to be read in parallel."""
        at_once = fan_in(section, self.read_type)
        if len(section) <= at_once:
            rows = batch_rows(section, self.read_type, side_by_side=len(section))
            sources = [source_of(run.total_size, self.run, run, rows) for run in section]
            runs = side_by_side(self.table.io, sources)
            if self.threads is None:
                return rows, runs
            pool = self.threads.pool
            return rows, [stack.enter_context(closing(in_background(r, pool))) for r in runs]
        folder = Path(stack.enter_context(temporary_folder("merge-", self.spill_dir)))
        # The oldest run, usually the largest by far, is not copied.
        oldest, *newer = section
        groups = [tuple(newer[i : i + at_once]) for i in range(0, len(newer), at_once)]
        # Runs stay in order of age: of equal versions the later run wins.
        rows = batch_rows(section, self.read_type, side_by_side=min(len(groups) + 1, MAX_FAN_IN))
        paths = [self._spill(group, folder / str(i), rows) for i, group in enumerate(groups)]
        while len(paths) > MAX_FAN_IN:
            paths = [
                _spill_merged(
                    [_spilled(p) for p in paths[i : i + MAX_FAN_IN]],
                    self.order,
                    paths[i],
                    rows_in=rows,
                    rows_out=rows,
                )
                for i in range(0, len(paths), MAX_FAN_IN)
            ]
        return rows, [self.run(oldest, rows), *(_spilled(path) for path in paths)]

    def _spill(self, group: Section, path: Path, rows_out: int) -> Path:
        rows = batch_rows(group, self.read_type, side_by_side=len(group))
        runs = [self.run(r, rows) for r in group]
        names = self.names(group, runs)
        return _spill_merged(runs, self.order, path, rows_in=rows, rows_out=rows_out, names=names)

    def _meets(self, file: DataFileMeta) -> bool:
        if not self.windows.get(file.file_name, range(1)):
            return False
        key = self.table.schema.key_type
        if self.low is not None and stored_key(file.max_key, key) < stored_key(self.low, key):
            return False
        return self.high is None or stored_key(file.min_key, key) < stored_key(self.high, key)

    def _limited(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file >= `low` and < `high`; stop reading at `high`."""
        if self.low is None and self.high is None:
            yield from batches
            return
        key = self.table.schema.key_type
        low = None if self.low is None else stored_key(self.low, key)
        high = None if self.high is None else stored_key(self.high, key)
        for batch in batches:
            part, is_last = _cut(batch, key, low, high)
            if part.num_rows:
                yield part
            if is_last:
                return


def batch_rows(section: Section, read_type: RowType, *, side_by_side: int) -> int:
    """Return the batch size in rows per run, if `side_by_side` runs are read in parallel."""
    files = [f for run in section for f in run.files]
    rows = sum(f.row_count for f in files)
    if rows == 0:
        return MOST_ROWS
    width = row_width(read_type, sum(f.file_size for f in files) / rows)
    # Up to two batches of each run are buffered, and one more copy of them is being merged.
    fitting = WAITING_BYTES // (3 * side_by_side * width)
    largest = max(sum(f.row_count for f in run.files) for run in section)
    best = MOST_ROWS * max(1, _EQUAL_RUNS * largest // rows)
    return max(LEAST_ROWS, min(BATCH_ROWS, best, fitting))


def plain_rows(file: DataFileMeta, read_type: RowType) -> int:
    """Return how many rows of a single file are decoded at a time."""
    width = row_width(read_type, file.file_size / max(1, file.row_count))
    return max(LEAST_ROWS, min(BATCH_ROWS, PLAIN_BYTES // width))


def row_width(read_type: RowType, stored: float) -> int:
    """Estimate the bytes of an Arrow row if a row takes `stored` bytes of a file.

    The size of fixed-width columns is known; the rest is what the file stores beyond that, or at
    least the columns' share, and is assumed to be well compressed.
    """
    fixed, varying = _widths(read_type)
    if not varying:
        return fixed
    share = max(_LEAST_SHARE, varying / len(read_type))
    return fixed + int(_EXPANSION * max(stored - fixed, stored * share))


def fan_in(section: Section, read_type: RowType) -> int:
    """Return how many of the section's runs are read in parallel."""
    largest = max(f.file_size for run in section for f in run.files)
    columns = 2 + sum(map(_leaves, read_type.types))
    reading = min(_EXPANSION * largest, columns * _COLUMN_BYTES)
    return max(2, min(MAX_FAN_IN, READING_BYTES // max(1, reading)))


def _leaves(data_type: DataType) -> int:
    match data_type:
        case RowType(fields=nested):
            return sum(_leaves(f.type) for f in nested)
        case ArrayType(element=element) | VectorType(element=element):
            return _leaves(element)
        case AtomicType(kind=TypeRoot.VARIANT):
            return 2
        case MapType(key=key, value=value):
            return _leaves(key) + _leaves(value)
    return 1


def _widths(read_type: RowType) -> tuple[int, int]:
    """Return (bytes of an Arrow row's fixed-width columns, number of variable-width columns)."""
    width, varying = 9, 0  # sequence number and kind
    for column in read_type:
        try:
            width += (arrow_type(column.type).bit_width + 7) // 8
        except ValueError:  # no fixed width
            width += 8
            varying += 1
    return width, varying


def _cut(
    batch: pa.RecordBatch, key: RowType, low: Key | None, high: Key | None
) -> tuple[pa.RecordBatch, bool]:
    """Return (the rows in the range, whether the batch reaches its upper end)."""
    view = KeyView(batch, key)
    begin = 0 if low is None else view.lower_bound(low)
    end = batch.num_rows if high is None else view.lower_bound(high, begin)
    return batch.slice(begin, end - begin), end < batch.num_rows


# --- runs on disk ---------------------------------------------------------------------------------


class _KeepAll:
    """The engine that keeps every version."""

    def merge(self, rows: MergeSlice) -> MergedRows:
        return MergedRows(rows.in_order())


def _spill_merged(
    runs: Sequence[Iterator[pa.RecordBatch]],
    order: MergeOrder,
    path: Path,
    *,
    rows_in: int,
    rows_out: int,
    names: Sequence[str] = (),
) -> Path:
    """Write all rows of the runs to a file in key order, `rows_out` per batch; return its path."""
    target = path.with_name(path.name + "+")
    with closing(SpillFile(target)) as file:
        for batch in merge_sorted(
            runs,
            key=order.key,
            sequence_fields=order.sequence_fields,
            descending=order.descending,
            engine=_KeepAll(),
            buffered_rows=rows_in,
            names=names,
        ):
            file.write(batch, batch_rows=rows_out)
    return target


def _spilled(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a spilled run; delete the file afterwards."""
    if not path.exists():
        return
    yield from read_spilled(path)
    path.unlink(missing_ok=True)
