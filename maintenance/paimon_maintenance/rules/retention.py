"""Which snapshots, or changelogs, are beyond their retention (Java: `ExpireSnapshotsImpl`).

Pure, given the clock.  All of `[earliest, end)` goes, where `end` is as large as these allow::

    latest - num_retained_min + 1       at least so many stay
    the smallest next snapshot of the consumers
    earliest + limit                    at most so many in one run
    the first that is too young         among those that num_retained_max does not cut anyway

A snapshot is old enough when its *successor* is (2.0's rule; 1.4.2 looks at its own age): until
the successor came, it was the newest, and a reader may have begun with it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from paimon_core.errors import InvalidArgument

_CORRECT: Final = "correct the argument, or the table's option, and run again"


class Keep(StrEnum):
    """What stops an expiry: the option to change for it to go further."""

    MIN_RETAINED = "num-retained.min"
    TOO_YOUNG = "time-retained"
    CONSUMER = "consumer"
    LIMIT = "expire.limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How many stay at least and at most, for how long (older than a time goes), and the limit."""

    num_min: int
    num_max: int
    older_than_millis: int
    limit: int

    def check(self) -> None:
        """InvalidArgument for a retention that contradicts itself or would keep nothing."""
        if self.num_min < 1:
            raise InvalidArgument(
                f"at least one must be retained, not {self.num_min} (retain_min, num-retained.min)",
                next_step=_CORRECT,
            )
        if self.num_max < self.num_min:
            raise InvalidArgument(
                f"the most to retain, {self.num_max} (retain_max, num-retained.max), is less than "
                f"the least, {self.num_min} (retain_min, num-retained.min)",
                next_step=_CORRECT,
            )
        if self.limit < 0:
            raise InvalidArgument(
                f"at most {self.limit} in one run (max_deletes, expire.limit) is no number to "
                "expire",
                next_step=_CORRECT,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryRange:
    """`[earliest, end)` goes, `stopped_by` says why it ends there."""

    earliest: int
    end: int
    stopped_by: Keep

    def __contains__(self, snapshot_id: int) -> bool:
        return self.earliest <= snapshot_id < self.end


def choose_range(
    ids: Sequence[int],
    retention: Retention,
    *,
    latest: int,
    time_of: Callable[[int], int | None],
    next_consumed: int | None,
) -> ExpiryRange:
    """The range that goes.  `ids` are those that exist, sorted, not empty; gaps are passed over.

    `time_of` gives a commit time in milliseconds, None for one that vanished meanwhile.
    """
    retention.check()
    earliest = ids[0]
    limits = [(latest - retention.num_min + 1, Keep.MIN_RETAINED)]
    if next_consumed is not None:
        limits.append((next_consumed, Keep.CONSUMER))
    limits.append((earliest + retention.limit, Keep.LIMIT))
    end, stopped_by = min(limits, key=lambda limit: limit[0])
    first_by_age = max(latest - retention.num_max + 1, earliest)
    for snapshot_id in ids:
        if not first_by_age <= snapshot_id < end:
            continue
        position = bisect_right(ids, snapshot_id)
        own = time_of(snapshot_id)
        if own is None:
            continue  # another job expired it while we looked
        following = time_of(ids[position]) if position < len(ids) else None
        if max(own, following or own) >= retention.older_than_millis:
            return ExpiryRange(earliest=earliest, end=snapshot_id, stopped_by=Keep.TOO_YOUNG)
    return ExpiryRange(earliest=earliest, end=max(end, earliest), stopped_by=stopped_by)
