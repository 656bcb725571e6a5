"""Finds overlapping key ranges among the files of sorted runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_core.lsm.key_order import stored_key
from paimon_core.manifest.entries.columns import Column, EntryColumns
from paimon_core.types.binary_row import null_bits_width
from paimon_core.types.buffers import fixed_values, index_array
from paimon_core.types.data_types import AtomicType, RowType, TypeRoot

_ARITY_BYTES: Final = 4
_SLOT: Final = 8
_MOST_FIELDS: Final = 56
"""The null bits of more fields take more than one word."""
_NUMBERS: Final = {
    TypeRoot.TINYINT: "<i1",
    TypeRoot.SMALLINT: "<i2",
    TypeRoot.INT: "<i4",
    TypeRoot.DATE: "<i4",
    TypeRoot.BIGINT: "<i8",
}
"""The types whose values are whole numbers in a slot of the stored row."""


def overlapping(live: EntryColumns, key_type: RowType) -> Iterator[tuple[int, int]]:
    """Yield the positions of two files with overlapping keys in the same bucket and level >= 1.

    Touching ranges overlap.  `live` has `KEYS`.  Raises CorruptTable for a
    key that cannot be decoded.
    """
    upper = np.flatnonzero(live.level > 0)
    if len(upper) <= 1:
        return
    keys = (live.partition[upper], live.bucket[upper], live.level[upper])
    order = np.lexsort(keys[::-1])
    begins = np.ones(len(order), bool)
    begins[1:] = np.any([k[order][1:] != k[order][:-1] for k in keys], axis=0)
    alone = begins & np.append(begins[1:], True)
    order, begins = order[~alone], begins[~alone]
    chosen, run = upper[order], np.cumsum(begins)
    low = live.keys["min_key"].take(index_array(chosen))
    high = live.keys["max_key"].take(index_array(chosen))
    lows, highs = _numbers(low, key_type), _numbers(high, key_type)
    if lows is not None and highs is not None:
        yield from _of_numbers(chosen, run, lows, highs)
    else:
        yield from _of_rows(chosen, run, low, high, key_type)


def _of_numbers(
    chosen: Column, run: Column, lows: list[Column], highs: list[Column]
) -> Iterator[tuple[int, int]]:
    order = np.lexsort((*reversed(lows), run))
    reaches = np.ones(max(len(order) - 1, 0), bool)  # the end of a file and the start of the next
    for low, high in zip(reversed(lows), reversed(highs), strict=True):
        last, first = high[order][:-1], low[order][1:]
        reaches = (last > first) | ((last == first) & reaches)
    reaches &= run[order][1:] == run[order][:-1]
    ordered = chosen[order]
    for place in np.flatnonzero(reaches).tolist():
        yield int(ordered[place]), int(ordered[place + 1])


def _of_rows(
    chosen: Column, run: Column, low: Any, high: Any, key_type: RowType
) -> Iterator[tuple[int, int]]:
    rows = sorted(
        (
            (number, stored_key(first, key_type), stored_key(last, key_type), position)
            for number, first, last, position in zip(
                run.tolist(), low.to_pylist(), high.to_pylist(), chosen.tolist(), strict=True
            )
        ),
        key=lambda row: row[:2],
    )
    for left, right in itertools.pairwise(rows):
        if left[0] == right[0] and left[2] >= right[1]:
            yield left[3], right[3]


def _numbers(rows: Any, key_type: RowType) -> list[Column] | None:
    """The fields of stored rows; None unless all are whole numbers in rows of the usual layout."""
    kinds = [
        _NUMBERS[t.root]
        for t in key_type.types
        if isinstance(t, AtomicType) and not t.nullable and t.root in _NUMBERS
    ]
    arity = len(key_type.types)
    if not arity or arity > _MOST_FIELDS or len(kinds) < arity:
        return None
    array = rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows
    offsets = fixed_values(array, np.int64, extra=1)
    size = _ARITY_BYTES + null_bits_width(arity) + _SLOT * arity
    if (np.diff(offsets) != size).any():
        return None
    content = np.frombuffer(array.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    table = content.reshape(-1, size)
    header = arity.to_bytes(_ARITY_BYTES) + bytes(null_bits_width(arity))
    if (table[:, : len(header)] != np.frombuffer(header, np.uint8)).any():
        return None
    slots = np.ascontiguousarray(table[:, len(header) :]).reshape(-1, arity, _SLOT)
    found = []
    for i, kind in enumerate(kinds):
        width = np.dtype(kind).itemsize
        value = np.ascontiguousarray(slots[:, i, :width]).view(kind)[:, 0]
        found.append(value.astype(np.int64))
    return found
