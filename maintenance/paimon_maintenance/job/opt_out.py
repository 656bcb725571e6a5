"""Tables that opt out of maintenance with the option `caretaker.maintenance`.

The scheduler, maintenance on commit, schedules and patterns skip such tables.  A run that names the
table exactly ignores the option.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_core.errors import MaintenanceError

MAINTENANCE_OPTION: Final = "caretaker.maintenance"
_ON: Final = frozenset({"", "on", "true", "yes"})
"""Every other value opts out, misspelled ones too: that is why users set the option."""
_LONGEST: Final = 40
"""The maximum number of characters of a value in a message."""


class OptedOut(MaintenanceError):
    """The table opted out of maintenance; a run that does not name it is skipped, not failed."""


def has_opted_out(options: Mapping[str, str]) -> bool:
    """Whether runs that do not name the table must skip a table with these options."""
    return options.get(MAINTENANCE_OPTION, "").strip().lower() not in _ON


def refuse_opted_out(table: str, options: Mapping[str, str]) -> None:
    """Raise OptedOut if runs that do not name the table must skip a table with these options."""
    if has_opted_out(options):
        value = options[MAINTENANCE_OPTION][:_LONGEST]
        raise OptedOut(
            f"its option {MAINTENANCE_OPTION} is {value!r} (a run that names the table ignores it)",
            table=table,
        )
