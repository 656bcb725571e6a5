"""Time windows such as "22:00-06:00" or "sat-sun 00:00-24:00", in the scheduler's wall clock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WINDOW: Final = re.compile(
    r"(?:(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))?\s+)?"
    r"(?P<h1>\d{1,2}):(?P<m1>\d{2})\s*-\s*(?P<h2>\d{1,2}):(?P<m2>\d{2})"
)
_MINUTES_OF_DAY: Final = 1440
_MINUTE_MILLIS: Final = 60_000
_THURSDAY: Final = 3
"""The day of the week of 1970-01-01, from Monday as 0."""


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` to `end`, minutes of the day, on `days` (0 is Monday).

    A window that ends before it starts continues into the next day.
    """

    text: str
    days: frozenset[int]
    start: int
    end: int

    @classmethod
    def of(cls, text: str) -> Window:
        """The window that the text means; ValueError with a reason if it means none."""
        match = _WINDOW.fullmatch(text.strip().lower())
        if match is None:
            raise ValueError(
                f"{text!r} is not a window (for example '22:00-06:00', 'sat-sun 0:00-24:00')"
            )
        start = int(match["h1"]) * 60 + int(match["m1"])
        end = int(match["h2"]) * 60 + int(match["m2"])
        if max(int(match["m1"]), int(match["m2"])) > 59 or start >= _MINUTES_OF_DAY:
            raise ValueError(f"{text!r} has a time that no day has")
        if end > _MINUTES_OF_DAY or start == end:
            raise ValueError(f"{text!r} has a time that no day has, or is empty")
        return cls(text, _days(match["first"], match["last"]), start, end)

    def holds(self, local_millis: int) -> bool:
        """Whether the window is open at this wall clock time, in milliseconds as if it were UTC."""
        minutes = local_millis // _MINUTE_MILLIS
        day, minute = divmod(minutes, _MINUTES_OF_DAY)
        weekday = (day + _THURSDAY) % 7
        if self.start < self.end:
            return weekday in self.days and self.start <= minute < self.end
        # Over midnight: the early part belongs to the window of the day before.
        early = minute < self.end and (weekday - 1) % 7 in self.days
        return early or (minute >= self.start and weekday in self.days)


def _days(first: str | None, last: str | None) -> frozenset[int]:
    if first is None:
        return frozenset(range(7))
    for name in (first, last):
        if name is not None and name not in _DAYS:
            raise ValueError(f"{name!r} is not a day ({', '.join(_DAYS)})")
    begin = _DAYS.index(first)
    end = begin if last is None else _DAYS.index(last)
    number = (end - begin) % 7 + 1
    return frozenset((begin + i) % 7 for i in range(number))


def is_open(windows: tuple[Window, ...], local_millis: int) -> bool:
    """Whether one of the windows is open; always, if there are none."""
    return not windows or any(w.holds(local_millis) for w in windows)
