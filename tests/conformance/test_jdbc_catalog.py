"""Java's JdbcCatalog and ours on one database: each sees what the other does, and waits for its lock."""

from __future__ import annotations

import itertools
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from catalog_rows import COLUMNS, RETRIES, append, append_one_by_one, schema

from oracle import Oracle, OracleError
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.catalog.jdbc.database import JdbcDatabase
from paimon_core.catalog.jdbc.jdbc_catalog import JdbcCatalog
from paimon_core.catalog.jdbc.lock import JdbcLock
from paimon_core.ddl.schema_change import SetOption
from paimon_core.errors import AlreadyExists, CatalogLocked, NotFound

COMMITS = 25


@pytest.fixture(params=["sqlite", "postgresql"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The options of a catalog of the test's own, for both clients."""
    common = {
        "metastore": "jdbc",
        "warehouse": str(tmp_path / "lake"),
        "lock.enabled": "true",
        "lock-check-max-sleep": "100 ms",
    }
    if request.param == "sqlite":
        yield {**common, "uri": f"jdbc:sqlite:{tmp_path}/catalog.db?journal_mode=WAL"}
        return
    server = urlsplit(request.getfixturevalue("postgres_url"))
    yield {
        **common,
        "uri": f"jdbc:postgresql://{server.hostname}:{server.port}{server.path}",
        "jdbc.user": "care",
        "jdbc.password": "not-asked-for",
        "catalog-key": f"key_{tmp_path.name}",
    }


@pytest.fixture
def java(oracle_1_4_2: Oracle, options: dict[str, str]) -> Oracle:
    return oracle_1_4_2.defaults(catalog=options, database="db", table="t")


@pytest.fixture
def fresh_java(java: Oracle, options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Oracle:
    """Java with a catalog of its own for each step.

    Java leaves result sets open, so on SQLite one catalog goes on reading what was there first.
    """
    one, number = java.one, itertools.count()

    def fresh(op: str, **fields: Any) -> Any:
        return one(op, **{"catalog": {**options, "test.step": str(next(number))}, **fields})

    monkeypatch.setattr(java, "one", fresh)
    return java


@pytest.fixture
def ours(options: dict[str, str]) -> JdbcCatalog:
    return JdbcCatalog(options)


def test_repair_registers_tables_that_have_files(fresh_java: Oracle, ours: JdbcCatalog) -> None:
    fresh_java.one("create_database")
    fresh_java.one("create_table", columns=COLUMNS, options=RETRIES)
    fresh_java.one("write", rows=[[1, "java"]])
    lake = FileSystemCatalog(ours.options["warehouse"])
    lake.create_table("db.files", schema(bucket="-1"))
    lake.alter_table("db.t", [SetOption("tag.num-retained-max", "5")], now_millis=1)
    lake.create_database("other")
    lake.create_table("other.x", schema())
    rows = JdbcDatabase(ours.options).rows
    query = (
        "SELECT property_key, property_value FROM paimon_table_properties "
        "WHERE catalog_key = :key AND table_name = 't'"
    )
    key = ours.options.get("catalog-key", "jdbc")
    before = dict(rows(query, key=key))
    ours.repair("db")
    assert fresh_java.one("list_tables")["tables"] == ["files", "t"]
    added = {"tag.num-retained-max": "5"} if before else {}
    assert dict(rows(query, key=key)) == before | added
    assert ours.list_databases() == ["db"]
    ours.repair()
    assert fresh_java.one("list_tables", database="other")["tables"] == ["x"]
    fresh_java.one("write", table="files", rows=[[2, "java"]])
    assert fresh_java.rows(table="files") == [["+I", 2, "java"]]
    for name in ("db.never", "never"):
        with pytest.raises(NotFound):
            ours.repair(name)


def test_databases_and_tables_of_either_are_the_others(
    fresh_java: Oracle, ours: JdbcCatalog
) -> None:
    fresh_java.one("create_database", properties={"owner": "java"})
    assert ours.list_databases() == ["db"]
    assert ours.get_database("db").properties == {"owner": "java"}
    ours.alter_database("db", changes={"owner": "ours", "more": "1"}, removed=["missing"])
    ours.create_database("second", properties={"a": "b"})
    told = fresh_java.one("get_database")["properties"]
    assert told["owner"] == "ours"
    assert told["more"] == "1"
    fresh_java.one("alter_database", set={"more": "2"}, remove=["owner"])
    assert ours.get_database("db").properties == {"more": "2"}
    assert sorted(fresh_java.one("list_databases")["databases"]) == ["db", "second"]

    fresh_java.one("create_table", columns=COLUMNS, options=RETRIES)
    ours.create_table("db.mine", schema(bucket="-1"))
    assert ours.list_tables("db") == ["mine", "t"]
    assert fresh_java.one("list_tables")["tables"] == ["mine", "t"]
    with pytest.raises(AlreadyExists):
        ours.create_table("db.t", schema())
    with pytest.raises(OracleError):
        fresh_java.one("create_table", table="mine", columns=COLUMNS)

    ours.rename_table("db.t", "second.renamed")
    fresh_java.one("rename_table", table="mine", to="theirs")
    assert ours.list_tables("db") == ["theirs"]
    assert fresh_java.one("list_tables", database="second")["tables"] == ["renamed"]
    fresh_java.one("write", database="second", table="renamed", rows=[[1, "java"]])
    append(ours.get_table("db.theirs"), [2])
    assert fresh_java.rows(table="theirs") == [["+I", 2, "ours"]]

    ours.drop_table("db.theirs")
    fresh_java.one("drop_table", database="second", table="renamed")
    assert ours.list_tables("db") == []
    with pytest.raises(NotFound):
        ours.get_table("second.renamed")
    ours.drop_database("db")
    fresh_java.one("drop_database", database="second")
    assert ours.list_databases() == []
    assert fresh_java.one("list_databases")["databases"] == []


def test_changes_of_schemas_reach_the_properties(fresh_java: Oracle, ours: JdbcCatalog) -> None:
    columns = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}]
    fresh_java.one("create_database")
    fresh_java.one("create_table", columns=columns, primary_keys=["k"], options={"bucket": "1"})
    theirs = _properties(ours, "t")
    fresh_java.one("alter_table", changes=[{"change": "set_option", "key": "x.java", "value": "1"}])
    ours.alter_table("db.t", [SetOption("x.ours", "2")], now_millis=1)
    assert _properties(ours, "t") == theirs | {"x.java": "1", "x.ours": "2"}
    fresh_java.one("alter_table", changes=[{"change": "add_column", "name": "w", "type": "INT"}])
    assert list(ours.get_table("db.t").schema.names) == ["k", "v", "w"]
    first = ours.get_table("db.t").schemas.get(0)
    ours.create_table("db.copy", first)
    assert _properties(ours, "copy") == theirs
    assert fresh_java.one("get_table")["options"]["x.ours"] == "2"


def _properties(ours: JdbcCatalog, table: str) -> dict[str, str]:
    rows = JdbcDatabase(ours.options).rows(
        "SELECT property_key, property_value FROM paimon_table_properties "
        "WHERE catalog_key = :key AND table_name = :table",
        key=ours.options.get("catalog-key", "jdbc"),
        table=table,
    )
    return {row[0]: row[1] for row in rows}


def _lock(options: dict[str, str], identifier: str = "db.t", **changed: str) -> JdbcLock:
    database = JdbcDatabase({**options, **{k.replace("_", "-"): v for k, v in changed.items()}})
    return JdbcLock(database, options.get("catalog-key", "jdbc"), identifier)


def test_java_waits_for_our_lock(java: Oracle, ours: JdbcCatalog, options: dict[str, str]) -> None:
    java([{"op": "create_database"}, {"op": "create_table", "columns": COLUMNS}])
    done: list[float] = []

    def write() -> None:
        java.one("write", rows=[[1, "java"]])
        done.append(time.monotonic())

    with _lock(options).held():
        writer = threading.Thread(target=write)
        writer.start()
        time.sleep(3)
        assert not done
        assert ours.get_table("db.t").snapshots.latest() is None
        released = time.monotonic()
    writer.join(60)
    assert done
    assert done[0] > released
    assert java.rows() == [["+I", 1, "java"]]


def test_we_wait_for_a_lock_and_give_up_without_a_change(
    java: Oracle, options: dict[str, str]
) -> None:
    impatient = JdbcCatalog({**options, "lock-acquire-timeout": "300 ms"})
    java([{"op": "create_database"}, {"op": "create_table", "columns": COLUMNS}])
    table = impatient.get_table("db.t", dynamic_options={"commit.max-retries": "0"})
    with _lock(options).held(), pytest.raises(CatalogLocked, match="nothing was changed"):
        append(table, [1])
    assert table.snapshots.latest() is None
    assert append(table, [1]) == 1
    assert java.rows() == [["+I", 1, "ours"]]


def test_a_lock_whose_holder_died_expires(java: Oracle, options: dict[str, str]) -> None:
    java([{"op": "create_database"}, {"op": "create_table", "columns": COLUMNS}])
    dead = _lock(options, lock_acquire_timeout="1 s")
    dead._acquire()
    started = time.monotonic()
    java.one("write", rows=[[1, "java"]])
    assert time.monotonic() - started > 0.5
    dead._acquire()
    append(JdbcCatalog(options).get_table("db.t"), [2])
    assert java.rows() == [["+I", 1, "java"], ["+I", 2, "ours"]]


def test_two_writers_lose_and_double_nothing(
    java: Oracle, ours: JdbcCatalog, options: dict[str, str]
) -> None:
    java.one("create_database")
    java.one("create_table", columns=COLUMNS, options={"write-only": "true", **RETRIES})
    failed: list[Exception] = []

    def write() -> None:
        try:
            append_one_by_one(ours, "db.t", range(COMMITS))
        except Exception as e:  # noqa: BLE001 - shown by the test
            failed.append(e)

    writer = threading.Thread(target=write)
    writer.start()
    steps: list[dict[str, Any]] = [
        {"op": "write", "rows": [[1000 + i, "java"]]} for i in range(COMMITS)
    ]
    java(steps)
    writer.join(120)
    assert not failed, failed
    rows = sorted(row[1] for row in java.rows())
    assert rows == [*range(COMMITS), *range(1000, 1000 + COMMITS)]
    snapshots = ours.get_table("db.t").snapshots.all()
    assert [s.id for s in snapshots] == list(range(1, 2 * COMMITS + 1))
    assert len({s.commit_user for s in snapshots}) >= COMMITS
    assert not JdbcDatabase(options).rows("SELECT lock_id FROM paimon_distributed_locks")


def test_our_tables_have_the_layout_of_javas(java: Oracle, tmp_path: Path) -> None:
    made = {}
    for who in ("java", "ours"):
        path = tmp_path / f"{who}.db"
        options = {
            "metastore": "jdbc",
            "uri": f"jdbc:sqlite:{path}?journal_mode=WAL",
            "warehouse": str(tmp_path / "other"),
            "lock.enabled": "true",
        }
        if who == "java":
            java.one("list_databases", catalog=options)
        else:
            JdbcCatalog(options)
        with sqlite3.connect(path) as connection:
            made[who] = connection.execute(
                "SELECT name, replace(sql, ' ', '') FROM sqlite_master WHERE sql IS NOT NULL"
            ).fetchall()
    assert sorted(made["ours"]) == sorted(made["java"])
