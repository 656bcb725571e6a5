"""A row group made of new rows and of some rows of a stored row group, most of them as its pages.

The pages of two columns end at different rows, so each column has its own place where copying
begins and ends::

    wanted rows              |------------------|
    BIGINT column     |--------|========|========|--------|     two pages are copied
    STRING column     |-----|-----|=====|=====|=====|-----|     three pages are copied

Rows of a column before and after its copied pages are decoded and encoded again.  New pages have no
dictionary, so they can follow pages that need the stored one.  Java reads wrong values where they
precede these; such a column is encoded as a whole.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Protocol

import pyarrow as pa

from paimon_core.format.column_stats import StatsCollector
from paimon_core.format.dictionary_choice import leaves
from paimon_core.format.parquet.assembler import ChunkSource, encoded
from paimon_core.format.parquet.chunks import StoredColumn, StoredGroup, value_of
from paimon_core.format.parquet.writer import ROW_GROUP_BYTES
from paimon_core.format.stored_file import StoredFile
from paimon_core.types.arrow import arrow_type
from paimon_core.types.data_types import AtomicType, DataField, DataType, RowType, TypeRoot

_MIXED: Final = frozenset({"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"})
"""The encodings of pages that new ones, which are PLAIN, are placed beside."""


LEADING_BYTES: Final = ROW_GROUP_BYTES // 2
"""Rows that wait with more bytes become a row group of their own before pages are copied."""
SHORTENED: Final = 64
"""Writers may cut bounds of this number of bytes, or more, in their page indexes."""


class ColumnSink(Protocol):
    """Gets the statistics of rows that are taken over, column by column."""

    def knows(self, number: int, pages: StoredColumn) -> bool:
        """Take the statistics of copied pages; return False if their values are needed."""
        ...

    def sees(self, number: int, values: pa.Array) -> None:
        """Take the values of decoded rows."""
        ...


@dataclass(frozen=True, slots=True)
class StoredRange:
    """Rows of one row group of a stored file, as rows of the file."""

    file: StoredFile
    group: StoredGroup
    rows: range

    @property
    def size(self) -> int:
        """Return about how many bytes of the file they take."""
        return self.group.size * len(self.rows) // max(1, self.group.rows)

    @property
    def leading_bytes(self) -> int:
        """Return the limit for new rows that precede these in their row group."""
        # Such rows would keep the pages of columns with dictionaries from being copied.
        return 0 if any(c.has_dictionary for c in self.group.columns) else LEADING_BYTES

    @property
    def in_group(self) -> range:
        first = self.group.first_row
        return range(self.rows.start - first, self.rows.stop - first)


@dataclass(frozen=True, slots=True)
class PageSplice:
    """Makes row groups for files with these columns."""

    columns: RowType
    compression: str
    zstd_level: int

    def chunks(
        self, leading: Sequence[pa.RecordBatch], stored: StoredRange, sink: ColumnSink
    ) -> list[Sequence[ChunkSource]]:
        """Return the chunks of each leaf column: the `leading` rows, then the stored ones.

        The `sink` has seen the leading rows before.
        """
        leaves = leaf_ranges(self.columns)
        found: list[Sequence[ChunkSource]] = [()] * leaves[-1].stop
        by_rows: dict[range, list[int]] = defaultdict(list)
        for number, field in enumerate(self.columns.fields):
            chunks = [stored.group.columns[leaf] for leaf in leaves[number]]
            whole = _whole_pages(chunks, stored.in_group)
            if any(c.has_dictionary for c in chunks) and (
                leading or whole.start > stored.in_group.start
            ):
                whole = range(stored.in_group.stop, stored.in_group.stop)
            by_rows[whole].append(number)
            assert len(chunks) == 1 or _flat(field) is None
        for whole, numbers in by_rows.items():
            columns = RowType(fields=tuple(self.columns.fields[n] for n in numbers))
            new = [b.select(columns.names) for b in leading]
            head = self._decoded(stored, range(stored.in_group.start, whole.start), columns)
            tail = self._decoded(stored, range(whole.stop, stored.in_group.stop), columns)
            _show([*head, *tail], numbers, sink)
            before = self._encoded([*new, *head], columns, dictionaries=not whole)
            after = self._encoded(tail, columns, dictionaries=False)
            unknown: list[int] = []
            at = 0
            for number in numbers:
                for leaf in leaves[number]:
                    column = stored.group.columns[leaf]
                    copied = _copied(column, whole, _flat(self.columns.fields[number]))
                    found[leaf] = (
                        *_dictionary(column, copied, stored.file),
                        *before[at : at + 1],
                        *(ChunkSource(part, stored.file.read, stored.file.path) for part in copied),
                        *after[at : at + 1],
                    )
                    at += 1
                    is_first = leaf == leaves[number].start
                    if is_first and copied and not sink.knows(number, copied[0]):
                        unknown.append(number)
            columns = RowType(fields=tuple(self.columns.fields[n] for n in unknown))
            if unknown:
                _show(self._decoded(stored, whole, columns), unknown, sink)
        return found

    def _decoded(self, stored: StoredRange, rows: range, columns: RowType) -> list[pa.RecordBatch]:
        """Return these rows of the group."""
        if not rows:
            return []
        first = stored.group.first_row
        return list(stored.file.decoded(range(first + rows.start, first + rows.stop), columns))

    def _encoded(
        self, batches: Sequence[pa.RecordBatch], columns: RowType, *, dictionaries: bool
    ) -> list[ChunkSource]:
        if not batches:
            return []
        return encoded(
            batches,
            columns,
            compression=self.compression,
            zstd_level=self.zstd_level,
            dictionaries=dictionaries,
        )


def takes_known(
    collector: StatsCollector, place: int, field: DataField, pages: StoredColumn
) -> bool:
    """Add the statistics of copied pages of a column; return False if its values are needed."""
    if not collector.wants_counts(place):
        return True
    if pages.nulls is None:
        return False
    bounds: Sequence[Any] = ()
    if collector.wants_bounds(place) and pages.nulls != pages.values:
        assert isinstance(field.type, AtomicType)  # other types have no bounds
        stored = (pages.minimum, pages.maximum)
        if any(isinstance(v, bytes) and len(v) >= SHORTENED for v in stored):
            return False
        bounds = [None if v is None else value_of(v, field.type) for v in stored]
        if None in bounds:
            return False
    collector.add_known(place, pages.nulls, bounds)
    return True


def leaf_ranges(columns: RowType) -> list[range]:
    """Return the leaf columns of a file for each of its columns."""
    counts = [
        sum(1 for _ in leaves(f.name, pa.nulls(0, arrow_type(f.type)))) for f in columns.fields
    ]
    return [range(end - n, end) for n, end in zip(counts, accumulate(counts), strict=True)]


def is_better_ended(written: int, more: int, *, target: int, small: int) -> bool:
    """Return whether to end a file of `written` bytes before `more` are added.

    True if it is large enough, and would then exceed the target by more than it falls short now.
    A `small` file would be rewritten again by the next compaction.
    """
    return written >= small and written + more - target > target - written


def _show(batches: Sequence[pa.RecordBatch], numbers: Sequence[int], sink: ColumnSink) -> None:
    for batch in batches:
        for number, array in zip(numbers, batch.columns, strict=True):
            sink.sees(number, array)


def _flat(field: DataField) -> DataType | None:
    """Return the type of a column with a value in each row, None for a nested one."""
    is_flat = isinstance(field.type, AtomicType) and field.type.kind is not TypeRoot.VARIANT
    return field.type if is_flat else None


def _whole_pages(chunks: Sequence[StoredColumn], rows: range) -> range:
    """Return the rows of the pages of all these chunks that hold nothing but `rows`."""
    nothing = range(rows.stop, rows.stop)
    borders: set[int] | None = None
    for chunk in chunks:
        if (
            chunk.pages is None
            or (chunk.has_dictionary and not chunk.first_data)
            or not chunk.encodings <= _MIXED
        ):
            return nothing
        ends = {0, *(p.end_row for p in chunk.pages)}
        borders = ends if borders is None else borders & ends
    ordered = sorted(borders or ())
    first = bisect_left(ordered, rows.start)
    last = bisect_right(ordered, rows.stop) - 1
    return range(ordered[first], ordered[last]) if 0 <= first < last else nothing


def _copied(column: StoredColumn, rows: range, data_type: DataType | None) -> list[StoredColumn]:
    """Return the pages of exactly these rows as one part; nothing if there are no rows."""
    pages = [p for p in column.pages or () if rows.start <= p.first_row and p.end_row <= rows.stop]
    return [column.of_pages(pages, data_type)] if rows and pages else []


def _dictionary(
    column: StoredColumn, copied: Sequence[StoredColumn], file: StoredFile
) -> list[ChunkSource]:
    if not copied or not column.first_data:
        return []
    return [ChunkSource(column.dictionary, file.read, file.path)]
