"""Conditions of UPDATE, DELETE and MERGE as Spark takes them."""

from __future__ import annotations

from paimon_spark.sql.text.tokens import Words

FALSE = "false"


def boolean(condition: str) -> str:
    """The condition; false for a lone NULL, which no row meets.

    Spark refuses NULL as a condition of a query, because its type is VOID.
    """
    words = Words(condition)
    opened = 0
    while words.eat("("):
        opened += 1
    if not words.eat("NULL"):
        return condition
    while opened and words.eat(")"):
        opened -= 1
    return FALSE if words.done else condition
