"""A check right before a commit by rename: whether the lock around it is still held.

Where a rename replaces what has the name, only the lock of a catalog keeps two commits apart.  A
process that was suspended, or waited for the store, may have lost the lock meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_check: Final[ContextVar[Callable[[], None] | None]] = ContextVar("commit_guard", default=None)


@contextmanager
def guarded_by(check: Callable[[], None]) -> Iterator[None]:
    """Inside of the block, commits by rename call `check`, which raises if the lock is lost."""
    before = _check.set(check)
    try:
        yield
    finally:
        _check.reset(before)


def check_guard() -> None:
    """Raise what the check of this context raises, if there is one."""
    check = _check.get()
    if check is not None:
        check()
