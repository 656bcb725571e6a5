"""Packing many things of different sizes into few groups: units into tasks, tables into batches."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

MB = 1024**2
SMALLEST_TASK_BYTES = 16 * MB
LARGEST_TASK_BYTES = 512 * MB
TASKS_PER_SLOT = 4
"""More tasks than slots, so that slots that finish early take over from slow ones."""


def pack(items: Sequence[T], groups: int, size: Callable[[T], int]) -> list[list[T]]:
    """At most `groups` non-empty groups of about equal size, the largest items first in each.

    Longest processing time first: each item goes to the group that is smallest so far.  Ties are
    settled by position, so the same input always gives the same groups.
    """
    count = min(max(1, groups), len(items))
    packed: list[list[T]] = [[] for _ in range(count)]
    heap = [(0, i) for i in range(count)]
    order = sorted(range(len(items)), key=lambda i: (-size(items[i]), i))
    for position in order:
        load, group = heapq.heappop(heap)
        packed[group].append(items[position])
        # Items of size zero must spread as well.
        heapq.heappush(heap, (load + max(1, size(items[position])), group))
    return [group for group in packed if group]


def task_count(sizes: Sequence[int], *, slots: int) -> int:
    """Into how many tasks units of these sizes go, on `slots` cores.

    A task costs about 70 ms even when it does nothing, and a task that is lost is done again:
    so neither tiny nor huge ones, and a few for each slot when there is enough to do.
    """
    whole = sum(sizes)
    wanted = whole // max(1, slots * TASKS_PER_SLOT)
    target = min(max(wanted, SMALLEST_TASK_BYTES), LARGEST_TASK_BYTES)
    by_bytes = -(-whole // target) if whole else 1
    return max(1, min(len(sizes), by_bytes))
