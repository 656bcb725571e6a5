"""SQL text as single statements: a `;` ends one, outside quotes and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from paimon_spark.sql.text.comments import end_of_comment

_BEGIN: Final = re.compile(r"BEGIN\s+(?!;)", re.IGNORECASE)
_WORD: Final = re.compile(r"\w")
_BLOCKS: Final = ("BEGIN", "CASE", "LOOP", "WHILE", "REPEAT", "FOR")


def split_statements(text: str) -> list[str]:
    """The statements in order, without their `;`; parts with nothing but comments are left out.

    Quotes are `'`, `"` (a backslash escapes in both, unless r precedes) and backquotes.  `comments`
    says what a comment is.  An open quote or comment runs to the end.  A script, BEGIN ... END, is
    one statement.
    """
    found, rest = complete_statements(text)
    return [*found, rest] if rest else found


def complete_statements(text: str) -> tuple[list[str], str]:
    """The statements that a `;` ends, and what follows the last one; "" if it is no statement."""
    found: list[str] = []
    start, has_code = 0, False
    script: _Script | None = None
    for at, end, is_code in _parts(text):
        if is_code and not has_code and text[at:end] != ";" and not text[at:end].isspace():
            has_code = True
            script = _Script() if _BEGIN.match(text, at) else None
        if script is not None:
            script.read(text[at:end], is_code=is_code)
        if is_code and text[at:end] == ";" and (script is None or not script.depth):
            if has_code:
                found.append(text[start:at].strip())
            start, has_code, script = end, False, None
    return found, text[start:].strip() if has_code else ""


class _Script:
    """A script, BEGIN ... END: `depth` counts the blocks that are open, whose `;` are their own."""

    def __init__(self) -> None:
        self.depth = 0
        self._word = ""
        self._last = ""

    def read(self, piece: str, *, is_code: bool) -> None:
        """Take the next part of the text."""
        if is_code and len(piece) == 1 and (piece.isalnum() or piece == "_"):
            self._word += piece.upper()
            return
        if self._word:
            self._take(self._word, alone=not is_code or piece.isspace())
        self._word = ""

    def _take(self, word: str, *, alone: bool) -> None:
        if word == "END":
            self.depth -= 1
        elif self._last == "IF" and word in ("EXISTS", "NOT"):
            self.depth -= 1  # IF [NOT] EXISTS is no block
        elif self._last != "END":
            self.depth += word in _BLOCKS or (word == "IF" and alone)
        self._last = word


def _parts(text: str) -> Iterator[tuple[int, int, bool]]:
    """Start, end and whether it is code (not a comment): single characters, quotes, comments."""
    at = 0
    while at < len(text):
        char = text[at]
        if char in "'\"`":
            end, is_code = _end_of_quote(text, at, raw=_is_raw(text, at)), True
        elif text.startswith(("--", "/*"), at):
            # A hint is part of a statement, never a statement of its own.
            end, is_code = end_of_comment(text, at), False
        else:
            end, is_code = at + 1, True
        yield at, end, is_code
        at = end


def _is_raw(text: str, start: int) -> bool:
    """Whether the quote begins r'..', in which a backslash is a character."""
    before = text[max(0, start - 2) : start]
    return before[-1:] in ("r", "R") and not (len(before) > 1 and _WORD.match(before))


def _end_of_quote(text: str, start: int, *, raw: bool) -> int:
    quote, at = text[start], start + 1
    while at < len(text):
        if text[at] == "\\" and quote != "`" and not raw:
            at += 2
            continue
        if text[at] == quote:
            return at + 1
        at += 1
    return len(text)
