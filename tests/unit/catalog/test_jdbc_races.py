"""Two clients of a JDBC catalog at once, and a database that fails between the steps of a change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from catalog_rows import append, row_count, schema

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.catalog.jdbc.jdbc_catalog import JdbcCatalog
from paimon_core.catalog.jdbc.table_rows import TableRows
from paimon_core.catalog.table_files import TableFiles
from paimon_core.ddl.schema_change import AddColumn, RemoveOption, SetOption
from paimon_core.errors import (
    AlreadyExists,
    CatalogError,
    CatalogLocked,
    InvalidArgument,
    NotFound,
    SchemaError,
    StorageError,
)
from paimon_core.types.sql import parse_type


@pytest.fixture(params=["sqlite", "postgresql"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    common = {"metastore": "jdbc", "warehouse": str(tmp_path / "lake"), "lock.enabled": "false"}
    if request.param == "sqlite":
        yield {**common, "uri": f"jdbc:sqlite:{tmp_path}/catalog.db?journal_mode=WAL"}
        return
    server = urlsplit(request.getfixturevalue("postgres_url"))
    yield {
        **common,
        "uri": f"jdbc:postgresql://{server.hostname}:{server.port}{server.path}",
        "jdbc.user": "care",
        "catalog-key": f"races_{tmp_path.name}",
    }


@pytest.fixture
def catalog(options: dict[str, str]) -> JdbcCatalog:
    made = JdbcCatalog(options)
    made.create_database("db")
    made.create_table("db.t", schema(bucket="-1"))
    append(made.get_table("db.t"), [1])
    return made


def _before(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str, other: Callable[[], None]
) -> None:
    """Lets the other client act just before the first call of the method."""
    original = getattr(owner, method)

    def first(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(owner, method, original)
        other()
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, method, first)


def _properties(catalog: JdbcCatalog, table: str) -> dict[str, str]:
    rows = catalog._database.rows(
        "SELECT property_key, property_value FROM paimon_table_properties "
        "WHERE catalog_key = :key AND table_name = :table",
        key=catalog.options.get("catalog-key", "jdbc"),
        table=table,
    )
    return {row[0]: row[1] for row in rows}


def test_of_two_renames_one_wins(catalog: JdbcCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    _before(monkeypatch, JdbcCatalog, "_move_rows", lambda: catalog.rename_table("db.t", "db.b"))
    with pytest.raises(NotFound):
        catalog.rename_table("db.t", "db.a")
    assert catalog.list_tables("db") == ["b"]
    assert row_count(catalog, "db.b") == 1


def test_a_folder_in_the_way_of_a_rename_is_told(catalog: JdbcCatalog) -> None:
    folder = Path(FileSystemCatalog(catalog.options["warehouse"]).table_path("db.b"))
    (folder / "manifest").mkdir(parents=True)
    with pytest.raises(AlreadyExists, match=r"no table db\.b, but its folder .* exists"):
        catalog.rename_table("db.t", "db.b")
    FileSystemCatalog(catalog.options["warehouse"]).create_table("db.b", schema())
    with pytest.raises(AlreadyExists, match=r"the catalog has no table db\.b, but"):
        catalog.rename_table("db.t", "db.b")
    assert row_count(catalog, "db.t") == 1


def test_a_drop_beside_a_rename_keeps_the_renamed_table(
    catalog: JdbcCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rename has moved the row, and its folder has its old name when the drop comes to it."""
    _before(monkeypatch, TableRows, "delete", lambda: catalog._move_rows("db.t", "db.b"))
    with pytest.raises(NotFound):
        catalog.drop_table("db.t")
    assert FileSystemCatalog(catalog.options["warehouse"]).list_tables("db") == ["t"]


def test_creations_at_once_are_one(catalog: JdbcCatalog) -> None:
    failed = _at_once(
        4, lambda _: catalog.create_table("db.new", schema(bucket="-1"), if_not_exists=True)
    )
    assert not failed
    assert row_count(catalog, "db.new") is None
    failed = _at_once(4, lambda _: catalog.create_table("db.strict", schema(bucket="-1")))
    assert [type(e) for e in failed] == [AlreadyExists] * 3
    assert all("sys.repair" not in e.next_step for e in failed if isinstance(e, AlreadyExists))


