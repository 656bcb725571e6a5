"""Sums over runs by table, and by job and day; those of complete days are computed once a process.

A database sorts all runs of the period for each sum.  No run is added to a day that is over, so its
sums stay, unless the history's retention deletes its runs: then their number differs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

DAY_MILLIS: Final = 86_400_000
_LATE_MILLIS: Final = 3_600_000
"""Runs may arrive this late, for example from a worker whose clock is slow."""
_MOST_KEPT: Final = 64

Sums = dict[tuple[Any, ...], Sequence[Any]]
"""Sums by table, or by job and day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """From `since` to before `until`, both in milliseconds since the epoch."""

    since: int
    until: int

    def parts(self, now: int) -> tuple[Period, Period, Period]:
        """The beginning, the complete days (in UTC), and the rest; each may be empty."""
        first = -(-self.since // DAY_MILLIS) * DAY_MILLIS
        last = min(now - _LATE_MILLIS, self.until) // DAY_MILLIS * DAY_MILLIS
        if last <= first:
            return self, _nothing(self.until), _nothing(self.until)
        return (
            Period(since=self.since, until=first),
            Period(since=first, until=last),
            Period(since=last, until=self.until),
        )


def _nothing(at: int) -> Period:
    return Period(since=at, until=at)


@dataclass(slots=True)
class KeptSums:
    """The sums of complete days that this process has computed; any thread may use it."""

    _kept: dict[tuple[object, ...], tuple[int, tuple[Sums, ...]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(
        self,
        key: tuple[object, ...],
        count: Callable[[], int],
        compute: Callable[[], tuple[Sums, ...]],
    ) -> tuple[Sums, ...]:
        """The sums under this key, computed unless they are known for this number of runs."""
        runs = count()
        with self._lock:
            known = self._kept.get(key)
        if known is not None and known[0] == runs:
            return known[1]
        found = compute()
        with self._lock:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = (runs, found)
        return found


def sums_by(
    connection: sa.Connection,
    keys: Sequence[sa.ColumnElement[Any]],
    columns: Sequence[sa.ColumnElement[Any]],
    where: sa.ColumnElement[bool],
) -> Sums:
    """The sums of the matching runs by these keys."""
    rows = connection.execute(sa.select(*keys, *columns).where(where).group_by(*keys)).all()
    return {tuple(row[: len(keys)]): row[len(keys) :] for row in rows}


def merged(parts: Iterable[Mapping[tuple[Any, ...], Sequence[Any]]]) -> Sums:
    """The sums of all parts added up."""
    found: Sums = {}
    for part in parts:
        if not found:
            found = dict(part)
            continue
        for key, values in part.items():
            so_far = found.get(key)
            found[key] = (
                values if so_far is None else [a + b for a, b in zip(so_far, values, strict=True)]
            )
    return found
