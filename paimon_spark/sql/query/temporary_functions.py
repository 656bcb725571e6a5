"""Temporary SQL functions whose bodies read tables.

Spark keeps the text of a function and resolves it with each call.  As a query has views in place of
its tables, such a function is made again, over views of the statement, before each query that calls
it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from paimon_spark.sql.query.catalog_views import place_of
from paimon_spark.sql.session import SqlSession, TempFunction
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.tokens import Words, opens_query

_ONE_ROW: Final = "SELECT "


def reads_tables(words: Words) -> bool:
    """Whether the words that are left hold a query."""
    return any(t.text.upper() in ("SELECT", "FROM", "TABLE") for t in words.tokens[words.at :])


def define(
    session: SqlSession, function: TempFunction, rewritten: Callable[[str], str], *, replace: bool
) -> None:
    """Make the function of the Spark session; `rewritten` puts views in place of tables."""
    with place_of(session, TableName(function.database, "", catalog=function.catalog)):
        if opens_query(Words(function.body)):
            body = rewritten(function.body)
        else:
            body = rewritten(_ONE_ROW + function.body).removeprefix(_ONE_ROW)
    start = "CREATE OR REPLACE" if replace else "CREATE"
    session.spark.sql(f"{start} {function.head}{body}")


def define_called(session: SqlSession, text: str, rewritten: Callable[[str], str]) -> None:
    """Make those functions again that the query calls."""
    if not session.functions:
        return
    tokens = Words(text).tokens
    called = {token.text.lower() for token, after in pairwise(tokens) if after.text == "("}
    for name in sorted(called & session.functions.keys()):
        define(session, session.functions[name], rewritten, replace=True)
