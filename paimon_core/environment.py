"""The outside world that the core does not reach for by itself: clocks, ids, waiting.

Tests pass a fake one, so that a run is the same each time; `paimon_maintenance.run.environment` makes the
real one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Clocks and ids.

    `now_millis`: milliseconds since the epoch.  `local_millis`: the wall clock of the configured
    zone as if it were UTC, which is how Java stores a file's creation time (java-rules D5).
    `new_uuid`: a fresh random UUID as text.  `sleep_millis`: waits.  `jitter`: a random number in
    [0, 1).  `local_at`: the wall clock at an instant, in the same form; None: it is ahead of UTC
    always as much as now.  `machine_millis`: the clock of this machine, if `now_millis` is it; jobs
    that decide by age compare it with the store's.
    """

    now_millis: Callable[[], int]
    local_millis: Callable[[], int]
    new_uuid: Callable[[], str]
    sleep_millis: Callable[[int], None]
    jitter: Callable[[], float]
    local_at: Callable[[int], int] | None = None
    machine_millis: Callable[[], int] | None = None
