"""Merges sorted runs into one, in columns and in bounded memory (Java: `SortMergeReader`).

::

    run A  ....a....|..        Every run is read until it holds `buffered_rows` rows.  The smallest
    run B  ......b|            last key over the runs that go on is the *cut* (here b's): all
    run C  ........c...|       versions of the keys below it are in memory.  They make one slice,
                 ^ cut         the rest waits.  A step therefore takes about one batch of each run,
                               and memory depends on the number of runs, not on their length.

Within a slice rows are sorted once, by key; then only keys with several rows are ordered by the
user's sequence fields, the sequence number, and the run.  In Java, rows with equal sequence numbers
are in any order; here the row of the *later run* comes last (and, within a run, the later row), so
callers pass runs from oldest to newest.

A null sequence value comes before all others, in ascending and descending order alike, in both
versions of Java. (They differ in how their *writers* merge several rows of one key in one commit:
1.4.2's write buffer sorts a descending sequence ascending.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.errors import CorruptTable
from paimon_core.lsm.key_column import (
    BoolArray,
    BytesColumn,
    Digit,
    IntArray,
    Rows,
    int_values,
    key_column,
)
from paimon_core.lsm.key_order import (
    Key,
    KeyView,
    has_signed_zeros,
    key_digits,
    repeats_key,
    sort_rows,
    tied_places,
)
from paimon_core.lsm.merge_engine import MergeEngine, MergeSlice, joined_column, without_deletes
from paimon_core.schema.table_schema import SEQUENCE_NUMBER
from paimon_core.types.data_types import RowType

BUFFERED_ROWS: Final = 8192
MAX_SLICE_BYTES: Final = 512 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOrder:
    """The order of versions.

    By the fields of `key`, then by `sequence_fields` according to `sequence.field.sort-order`, then
    by sequence number and run.  A `KeyType` defines the order of FLOAT and DOUBLE zeros.
    """

    key: RowType
    sequence_fields: Sequence[str] = ()
    descending: bool = False

    @property
    def signed_zeros(self) -> bool:
        return has_signed_zeros(self.key)


def merge_sorted(
    runs: Sequence[Iterator[pa.RecordBatch]],
    *,
    key: RowType,
    sequence_fields: Sequence[str] = (),
    descending: bool = False,
    engine: MergeEngine,
    drop_deletes: bool = False,
    buffered_rows: int = BUFFERED_ROWS,
    names: Sequence[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Merge the runs' key-value batches into batches with one row per key, in key order.

    Each run is sorted by `key`, and runs are passed from oldest to newest; a run may hold several
    rows of a key.  Raises CorruptTable if a run is not sorted; `names` are what it calls the runs.
    """
    order = MergeOrder(key=key, sequence_fields=sequence_fields, descending=descending)
    for piece in merge_slices(runs, order, buffered_rows=buffered_rows, names=names):
        batch = engine.merge(piece).batch
        if drop_deletes:
            batch = without_deletes(batch)
        if batch.num_rows:
            yield batch


def merge_slices(
    runs: Sequence[Iterator[pa.RecordBatch]],
    order: MergeOrder,
    *,
    buffered_rows: int = BUFFERED_ROWS,
    names: Sequence[str] = (),
) -> Iterator[MergeSlice]:
    """Yield slices in key order that hold every version of their keys.

    They are the input of engines and changelog producers; `MergeSlice.parts` names runs by their
    index in `runs`.  `names` as in `merge_sorted`.
    """
    try:
        yield from _slices(runs, order, buffered_rows)
    except _UnsortedRun as e:
        name = f": {names[e.run]}" if e.run < len(names) else ""
        raise CorruptTable(f"sorted run {e.run} is not sorted by its key{name}") from None


class _UnsortedRun(Exception):
    def __init__(self, run: int) -> None:
        super().__init__(run)
        self.run = run


def _slices(
    runs: Sequence[Iterator[pa.RecordBatch]], order: MergeOrder, buffered_rows: int
) -> Iterator[MergeSlice]:
    buffers = [_RunBuffer(i, batches, order.key) for i, batches in enumerate(runs)]
    while True:
        for buffer in buffers:
            buffer.fill(buffered_rows)
        buffers = [b for b in buffers if b.rows]
        if not buffers:
            return
        parts = _next_parts(buffers)
        if len(parts) == 1 and (alone := _sole_run(parts[0], order.key)) is not None:
            yield from alone
        else:
            yield _merged_slice(parts, order)


