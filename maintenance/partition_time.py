"""The time that a partition's values stand for (Java: `partition/PartitionTimeExtractor`).

A *pattern* puts the values together ("$dt $hour:00:00", default: the first value); a *formatter*,
in the letters of Java's DateTimeFormatter, reads the result (default: `yyyy-MM-dd` with or without
`HH:mm:ss`, digits may be missing, and days and months may overflow into the next).  Times are
milliseconds of a wall clock without zone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_core.errors import InvalidArgument
from paimon_core.types.datetimes import days_from_civil

_DEFAULT: Final = re.compile(
    r"(-?\d{1,10})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?",
    re.ASCII,
)
_LETTERS: Final = {"y": "year", "u": "year", "M": "month", "d": "day", "D": "day_of_year"} | {
    "H": "hour",
    "m": "minute",
    "s": "second",
    "S": "fraction",
}
_RANGES: Final = {
    "month": (1, 12),
    "day": (1, 31),
    "day_of_year": (1, 366),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}
_DAY: Final = 86_400_000
_MONTHS: Final = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)
_CENTURY: Final = 2000
"""What two letters of a year count from, as in Java."""


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """A compiled formatter."""

    pattern: re.Pattern[str]

    @classmethod
    def of(cls, formatter: str) -> TimeFormat:
        """The formatter in Java's letters; InvalidArgument names a letter that is not known."""
        parts: list[str] = []
        seen: set[str] = set()
        for match in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(.)", formatter, re.DOTALL):
            quoted, letter, other = match.groups()
            if quoted is not None:
                parts.append(re.escape(quoted.replace("''", "'") or "'"))
            elif other is not None:
                # Brackets hold what may be missing.
                parts.append({"[": "(?:", "]": ")?"}.get(other, re.escape(other)))
            else:
                name, count = _LETTERS.get(letter), len(match.group())
                known = name is not None and not (name == "month" and count > 3)
                if name is None or not known or name in seen:
                    raise InvalidArgument(
                        f"timestamp formatter {formatter!r}: {match.group()!r} is "
                        + ("used twice" if known else "not supported (known: y u M d D H m s S)")
                    )
                seen.add(name)
                parts.append(f"(?P<{_group(name, count)}>{_digits(name, count)})")
        try:
            return cls(re.compile("".join(parts), re.ASCII))
        except re.error as e:
            raise InvalidArgument(
                f"timestamp formatter {formatter!r}: its brackets do not match"
            ) from e

    def millis(self, text: str) -> int | None:
        """The time in the text; None if it does not fit, or says no whole date."""
        match = self.pattern.fullmatch(text)
        if match is None:
            return None
        fields = {k: v for k, v in match.groupdict().items() if v is not None}
        values = {k: int(v) for k, v in fields.items() if k not in ("fraction", "month_name")}
        if "month_name" in fields:
            values["month"] = _MONTHS.index(fields["month_name"]) + 1
        if "short_year" in fields:
            values["year"] = _CENTURY + values.pop("short_year")
        days = _days(values)
        if days is None:
            return None
        # A time with a gap (seconds without minutes) is no time in Java either.
        order = [k in values for k in ("hour", "minute", "second")]
        if order != sorted(order, reverse=True):
            return None
        return _millis(days, values, fields.get("fraction", ""))


def _days(values: Mapping[str, int]) -> int | None:
    """Days since 1970; None for values out of range, of no whole date, or that disagree."""
    if any(not low <= values.get(k, low) <= high for k, (low, high) in _RANGES.items()):
        return None
    year, month, day = values.get("year"), values.get("month"), values.get("day")
    if year is None:
        return None
    of_year = values.get("day_of_year")
    by_year = None if of_year is None else days_from_civil(year, 1, 1) + of_year - 1
    if by_year is not None and by_year >= days_from_civil(year + 1, 1, 1):
        return None
    if month is None:
        return by_year if day is None else None
    start, end = days_from_civil(year, month, 1), days_from_civil(*_next_month(year, month), 1)
    if day is None:
        return by_year if by_year is not None and start <= by_year < end else None
    # Java cuts a day that the month does not have to its last.
    found = start + min(day, end - start) - 1
    return found if by_year in (None, found) else None


def _next_month(year: int, month: int) -> tuple[int, int]:
    return year + month // 12, month % 12 + 1


def _group(name: str, count: int) -> str:
    """The group of the regular expression that holds these letters."""
    if name == "month" and count == 3:
        return "month_name"
    return "short_year" if name == "year" and count == 2 else name


def _digits(name: str, count: int) -> str:
    if name == "month" and count == 3:
        return "|".join(_MONTHS)
    if name == "day_of_year":
        return rf"\d{{{count},3}}"
    if name == "year":
        return r"\d{4}" if count == 4 else rf"\d{{{count}}}" if count > 1 else r"\d{1,10}"
    if name == "fraction":
        return rf"\d{{{count}}}"
    return rf"\d{{{count}}}" if count > 1 else r"\d{1,2}"


def _millis(days: int, values: Mapping[str, int], fraction: str) -> int:
    seconds = values.get("hour", 0) * 3600 + values.get("minute", 0) * 60 + values.get("second", 0)
    return days * _DAY + seconds * 1000 + int((fraction + "000")[:3])


def default_millis(text: str) -> int | None:
    """The time in the text by the default formats, leniently; None if it is none."""
    match = _DEFAULT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction = match.groups()
    months = int(year) * 12 + int(month) - 1
    days = days_from_civil(months // 12, months % 12 + 1, 1) + int(day) - 1
    values = {"hour": int(hour or 0), "minute": int(minute or 0), "second": int(second or 0)}
    return _millis(days, values, fraction or "")


def put_together(pattern: str | None, values: Mapping[str, str]) -> str:
    """The text that is read as a time: the pattern with $key replaced, or the first value."""
    if pattern is None:
        return next(iter(values.values()))
    for key, value in values.items():
        pattern = pattern.replace(f"${key}", value)
    return pattern
