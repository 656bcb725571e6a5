"""The merge engine that reads, writes and compactions of a table share."""

from __future__ import annotations

from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.engines import ChosenEngine, merge_engine_of
from paimon_core.lsm.merge_engine import JavaRules
from paimon_core.options import MERGE_ENGINE


def merge_engine_for(table: FileStoreTable) -> ChosenEngine:
    """The engine of the table, by the rules of the Java version that the table lives with.

    Its newest snapshot tells which one that is; it is looked at only where the versions differ.
    """
    rules = JavaRules.JAVA_1_4
    if table.options.value(MERGE_ENGINE) in ("aggregation", "partial-update"):
        latest = table.snapshots.latest()
        if latest is not None and latest.written_by_2_0:
            rules = JavaRules.JAVA_2_0
    return merge_engine_of(table.schema, rules=rules)
