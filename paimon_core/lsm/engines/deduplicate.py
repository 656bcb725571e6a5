"""Merge engine `deduplicate`: the last version of a key wins (Java: `DeduplicateMergeFunction`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paimon_core.lsm.java_rules import JavaRules
from paimon_core.lsm.key_column import BoolArray
from paimon_core.lsm.merge_engine import MergedRows, MergeSlice, is_retract
from paimon_core.options import IGNORE_DELETE
from paimon_core.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """Keeps the last row of each group.

    With `ignore_delete`, keeps the last row that is not a delete; a group of several deletes gives
    nothing, while a single delete stays (old versions wrote deletes to files even if they were to
    be ignored).
    """

    ignore_delete: bool = False

    def merge(self, rows: MergeSlice) -> MergedRows:
        if rows.is_merged:
            return MergedRows(rows.in_order())
        if self.ignore_delete and (retract := is_retract(rows.kinds)).any():
            return _last_kept(rows, retract)
        return MergedRows(rows.take(rows.last_rows()))


def deduplicate_of(schema: TableSchema, _: JavaRules) -> Deduplicate:
    """Return the engine of a table."""
    return Deduplicate(ignore_delete=schema.options.value(IGNORE_DELETE))


def _last_kept(rows: MergeSlice, retract: BoolArray) -> MergedRows:
    order = rows.ordered()
    ends = rows.group_ends()
    starts = rows.group_starts()
    # The place of the last kept row, at or before each place.
    kept = np.maximum.accumulate(np.where(retract[order], -1, np.arange(len(order))))
    last = np.where(rows.merged_groups(), kept[ends - 1], starts)
    groups = np.flatnonzero(last >= starts)
    return MergedRows(rows.take(order[last[groups]]), groups)
