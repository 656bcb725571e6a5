"""Statements as a whole in Spark's grammar.

What Caretaker reads of a change itself, it hands to Spark in parts.  Parts may be right although
the whole is not: `DELETE FROM t WHERE id = 1 LIMIT 1` is no statement of Spark, its SELECT is a
query.
"""

from __future__ import annotations

from typing import Any, Final

from paimon_spark.sql.errors import SqlSyntaxError
from paimon_spark.sql.query.table_functions import blank_options
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.tokens import START, Words

_SET_OPERATORS: Final = ("UNION", "EXCEPT", "INTERSECT", "MINUS")
_BEFORE_TABLE: Final = ("(", ")", *_SET_OPERATORS, "ALL", "DISTINCT")
_BEFORE_QUERY: Final = (
    *("IN", "EXISTS", "AS", "ALL", "ANY", "SOME", "FROM", "JOIN", "LATERAL", "DISTINCT", "SELECT"),
    *("WHERE", "HAVING", "AND", "OR", "NOT", "ON", "BY", "WHEN", "THEN", "ELSE", *_SET_OPERATORS),
)
"""Words before a parenthesis with a query, where other names are those of functions."""
_AFTER_TABLE: Final = (
    *(")", "|>", *_SET_OPERATORS, "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET"),
    "WINDOW",
)


def check_grammar(session: SqlSession, words: Words) -> None:
    """Raise Spark's ParseException for a statement that Spark cannot parse.

    Only for statements that need Spark anyway; its parser cannot be reached over Spark Connect.
    """
    spark: Any = session.spark
    if hasattr(spark, "_jsparkSession"):
        text, *_ = blank_options(words.text[len(START) :])
        spark._jsparkSession.sessionState().sqlParser().parsePlan(text)  # noqa: SLF001 - no other way


def selected(text: str) -> str:
    """The query; a SELECT in place of each TABLE name, and of the name in each f(TABLE(name)).

    Spark's grammar has ORDER BY, LIMIT, UNION and pipes behind both, and nothing else behind TABLE.
    """
    if "table" not in text.lower():
        return text
    words = Words(text)
    pieces, done = [], 0
    while not words.done:
        at = words.at
        if not words.eat("TABLE"):
            words.at += 1
            continue
        query = _selected(words, at)
        if query is not None:
            pieces += [text[done : words.tokens[at].start - len(START)], query]
            done = words.tokens[words.at - 1].end + 1 - len(START)
    return "".join([*pieces, text[done:]])


def _selected(words: Words, at: int) -> str | None:
    """What stands for the words from TABLE on, which are then passed; None for no query."""
    before = [t.text.upper() for t in words.tokens[max(0, at - 2) : at]]
    enclosed = words.eat("(")
    first = words.at
    try:
        words.name()
    except SqlSyntaxError:
        words.at = at + 1
        return None
    start, end = words.tokens[first].start, words.tokens[words.at - 1].end + 1
    query = f"SELECT * FROM {words.text[start:end]}"
    argument = before[-1] in (",", "=>") or (
        before[-1] == "(" and before[0] not in _BEFORE_QUERY and before[0].isidentifier()
    )
    if enclosed and words.eat(")"):
        return f"TABLE({query})"
    ends = words.done or words.word() in _AFTER_TABLE
    if not enclosed and ends and argument:
        return f"TABLE({query})"
    if not enclosed and ends and (at == 1 or before[-1] in _BEFORE_TABLE):
        return query if before[-1] == "(" and words.word() == ")" and at > 1 else f"({query})"
    words.at = at + 1
    return None
