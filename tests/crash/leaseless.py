"""The command line without the lease on a table, as another version of ours, or Java, works."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


@contextmanager
def without_lease() -> Iterator[None]:
    """Runs of this process need no lease inside."""
    import maintenance.runner

    @contextmanager
    def free(*_: object, **__: object) -> Iterator[tuple[Any, bool]]:
        yield SimpleNamespace(check=lambda: None), False

    held = maintenance.runner.hold_lease
    maintenance.runner.hold_lease = free
    try:
        yield
    finally:
        maintenance.runner.hold_lease = held


def main(words: Sequence[str]) -> int:
    """`caretaker WORDS...` without a lease; the exit code."""
    from maintenance.cli.main import main as caretaker

    with without_lease():
        return caretaker(list(words))
