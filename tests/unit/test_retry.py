from __future__ import annotations

import pytest

from paimon_core.retry import backoff_millis


@pytest.mark.parametrize(
    ("attempt", "jitter", "millis"),
    [
        (0, 0.0, 10),
        (1, 0.0, 20),
        (9, 0.0, 5120),
        (10, 0.0, 10_000),
        (500, 0.0, 10_000),
        (0, 0.5, 11),
        (10, 0.999, 11_998),
    ],
)
def test_waits_double_up_to_the_most_and_a_fifth_beyond(
    attempt: int, jitter: float, millis: int
) -> None:
    assert backoff_millis(attempt, least=10, most=10_000, jitter=jitter) == millis
