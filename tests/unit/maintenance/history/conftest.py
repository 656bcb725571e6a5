"""A history in SQLite, and one in a real PostgreSQL server of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'state' / 'history.db'}"
    found: str = request.getfixturevalue("postgres_url")
    import sqlalchemy as sa

    engine = sa.create_engine(found)
    with engine.begin() as connection:
        connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        connection.execute(sa.text("CREATE SCHEMA public"))
    engine.dispose()
    return found
