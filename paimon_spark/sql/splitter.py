"""SQL text as single statements: a `;` ends one, outside quotes and comments."""

from __future__ import annotations

from collections.abc import Iterator


def split_statements(text: str) -> list[str]:
    """The statements in order, without their `;`; parts with nothing but comments are left out.

    Quotes are `'`, `"` (a backslash escapes in both) and backquotes; comments are `--` to the end of
    the line and `/* */`, which nest as in Spark.  An open quote or comment runs to the end.
    """
    found, rest = complete_statements(text)
    return [*found, rest] if rest else found


def complete_statements(text: str) -> tuple[list[str], str]:
    """The statements that a `;` ends, and what follows the last one; "" if it is no statement."""
    found: list[str] = []
    start, has_code = 0, False
    for at, end, is_code in _parts(text):
        if is_code and text[at:end] == ";":
            if has_code:
                found.append(text[start:at].strip())
            start, has_code = end, False
        elif is_code and not text[at:end].isspace():
            has_code = True
    return found, text[start:].strip() if has_code else ""


def _parts(text: str) -> Iterator[tuple[int, int, bool]]:
    """Start, end and whether it is code (not a comment): single characters, quotes, comments."""
    at = 0
    while at < len(text):
        char = text[at]
        if char in "'\"`":
            end, is_code = _end_of_quote(text, at), True
        elif text.startswith("--", at):
            newline = text.find("\n", at)
            end, is_code = (len(text) if newline < 0 else newline), False
        elif text.startswith("/*", at):
            # A hint is part of a statement, never a statement of its own.
            end, is_code = _end_of_comment(text, at), False
        else:
            end, is_code = at + 1, True
        yield at, end, is_code
        at = end


def _end_of_quote(text: str, start: int) -> int:
    quote, at = text[start], start + 1
    while at < len(text):
        if text[at] == "\\" and quote != "`":
            at += 2
            continue
        if text[at] == quote:
            return at + 1
        at += 1
    return len(text)


def _end_of_comment(text: str, start: int) -> int:
    depth, at = 1, start + 2
    while at < len(text):
        if text.startswith("*/", at):
            depth, at = depth - 1, at + 2
            if depth == 0:
                return at
        elif text.startswith("/*", at):
            depth, at = depth + 1, at + 2
        else:
            at += 1
    return len(text)
