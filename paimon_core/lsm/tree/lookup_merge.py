"""Merges the rows of tables whose compactions look up keys (Java: `LookupMergeFunction`).

::

    level 0   k1: c, d          A compaction that looks a key up merges it with its older record and
    level 2   k1: b             writes the outcome, so the record on the lowest level above 0 says
    level 5   k1: a             all that the levels above it know: of k1 only b, c and d are merged.

This applies to reading as well: adding a and b would count a twice.  Every row needs its level in a
column `_LEVEL`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.lsm.key_column import Rows, kind_values
from paimon_core.lsm.key_versions import NO_PLACE, fixed_array
from paimon_core.lsm.merge_engine import MergedRows, MergeEngine, MergeSlice
from paimon_core.lsm.tree.sort_merge import MergeOrder, reordered

LEVEL: Final = "_LEVEL"
LEVEL_FIELD: Final = pa.field(LEVEL, pa.int8(), nullable=False)
_ABOVE_ALL: Final = 127


@dataclass(frozen=True, slots=True)
class LookupMerge:
    """Merges only level 0 and the nearest record above it."""

    engine: MergeEngine

    def merge(self, rows: MergeSlice) -> MergedRows:
        return self.engine.merge(nearest(rows))


def with_level(batches: Iterator[pa.RecordBatch], level: int) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file of this level with the column `_LEVEL`."""
    for batch in batches:
        yield leveled(batch, np.full(batch.num_rows, level, np.int8))


def leveled(batch: pa.RecordBatch, levels: npt.NDArray[np.int8]) -> pa.RecordBatch:
    """Return the batch with `_LEVEL` as its last column."""
    return batch.append_column(LEVEL_FIELD, fixed_array(levels, pa.int8()))


def level_values(rows: MergeSlice) -> npt.NDArray[np.int8]:
    """Return the level of each row of `batch`, in its order."""
    return kind_values(rows.column(LEVEL))


def nearest(rows: MergeSlice) -> MergeSlice:
    """Return the same groups without rows that a record on a lower level above 0 has replaced.

    A group of several rows passes through the merge function even if only one row remains.
    """
    if rows.starts is None:
        return rows
    order = rows.ordered()
    levels = level_values(rows)[order]
    ends = rows.group_ends()
    sizes = ends - rows.starts
    above = np.where(levels > 0, levels, _ABOVE_ALL)
    lowest = np.repeat(np.minimum.reduceat(above, rows.starts), sizes)
    kept = (levels <= 0) | (levels == lowest)
    if kept.all():
        return rows
    counts = np.add.reduceat(kept, rows.starts, dtype=np.int64)
    return replace(
        rows,
        order=order[kept],
        starts=np.concatenate(([0], np.cumsum(counts)[:-1])),
        through=rows.merged_groups(),
    )


def records_above(rows: MergeSlice, *, at_least: int = 1) -> Rows:
    """Return, for each group, its row number in `batch` of the lowest such level, or NO_PLACE."""
    order = rows.ordered()
    levels = level_values(rows)[order]
    above = np.where(levels >= at_least, levels, _ABOVE_ALL).astype(np.int64)
    # Level and place in one number: the minimum gives both.
    places = np.arange(len(order), dtype=np.int64)
    least = np.minimum.reduceat((above << 40) + places, rows.group_starts())
    return np.where(least >> 40 == _ABOVE_ALL, NO_PLACE, order[least & ((1 << 40) - 1)])


def groups_with_level_0(rows: MergeSlice) -> npt.NDArray[np.bool_]:
    """Return, for each group, whether any of its rows comes from level 0."""
    is_new = level_values(rows)[rows.ordered()] <= 0
    return np.logical_or.reduceat(is_new, rows.group_starts())


def with_records(
    rows: MergeSlice, groups: Rows, records: pa.RecordBatch, order: MergeOrder
) -> MergeSlice:
    """Return the slice with one more, older version of each of these groups, which are ascending.

    `records` has the columns of `rows`.  Each version is placed by its sequence; among equal
    ones it is the first.
    """
    count = len(groups)
    sizes = rows.group_ends() - rows.group_starts()
    of_group = np.concatenate((groups, np.repeat(np.arange(rows.group_count), sizes)))
    places = np.argsort(of_group, kind="stable")
    placed = np.concatenate((np.arange(count), rows.ordered() + count))[places]
    ordered_groups = of_group[places]
    borders = np.ones(len(places), np.bool_)
    borders[1:] = ordered_groups[1:] != ordered_groups[:-1]
    oldest = min(run for run, _ in rows.parts) - 1
    return reordered(
        MergeSlice(
            [records, *rows.batches],
            placed,
            np.flatnonzero(borders),
            [(oldest, count), *rows.parts],
            rows.through,
        ),
        borders,
        order,
    )
