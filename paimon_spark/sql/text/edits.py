"""Replacements in a text."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Edits:
    """Replacements in a text, by their places."""

    text: str
    edits: list[tuple[int, int, str]] = field(default_factory=list)

    def put(self, start: int, end: int, new: str) -> None:
        self.edits.append((start, end, new))

    def applied(self) -> str:
        """The text with them; those within another one are left out."""
        pieces, done = [], 0
        for start, end, new in sorted(self.edits):
            if start < done:
                continue
            pieces += [self.text[done:start], new]
            done = end
        return "".join([*pieces, self.text[done:]])
