"""The examples of docs/library.md run as they are, in their order."""

from __future__ import annotations

import re
from pathlib import Path

TOUR = Path(__file__).parents[3] / "docs" / "library.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_tour(tmp_path: Path) -> None:
    text = TOUR.read_text("utf-8")
    names: dict[str, object] = {"warehouse": str(tmp_path / "lake")}
    blocks = list(BLOCK.finditer(text))
    for block in blocks:
        # Empty lines before the code, so that a failure shows the line of the document.
        code = "\n" * (text[: block.start()].count("\n") + 1) + block[1]
        exec(compile(code, str(TOUR), "exec"), names)
    assert len(blocks) >= 10
