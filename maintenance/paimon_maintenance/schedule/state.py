"""What the scheduler remembers of a table from round to round.

Pure; the history stores it as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from paimon_maintenance.health.measurement import Measurement
from paimon_maintenance.schedule.bucket_sizes import small_since

HOUR: Final = 3_600_000
MINUTE: Final = 60_000
FIRST_BACK_OFF: Final = 30 * MINUTE
LONGEST_BACK_OFF: Final = 4 * HOUR
SHORTEST_LOOK_INTERVAL: Final = 10 * MINUTE
"""A look that would be due earlier is due at once: an owner who altered the table
waits for the next round."""
LONGEST_LOOK_INTERVAL: Final = 6 * HOUR
LONGEST_MEASUREMENT: Final = 6 * HOUR
"""After this long a table is measured again even without a new snapshot: tags, consumers and ages
change without one."""
_SMOOTHING_HOURS: Final = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The memory of one table; times are milliseconds since the epoch.

    `growth` is the excess of reads that commits add per hour, `held_growth` that of storage, both
    smoothed.  `failures` counts consecutive failures by job.  `waiting_since`: since when a job is
    worth running and was not run.  `red_since`: since when the score is red.  `said`: the reason of
    the last decision if that was "no".  `small_since`: since when the buckets of a partition are
    too small.
    """

    growth: float = 0.0
    held_growth: float = 0.0
    amplification: float | None = None
    held: float | None = None
    measured_at: int | None = None
    looked_at: int | None = None
    changed_at: int | None = None
    failures: Mapping[str, int] = field(default_factory=dict)
    failed_at: Mapping[str, int] = field(default_factory=dict)
    ran_at: Mapping[str, int] = field(default_factory=dict)
    waiting_since: int | None = None
    red_since: int | None = None
    sorted_at: int | None = None
    said: str | None = None
    small_since: Mapping[str, int] = field(default_factory=dict)

    def is_red_for_long(self, most_millis: int, now: int) -> bool:
        """Whether the score has been red for half of the time that it may be."""
        return self.red_since is not None and now - self.red_since >= most_millis / 2

    def to_json(self) -> dict[str, object]:
        """The state as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, parts: Mapping[str, Any]) -> TableState:
        """The state of this JSON; fields that this version does not know are ignored."""
        known = {f.name for f in fields(cls)}
        return cls(**{k: v for k, v in parts.items() if k in known})

    def retry_at(self, job: str) -> int | None:
        """When the job may run again after its failures; None if it did not fail."""
        number = self.failures.get(job, 0)
        if not number:
            return None
        wait = min(LONGEST_BACK_OFF, FIRST_BACK_OFF << min(number - 1, 10))
        return self.failed_at.get(job, 0) + wait

    def look_at(self) -> int:
        """When to look for a new snapshot next: rarely, if there was none for long."""
        if self.looked_at is None or self.changed_at is None:
            return 0
        interval = (self.looked_at - self.changed_at) // 8
        if interval < SHORTEST_LOOK_INTERVAL:
            return self.looked_at
        return self.looked_at + min(LONGEST_LOOK_INTERVAL, interval)


def measured(state: TableState, table: Measurement, *, red: bool) -> TableState:
    """The state after a measurement; growth counts only increases, which commits made."""
    now = table.at_millis
    read, held = table.amplification - 1.0, held_share(table)
    growth, held_growth = state.growth, state.held_growth
    if state.measured_at is not None and now > state.measured_at:
        hours = (now - state.measured_at) / HOUR
        keep = 0.5 ** (hours / _SMOOTHING_HOURS)
        before = (state.amplification or 1.0) - 1.0
        growth = keep * growth + (1 - keep) * max(0.0, read - before) / hours
        more = max(0.0, held - (state.held or 0.0)) / hours
        held_growth = keep * held_growth + (1 - keep) * more
    return replace(
        state,
        growth=growth,
        held_growth=held_growth,
        amplification=table.amplification,
        held=held,
        measured_at=now,
        small_since=small_since(state.small_since, table, now),
        red_since=(now if state.red_since is None else state.red_since) if red else None,
    )


def held_share(table: Measurement) -> float:
    """Bytes beyond the retention, divided by the live bytes."""
    return table.beyond_bytes / max(1, table.bytes)


def looked(state: TableState, now: int, *, changed: bool) -> TableState:
    """The state after a look for a new snapshot."""
    at = now if changed or state.changed_at is None else state.changed_at
    return replace(state, looked_at=now, changed_at=at)


def ran(state: TableState, job: str, now: int, *, failed: bool) -> TableState:
    """The state after a run of the job."""
    failures, failed_at = dict(state.failures), dict(state.failed_at)
    if failed:
        failures[job] = failures.get(job, 0) + 1
        failed_at[job] = now
    else:
        failures.pop(job, None)
        failed_at.pop(job, None)
    return replace(
        state,
        failures=failures,
        failed_at=failed_at,
        ran_at={**state.ran_at, job: now},
        waiting_since=None,
        sorted_at=now if job == "sort_compact" and not failed else state.sorted_at,
    )
