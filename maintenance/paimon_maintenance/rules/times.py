"""Parses points in time in the wall clock of the configured zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from paimon_core.environment import Environment, local_clock
from paimon_core.errors import InvalidArgument
from paimon_core.options import parse_duration_millis

_DAY: Final = 86_400_000
_MILLIS: Final = re.compile(r"[0-9]{1,19}")
_AGE: Final = re.compile(r"\d+\s*[a-zA-Zµ]+")


def parse_instant(text: str, env: Environment) -> int:
    """Milliseconds since the epoch, from a wall clock time or a number of milliseconds.

    Accepts "2024-01-31" and "2024-01-31 12:00:00" with or without a fraction, as Paimon's
    procedures do.  A "Z" or an offset at the end overrides the configured zone.
    """
    if _MILLIS.fullmatch(text.strip()):
        return int(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as e:
        raise InvalidArgument(
            f"argument --timestamp: invalid time {text!r} (expected for example '2024-01-31 12:00:00')"
        ) from e
    if moment.tzinfo is not None:
        return round(moment.timestamp() * 1000)
    return _instant_of(round(moment.replace(tzinfo=UTC).timestamp() * 1000), env)


def parse_older_than(text: str, env: Environment) -> int:
    """Milliseconds since the epoch, from a point in time or an age such as "1 d"."""
    if _AGE.fullmatch(text.strip()):
        return env.now_millis() - parse_duration_millis(text.strip())
    try:
        return parse_instant(text, env)
    except InvalidArgument as e:
        raise InvalidArgument(
            f"argument --older-than: invalid age or time {text!r} "
            "(expected for example '1 d', '90 min' or '2024-01-31 12:00:00')"
        ) from e


def _instant_of(local: int, env: Environment) -> int:
    """The instant at which the wall clock shows this time.

    The earlier of two instants if the clock is set back.  In a gap, the offset before the gap
    applies (Java: `LocalDateTime.atZone`).
    """
    before = local - _offset(local - _DAY, env)
    after = local - _offset(local + _DAY, env)
    return after if local_clock(before, env) != local == local_clock(after, env) else before


def _offset(millis: int, env: Environment) -> int:
    return local_clock(millis, env) - millis
