"""The figures of a benchmark and their targets, for `run_all.py`.

A script calls `record` for each figure of docs/performance.md.  On its own it only prints its tables;
under `run_all.py`, `$CARETAKER_FIGURES` names the file that collects the figures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

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


def shown(value: float, unit: str) -> str:
    """A value with its unit, in three significant digits or as a whole number."""
    text = f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def record(figures: Iterable[Figure]) -> None:
    """Add the figures to those of this run, if there is one."""
    if COLLECT in os.environ:
        with Path(os.environ[COLLECT]).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(figure)) + "\n" for figure in figures)


def recorded(file: Path) -> Iterator[Figure]:
    """The figures in the file, in their order."""
    if file.exists():
        for line in file.read_text("utf-8").splitlines():
            yield Figure(**json.loads(line))
