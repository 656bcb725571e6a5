"""Which snapshots or changelogs exceed the retention (Java: `ExpireSnapshotsImpl`).

A pure function of the clock.  `[earliest, end)` expires, where `end` is the minimum of::

    latest - num_retained_min + 1       the minimum number of snapshots to retain
    the smallest next snapshot of the consumers
    the newest commit of a Spark stream, while it is too young (not in Java)
    earliest + limit                    the maximum number per run
    the first snapshot that is too young, unless it exceeds num_retained_max

A snapshot is old enough if its *successor* is (the rule of 2.0; 1.4.2 uses the age of the
snapshot).  Until its successor existed it was the newest, and a reader may have started with it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from paimon_core.errors import InvalidArgument

_CORRECT: Final = "correct the argument or the table option, then run again"


class Keep(StrEnum):
    """The rule that ends the expired range, named after its option."""

    MIN_RETAINED = "num-retained.min"
    TOO_YOUNG = "time-retained"
    CONSUMER = "consumer"
    STREAM = "stream"
    LIMIT = "expire.limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The least and greatest number to retain, the time before which versions expire, the limit."""

    num_min: int
    num_max: int
    older_than_millis: int
    limit: int

    def check(self) -> None:
        """InvalidArgument for a contradictory retention, or one that retains nothing."""
        if self.num_min < 1:
            raise InvalidArgument(
                f"the minimum to retain must be at least 1, got {self.num_min} (retain_min, num-retained.min)",
                next_step=_CORRECT,
            )
        if self.num_max < self.num_min:
            raise InvalidArgument(
                f"the maximum to retain, {self.num_max} (retain_max, num-retained.max), is less than "
                f"the minimum, {self.num_min} (retain_min, num-retained.min)",
                next_step=_CORRECT,
            )
        if self.limit < 0:
            raise InvalidArgument(
                f"the limit per run must be at least 1, got {self.limit} (max_deletes, "
                "expire.limit)",
                next_step=_CORRECT,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryRange:
    """`[earliest, end)` expires; `stopped_by` is the rule that sets the end."""

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
    stream_commit: int | None = None,
) -> ExpiryRange:
    """The range to expire.  `ids` are the existing ids, sorted and not empty; gaps are skipped.

    `time_of` returns a commit time in milliseconds, or None if the snapshot no longer exists.
    """
    retention.check()
    earliest = ids[0]
    limits = [(latest - retention.num_min + 1, Keep.MIN_RETAINED)]
    if next_consumed is not None:
        limits.append((next_consumed, Keep.CONSUMER))
    if stream_commit is not None:
        limits.append((stream_commit, Keep.STREAM))
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