def test_properties_follow_the_newest_schema_of_many_changes(catalog: JdbcCatalog) -> None:
    def change(i: int) -> None:
        for j in range(4):
            added = AddColumn((f"c{i}_{j}",), parse_type("INT"))
            catalog.alter_table("db.t", [SetOption(f"x{i}.k{j}", "1"), added], now_millis=1)
        catalog.alter_table("db.t", [RemoveOption(f"x{i}.k0")], now_millis=1)

    assert not _at_once(3, change)
    newest = catalog.get_table("db.t").schema
    ids = [field.id for field in newest.fields]
    assert newest.id == 15
    assert sorted(ids) == list(range(14))
    assert _properties(catalog, "t") == dict(newest.options)


def test_a_change_of_a_table_that_is_dropped_meanwhile_leaves_no_properties(
    catalog: JdbcCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    _before(monkeypatch, JdbcCatalog, "show_schema", lambda: catalog.drop_table("db.t"))
    catalog.alter_table("db.t", [SetOption("x.y", "1")], now_millis=1)
    assert _properties(catalog, "t") == {}


def test_a_long_value_is_refused_before_the_schema_changes(catalog: JdbcCatalog) -> None:
    with pytest.raises(InvalidArgument, match="1000 characters"):
        catalog.alter_table("db.t", [SetOption("x.y", "v" * 1001)], now_millis=1)
    assert catalog.get_table("db.t").schema.id == 0


def test_an_interrupted_rename_says_how_to_go_on(catalog: JdbcCatalog) -> None:
    catalog._move_rows("db.t", "db.b")  # and then the client is killed
    with pytest.raises(NotFound) as found:
        catalog.get_table("db.b")
    assert "CALL sys.repair with the old name" in found.value.next_step
    catalog.repair("db.t")
    catalog.drop_table("db.b")
    assert catalog.list_tables("db") == ["t"]
    assert row_count(catalog, "db.t") == 1


def test_a_table_made_while_its_database_is_dropped_stays(
    catalog: JdbcCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other() -> None:
        catalog.create_table("db.new", schema(bucket="-1"))

    _before(monkeypatch, TableFiles, "check_droppable", other)
    with pytest.raises(InvalidArgument, match="another client"):
        catalog.drop_database("db", cascade=True)
    assert catalog.list_tables("db") == ["new"]


def test_a_refused_statement_is_an_error_without_its_values(catalog: JdbcCatalog) -> None:
    """On PostgreSQL not of the kind after which a commit tries again."""
    expected = StorageError if catalog._database.dialect == "sqlite" else CatalogError
    with pytest.raises(expected) as refused:
        catalog._database.rows("NONSENSE :value", value="hidden")
    assert "hidden" not in str(refused.value)


def test_a_failure_after_the_schema_names_the_schema(
    catalog: JdbcCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise CatalogError("the database refused it")

    monkeypatch.setattr(TableRows, "write_properties", refuse)
    with pytest.raises(SchemaError, match="has its new schema 1") as failed:
        catalog.alter_table("db.t", [SetOption("x.y", "1")], now_millis=1)
    assert "sys.repair('db.t')" in failed.value.next_step
    monkeypatch.undo()
    catalog.repair("db.t")
    assert _properties(catalog, "t")["x.y"] == "1"


def test_a_lock_of_another_clock_is_named(options: dict[str, str]) -> None:
    locked = JdbcCatalog(
        options
        | {
            "lock.enabled": "true",
            "lock-acquire-timeout": "200 ms",
            "lock-check-max-sleep": "50 ms",
        }
    )
    locked.create_database("db")
    key = options.get("catalog-key", "jdbc")
    with locked._database.transaction() as connection:
        connection.exec_driver_sql(
            "INSERT INTO paimon_distributed_locks (lock_id, acquired_at, expire_time_seconds) "
            f"VALUES ('{key}.db.t', '2999-01-01 00:00:00', 1)"
        )
    with pytest.raises(CatalogLocked, match=r"since 2999-01-01 00:00:00\)") as refused:
        locked.create_table("db.t", schema())
    assert "delete the row" in refused.value.next_step
    with locked._database.transaction() as connection:
        connection.exec_driver_sql(
            f"DELETE FROM paimon_distributed_locks WHERE lock_id = '{key}.db.t'"
        )
    locked.create_table("db.t", schema())


def _at_once(number: int, work: Callable[[int], None]) -> list[Exception]:
    """What the threads raised."""
    failed: list[Exception] = []
    ready = threading.Barrier(number)

    def run(i: int) -> None:
        ready.wait()
        try:
            work(i)
        except Exception as e:  # noqa: BLE001 - returned
            failed.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return failed
