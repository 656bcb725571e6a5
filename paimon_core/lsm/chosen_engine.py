"""The merge engine that a table's options ask for (Java: `mergetree/compact/*MergeFunction`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paimon_core.errors import UnsupportedFeature
from paimon_core.lsm.engines.aggregation import aggregation_of
from paimon_core.lsm.engines.deduplicate import Deduplicate
from paimon_core.lsm.engines.first_row import FirstRow
from paimon_core.lsm.engines.partial_update import partial_update_of
from paimon_core.lsm.merge_engine import JavaRules, MergeEngine
from paimon_core.lsm.tree.lookup_merge import LookupMerge
from paimon_core.lsm.tree.universal_compaction import needs_lookup
from paimon_core.options import IGNORE_DELETE, MERGE_ENGINE, SEQUENCE_FIELD
from paimon_core.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class ChosenEngine:
    """An engine, and the columns it has to see although nobody asked for them.

    `with_levels`: rows of files are merged by their levels, so they need a column `_LEVEL`.
    """

    engine: MergeEngine
    needs: tuple[str, ...] = ()
    with_levels: bool = False

    @property
    def of_files(self) -> MergeEngine:
        """What merges rows of files (Java: `LookupMergeFunction.wrap`)."""
        return LookupMerge(self.engine) if self.with_levels else self.engine


def merge_engine_of(schema: TableSchema, *, rules: JavaRules = JavaRules.JAVA_1_4) -> ChosenEngine:
    """The engine of a table; UnsupportedFeature for one that is not known."""
    options = schema.options
    chosen = _engine_of(schema, rules)
    if not needs_lookup(options) or isinstance(chosen.engine, FirstRow):
        return chosen
    # The last version wins whatever lies above it, unless a sequence field says otherwise.
    plain = isinstance(chosen.engine, Deduplicate) and not options.value(SEQUENCE_FIELD)
    return replace(chosen, with_levels=not plain)


def _engine_of(schema: TableSchema, rules: JavaRules) -> ChosenEngine:
    options = schema.options
    match options.value(MERGE_ENGINE):
        case "deduplicate":
            return ChosenEngine(Deduplicate(ignore_delete=options.value(IGNORE_DELETE)))
        case "first-row":
            return ChosenEngine(FirstRow(ignore_delete=options.value(IGNORE_DELETE)))
        case "aggregation":
            return ChosenEngine(aggregation_of(schema, rules=rules))
        case "partial-update":
            engine = partial_update_of(schema, rules=rules)
            needs = [f for group in engine.groups for f in group.sequence_fields]
            return ChosenEngine(engine, tuple(dict.fromkeys(needs)))
        case other:
            raise UnsupportedFeature(f"merge-engine={other}")
