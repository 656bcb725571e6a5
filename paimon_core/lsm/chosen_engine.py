"""The merge engine that a table's options select (Java: `mergetree/compact/*MergeFunction`)."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_core.lsm.engines.traits import newest_file_wins, traits_of
from paimon_core.lsm.java_rules import JavaRules
from paimon_core.lsm.merge_engine import MergeEngine
from paimon_core.lsm.tree.lookup_merge import LookupMerge
from paimon_core.lsm.tree.universal_compaction import needs_lookup
from paimon_core.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class ChosenEngine:
    """An engine, and the columns that it reads even if the query does not select them.

    `with_levels`: rows of files are merged by level, so they need a column `_LEVEL`.
    """

    engine: MergeEngine
    needs: tuple[str, ...] = ()
    with_levels: bool = False

    @property
    def of_files(self) -> MergeEngine:
        """Return the engine for rows of files (Java: `LookupMergeFunction.wrap`)."""
        return LookupMerge(self.engine) if self.with_levels else self.engine


def merge_engine_of(schema: TableSchema, *, rules: JavaRules = JavaRules.JAVA_1_4) -> ChosenEngine:
    """Return the engine of a table; UnsupportedFeature for an unknown one."""
    options = schema.options
    traits = traits_of(options)
    engine, needs = traits.build(schema, rules), tuple(traits.needed_columns(schema))
    # The first version wins whatever its level, and so may the newest one.
    ignores_levels = traits.keeps_first or newest_file_wins(options)
    return ChosenEngine(engine, needs, with_levels=needs_lookup(options) and not ignores_levels)
