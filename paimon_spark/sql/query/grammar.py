"""Statements as a whole in Spark's grammar.

What Caretaker reads of a change itself, it hands to Spark in parts.  Parts may be right although
the whole is not: `DELETE FROM t WHERE id = 1 LIMIT 1` is no statement of Spark, its SELECT is a
query.
"""

from __future__ import annotations

from typing import Any

from paimon_spark.sql.query.table_functions import blank_options
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.tokens import START, Words


def check_grammar(session: SqlSession, words: Words) -> None:
    """Raise Spark's ParseException for a statement that Spark cannot parse.

    Only for statements that need Spark anyway; its parser cannot be reached over Spark Connect.
    """
    spark: Any = session.spark
    if hasattr(spark, "_jsparkSession"):
        text, *_ = blank_options(words.text[len(START) :])
        spark._jsparkSession.sessionState().sqlParser().parsePlan(text)  # noqa: SLF001 - no other way


def selected(text: str) -> str:
    """The query; a SELECT in parentheses in place of TABLE name.

    Spark's grammar has ORDER BY, LIMIT and UNION behind both, and nothing else behind TABLE.
    """
    words = Words(text)
    if not words.eat("TABLE"):
        return text
    first = words.at
    words.name()
    start = words.tokens[first].start - len(START)
    end = words.tokens[words.at - 1].end + 1 - len(START)
    return f"(SELECT * FROM {text[start:end]}){text[end:]}"
