"""A database of a JDBC catalog whose connection ends before it answers a COMMIT."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from catalog_rows import append, row_count, schema
from dropped_reply import dropped_reply

from paimon_core.catalog.jdbc.database import LOCKS, JdbcDatabase
from paimon_core.catalog.jdbc.jdbc_catalog import JdbcCatalog
from paimon_core.catalog.jdbc.lock import JdbcLock
from paimon_core.errors import StorageError

TAKING, RELEASE = 2, 3
"""The transactions of a lock, after one that deletes what has expired."""


@pytest.fixture
def options(postgres_url: str, tmp_path: Path) -> dict[str, str]:
    server = urlsplit(postgres_url)
    return {
        "metastore": "jdbc",
        "warehouse": str(tmp_path / "lake"),
        "uri": f"jdbc:postgresql://{server.hostname}:{server.port}{server.path}",
        "jdbc.user": "care",
        "catalog-key": f"lost_{tmp_path.name}",
        "lock.enabled": "true",
        "lock-acquire-timeout": "60 s",
    }


@contextmanager
def losing(options: dict[str, str], number: int) -> Iterator[dict[str, str]]:
    """The options of a client that gets no reply to the COMMIT of this number."""
    url = urlsplit(options["uri"].removeprefix("jdbc:"))
    assert url.port is not None
    with dropped_reply(url.port, b"COMMIT", number=number) as (port, _):
        yield {**options, "uri": f"jdbc:postgresql://127.0.0.1:{port}{url.path}"}


def lock_of(options: dict[str, str]) -> JdbcLock:
    return JdbcLock(JdbcDatabase(options), options["catalog-key"], "db.t")


@pytest.mark.parametrize("number", [TAKING, RELEASE])
def test_a_lock_is_neither_lost_nor_left_behind(options: dict[str, str], number: int) -> None:
    catalog = JdbcCatalog(options)
    started = time.monotonic()
    with losing(options, number) as unlucky, lock_of(unlucky).held():
        count = f"SELECT count(*) FROM {LOCKS} WHERE lock_id = :id"
        assert catalog._database.rows(count, id=lock_of(options).lock_id) == [(1,)]
    with lock_of(options).held():
        pass
    assert time.monotonic() - started < 30, "it waited for the lock to expire"


def test_a_release_spares_the_lock_of_another_client(options: dict[str, str]) -> None:
    JdbcCatalog(options)
    mine, other = lock_of(options), lock_of(options)
    with mine.held():
        other._release(other._acquired_at() or "", time.monotonic())
        with other.held():
            pass
        acquired_at = other._acquire()
    assert other._acquired_at() == acquired_at


def test_a_rename_is_done_or_not(options: dict[str, str]) -> None:
    catalog = JdbcCatalog(options)
    catalog.create_database("db")
    renamed = 0
    for number in range(1, 10):
        old, new = f"t{number}", f"new{number}"
        catalog.create_table(f"db.{old}", schema(bucket="-1"))
        append(catalog.get_table(f"db.{old}"), [1])
        with losing(options, number) as unlucky:
            try:
                JdbcCatalog(unlucky).rename_table(f"db.{old}", f"db.{new}")
                expected = new
                renamed += 1
            except StorageError:
                expected = old
        assert {old, new} & set(catalog.list_tables("db")) == {expected}
        assert row_count(catalog, f"db.{expected}") == 1
    assert renamed
