"""Tables that opted out of maintenance, by their option `caretaker.maintenance`.

Whatever chooses tables by itself leaves them alone: the scheduler, maintenance on commit, schedules,
patterns.  A run on a table that somebody named exactly does not look at the option.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_core.errors import MaintenanceError

MAINTENANCE_OPTION: Final = "caretaker.maintenance"
_ON: Final = frozenset({"", "on", "true", "yes"})
"""Any other value keeps maintenance away: who sets the option probably wants that."""
_LONGEST: Final = 40


class OptedOut(MaintenanceError):
    """The table opted out of maintenance, and nobody named it; the run is skipped, not failed."""


def has_opted_out(options: Mapping[str, str]) -> bool:
    """Whether a table with these options is left alone by what chooses tables by itself."""
    return options.get(MAINTENANCE_OPTION, "").strip().lower() not in _ON


def refuse_opted_out(table: str, options: Mapping[str, str]) -> None:
    """OptedOut if a table with these options is left alone by what chooses tables by itself."""
    if has_opted_out(options):
        value = options[MAINTENANCE_OPTION][:_LONGEST]
        raise OptedOut(
            f"its option {MAINTENANCE_OPTION} is {value!r} (a run that names the table ignores it)",
            table=table,
        )
