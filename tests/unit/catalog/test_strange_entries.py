"""Entries of JDBC and Hive catalogs that no client of Paimon wrote: refused by name."""

from __future__ import annotations

import logging
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paimon_core.catalog.hive.partitions import HivePartitions, statistics_of
from paimon_core.catalog.jdbc import lock as jdbc_lock
from paimon_core.catalog.jdbc.jdbc_catalog import JdbcCatalog
from paimon_core.catalog.views import View
from paimon_core.ddl.create import Column, create_schema
from paimon_core.ddl.schema_change import SetOption
from paimon_core.errors import CatalogError, CorruptTable, UnsupportedFeature
from paimon_core.remote.hive_client import HiveClient
from paimon_core.remote.thrift_calls import FieldSchema, Partition, Table


@pytest.fixture
def catalog(tmp_path: Path) -> JdbcCatalog:
    found = JdbcCatalog(
        {
            "uri": f"jdbc:sqlite:{tmp_path / 'catalog.db'}",
            "warehouse": str(tmp_path / "lake"),
            "lock.enabled": "true",
            "lock-acquire-timeout": "1 s",
        }
    )
    found.create_database("d", properties={"owner": "me"})
    found.create_table("d.t", create_schema([Column("k", "INT")], now_millis=0))
    found.views.create(View(name="d.v", fields=(), query="SELECT 1"))
    return found


def set_value(tmp_path: Path, table: str, column: str, value: object) -> None:
    """As in a database whose columns may be NULL."""
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        sql = "SELECT sql FROM sqlite_master WHERE name = ?"
        ((made,),) = connection.execute(sql, (table,)).fetchall()
        rows = connection.execute(f"SELECT * FROM {table}").fetchall()
        connection.execute(f"DROP TABLE {table}")
        connection.execute(re.sub("NOT NULL", "", made))
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        connection.execute(f"UPDATE OR REPLACE {table} SET {column} = ?", (value,))


@pytest.mark.parametrize(
    "schema",
    [None, "", "{", "[]", "{}", '{"query": 1}', '{"query": "q", "fields": [1]}', "[" * 9000, b"\0"],
)
def test_a_view_that_cannot_be_read(catalog: JdbcCatalog, tmp_path: Path, schema: Any) -> None:
    set_value(tmp_path, "paimon_views", "view_schema", schema)
    with pytest.raises(CorruptTable, match=r"view d\.v in the JDBC catalog jdbc cannot be read"):
        catalog.views.find("d.v")


def test_a_view_of_an_unknown_type(catalog: JdbcCatalog, tmp_path: Path) -> None:
    fields = '[{"id": 0, "name": "k", "type": "TELEPATHY"}]'
    set_value(tmp_path, "paimon_views", "view_schema", f'{{"query": "q", "fields": {fields}}}')
    with pytest.raises(UnsupportedFeature, match="TELEPATHY") as caught:
        catalog.views.find("d.v")
    assert caught.value.table == "d.v"


@pytest.mark.parametrize(
    ("table", "column", "read"),
    [
        ("paimon_tables", "table_name", lambda c: c.list_tables("d")),
        ("paimon_tables", "database_name", lambda c: c.list_databases()),
        ("paimon_views", "view_name", lambda c: c.list_others("d")),
    ],
)
@pytest.mark.parametrize("value", [None, b"\xff"])
def test_a_row_without_a_name(
    catalog: JdbcCatalog,
    tmp_path: Path,
    table: str,
    column: str,
    read: Callable[[JdbcCatalog], Any],
    value: Any,
) -> None:
    set_value(tmp_path, table, column, value)
    with pytest.raises(CatalogError, match=f"the name .* in a row .*{table}"):
        read(catalog)


def test_a_property_without_a_value(catalog: JdbcCatalog, tmp_path: Path) -> None:
    set_value(tmp_path, "paimon_database_properties", "property_value", None)
    assert catalog.get_database("d").properties == {}


def test_who_waits_for_a_lock_says_so(
    catalog: JdbcCatalog,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The default is eight minutes."""
    monkeypatch.setattr(jdbc_lock, "TOLD_MILLIS", 0)
    lock = catalog._lock("d.t")
    assert lock is not None
    with lock.held(), caplog.at_level(logging.WARNING):
        waiting = threading.Thread(
            target=lambda: catalog.alter_table("d.t", [SetOption("a", "b")], now_millis=1)
        )
        waiting.start()
        until = time.monotonic() + 30
        while "waiting for it, at most 1 s" not in caplog.text and time.monotonic() < until:
            time.sleep(0.01)
    waiting.join()
    assert "lock=jdbc.d.t is held by another client" in caplog.text


def of_hive(monkeypatch: pytest.MonkeyPatch, *found: Partition) -> HivePartitions:
    keys = (FieldSchema(name="dt", type="string"),)
    answers = {"get_table": Table(partition_keys=keys), "get_partitions": found}
    monkeypatch.setattr(HiveClient, "call", lambda _, name, *__: answers[name])
    return HivePartitions(HiveClient({"uri": "thrift://a:1"}), "d", "t")


@pytest.mark.parametrize("values", [(), None, ("a", "b")])
def test_a_partition_of_other_keys(
    monkeypatch: pytest.MonkeyPatch, values: tuple[str, ...] | None
) -> None:
    with pytest.raises(CatalogError, match=r"a partition of table d\.t with values"):
        of_hive(monkeypatch, Partition(values=values)).specs()


@pytest.mark.parametrize("text", ["", "x", "1e5", "9" * 30, "1" * 5000])
def test_statistics_that_are_no_numbers(text: str) -> None:
    found = Partition(db_name="d", table_name="t", parameters={"numRows": text})
    with pytest.raises(CatalogError, match=r"dt=1/? of table d\.t with numRows="):
        statistics_of({"dt": "1"}, found)
