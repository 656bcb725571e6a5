"""The merge engine that a table's options ask for (Java: `mergetree/compact/*MergeFunction`)."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_core.errors import UnsupportedFeature
from paimon_core.lsm.aggregation import aggregation_of
from paimon_core.lsm.deduplicate import Deduplicate
from paimon_core.lsm.first_row import FirstRow
from paimon_core.lsm.merge_engine import JavaRules, MergeEngine
from paimon_core.lsm.partial_update import partial_update_of
from paimon_core.options import IGNORE_DELETE, MERGE_ENGINE
from paimon_core.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class ChosenEngine:
    """An engine, and the columns it has to see although nobody asked for them."""

    engine: MergeEngine
    needs: tuple[str, ...] = ()


def merge_engine_of(schema: TableSchema, *, rules: JavaRules = JavaRules.JAVA_1_4) -> ChosenEngine:
    """The engine of a table; UnsupportedFeature for one that is not known."""
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
