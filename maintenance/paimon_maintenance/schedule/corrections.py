"""What the line of the cost model misses: the size of a table's runs.

A line does not fit all sizes of a table: pages of large files are copied, those of small ones
encoded.  So the logarithm of measured seconds divided by those of the line is taken from the
table's last runs of about the same size.  Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

_LAST_RUNS: Final = 20
"""How many of a table's last runs correct its seconds."""
_LAST_TRUST: Final = 1.0
"""The number of runs without an error that are added to a table's runs, to damp the correction."""
_LAST_KEPT: Final = 0.95
"""The weight of a run relative to that of the table's next one."""
_ALIKE: Final = 0.5
"""Runs are similar if the logarithms of their bytes differ by at most this; at
twice, they count little."""
_LARGEST: Final = 1.0
"""The error of a single run is cut to this value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """The error of the line in one run: logarithms of its bytes and of measured / line seconds."""

    table: str
    size: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """What to add to the logarithm of the line; `last`: size and error of each table's last runs.

    The oldest comes first.
    """

    last: dict[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)

    def factor(self, table: str, size: float) -> float:
        """By how much the seconds of the line are multiplied for a run of this size."""
        return math.exp(_mean(size, self.last.get(table, ())))


def corrections_of(errors: Sequence[Error]) -> Corrections:
    """The corrections after these runs, oldest first."""
    runs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in errors:
        if one.table:
            runs[one.table].append((one.size, max(-_LARGEST, min(_LARGEST, one.error))))
    return Corrections(last={name: tuple(found[-_LAST_RUNS:]) for name, found in runs.items()})


def _mean(size: float, last: Sequence[tuple[float, float]]) -> float:
    """The mean error of these runs, of which those of this size and the newest count most."""
    total, weights = 0.0, _LAST_TRUST
    kept = 1.0
    for other, error in reversed(last):
        weight = kept * math.exp(-(((other - size) / _ALIKE) ** 2) / 2)
        total += weight * error
        weights += weight
        kept *= _LAST_KEPT
    return total / weights
