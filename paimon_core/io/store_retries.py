"""Counts the requests that were sent again, and the time waited before that.

    with counted_retries() as retries:
        ...                             # reads and writes a table
    retries.to_json()                   # {"throttled": 3, "connection": 1, "backoff_seconds": 1.9}

Counted are the requests of this thread, and of the threads of a `ContextPool` that was made inside
the block.  S3 and REST catalogs report their retries (`note_retry`); the client libraries of other
stores retry by themselves.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeVar

T = TypeVar("T")
BACKOFF_SECONDS: Final = "backoff_seconds"


class RetryReason(StrEnum):
    """Why a request was sent again."""

    THROTTLED = "throttled"
    """The service answered 429 or 503."""
    SERVER_ERROR = "server_error"
    CONNECTION = "connection"
    """There was no reply in time, or none that could be read."""


@dataclass(slots=True)
class StoreRetries:
    """The number of retries by reason, and the seconds waited before them.  Thread-safe."""

    _numbers: Counter[str] = field(default_factory=Counter)
    _seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, numbers: Mapping[str, int], seconds: float) -> None:
        """Add retries."""
        with self._lock:
            self._numbers.update(numbers)
            self._seconds += seconds

    def to_json(self) -> dict[str, float]:
        """The number for each reason, and `backoff_seconds`; empty without retries."""
        with self._lock:
            if not self._numbers:
                return {}
            return {**dict(sorted(self._numbers.items())), BACKOFF_SECONDS: round(self._seconds, 3)}


_CURRENT: ContextVar[StoreRetries | None] = ContextVar("retries of store requests", default=None)


@contextmanager
def counted_retries() -> Iterator[StoreRetries]:
    """Count the retries inside the block; an enclosing count gets them at the end."""
    outer, inner = _CURRENT.get(), StoreRetries()
    with counting_in(inner):
        try:
            yield inner
        finally:
            if outer is not None:
                add_retries(inner.to_json(), outer)


@contextmanager
def counting_in(retries: StoreRetries | None) -> Iterator[None]:
    """Count the retries inside the block here; None: nowhere."""
    token = _CURRENT.set(retries)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_count() -> StoreRetries | None:
    """The innermost count of this thread."""
    return _CURRENT.get()


def note_retry(reason: RetryReason, wait_seconds: float) -> None:
    """Count a request that is sent again after this time."""
    current = _CURRENT.get()
    if current is not None:
        current.add({str(reason): 1}, wait_seconds)


def add_retries(counted: Mapping[str, float], to: StoreRetries | None = None) -> None:
    """Add to the current count what `StoreRetries.to_json` returned, perhaps elsewhere."""
    current = _CURRENT.get() if to is None else to
    if current is not None:
        numbers = {k: int(v) for k, v in counted.items() if k != BACKOFF_SECONDS}
        current.add(numbers, counted.get(BACKOFF_SECONDS, 0.0))


class ContextPool(ThreadPoolExecutor):
    """A pool whose calls have the context variables of the thread that submits them."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return super().submit(copy_context().run, fn, *args, **kwargs)
