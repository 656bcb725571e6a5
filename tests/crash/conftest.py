"""What the tests of this folder share: processes that may die."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fork_server import ForkServer


@pytest.fixture(scope="session")
def forks() -> Iterator[ForkServer]:
    with ForkServer() as server:
        yield server
