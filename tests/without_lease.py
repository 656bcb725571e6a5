"""Runs that need no lease on their table, as if Java, or another version of ours, were at work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import paimon_maintenance.run.loop


@contextmanager
def _free(*_: object, **__: object) -> Iterator[tuple[Any, bool]]:
    yield SimpleNamespace(check=lambda: None), False


@contextmanager
def without_lease() -> Iterator[None]:
    """Jobs that run inside neither take the lease nor wait for it."""
    with patch.object(paimon_maintenance.run.loop, "hold_lease", _free):
        yield


def main(words: Sequence[str]) -> int:
    """`caretaker WORDS...` without a lease; the exit code."""
    from paimon_maintenance.cli.main import main as caretaker

    with without_lease():
        return caretaker(list(words))
