"""The wait time before a retry (Java: `utils/RetryWaiter`)."""

from __future__ import annotations


def backoff_millis(attempt: int, *, least: int, most: int, jitter: float) -> int:
    """Return the milliseconds to wait after failed attempt number `attempt` (from 0).

    The time doubles from `least` up to `most`, plus up to a fifth by `jitter` in [0, 1), so that
    writers that lost the same race do not collide again.
    """
    wait = min(least * 2 ** min(attempt, 62), most)
    return int(wait + wait * 0.2 * jitter)
