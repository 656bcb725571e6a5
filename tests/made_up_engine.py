"""A merge engine that Paimon does not have, as an example of how one is added.

`largest`: of all versions of a key, the one with the largest value in column `v` is the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paimon_core.errors import SchemaError
from paimon_core.lsm.engines.traits import EngineTraits, ExistingKey
from paimon_core.lsm.java_rules import JavaRules
from paimon_core.lsm.merge_engine import MergedRows, MergeSlice
from paimon_core.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class Largest:
    """Keeps the row of each group with the largest value."""

    column: str

    def merge(self, rows: MergeSlice) -> MergedRows:
        if rows.is_merged:
            return MergedRows(rows.in_order())
        order = rows.ordered()
        values = np.array(rows.batch.column(self.column).to_pylist())[order]
        groups = np.repeat(np.arange(rows.group_count), rows.group_ends() - rows.group_starts())
        largest = np.lexsort((values, groups))[rows.group_ends() - 1]
        return MergedRows(rows.take(order[largest]))


def largest_of(_schema: TableSchema, _rules: JavaRules) -> Largest:
    return Largest("v")


def check_column(schema: TableSchema) -> None:
    if "v" not in schema.names:
        raise SchemaError("merge-engine=largest needs a column 'v'")


LARGEST = EngineTraits(
    name="largest",
    build=largest_of,
    existing_key=ExistingKey.USE_OLD,
    needed_columns=lambda _: ("v",),
    check=check_column,
    changelog_producers=frozenset({"none", "lookup"}),
)
