"""What every object of the API knows: the clock, and the time zone of times written as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from paimon_core.environment import Environment, machine_zone, system_environment
from paimon_core.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Context:
    """The machine's clock and zone, unless the caller of `open_catalog` says otherwise."""

    env: Environment = field(default_factory=system_environment)
    zone: tzinfo = field(default_factory=machine_zone)


def context_of(timezone: str | None) -> Context:
    """The context of an IANA zone name; None is the machine's.  InvalidArgument if it is unknown."""
    if timezone is None:
        return Context()
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise InvalidArgument(
            f"unknown time zone {timezone!r}", next_step="for example Europe/Berlin"
        ) from e
    return Context(system_environment(timezone), zone)
