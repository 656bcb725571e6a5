"""Time zones by the names that Java and Spark take: regions, `+02:00`, `GMT+2`."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")


def zone_of(name: str) -> tzinfo:
    """The zone.  ZoneInfoNotFoundError, OSError or ValueError for an unknown one."""
    if name.upper() in ("UTC", "Z", "GMT", "UT"):
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset is None:
        return ZoneInfo(name)
    hours, minutes, seconds = (int(part or 0) for part in offset.groups()[1:])
    found = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(-found if offset[1] == "-" else found)
