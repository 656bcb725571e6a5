r"""Comments as Spark's lexer takes them: `--` up to the end of the line, and `/* */`, which nest.

A backslash at the end of a line lets `--` go on in the next one, and a lone carriage return ends
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_PIECE: Final = re.compile(
    r"""(?<!\w)[rR]'[^']*'|(?<!\w)[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`
    |(?P<comment>--|/\*)""",
    re.DOTALL | re.VERBOSE,
)
_LINE: Final = re.compile(r"--(?:\\\n|[^\r\n])*")
_OPTIONS: Final = re.compile(r"/\*\+\s*OPTIONS\s*\([^*]*\)\s*\*/", re.IGNORECASE)
_EDGE: Final = re.compile(r"/\*|\*/")


def without_odd_comments(text: str) -> str:
    r"""The text with spaces in place of comments that a `\r` ends or a backslash continues.

    sqlglot would end them elsewhere, and leave out, or read, other words than Spark.
    """
    if "--" not in text or not ("\r" in text or "\\\n" in text):
        return text
    pieces, done = [], 0
    for start, end in _comments(text):
        if text[start] == "-":
            pieces += [text[done:start], " " * (end - start)]
            done = end
    return "".join([*pieces, text[done:]])


def is_blank(text: str, *, hints: bool = False) -> bool:
    """Whether the text is nothing but spaces and comments.

    Hints are none, as Spark has them only behind SELECT, and other `hints`; Paimon's OPTIONS may
    stand behind the name of a table.
    """
    if not text.strip():
        return True
    rest, done = "", 0
    for start, end in _comments(text):
        if text.startswith("/*+", start) and not hints and _OPTIONS.match(text, start) is None:
            continue
        rest, done = rest + text[done:start], end
    return not (rest + text[done:]).strip()


def _comments(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    while match := _PIECE.search(text, at):
        at = match.end()
        if match["comment"]:
            at = end_of_comment(text, match.start())
            yield match.start(), at


def end_of_comment(text: str, start: int) -> int:
    """The end of the comment that starts there; that of the text if nothing closes it."""
    if line := _LINE.match(text, start):
        return line.end()
    depth, at = 1, start + len("/*")
    while depth and (edge := _EDGE.search(text, at)):
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return len(text) if depth else at