@dataclass(frozen=True, slots=True)
class _Part:
    """Consecutive rows of one run, with their first and last keys."""

    run: int
    batches: list[pa.RecordBatch]
    first: Key
    last: Key

    @property
    def rows(self) -> int:
        return sum(b.num_rows for b in self.batches)


class _RunBuffer:
    """The rows of one run that are read but not yet merged."""

    __slots__ = (
        "_batches",
        "_begin",
        "_key",
        "_sizes",
        "_views",
        "bytes",
        "going_on",
        "index",
        "last",
        "rows",
    )

    def __init__(self, index: int, batches: Iterator[pa.RecordBatch], key: RowType) -> None:
        self.index = index
        self.rows = 0
        self.bytes = 0  # of the batches with waiting rows
        self.going_on = True
        self.last: Key = ()
        self._batches = batches
        self._key = key
        self._views: deque[KeyView] = deque()
        self._sizes: deque[int] = deque()  # the bytes of their batches
        self._begin = 0  # rows of the first view that are merged

    def fill(self, rows: int) -> None:
        """Read until `rows` rows are buffered or the run ends."""
        while self.going_on and self.rows < rows:
            batch = next(self._batches, None)
            if batch is None:
                self.going_on = False
            elif batch.num_rows:
                view = KeyView(batch, self._key)
                if self.rows and view.at(0) < self.last:
                    raise _UnsortedRun(self.index)
                self._views.append(view)
                self._sizes.append(batch.nbytes)
                self.rows += batch.num_rows
                self.bytes += self._sizes[-1]
                self.last = view.at(batch.num_rows - 1)

    def take_below(self, cut: Key | None) -> _Part | None:
        """Remove and return the rows whose keys are below the cut; all rows for None."""
        batches: list[pa.RecordBatch] = []
        first: Key = ()
        last: Key = ()
        while self._views:
            view = self._views[0]
            size = view.batch.num_rows
            whole = cut is None or view.at(size - 1) < cut
            end = size if cut is None or whole else view.lower_bound(cut, self._begin)
            if end > self._begin:
                first = first if batches else view.at(self._begin)
                last = view.at(end - 1)
                batches.append(view.batch.slice(self._begin, end - self._begin))
                self.rows -= end - self._begin
            if not whole:
                self._begin = end
                break
            self._views.popleft()
            self.bytes -= self._sizes.popleft()
            self._begin = 0
        return _Part(self.index, batches, first, last) if batches else None

    def middle(self) -> Key:
        """Return a key with about half of the buffered rows below it."""
        row = self._begin + self.rows // 2
        for view in self._views:
            if row < view.batch.num_rows:
                return view.at(row)
            row -= view.batch.num_rows
        return self.last


def _next_parts(buffers: Sequence[_RunBuffer]) -> list[_Part]:
    """Return the rows of every run below the next cut; at least one row."""
    while True:
        limits = [b.last for b in buffers if b.going_on]
        cuts: list[Key | None] = [min(limits)] if limits else [None]
        if sum(b.bytes for b in buffers) > MAX_SLICE_BYTES:
            # Strings of a slice must fit into 2 GiB, and memory must be bounded.
            middle = max(buffers, key=lambda b: b.bytes).middle()
            if cuts[0] is None or middle < cuts[0]:
                cuts.insert(0, middle)
        for cut in cuts:
            parts = [part for b in buffers if (part := b.take_below(cut)) is not None]
            if parts:
                return parts
        # One key fills the whole buffer of a run: its other versions may follow.
        for buffer in buffers:
            if buffer.going_on and buffer.last == cuts[-1]:
                buffer.fill(buffer.rows + 1)


def _sole_run(part: _Part, key: RowType) -> list[MergeSlice] | None:
    """Return the batches of one run unchanged; None if a key occurs twice."""
    previous: Key | None = None
    signed = has_signed_zeros(key)
    for batch in part.batches:
        arrays = [batch.column(name) for name in key.names]
        columns = [key_column(a, signed_zeros=signed) for a in arrays]
        view = KeyView(batch, key)
        if view.at(0) == previous or repeats_key(columns, arrays):
            return None
        previous = view.at(batch.num_rows - 1)
        skip = _common_prefix([view.at(0), previous])
        first = key_digits(arrays, skip=skip, signed_zeros=signed)[0](None)
        _check_sorted(first, [batch.num_rows], [part.run])
    return [MergeSlice([b], None, None, [(part.run, b.num_rows)]) for b in part.batches]


