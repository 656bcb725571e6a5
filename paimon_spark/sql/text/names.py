"""Names in SQL text."""

from __future__ import annotations


def quoted(name: str) -> str:
    """The name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """The text as a literal in single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
