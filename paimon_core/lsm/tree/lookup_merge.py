"""Merging where compactions look keys up (Java: `LookupMergeFunction`).

::

    level 0   k1: c, d          A compaction that looks a key up merges it with its older record and
    level 2   k1: b             writes the outcome, so the record on the lowest level above 0 says
    level 5   k1: a             all that the levels above it know: of k1 only b, c and d are merged.

That holds for reading as well: adding up a and b would count a twice.  Every row must say which
level it comes from, in a column `_LEVEL`.
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
    """Merges level 0 with the nearest record above it, and nothing else."""

    engine: MergeEngine

    def merge(self, rows: MergeSlice) -> MergedRows:
        return self.engine.merge(nearest(rows))


def with_level(batches: Iterator[pa.RecordBatch], level: int) -> Iterator[pa.RecordBatch]:
    """The batches of a file of this level with the column `_LEVEL`."""
    for batch in batches:
        yield leveled(batch, np.full(batch.num_rows, level, np.int8))


def leveled(batch: pa.RecordBatch, levels: npt.NDArray[np.int8]) -> pa.RecordBatch:
    """The batch with `_LEVEL` as its last column."""
    return batch.append_column(LEVEL_FIELD, fixed_array(levels, pa.int8()))


def level_values(rows: MergeSlice) -> npt.NDArray[np.int8]:
    """The level of each row of `batch`, in its order."""
    return kind_values(rows.batch.column(LEVEL))


def nearest(rows: MergeSlice) -> MergeSlice:
    """The same groups without the rows that a record on a lower level above 0 has replaced.

    A group of several rows goes through the merge function even if one is left of it.
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
    """For each group its row, as a number of `batch`, of the lowest such level, or NO_PLACE."""
    order = rows.ordered()
    levels = level_values(rows)[order]
    above = np.where(levels >= at_least, levels, _ABOVE_ALL).astype(np.int64)
    # The level and the place in one number: the least one says both.
    places = np.arange(len(order), dtype=np.int64)
    least = np.minimum.reduceat((above << 40) + places, rows.group_starts())
    return np.where(least >> 40 == _ABOVE_ALL, NO_PLACE, order[least & ((1 << 40) - 1)])


def groups_with_level_0(rows: MergeSlice) -> npt.NDArray[np.bool_]:
    """For each group, whether any of its rows comes from level 0."""
    is_new = level_values(rows)[rows.ordered()] <= 0
    return np.logical_or.reduceat(is_new, rows.group_starts())


def with_records(
    rows: MergeSlice, groups: Rows, records: pa.RecordBatch, order: MergeOrder
) -> MergeSlice:
    """The slice with one more, older version of each of these groups, which are ascending.

    `records` has the columns of `rows.batch`.  Each version takes the place that its sequence gives
    it; of equal ones it is the first.
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
            pa.concat_batches([records, rows.batch]),
            placed,
            np.flatnonzero(borders),
            [(oldest, count), *rows.parts],
            rows.through,
        ),
        borders,
        order,
    )
