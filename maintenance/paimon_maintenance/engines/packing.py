"""Packs items of different sizes into few groups: units into tasks, tables into batches."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

MB = 1024**2
SMALLEST_TASK_BYTES = 16 * MB
LARGEST_TASK_BYTES = 256 * MB
"""As much as a slice of a huge bucket has: two in one task would make the last round longer."""
TASKS_PER_SLOT = 4
"""Tasks per slot: more than one, so that fast slots take over work from slow ones."""


def pack(items: Sequence[T], groups: int, size: Callable[[T], int]) -> list[list[T]]:
    """At most `groups` non-empty groups of about equal size, with the largest items first in each.

    Longest processing time first: each item goes to the smallest group.  Ties are broken by
    position, so the same input always gives the same groups.
    """
    count = min(max(1, groups), len(items))
    packed: list[list[T]] = [[] for _ in range(count)]
    heap = [(0, i) for i in range(count)]
    order = sorted(range(len(items)), key=lambda i: (-size(items[i]), i))
    for position in order:
        load, group = heapq.heappop(heap)
        packed[group].append(items[position])
        # Spread items of size zero too.
        heapq.heappush(heap, (load + max(1, size(items[position])), group))
    return [group for group in packed if group]


def task_count(sizes: Sequence[int], *, slots: int) -> int:
    """The number of tasks for units of these sizes on `slots` cores.

    Even an empty task costs about 70 ms, and a lost task runs again.  So tasks are neither tiny nor
    huge, and there are a few per slot if there is enough work: a multiple of the slots, since tasks
    of equal size would leave some slots idle at the end.
    """
    whole = sum(sizes)
    wanted = whole // max(1, slots * TASKS_PER_SLOT)
    target = min(max(wanted, SMALLEST_TASK_BYTES), LARGEST_TASK_BYTES)
    by_bytes = -(-whole // target) if whole else 1
    rounded = by_bytes if by_bytes < slots else -(-by_bytes // slots) * slots
    return max(1, min(len(sizes), rounded))
