"""The range that expires, against the rule written down the slow way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_core.errors import InvalidArgument
from paimon_core.retention.expiry_range import Keep, Retention, choose_range


def slow(
    ids: list[int], times: dict[int, int], retention: Retention, consumed: int | None
) -> set[int]:
    """Snapshot by snapshot, oldest first, until one has to stay."""
    latest = ids[-1]
    gone: set[int] = set()
    for position, number in enumerate(ids):
        successor = ids[position + 1] if position + 1 < len(ids) else number
        too_many = number < latest - retention.num_max + 1
        too_young = max(times[number], times[successor]) >= retention.older_than_millis
        if (
            number > latest - retention.num_min
            or (consumed is not None and number >= consumed)
            or number >= ids[0] + retention.limit
            or (not too_many and too_young)
        ):
            break
        gone.add(number)
    return gone


@given(
    gaps=st.lists(st.integers(1, 3), min_size=1, max_size=25),
    steps=st.lists(st.integers(0, 5), min_size=25, max_size=25),
    num_min=st.integers(1, 8),
    more=st.integers(0, 8),
    older=st.integers(0, 70),
    limit=st.integers(0, 30),
    consumed=st.none() | st.integers(0, 60),
)
def test_quick_is_slow(
    gaps: list[int],
    steps: list[int],
    num_min: int,
    more: int,
    older: int,
    limit: int,
    consumed: int | None,
) -> None:
    ids, times, time = [], {}, 0
    number = 0
    for gap, step in zip(gaps, steps, strict=False):
        number, time = number + gap, time + step
        ids.append(number)
        times[number] = time
    retention = Retention(
        num_min=num_min, num_max=num_min + more, older_than_millis=older, limit=limit
    )
    found = choose_range(ids, retention, latest=ids[-1], time_of=times.get, next_consumed=consumed)
    assert {i for i in ids if i in found} == slow(ids, times, retention, consumed)
    assert ids[-1] not in found


def test_what_stopped_it() -> None:
    times = {i: i for i in range(1, 11)}

    def stop(consumed: int | None = None, **changed: int) -> Keep:
        values = {"num_min": 1, "num_max": 99, "older_than_millis": 99, "limit": 99} | changed
        chosen = choose_range(
            sorted(times),
            Retention(**values),
            latest=10,
            time_of=times.get,
            next_consumed=consumed,
        )
        return chosen.stopped_by

    assert stop() is Keep.MIN_RETAINED
    assert stop(consumed=4) is Keep.CONSUMER
    assert stop(limit=3) is Keep.LIMIT
    assert stop(older_than_millis=5) is Keep.TOO_YOUNG


@pytest.mark.parametrize(("least", "most"), [(0, 5), (6, 5)])
def test_what_cannot_be(least: int, most: int) -> None:
    with pytest.raises(InvalidArgument):
        Retention(num_min=least, num_max=most, older_than_millis=0, limit=1).check()
    with pytest.raises(InvalidArgument):
        Retention(num_min=1, num_max=1, older_than_millis=0, limit=-1).check()
