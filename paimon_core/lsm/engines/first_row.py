"""Merge engine `first-row`: the first version of a key wins (Java: `FirstRowMergeFunction`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paimon_core.errors import CorruptTable
from paimon_core.lsm.java_rules import JavaRules
from paimon_core.lsm.merge_engine import MergedRows, MergeSlice, is_retract
from paimon_core.options import IGNORE_DELETE
from paimon_core.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class FirstRow:
    """Keeps the first row of each group; deletes are ignored with `ignore-delete`, else an error.

    A group of several rows that are all ignored gives nothing.
    """

    ignore_delete: bool = False

    def merge(self, rows: MergeSlice) -> MergedRows:
        if rows.is_merged:
            return MergedRows(rows.in_order())
        order = rows.ordered()
        first = rows.group_starts()
        retract = is_retract(rows.kinds)[order]
        ends = rows.group_ends()
        several = np.repeat(rows.merged_groups(), ends - first)
        if not (retract & several).any():
            return MergedRows(rows.take(order[first]))
        if not self.ignore_delete:
            raise CorruptTable(
                "merge engine first-row cannot take -U and -D rows, but the table contains some",
                next_step="set ignore-delete=true to ignore them",
            )
        kept = np.flatnonzero(~(retract & several))
        found = np.searchsorted(kept, first)
        places = kept[np.minimum(found, len(kept) - 1)] if len(kept) else np.full(len(first), -1)
        groups = np.flatnonzero((found < len(kept)) & (places < ends))
        return MergedRows(rows.take(order[places[groups]]), groups)


def first_row_of(schema: TableSchema, _: JavaRules) -> FirstRow:
    """Return the engine of a table."""
    return FirstRow(ignore_delete=schema.options.value(IGNORE_DELETE))
