"""A history in SQLite, and one in a real PostgreSQL server of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from postgres import emptied


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'state' / 'history.db'}"
    return emptied(request.getfixturevalue("postgres_url"))
