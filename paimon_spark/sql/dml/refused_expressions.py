"""Expressions that Spark allows in a query, and refuses in UPDATE, DELETE and MERGE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paimon_spark.sql.errors import AnalysisError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OVER_ROWS: Final = ("Window", "Aggregate")
_OF_SELECT: Final = ("Project", "Filter", "Generate", *_OVER_ROWS)
"""The parts of a plan that come from a SELECT and its WHERE, not from its tables."""


def check_expressions(query: DataFrame) -> None:
    """AnalysisError if the rows of a change depend on each other, or are chosen at random.

    An aggregate function would make one row of all, which no error shows where a MERGE inserts.
    With Spark Connect, whose plan is elsewhere, nothing is checked.
    """
    if not hasattr(query, "_jdf"):
        return
    plan = query._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no other
    while plan.nodeName() in _OF_SELECT:
        if plan.nodeName() in _OVER_ROWS:
            raise AnalysisError(
                "[UNSUPPORTED_EXPR_FOR_OPERATOR] UPDATE and MERGE take no window functions and no "
                "aggregate functions",
                next_step="compute the value in the source of a MERGE, or in a subquery",
            )
        if plan.nodeName() == "Filter" and not plan.condition().deterministic():
            raise AnalysisError(
                "[INVALID_NON_DETERMINISTIC_EXPRESSIONS] The operator expects a deterministic "
                "expression, and the condition may choose other rows each time",
                next_step="choose the rows by their columns",
            )
        plan = plan.children().apply(0)
