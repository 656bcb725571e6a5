"""Validates schedules: cron expressions with five fields, and their presets."""

from __future__ import annotations

import re
from typing import Final

_NAMED: Final = frozenset({"@hourly", "@daily", "@weekly", "@monthly", "@yearly", "@annually"})
_MONTHS: Final = [
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
]
_LENGTHS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: Final[tuple[tuple[str, int, int, list[str]], ...]] = (
    ("minute", 0, 59, []),
    ("hour", 0, 23, []),
    ("day of the month", 1, 31, []),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
_PART: Final = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?$", re.ASCII)


def wrong_schedule(text: str) -> str | None:
    """The error in a cron expression; None for a valid one."""
    if text in _NAMED:
        return None
    parts = text.split()
    if len(parts) != len(_FIELDS):
        return (
            f"{text!r} is not a cron expression with five fields (for example '*/30 * * * *') "
            f"or one of {', '.join(sorted(_NAMED))}"
        )
    for part, (name, least, most, words) in zip(parts, _FIELDS, strict=True):
        for piece in part.split(","):
            if not _is_piece(piece.lower(), least, most, words):
                return f"{piece!r} in {text!r} is not a {name} ({least} to {most})"
    if _has_no_day(days=parts[2], months=parts[3].lower(), weekdays=parts[4]):
        return f"{text!r} names a day that none of its months has"
    return None


def _has_no_day(*, days: str, months: str, weekdays: str) -> bool:
    """Whether no month has one of the days, as in `0 0 31 2 *`.

    Airflow cannot schedule such a DAG.
    """
    if weekdays != "*" or "*" in days or "*" in months:
        return False  # A day of the week counts as well; `*/2` begins with the first day.
    first_day = min(int(piece.split("-")[0].split("/")[0]) for piece in days.split(","))
    named = [re.split(r"[-/]", piece) for piece in months.split(",")]
    if any(len(piece) > 1 for piece in named):
        return False  # Of several months, one has 31 days.
    longest = max(_LENGTHS[(_number(piece[0], 1, _MONTHS) or 1) - 1] for piece in named)
    return first_day > longest


def _is_piece(piece: str, least: int, most: int, words: list[str]) -> bool:
    match = _PART.match(piece)
    if match is None:
        return False
    first, last, step = match.groups()
    bounds = [_number(t, least, words) for t in (first, last) if t is not None]
    inside = all(b is not None and least <= b <= most for b in bounds)
    return inside and (step is None or int(step) > 0)


def _number(text: str, least: int, words: list[str]) -> int | None:
    if text.isascii() and text.isdigit():
        return int(text)
    return words.index(text) + least if text in words else None
