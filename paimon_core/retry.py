"""How long to wait before trying again (Java: `utils/RetryWaiter`)."""

from __future__ import annotations


def backoff_millis(attempt: int, *, least: int, most: int, jitter: float) -> int:
    """Milliseconds to wait after failed attempt number `attempt` (from 0).

    Doubles from `least` up to `most`, plus up to a fifth more by `jitter` in [0, 1), so that
    writers that lost the same race do not meet again.
    """
    wait = min(least * 2 ** min(attempt, 62), most)
    return int(wait + wait * 0.2 * jitter)
