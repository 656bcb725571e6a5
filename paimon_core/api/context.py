"""The clock and the time zone that all objects of the API share."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from paimon_core.environment import Environment, machine_zone, system_environment
from paimon_core.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Context:
    """The clock, and the time zone of times written as text.  Default: those of the machine."""

    env: Environment = field(default_factory=system_environment)
    zone: tzinfo = field(default_factory=machine_zone)


def context_of(timezone: str | None) -> Context:
    """The context for an IANA time zone name; None: the machine's time zone.

    Raises InvalidArgument for an unknown time zone.
    """
    if timezone is None:
        return Context()
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise InvalidArgument(
            f"unknown time zone {timezone!r}",
            next_step="use an IANA name, for example Europe/Berlin",
        ) from e
    return Context(system_environment(timezone), zone)
