"""Conditions of UPDATE, DELETE and MERGE as Spark takes them."""

from __future__ import annotations

from typing import Final

from paimon_spark.sql.text.tokens import Words

FALSE: Final = "false"
_QUERY: Final = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "MAP", "REDUCE")
_OPERATORS: Final = ("IN", "IS", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "NOT", "AND", "OR")


def boolean(condition: str) -> str:
    """The condition; false for a lone NULL, which no row meets.

    Spark refuses NULL as a condition of a query, because its type is VOID.  SqlSyntaxError for a
    query, which `enclosed` would let through.
    """
    words = Words(condition)
    _check_no_query(words)
    opened = 0
    while words.eat("("):
        opened += 1
    if not words.eat("NULL"):
        return condition
    while opened and words.eat(")"):
        opened -= 1
    return FALSE if words.done else condition


def enclosed(condition: str) -> str:
    """The condition in parentheses, for a query: a LIMIT or UNION in it is then a syntax error."""
    return f"({condition})"


def _check_no_query(words: Words) -> None:
    following = words.word(1)
    if words.word() in _QUERY and (
        (following.isidentifier() and following not in _OPERATORS)
        or following.isdecimal()
        or (words.word() != "MAP" and following in ("", "(", "*") and len(words.tokens) > 2)
    ):
        words.fail("a condition")
