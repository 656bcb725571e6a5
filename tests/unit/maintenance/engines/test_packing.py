from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paimon_maintenance.engines.packing import (
    LARGEST_TASK_BYTES,
    MB,
    SMALLEST_TASK_BYTES,
    pack,
    task_count,
)

sizes = st.lists(st.integers(0, 10_000), max_size=60)


@given(sizes, st.integers(1, 20))
def test_every_item_is_in_exactly_one_group(items, groups):
    indexes = list(range(len(items)))
    packed = pack(indexes, groups, lambda i: items[i])
    assert sorted(i for group in packed for i in group) == indexes
    assert len(packed) <= groups
    assert all(packed)


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=60), st.integers(1, 20))
def test_groups_are_of_similar_size(items, groups):
    packed = pack(items, groups, lambda n: n)
    loads = [sum(g) for g in packed]
    # The bound of longest-processing-time-first against the best possible.
    best = max(*items, -(-sum(items) // min(groups, len(items))))
    assert max(loads) <= best * 4 / 3 + max(items)


def test_small_units_share_a_task():
    assert task_count([10_000] * 500, slots=8) == 1


def test_tasks_are_neither_tiny_nor_huge():
    assert task_count([SMALLEST_TASK_BYTES] * 8, slots=8) == 8
    assert task_count([300 * 1024 * MB], slots=2) == 1
    many = task_count([64 * MB] * 10_000, slots=2)
    assert many == -(-64 * MB * 10_000 // LARGEST_TASK_BYTES)


@given(st.integers(1, 10_000), st.integers(1, 64))
def test_no_slot_is_idle_in_the_last_round(units, slots):
    count = task_count([LARGEST_TASK_BYTES] * units, slots=slots)
    assert count <= units
    assert count == units or count % slots == 0 or count < slots
    assert count >= min(units, slots)


def test_no_units_of_no_bytes_need_a_task_each():
    assert task_count([0, 0, 0], slots=4) == 1
