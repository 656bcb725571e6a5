"""The environment that callers pass to the core: clocks, ids, waiting.

Tests pass a fake environment for reproducible runs; `paimon_maintenance.run.environment` creates
the real one.
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
    [0, 1).  `local_at`: the wall clock at an instant, in the same form; None: the current UTC
    offset applies to all instants.  `machine_millis`: the clock of this machine, if `now_millis`
    uses it; jobs that decide by age compare it with the store's clock.
    """

    now_millis: Callable[[], int]
    local_millis: Callable[[], int]
    new_uuid: Callable[[], str]
    sleep_millis: Callable[[int], None]
    jitter: Callable[[], float]
    local_at: Callable[[int], int] | None = None
    machine_millis: Callable[[], int] | None = None
