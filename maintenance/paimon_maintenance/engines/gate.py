"""Limits the work that runs at the same time in one process, over all tables.

Memory follows the bytes that are read side by side, so the gate counts bytes as well as units.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MOST_BYTES: Final = 256 * 1024**2
"""Bytes of data files that the units of one process read at the same time."""


class Gate:
    """Lets units start in the order in which they ask, as long as both limits hold.

    A unit that is larger than `most_bytes` runs alone.
    """

    def __init__(self, most_units: int, most_bytes: int = MOST_BYTES) -> None:
        self._most_units = max(1, most_units)
        self._most_bytes = most_bytes
        self._units = 0
        self._bytes = 0
        self._queue: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Wait until a unit of this many bytes may run, and count it while the block runs."""
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            try:
                self._changed.wait_for(lambda: self._queue[0] is ticket and self._fits(size))
                self._units += 1
                self._bytes += size
            finally:
                self._queue.remove(ticket)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._units -= 1
                self._bytes -= size
                self._changed.notify_all()

    def _fits(self, size: int) -> bool:
        if not self._units:
            return True
        return self._units < self._most_units and self._bytes + size <= self._most_bytes


def usable_cores() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
