"""The hidden columns of tables in the text of a query (docs/sql.md)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from paimon_spark.metadata_columns import FILE_PATH
from paimon_spark.sql.text.edits import Edits
from paimon_spark.sql.text.tokens import START, Words

_INPUT_FILE: Final = ("INPUT_FILE_NAME", "(", ")")
_STAND_IN: Final = FILE_PATH.replace("path", "PATH")
"""The column in place of input_file_name(): Spark spells it in names as the query does."""


def hide_metadata(
    text: str, metadata: Collection[str], edits: Edits, *, case_sensitive: bool
) -> None:
    """`*` means the table's own columns, not the hidden ones; input_file_name() is a hidden one."""
    words = Words(text)
    hidden = ", ".join(sorted(metadata))
    for i, token in enumerate(words.tokens):
        before = words.tokens[i - 1].text.upper()
        if (
            token.text == "*"
            and before in ("SELECT", ",", "DISTINCT", ".")
            and _from_name(words, i)
        ):
            words.at = i + 1
            own = words.eat("EXCEPT", "(")
            end = words.tokens[words.at - 1].end + 1 - len(START)
            edits.put(end, end, f"{hidden}, " if own else f" EXCEPT ({hidden})")
    for start, end in input_files(text):
        edits.put(start, end, FILE_PATH if case_sensitive else _STAND_IN)


def file_name_call(column: str) -> str:
    """The name of a column as it is with Spark's function: `upper(input_file_name())`."""
    return column.replace(_STAND_IN, f"{_INPUT_FILE[0].lower()}()")


def input_files(text: str) -> list[tuple[int, int]]:
    """Where input_file_name() is called, but not where a text has it."""
    if _INPUT_FILE[0].lower() not in text.lower():
        return []
    words, found = Words(text), []
    while not words.done:
        if words.looks_at(*_INPUT_FILE):
            first, last = words.tokens[words.at], words.tokens[words.at + 2]
            found.append((first.start - len(START), last.end + 1 - len(START)))
        words.at += 1
    return found


def _from_name(words: Words, star: int) -> bool:
    """Whether the FROM of this `*` begins with a name, and not with a subquery."""
    depth = 0
    for i in range(star + 1, len(words.tokens)):
        word = words.tokens[i].text.upper()
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth < 0:
            return False
        if depth == 0 and word == "FROM":
            return i + 1 < len(words.tokens) and words.tokens[i + 1].text != "("
    return False
