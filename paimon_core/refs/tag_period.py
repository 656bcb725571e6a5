"""The periods and names of automatic tags (Java: `tag/TagPeriodHandler`).

A tag covers a completed period: "2024-01-31 12" is the hour from 12:00 to 13:00.  All times are
wall clock milliseconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from paimon_core.errors import InvalidArgument
from paimon_core.options import (
    TAG_CREATION_DELAY,
    TAG_CREATION_PERIOD,
    TAG_CREATION_PERIOD_DURATION,
    TAG_PERIOD_FORMATTER,
    Options,
)

_HOUR: Final = 3_600_000
_DAY: Final = 24 * _HOUR
_HOURLY: Final = {
    "with_dashes": "%Y-%m-%d %H",
    "without_dashes": "%Y%m%d %H",
    "without_dashes_and_spaces": "%Y%m%d%H",
}
_DAILY: Final = {
    "with_dashes": "%Y-%m-%d",
    "without_dashes": "%Y%m%d",
    "without_dashes_and_spaces": "%Y%m%d",
}
_DIGITS: Final = {"%Y": r"\d{4}", "%m": r"\d\d", "%d": r"\d\d", "%H": r"\d\d", "%M": r"\d\d"}


@dataclass(frozen=True, slots=True)
class TagPeriod:
    """A period in milliseconds, and the strftime format of its tag names."""

    millis: int
    name_format: str
    delay: int = 0

    @classmethod
    def of(cls, options: Options) -> TagPeriod:
        """Return the period that a table's options define; InvalidArgument for an invalid one."""
        delay = options.value(TAG_CREATION_DELAY)
        duration = options.value(TAG_CREATION_PERIOD_DURATION)
        if duration is not None:
            return cls(duration, "%Y%m%d%H%M", delay)
        formatter = options.value(TAG_PERIOD_FORMATTER)
        if formatter not in _HOURLY:
            raise InvalidArgument(f"tag.period-formatter {formatter!r} is unknown")
        match options.value(TAG_CREATION_PERIOD):
            case "daily":
                period = cls(_DAY, _DAILY[formatter], delay)
            case "hourly":
                period = cls(_HOUR, _HOURLY[formatter], delay)
            case "two-hours":
                # Java ignores the formatter here.
                period = cls(2 * _HOUR, _HOURLY["with_dashes"], delay)
            case other:
                raise InvalidArgument(f"tag.creation-period {other!r} is unknown")
        return period

    def __post_init__(self) -> None:
        if self.millis <= 0 or self.delay >= self.millis:
            raise InvalidArgument(
                f"tag.creation-delay ({self.delay} ms) must be less than the period "
                f"({self.millis} ms)"
            )

    def name_of(self, time: int) -> str:
        """Return the tag name of the period that begins at `time`."""
        begin = datetime.fromtimestamp(time // 1000, UTC)
        # C libraries differ in the digits of years before 1000.
        return begin.strftime(self.name_format.replace("%Y", f"{begin.year:04}"))

    def time_of(self, name: str) -> int | None:
        """Return the begin of this tag's period.

        None if the name is not that of an automatic tag.
        """
        if self.name_format in _DAILY.values():
            name = name.partition(" ")[0]
        pattern = re.sub("%[YmdHM]", lambda m: _DIGITS[m.group()], self.name_format)
        if not re.fullmatch(pattern, name, re.ASCII):
            return None
        try:
            time = datetime.strptime(name, self.name_format).replace(tzinfo=UTC)
        except ValueError:
            return None
        return int(time.timestamp()) * 1000

    def last_complete(self, time: int) -> int:
        """Return the begin of the last period that is complete at `time`.

        Java divides toward zero, so before 1970 it is the one that `time` is in.
        """
        periods = abs(time) // self.millis
        return (periods if time >= 0 else -periods) * self.millis - self.millis

    def is_due(self, period: int, time: int) -> bool:
        """Return whether, at `time`, the period that begins at `period` and the delay are over."""
        return time - self.delay >= period + self.millis
