"""The figures of a benchmark and their targets, for `run_all.py`.

A script calls `record` for each figure of docs/performance.md, and for each point of its curves.
On its own it only prints its tables; under `run_all.py`, `$CARETAKER_FIGURES` names the file that
collects them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

COLLECT: Final = "CARETAKER_FIGURES"
_WHOLE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value; `target` is its maximum, or its minimum with `at_least`."""

    name: str
    value: float
    unit: str = ""
    target: float | None = None
    at_least: bool = False

    @property
    def text(self) -> str:
        """The value with its unit."""
        return shown(self.value, self.unit)

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of the curve `line` in the plot `panel`; `target` is the maximum of y."""

    panel: str
    line: str
    x: float
    y: float
    target: float | None = None


def shown(value: float, unit: str) -> str:
    """A value with its unit, in three significant digits or as a whole number."""
    text = f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def record(found: Iterable[Figure | Point]) -> None:
    """Add figures and points to those of this run, if there is one."""
    if COLLECT in os.environ:
        with Path(os.environ[COLLECT]).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(each)) + "\n" for each in found)


def exit_code(*, missed: bool) -> int:
    """The exit code of a script: 1 if a target is missed, but 0 in a run whose page says so."""
    return int(missed and COLLECT not in os.environ)


def recorded(file: Path) -> tuple[list[Figure], list[Point]]:
    """The figures and the points in the file, in their order."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return read_back(json.loads(line) for line in lines)


def read_back(stored: Iterable[dict[str, Any]]) -> tuple[list[Figure], list[Point]]:
    """Figures and points from their JSON."""
    figures, points = [], []
    for each in stored:
        if "panel" in each:
            points.append(Point(**each))
        else:
            figures.append(Figure(**each))
    return figures, points
