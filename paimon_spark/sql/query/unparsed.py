"""The tables of a query that sqlglot cannot parse: Spark's own parser names them.

Spark's grammar is wider than that of sqlglot, and its errors are those that users of Spark know.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from paimon_spark.sql.errors import SqlSyntaxError
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.tokens import START, Words

_RELATION: Final = re.compile(r"UnresolvedRelation \[(.*?)\], \[")
_CTE: Final = re.compile(r"\bCTE \[(.*?)\]")
_STARTS: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE", "(", "EXPLAIN")
"""Words that begin a query: for others it is not worth to start Spark."""
_BEFORE: Final = ("FROM", "JOIN", ",", "(", "TABLE", "LATERAL")
_AFTER: Final = frozenset(
    [
        "ANTI",
        "CLUSTER",
        "CROSS",
        "DISTRIBUTE",
        "EXCEPT",
        "FOR",
        "FULL",
        "GROUP",
        "HAVING",
        "INNER",
        "INTERSECT",
        "JOIN",
        "LATERAL",
        "LEFT",
        "LIMIT",
        "MINUS",
        "NATURAL",
        "OFFSET",
        "ON",
        "ORDER",
        "PIVOT",
        "QUALIFY",
        "RIGHT",
        "SELECT",
        "SEMI",
        "SORT",
        "SYSTEM_TIME",
        "SYSTEM_VERSION",
        "TABLESAMPLE",
        "TIMESTAMP",
        "UNION",
        "UNPIVOT",
        "USING",
        "VERSION",
        "WHERE",
        "WINDOW",
    ]
)
"""Words that may follow a table without being its alias."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A name in place of a table: its parts, where it begins and ends, and about its alias."""

    parts: tuple[str, ...]
    start: int
    end: int
    aliased: bool
    renamed: bool
    """Whether the alias names the columns too."""


def relations(session: SqlSession, text: str, problem: str) -> list[Relation]:
    """The tables of a query, common table expressions left out.

    Spark's ParseException if it cannot parse the query either; SqlSyntaxError with `problem` where
    its parser cannot be reached (Spark Connect).
    """
    words = Words(text)
    if not session.has_spark and words.word() not in _STARTS:
        raise SqlSyntaxError(f"[PARSE_SYNTAX_ERROR] Syntax error at or near '{words.word()}'")
    spark: Any = session.spark
    if not hasattr(spark, "_jsparkSession"):
        raise SqlSyntaxError(f"[PARSE_SYNTAX_ERROR] {problem}")
    parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - PySpark has no other
    plan = str(parser.parsePlan(text).toString())
    shown = _with_shown_assignments(words)
    if shown != text:
        plan = str(parser.parsePlan(shown).toString())
    names = {tuple(m.lower().split(", ")) for m in _RELATION.findall(plan)}
    names -= {(name,) for m in _CTE.findall(plan) for name in m.lower().split(", ")}
    found = []
    while not words.done:
        before = words.tokens[words.at - 1].text.upper()
        relation = _relation(words) if before in _BEFORE else None
        if relation is not None and tuple(p.lower() for p in relation.parts) in names:
            found.append(relation)
        else:
            words.at += relation is None
    return found


def _with_shown_assignments(words: Words) -> str:
    """The query with EXTEND for each `|> SET`, whose subqueries are not in the text of a plan."""
    pieces, done = [], len(START)
    for before, token in pairwise(words.tokens):
        if before.text == "|>" and token.text.upper() == "SET":
            pieces += [words.text[done : token.start], "EXTEND"]
            done = token.end + 1
    return "".join([*pieces, words.text[done:]])


def _relation(words: Words) -> Relation | None:
    """The name at the cursor, which then stands behind it; None if there is none."""
    first = words.at
    try:
        parts = words.name()
    except SqlSyntaxError:
        words.at = first
        return None
    if words.word() == "(":
        return None  # a function
    start = words.tokens[first].start - len(START)
    end = words.tokens[words.at - 1].end + 1 - len(START)
    aliased = alias_follows(words)
    after_alias = 2 if words.looks_at("AS") else 1
    renamed = aliased and words.word(after_alias) == "("
    return Relation(tuple(parts), start, end, aliased, renamed)


def alias_follows(words: Words) -> bool:
    """Whether the next word is the alias of the table before it."""
    following = words.word()
    if not words.done and words.text[words.tokens[words.at].start] == "`":
        return True
    return following not in _AFTER and following.replace("_", "a").isalnum()
