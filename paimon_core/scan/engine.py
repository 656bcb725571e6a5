"""The merge engine that reads, writes and compactions of a table use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.engines.traits import traits_of
from paimon_core.lsm.java_rules import JavaRules

if TYPE_CHECKING:
    from paimon_core.lsm.chosen_engine import ChosenEngine


def merge_engine_for(table: FileStoreTable) -> ChosenEngine:
    """Return the table's engine with the rules of the Java version that writes the table.

    The newest snapshot shows the version; it is read only if the versions differ.
    """
    from paimon_core.lsm.chosen_engine import merge_engine_of  # noqa: PLC0415 - fast start

    rules = JavaRules.JAVA_1_4
    if traits_of(table.options).differs_by_java:
        rules = rules_of(table)
    return merge_engine_of(table.schema, rules=rules)


def rules_of(table: FileStoreTable) -> JavaRules:
    """Return the rules of the Java version that wrote the table's newest snapshot."""
    latest = table.snapshots.latest()
    by_2_0 = latest is not None and latest.written_by_2_0
    return JavaRules.JAVA_2_0 if by_2_0 else JavaRules.JAVA_1_4