def _merged_slice(parts: Sequence[_Part], order: MergeOrder) -> MergeSlice:
    """Return one slice from the rows of several runs."""
    # Oldest sequence numbers first: then sorting by key usually orders the versions too.
    parts = sorted(parts, key=lambda p: (_smallest_sequence(p), p.run))
    sizes = [p.rows for p in parts]
    batches = [b for p in parts for b in p.batches]
    names = batches[0].schema.names
    arrays = [joined_column(batches, names.index(name)) for name in order.key.names]
    prefix = _common_prefix([k for p in parts for k in (p.first, p.last)])
    digits = key_digits(arrays, skip=prefix, signed_zeros=order.signed_zeros)
    first = digits[0](None)
    _check_sorted(first, sizes, [p.run for p in parts])
    rows, borders = sort_rows(digits, first)
    runs = [(p.run, n) for p, n in zip(parts, sizes, strict=True)]
    starts = np.flatnonzero(borders)
    if len(starts) == len(rows):
        return MergeSlice(batches, rows, None, runs)
    piece = MergeSlice(batches, rows, starts, runs)
    _order_versions(piece, borders, order)
    return piece


def _smallest_sequence(part: _Part) -> int:
    return min(int(int_values(b.column(SEQUENCE_NUMBER)).min()) for b in part.batches)


def _common_prefix(keys: Sequence[Key]) -> int:
    """Return the common prefix length in bytes of the first column over runs with these ends."""
    values = [v for k in keys if isinstance(v := k[0], bytes)]
    if len(values) < len(keys):
        return 0
    low, high = min(values), max(values)
    return next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))


def _check_sorted(first: IntArray, sizes: Sequence[int], runs: Sequence[int]) -> None:
    """Raise an error if a run's leading digit decreases anywhere."""
    down = first[1:] < first[:-1]
    ends = np.cumsum(sizes)
    down[ends[:-1] - 1] = False  # it may decrease from one run to the next
    if down.any():
        raise _UnsortedRun(runs[int(np.searchsorted(ends, int(np.argmax(down)), side="right"))])


def reordered(piece: MergeSlice, borders: BoolArray, order: MergeOrder) -> MergeSlice:
    """Return the slice with its versions in merge order; `piece.order`, grouped by key, may change.

    `borders` holds, for each place, whether a key begins.
    """
    if len(borders) > np.count_nonzero(borders):
        _order_versions(piece, borders, order)
    return piece


def _order_versions(piece: MergeSlice, borders: BoolArray, order: MergeOrder) -> None:
    """Put the rows of each key into merge order if necessary (changes `piece.order`)."""
    assert piece.order is not None
    places = tied_places(borders)
    rows = piece.order[places]
    begins = borders[places]
    digits = _version_digits(piece, rows, order)
    if _is_ordered(digits, begins):
        return
    within = np.lexsort((*reversed([digit() for digit in digits]), np.cumsum(begins)))
    piece.order[places] = rows[within]


def _version_digits(
    piece: MergeSlice, rows: Rows, order: MergeOrder
) -> list[Callable[[], IntArray]]:
    """Return the digits that order the versions of a key, most significant first."""
    digits: list[Callable[[], IntArray]] = []
    for name in order.sequence_fields:
        array = piece.column(name)
        columns = key_digits([array], signed_zeros=order.signed_zeros)
        if array.null_count:
            digits.append(partial(columns.pop(0), rows))  # null is smallest, also descending
        column = key_column(array)
        if isinstance(column, BytesColumn):
            columns = [column.ranks]
        digits += [partial(_version_digit, c, rows, descending=order.descending) for c in columns]
    digits.append(lambda: piece.sequence_numbers[rows])
    digits.append(lambda: piece.runs[rows].astype(np.int64))
    return digits


def _version_digit(digit: Digit, rows: Rows, *, descending: bool) -> IntArray:
    values = digit(rows)
    return ~values if descending else values


def _is_ordered(digits: Sequence[Callable[[], IntArray]], begins: BoolArray) -> bool:
    """Return whether each row of a group sorts after the one before it, digit by digit."""
    equal = ~begins[1:]
    for digit in digits:
        values = digit()
        if bool(np.any(equal & (values[1:] < values[:-1]))):
            return False
        equal &= values[1:] == values[:-1]
        if not equal.any():
            return True
    return True
