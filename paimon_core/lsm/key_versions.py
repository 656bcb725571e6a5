"""The keys of a slice with several versions, and the assembly of merged columns into a batch.

Merge engines work on *places*: positions in merge order over the rows of these keys alone.

::

    places   0   1   2 | 3   4 |          group 0 has three versions, group 1 two
    starts   0           3
    ends                 3       5

A merged column is either a choice of one version per group (`Picks`), or new values (`pa.Array`).
Keys with one version keep their row unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.lsm.key_column import BoolArray, IntArray, Rows, int_values, kind_values
from paimon_core.lsm.merge_engine import INSERT, MergedRows, MergeSlice
from paimon_core.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_core.types.buffers import index_array, valid_rows

NO_PLACE = -1


@dataclass(frozen=True, slots=True)
class Picks:
    """One place per group, NO_PLACE for null."""

    places: Rows


Column: TypeAlias = Picks | Any
"""A merged column: one value per group of several versions."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The rows of the merged keys; `members` holds their groups in the slice."""

    rows: Rows
    starts: Rows
    ends: Rows
    members: Rows
    kinds: npt.NDArray[np.int8]
    sequence_numbers: npt.NDArray[np.int64]

    @staticmethod
    def of(piece: MergeSlice) -> Versions:
        starts = piece.group_starts()
        ends = piece.group_ends()
        members = np.flatnonzero(piece.merged_groups())
        sizes = (ends - starts)[members]
        bounds = np.concatenate(([0], np.cumsum(sizes)))
        places = np.arange(bounds[-1]) + np.repeat(starts[members] - bounds[:-1], sizes)
        rows = piece.ordered()[places]
        return Versions(
            rows,
            bounds[:-1],
            bounds[1:],
            members,
            piece.kinds[rows],
            piece.sequence_numbers[rows],
        )

    @property
    def places(self) -> int:
        return len(self.rows)

    @property
    def groups(self) -> int:
        return len(self.starts)

    @property
    def last(self) -> Picks:
        """Return the last version of each group."""
        return Picks(self.ends - 1)

    def last_where(self, mask: BoolArray) -> Rows:
        """Return the last place of each group where the mask is true, or NO_PLACE."""
        hits = np.flatnonzero(mask)
        found = np.searchsorted(hits, self.ends) - 1
        places = np.where(found >= 0, hits[np.maximum(found, 0)], NO_PLACE) if len(hits) else found
        return np.where(places >= self.starts, places, NO_PLACE)

    def first_where(self, mask: BoolArray, after: Rows | None = None) -> Rows:
        """Return each group's first place (after `after`) where the mask is true, or NO_PLACE."""
        hits = np.flatnonzero(mask)
        begin = self.starts if after is None else np.maximum(after + 1, self.starts)
        found = np.searchsorted(hits, begin)
        if not len(hits):
            return np.full(self.groups, NO_PLACE)
        places = np.where(found < len(hits), hits[np.minimum(found, len(hits) - 1)], self.places)
        return np.where(places < self.ends, places, NO_PLACE)

    def valid(self, column: pa.Array) -> BoolArray:
        """Return, for each place, whether the column is not null there."""
        if column.null_count == 0:
            return np.ones(self.places, dtype=np.bool_)
        return valid_rows(column)[self.rows]

    def running_maximum(self, codes: IntArray, starts: Rows) -> Rows:
        """Return, for each place, the greatest code before it since the last of `starts`.

        0 at a start.

        Codes are at least 0 and much smaller than 2^63 divided by the number of starts.
        """
        begins = np.zeros(self.places, dtype=np.int64)
        begins[starts] = 1
        base = np.cumsum(begins) * (int(codes.max(initial=0)) + 1)
        inclusive = np.maximum.accumulate(base + codes) - base
        exclusive = np.concatenate(([0], inclusive[:-1]))
        exclusive[starts] = 0
        return exclusive


def assembled(
    piece: MergeSlice,
    versions: Versions,
    columns: Mapping[str, Column],
    *,
    kinds: npt.NDArray[np.int8] | None = None,
    sequence_numbers: npt.NDArray[np.int64] | None = None,
) -> MergedRows:
    """Return one row per group: merged columns where given, else the last version's value.

    `kinds` and `sequence_numbers` apply to the groups of several versions; the defaults are +I and
    the last version's number.
    """
    last = piece.last_rows()
    shared: dict[int, pa.Array] = {}

    def chosen(column: pa.Array, name: str) -> pa.Array:
        merged = columns.get(name, versions.last)
        if isinstance(merged, Picks):
            if id(merged) not in shared:
                shared[id(merged)] = _picked_rows(last, versions, merged)
            return column.take(shared[id(merged)])
        index = last.copy()
        index[versions.members] = len(column) + np.arange(versions.groups)
        return pa.concat_arrays([column, merged]).take(index_array(index))

    arrays = []
    for name, column in zip(piece.batch.schema.names, piece.batch.columns, strict=True):
        if name == VALUE_KIND:
            values = kind_values(column)[last]
            values[versions.members] = INSERT if kinds is None else kinds
            arrays.append(fixed_array(values, pa.int8()))
        elif name == SEQUENCE_NUMBER and sequence_numbers is not None:
            numbers = int_values(column)[last]
            numbers[versions.members] = sequence_numbers
            arrays.append(fixed_array(numbers, pa.int64()))
        else:
            arrays.append(chosen(column, name))
    return MergedRows(pa.RecordBatch.from_arrays(arrays, schema=piece.batch.schema))


def _picked_rows(last: Rows, versions: Versions, picks: Picks) -> pa.Array:
    """Return the row to take for every group of the slice; null without a place."""
    index = last.copy()
    found = picks.places != NO_PLACE
    index[versions.members] = versions.rows[np.maximum(picks.places, 0)]
    if found.all():
        return index_array(index)
    present = np.ones(len(index), dtype=np.bool_)
    present[versions.members] = found
    return fixed_array(index, pa.int64(), present)


def picked(versions: Versions, column: pa.Array, picks: Picks) -> pa.Array:
    """Return the values of the groups of several versions."""
    found = picks.places != NO_PLACE
    rows = versions.rows[np.maximum(picks.places, 0)]
    return column.take(fixed_array(rows, pa.int64(), found))


def fixed_array(
    values: npt.NDArray[Any], arrow_type: pa.DataType, valid: BoolArray | None = None
) -> pa.Array:
    """Return an array of a fixed-width type from raw values; all valid by default."""
    validity = None
    if valid is not None and not valid.all():
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(arrow_type, len(values), [validity, data])
