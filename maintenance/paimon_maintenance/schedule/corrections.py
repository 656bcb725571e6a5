"""What the line of the cost model misses: the size of a table's runs, and how busy the machine is lately.

A line does not fit all sizes of a table: pages of large files are copied, those of small ones encoded.  And
runs close in time share what else the machine does.  So the logarithm of measured seconds divided by those
of the line has two parts: one of the table, from its last runs of about the same size, and one of
the time, from the runs of all tables around it.  Each is the mean of what the other leaves.  Pure.
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
"""How many runs without an error are added to them."""
_LAST_KEPT: Final = 0.95
"""The weight of a run relative to that of the table's next one."""
_ALIKE: Final = 0.5
"""Runs whose logarithms of bytes differ by so much are alike; with twice that, they count little."""
_LATELY_TRUST: Final = 2.0
"""How many runs without an error are added to those of lately."""
_LATELY_KEPT: Final = 0.9
"""The weight of a run relative to that of the next run of any table."""
_LARGEST: Final = 1.0
"""No single run counts with a larger error."""
_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """The error of the line in one run: the logarithms of its bytes and of measured / line seconds."""

    table: str
    size: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """What to add to the logarithm of the line: `lately` for all tables, and the last runs of each.

    `last` has the size of each run and what its error is without the part of the time, oldest first.
    """

    lately: float = 0.0
    last: dict[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)

    def factor(self, table: str, size: float) -> float:
        """By how much the seconds of the line are multiplied for a run of this size."""
        return math.exp(self.lately + _mean(size, self.last.get(table, ())))


def corrections_of(errors: Sequence[Error]) -> Corrections:
    """The corrections after these runs, oldest first."""
    limited = [max(-_LARGEST, min(_LARGEST, e.error)) for e in errors]
    runs: dict[str, list[int]] = defaultdict(list)
    for i, one in enumerate(errors):
        if one.table:
            runs[one.table].append(i)
    of_table = [0.0] * len(errors)
    last: dict[str, tuple[tuple[float, float], ...]] = {}
    lately = 0.0
    for _ in range(_ROUNDS):
        of_time, lately = _of_time([e - t for e, t in zip(limited, of_table, strict=True)])
        for name, found in runs.items():
            newest = found[-_LAST_RUNS:]
            last[name] = tuple((errors[i].size, limited[i] - of_time[i]) for i in newest)
            for i in newest:
                of_table[i] = _mean(errors[i].size, last[name])
    return Corrections(lately=lately, last=last)


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


def _of_time(errors: Sequence[float]) -> tuple[list[float], float]:
    """The mean of the errors around each run, and that of the newest ones."""
    before = _running(errors)
    after = _running(errors[::-1])[::-1]
    around = [
        (b + a - e) / (_LATELY_TRUST + bn + an - 1.0)
        for (b, bn), (a, an), e in zip(before, after, errors, strict=True)
    ]
    if not before:
        return around, 0.0
    total, number = before[-1]
    return around, total / (_LATELY_TRUST + number)


def _running(errors: Sequence[float]) -> list[tuple[float, float]]:
    """The weighted sum of the errors up to each run, and the sum of their weights."""
    found = []
    total = number = 0.0
    for error in errors:
        total = total * _LATELY_KEPT + error
        number = number * _LATELY_KEPT + 1.0
        found.append((total, number))
    return found
