"""The grammar of rows of literals, checked word by word.

sqlglot reads more than Spark does: `VALUES (1, , 2),` has one row for it.  So only what is written
as this grammar says is read without Spark::

    rows     VALUES row (, row)*  |  SELECT column (, column)*
    row      ( literal (, literal)* )  |  literal
    column   literal [[AS] name]
    literal  ( literal )  |  name ( [part (, part)*] )  |  DEFAULT  |  what `Words.constant` reads
    part     literal [AS name [( number, .. )]]
"""

from __future__ import annotations

from collections.abc import Callable

from paimon_spark.sql.errors import SqlSyntaxError
from paimon_spark.sql.text.tokens import Words


def are_plain_rows(text: str) -> bool:
    """Whether the text is VALUES or a SELECT of nothing but literals."""
    words = Words(text)
    try:
        if words.eat("SELECT"):
            _list(words, _column)
        else:
            words.need("VALUES")
            _list(words, _row)
        words.end()
    except SqlSyntaxError:
        return False
    return True


def is_plain_literal(text: str) -> bool:
    """Whether the text is one literal, an array, map, struct or cast of literals, and no more."""
    words = Words(text)
    try:
        _literal(words)
        words.end()
    except SqlSyntaxError:
        return False
    return True


def _list(words: Words, read: Callable[[Words], None]) -> None:
    read(words)
    while words.eat(","):
        read(words)


def _row(words: Words) -> None:
    if words.looks_at("("):
        words.items(lambda: _literal(words))
    else:
        _literal(words)


def _column(words: Words) -> None:
    _literal(words)
    if words.eat("AS") or not (words.done or words.looks_at(",")):
        words.identifier()


def _literal(words: Words) -> None:
    if words.looks_at("("):
        words.need("(")
        _literal(words)
        words.need(")")
    elif words.word(1) == "(" and words.word().isidentifier():
        words.identifier()
        words.items(lambda: _part(words), may_be_empty=True)
    elif not words.eat("DEFAULT"):
        words.constant()


def _part(words: Words) -> None:
    _literal(words)
    if words.eat("AS"):
        words.identifier()
        if words.looks_at("("):
            words.items(words.integer)
