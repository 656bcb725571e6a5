"""The threads of a task that has several processors."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass

from paimon_core.io.store_retries import ContextPool


@dataclass(frozen=True, slots=True)
class Threads:
    """A pool, and how many threads it has."""

    pool: Executor
    count: int


@contextmanager
def threads_of(count: int) -> Iterator[Threads | None]:
    """Start this number of threads for a task, and stop them at the end; None for one."""
    if count <= 1:
        yield None
        return
    with ContextPool(count, thread_name_prefix="task") as pool:
        yield Threads(pool, count)
