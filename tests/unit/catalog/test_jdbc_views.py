"""Views of a JDBC catalog: rows as Java 2.0 writes and reads them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from paimon_core.catalog.catalog import OtherObject
from paimon_core.catalog.jdbc.jdbc_catalog import JdbcCatalog
from paimon_core.catalog.views import View
from paimon_core.ddl.create import Column, create_schema
from paimon_core.errors import AlreadyExists, InvalidArgument, NotFound
from paimon_core.types.data_types import DataField
from paimon_core.types.sql import parse_type

FIELDS = (DataField(id=0, name="n", type=parse_type("BIGINT")),)
OF_JAVA = """{
  "fields" : [ { "id" : 0, "name" : "n", "type" : "BIGINT", "description" : "how many" } ],
  "query" : "SELECT count(*) FROM t",
  "dialects" : { "flink" : "SELECT COUNT(*) FROM t" },
  "comment" : "counted",
  "options" : { "k" : "v" }
}"""


@pytest.fixture
def catalog(tmp_path: Path) -> JdbcCatalog:
    found = JdbcCatalog(
        {
            "uri": f"jdbc:sqlite:{tmp_path / 'catalog.db'}",
            "warehouse": str(tmp_path / "lake"),
            "lock.enabled": "true",
        }
    )
    found.create_database("d")
    return found


def view(name: str = "d.v") -> View:
    return View(name=name, fields=FIELDS, query="SELECT 1 AS n", dialects={"spark": "SELECT 1 n"})


def table(catalog: JdbcCatalog, name: str) -> None:
    catalog.create_table(name, create_schema([Column("k", "INT")], now_millis=0))


def rows(tmp_path: Path) -> list[tuple[str, ...]]:
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        return connection.execute("SELECT * FROM paimon_views ORDER BY view_name").fetchall()


def test_a_view_from_creation_to_drop(catalog: JdbcCatalog, tmp_path: Path) -> None:
    views = catalog.views
    assert (views.names("d"), views.find("d.v"), catalog.list_others("d")) == ([], None, [])
    with pytest.raises(NotFound):
        views.drop("d.v")
    views.create(view())
    with pytest.raises(AlreadyExists):
        views.create(view())
    assert views.names("d") == ["v"]
    assert views.find("d.v") == view()
    assert catalog.list_others("d") == [OtherObject("v", "view")]
    (stored,) = rows(tmp_path)
    assert stored[:3] == ("jdbc", "d", "v")
    assert json.loads(stored[3]) == {
        "fields": [{"id": 0, "name": "n", "type": "BIGINT"}],
        "query": "SELECT 1 AS n",
        "dialects": {"spark": "SELECT 1 n"},
        "options": {},
    }
    views.set_dialects("d.v", [{"action": "addDialect", "dialect": "flink", "query": "SELECT 2"}])
    changed = views.find("d.v")
    assert changed is not None
    assert (changed.text("flink"), changed.text(), changed.text("trino")) == (
        *("SELECT 2", "SELECT 1 n", "SELECT 1 AS n"),
    )
    for action, error in (("addDialect", AlreadyExists), ("dropDialect", NotFound)):
        dialect = "flink" if error is AlreadyExists else "trino"
        with pytest.raises(error):
            views.set_dialects("d.v", [{"action": action, "dialect": dialect, "query": "x"}])
    views.drop("d.v")
    assert views.names("d") == []


def test_what_java_stored(catalog: JdbcCatalog, tmp_path: Path) -> None:
    catalog.views.create(view())
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        connection.execute("UPDATE paimon_views SET view_schema = ?", (OF_JAVA,))
    found = catalog.views.find("d.v")
    assert found is not None
    assert (found.text(), found.comment, found.options) == (
        *("SELECT count(*) FROM t", "counted", {"k": "v"}),
    )
    assert found.fields[0].description == "how many"


def test_a_name_is_of_a_table_or_a_view(catalog: JdbcCatalog) -> None:
    table(catalog, "d.t")
    catalog.views.create(view())
    with pytest.raises(AlreadyExists):
        catalog.views.create(view("d.t"))
    with pytest.raises(AlreadyExists, match=r"a view d\.v already exists"):
        table(catalog, "d.v")
    schema = create_schema([Column("k", "INT")], now_millis=0)
    catalog.create_table("d.v", schema, if_not_exists=True)
    with pytest.raises(AlreadyExists, match=r"a view d\.v already exists"):
        catalog.rename_table("d.t", "d.v")
    assert catalog.list_tables("d") == ["t"]


def test_a_database_goes_with_its_views(catalog: JdbcCatalog, tmp_path: Path) -> None:
    catalog.views.create(view())
    with pytest.raises(InvalidArgument, match="it has 1 views"):
        catalog.drop_database("d")
    catalog.create_database("e")
    catalog.views.create(view("e.kept"))
    catalog.drop_database("d", cascade=True)
    assert [row[1:3] for row in rows(tmp_path)] == [("e", "kept")]
