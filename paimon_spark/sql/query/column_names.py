"""The columns that a query names, and names of columns with the table and database before them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from paimon_spark.sql.errors import SqlSyntaxError
from paimon_spark.sql.query.namesakes import Namesake, ambiguous, full_name, sources_of
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.edits import Edits
from paimon_spark.sql.text.tokens import START, Words

PIPE: Final = "|>"
"""It begins an operator: the query has the columns and rows of the one before."""
_ALL_COLUMNS: Final = {"natural", "table", "pivot", "unpivot", "transform", "struct"}
"""Words of queries in which columns may be used without being named."""
_OPERANDS: Final = (
    TokenType.VAR,
    TokenType.NUMBER,
    TokenType.STRING,
    TokenType.IDENTIFIER,
    TokenType.R_PAREN,
    TokenType.R_BRACKET,
)
_NAMES: Final = (TokenType.VAR, TokenType.IDENTIFIER)
_BEFORE_RELATION: Final = ("FROM", "JOIN", ",", "(")
_ASSIGNED_STAR: Final = ("SET", "INSERT")
_BEFORE_STAR: Final = ("SELECT", "DISTINCT", "ALL")
_PLAIN_NAME: Final = re.compile(r"[\w$ -]+")
_EXISTS: Final = ["EXISTS", "(", "SELECT"]
"""Before a `*` that stands for no column."""


def columns_in(text: str, *, of_change: bool = False) -> frozenset[str] | None:
    """All words of a query in lower case, among them its columns; None if it wants all columns.

    `of_change`: the text is of UPDATE, DELETE or MERGE, whose `SET *` and `INSERT *` name none.
    """
    words = Words(text)
    found = {t.text.lower() for t in words.tokens}
    if found & _ALL_COLUMNS or PIPE in text or ("select" not in found and not of_change):
        return None
    if _renames_relations(words):
        return None
    for i, token in enumerate(words.tokens):
        if token.token_type is TokenType.IDENTIFIER and not _PLAIN_NAME.fullmatch(token.text):
            return None  # it may be a pattern (spark.sql.parser.quotedRegexColumnNames)
        if token.text != "*":
            continue
        before, opens = words.tokens[i - 1], words.tokens[max(0, i - 2)].text.upper()
        counts = before.text == "(" and opens == "COUNT"
        product = before.token_type in _OPERANDS and before.text.upper() not in _BEFORE_STAR
        assigned = of_change and before.text.upper() in _ASSIGNED_STAR
        exists = [t.text.upper() for t in words.tokens[max(0, i - 3) : i]] == _EXISTS
        if not counts and not product and not exists and not assigned:
            return None
    return frozenset(found)


def _renames_relations(words: Words) -> bool:
    """Whether an alias of tables in parentheses names their columns: `(t JOIN u) AS x(a, b)`."""
    tokens = words.tokens
    opened = []
    for i, token in enumerate(tokens):
        if token.text == "(":
            opened.append(i)
        if token.text != ")" or not opened:
            continue
        first = opened.pop()
        alias = [*tokens[i + 1 : i + 4], token, token]
        alias = alias[1:] if alias[0].text.upper() == "AS" else alias
        if (
            alias[0].token_type in _NAMES
            and alias[1].text == "("
            and tokens[first - 1].text.upper() in _BEFORE_RELATION
            and (tokens[first + 1].text == "(" or tokens[first + 1].token_type in _NAMES)
        ):
            return True
    return False


def check_qualified(
    session: SqlSession,
    tree: exp.Expr,
    known: Collection[tuple[str, str]],
    target: TableName | None,
    namesakes: Mapping[int, Namesake],
    edits: Edits,
) -> None:
    """AnalysisError for DB.TABLE.COLUMN where TABLE.COLUMN means a column of another table.

    Arguments as in `rewritten` and `strip_databases`; `namesakes` have aliases of their own.
    """
    told_apart = {start for start, *_ in edits.edits}
    for column in tree.find_all(exp.Column):
        if column.parts[0].meta.get("start") in told_apart:
            continue
        names = [p.name.lower() for p in column.parts]
        if tuple(names[1:3]) in known and len(names) > 3:
            qualifier = names[:3]
        elif tuple(names[:2]) in known and len(names) > 2:
            qualifier = names[:2]
        else:
            continue
        select = column.find_ancestor(exp.Select)
        found: list[exp.Expr] = []
        while select is not None and not found:
            found = [s for s in sources_of(select) if s.alias_or_name.lower() == qualifier[-1]]
            found = [s for s in found if _place(s) not in namesakes]
            select = select.find_ancestor(exp.Select)
        if any(full_name(session, s, target)[-len(qualifier) :] != tuple(qualifier) for s in found):
            raise ambiguous(names)


def _place(source: exp.Expr) -> int | None:
    """Where the name of a table is in the text."""
    return source.parts[0].meta.get("start") if isinstance(source, exp.Table) else None


def strip_databases(text: str, known: set[tuple[str, str]], edits: Edits) -> list[list[str]]:
    """Remove the database (and catalog) from the names of columns: views have neither.

    `known` are databases and tables in lower case.  The parts of the names, in lower case.
    """
    stripped = []
    words = Words(text)
    tables = {start for start, *_ in edits.edits}
    while not words.done:
        first = words.at
        try:
            words.identifier()
        except SqlSyntaxError:
            words.at += 1
            continue
        places = [first]
        while words.eat("."):
            places.append(words.at)
            try:
                words.identifier()
            except SqlSyntaxError:
                break  # db.t.*
        start = words.tokens[first].start - len(START)
        if len(places) < 3 or start in tables or words.looks_at("("):
            continue
        names = [words.tokens[at].text.lower() for at in places]
        for skipped in (1, 0):
            if tuple(names[skipped : skipped + 2]) in known and len(places) > skipped + 2:
                edits.put(start, words.tokens[places[skipped + 1]].start - len(START), "")
                stripped.append(names)
                break
    return stripped
