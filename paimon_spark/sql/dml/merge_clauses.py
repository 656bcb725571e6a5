"""The WHEN clauses of MERGE INTO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import DELETION_VECTORS_ENABLED
from paimon_spark.sql.dml.row_level import Assignments, read_assignments
from paimon_spark.sql.errors import SqlSyntaxError
from paimon_spark.sql.text.conditions import boolean
from paimon_spark.sql.text.tokens import Words


class Case(Enum):
    """Which rows a WHEN clause is about."""

    MATCHED = "MATCHED"
    NOT_MATCHED = "NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "NOT MATCHED BY SOURCE"


_NAMES: Final = {
    Case.MATCHED: "MATCHED",
    Case.NOT_MATCHED: "NOT_MATCHED_BY_TARGET",
    Case.NOT_MATCHED_BY_SOURCE: "NOT_MATCHED_BY_SOURCE",
}
"""In Spark's names of errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One WHEN: `assignments` None for a DELETE; `star` for UPDATE SET * and INSERT *."""

    case: Case
    condition: str
    assignments: Assignments | None = None
    star: bool = False


def read_clauses(words: Words) -> list[Clause]:
    """All WHEN clauses up to the end of the statement; SqlSyntaxError if there is none."""
    found: list[Clause] = []
    always: set[Case] = set()
    while words.eat("WHEN"):
        case = Case.NOT_MATCHED if words.eat("NOT") else Case.MATCHED
        words.need("MATCHED")
        if case is Case.NOT_MATCHED and words.eat("BY"):
            side = words.eat_any("SOURCE", "TARGET") or words.fail("SOURCE or TARGET")
            case = Case.NOT_MATCHED_BY_SOURCE if side == "SOURCE" else case
        if case in always:
            raise SqlSyntaxError(
                f"[NON_LAST_{_NAMES[case]}_CLAUSE_OMIT_CONDITION] When there are more than one "
                f"{case.value} clauses in a MERGE statement, only the last {case.value} clause can "
                "omit the condition"
            )
        condition = "true"
        if words.eat("AND"):
            condition = boolean(words.expression("THEN"))
        else:
            always.add(case)
        words.need("THEN")
        found.append(_clause(words, case, condition))
    words.end()
    if not found:
        raise SqlSyntaxError(
            "[MERGE_WITHOUT_WHEN] There must be at least one WHEN clause in a MERGE statement"
        )
    return found


def _clause(words: Words, case: Case, condition: str) -> Clause:
    if words.eat("INSERT") and case is Case.NOT_MATCHED:
        if words.eat("*"):
            return Clause(case=case, condition=condition, assignments=(), star=True)
        columns = words.items(words.name)
        words.need("VALUES")
        values = words.items(lambda: words.expression(","))
        if len(columns) != len(values):
            raise SqlSyntaxError(
                f"[MERGE_INSERT_VALUE_COUNT_MISMATCH] The number of provided values "
                f"({len(values)}) must match the number of expected columns ({len(columns)}) in "
                "the INSERT clause of MERGE"
            )
        pairs = [(column, v) for column, v in zip(columns, values, strict=True)]
        return Clause(case=case, condition=condition, assignments=pairs)
    if case is not Case.NOT_MATCHED:
        if words.eat("DELETE"):
            return Clause(case=case, condition=condition)
        if words.eat("UPDATE"):
            words.need("SET")
            if words.eat("*"):
                return Clause(case=case, condition=condition, assignments=(), star=True)
            return Clause(
                case=case, condition=condition, assignments=read_assignments(words, "WHEN")
            )
    return words.fail("UPDATE, DELETE or INSERT")


def check_data_evolution(table: FileStoreTable, clauses: Sequence[Clause]) -> None:
    """UnsupportedFeature for what MERGE INTO does not do with data evolution, as in Java."""
    for clause in clauses:
        refused = None
        deletes = clause.assignments is None and not clause.star
        if clause.case is Case.NOT_MATCHED_BY_SOURCE and not deletes:
            refused = (
                "Only DELETE clause is supported in MergeIntoPaimonDataEvolutionTable for SQL: "
                "WHEN NOT MATCHED BY SOURCE."
            )
        elif deletes and not table.options.value(DELETION_VECTORS_ENABLED):
            refused = (
                "MERGE INTO DELETE on DataEvolution table requires deletion-vectors.enabled=true."
            )
        if refused is not None:
            raise UnsupportedFeature(
                "data-evolution.enabled",
                refused,
                table=table.name,
                next_step="use another statement for this clause, as with Java Paimon"
                if clause.case is Case.NOT_MATCHED_BY_SOURCE
                else f"set {DELETION_VECTORS_ENABLED.key}=true",
            )
