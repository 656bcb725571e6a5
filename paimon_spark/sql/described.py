"""`(DESCRIBE table)` in place of a table: `SELECT * FROM (DESC t) WHERE col_name LIKE 'a%'`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from paimon_spark.sql.result import Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.show import describe_table
from paimon_spark.sql.tokens import START, Words

_BEFORE: Final = ("FROM", "JOIN", ",")


def replace_described(session: SqlSession, text: str, view_of: Callable[[Result], str]) -> str:
    """The query with a view of the answer in place of each DESCRIBE in parentheses."""
    if "desc" not in text.lower():
        return text
    words = Words(text)
    pieces: list[str] = []
    done = len(START)
    while not words.done:
        opens, before = words.at, words.tokens[words.at - 1].text.upper()
        if before not in _BEFORE or not _opens_description(words):
            words.at += 1
            continue
        inner = words.parenthesized()
        description = Words(inner)
        description.at += 1
        description.eat("TABLE")
        view = view_of(describe_table(session, description))
        pieces += [words.text[done : words.tokens[opens].start], view]
        done = words.tokens[words.at - 1].end + 1
    return "".join([*pieces, words.text[done:]])


def _opens_description(words: Words) -> bool:
    return (
        words.word() == "("
        and words.word(1) in ("DESC", "DESCRIBE")
        and words.word(2)
        not in (
            "",
            ")",
            ",",
            ".",
            "AS",
        )
    )
