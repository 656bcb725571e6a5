"""Views of catalogs in SQL; those of a REST catalog keeps the server of Java Paimon's own tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from catalog_kinds import options_of_kind
from sql_sessions import Sql

from oracle import RestServer
from paimon_core.catalog.jdbc.views import JdbcViews
from paimon_core.catalog.views import View
from paimon_core.errors import InvalidArgument, PaimonError, StorageError, UnsupportedFeature
from paimon_spark.sql.errors import AnalysisError

pytestmark = [pytest.mark.spark, pytest.mark.oracle]


@pytest.fixture
def sql(tmp_path: Path, session: Any, rest_server: RestServer) -> Sql:
    made = Sql(tmp_path, session)
    for key, value in rest_server.options.items():
        made(f"SET spark.sql.catalog.rest.{key}={value}")
    made("CREATE DATABASE IF NOT EXISTS rest.views; USE rest.views; DROP TABLE IF EXISTS t")
    made("CREATE TABLE t (id INT, name STRING); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    return made


def test_views_of_a_rest_catalog(sql: Sql, rest_server: RestServer) -> None:
    sql(
        "CREATE VIEW v COMMENT 'large ones' TBLPROPERTIES ('k' = 'x') AS SELECT * FROM t WHERE id > 1"
    )
    sql("CREATE VIEW IF NOT EXISTS v AS SELECT 1")
    with pytest.raises(AnalysisError, match="already exists"):
        sql("CREATE VIEW v AS SELECT 1")
    stored = [r for r in rest_server.requests() if "/views/v" in r["path"]][-1]
    assert "SELECT * FROM t WHERE id > 1" in str(stored)
    sql("CREATE OR REPLACE VIEW of_view AS WITH x AS (SELECT max(id) AS m FROM v) SELECT m FROM x")
    assert sql("SELECT count(*), max(v.name) FROM v WHERE v.id < 3") == [[1, "b"]]
    assert sql("SELECT m FROM of_view") == [[3]]
    sql("CALL rest.sys.alter_view_dialect('views.of_view', 'update', 'spark', 'SELECT 7 AS m')")
    assert sql("SELECT m FROM of_view") == [[7]]
    assert sql("SHOW VIEWS") == [["views", "of_view", False], ["views", "v", False]]
    assert sql("SHOW VIEWS LIKE 'o*'") == [["views", "of_view", False]]
    assert sql("SHOW TABLES") == [["views", "t", False]]
    assert sql("DESC v") == [["id", "INT", None], ["name", "STRING", None]]
    audit = {"createdAt": "1", "createdBy": "created", "k": "x", "owner": "owner"}
    audit |= {"updatedAt": "1", "updatedBy": "updated"}  # what the server says of all it has
    shown = ", ".join(f"{k}={v}" for k, v in audit.items())
    assert ["View Properties", f"[{shown}]", ""] in sql("DESC EXTENDED v")
    properties = ",\n  ".join(f"'{k}' = '{v}'" for k, v in audit.items())
    assert sql("SHOW CREATE TABLE v") == [
        [
            (
                "CREATE VIEW views.v (\n  id,\n  name)\nCOMMENT 'large ones'\n"
                f"TBLPROPERTIES (\n  {properties})\nAS\nSELECT * FROM t WHERE id > 1\n"
            )
        ]
    ]
    with pytest.raises(StorageError):  # this server cannot replace tables
        sql("REPLACE TABLE t (a INT)")
    # The view reads its tables where it lies.
    sql("CREATE DATABASE rest.other; USE rest.other")
    assert sql("SELECT name FROM views.v ORDER BY id") == [["b"], ["c"]]
    sql("INSERT INTO views.t VALUES (4, 'd'); DROP VIEW views.of_view")
    assert sql("SELECT count(*) FROM rest.views.v") == [[3]]
    sql("DROP VIEW IF EXISTS views.of_view; DROP VIEW views.v")
    with pytest.raises(AnalysisError, match="cannot be found"):
        sql("DROP VIEW views.v")
    assert sql("SHOW VIEWS IN views") == []


def test_views_of_a_jdbc_catalog(tmp_path: Path, session: Any) -> None:
    sql = Sql(tmp_path, session)
    for key, value in options_of_kind("jdbc-sqlite", tmp_path).items():
        sql(f"SET spark.sql.catalog.kept.{key}={value}")
    sql("CREATE DATABASE kept.d; USE kept.d; CREATE TABLE t (id INT, name STRING)")
    sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'); CREATE VIEW v AS SELECT * FROM t WHERE id > 1")
    sql("CREATE OR REPLACE VIEW v (n COMMENT 'its number') AS SELECT id FROM t")
    assert sql("SELECT max(n) FROM kept.d.v") == [[2]]
    assert sql("SHOW VIEWS") == [["d", "v", False]]
    assert sql("DESC v") == [["n", "INT", "its number"]]
    sql("CREATE VIEW c COMMENT 'x' TBLPROPERTIES ('comment' = 'y') AS SELECT 1 AS n")
    assert sql("DESC c") == [["n", "INT NOT NULL", None]]
    described = {row[0]: row[1] for row in sql("DESC EXTENDED c")}
    assert (described["Comment"], described["View Properties"]) == ("x", "[comment=y]")
    sql(
        "DROP VIEW c; CREATE VIEW every AS SELECT * FROM t; ALTER TABLE t ADD COLUMN first INT FIRST"
    )
    assert sql("SELECT * FROM every ORDER BY 2") == [[None, "1"], [None, "2"]]
    sql("ALTER TABLE t DROP COLUMN first; ALTER TABLE t ADD COLUMN late INT")
    assert sql("SELECT * FROM every ORDER BY id") == [[1, "a"], [2, "b"]]
    sql("DROP VIEW every")
    sql("CALL kept.sys.alter_view_dialect('d.v', 'update', 'spark', 'SELECT 7 AS n')")
    assert sql("SELECT n FROM v") == [[7]]
    with pytest.raises(PaimonError, match="already exists"):
        sql("CREATE TABLE v (a INT)")
    sql("CREATE TABLE IF NOT EXISTS v (a INT)")
    with pytest.raises(PaimonError, match="already exists"):
        sql("CREATE VIEW t AS SELECT 1")
    sql("CREATE VIEW IF NOT EXISTS t AS SELECT 1")
    sql("DROP VIEW v")
    assert sql("SHOW VIEWS") == []


@pytest.mark.parametrize(
    ("view", "text"),
    {
        "v AS SELECT nope FROM t": "UNRESOLVED_COLUMN",
        "v AS SELECT * FROM nope": "cannot be found",
        "v (a) AS SELECT * FROM t": "must match the number of columns",
        "v AS SELECT id AS a, name AS a FROM t": "`a` already exists",
        "v (a, a) AS SELECT * FROM t": "`a` already exists",
    }.items(),
)
def test_a_view_that_cannot_be_made_leaves_the_one_before(
    view: str, text: str, tmp_path: Path, session: Any
) -> None:
    sql = Sql(tmp_path, session, catalog=options_of_kind("jdbc-sqlite", tmp_path))
    sql("CREATE TABLE t (id INT, name STRING); CREATE VIEW v AS SELECT 1 AS n")
    with pytest.raises(Exception, match=text):
        sql(f"CREATE OR REPLACE VIEW {view}")
    assert sql("SELECT n FROM v") == [[1]]


def test_a_view_comes_back_if_the_catalog_refuses_the_new_one(
    tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = Sql(tmp_path, session, catalog=options_of_kind("jdbc-sqlite", tmp_path))
    sql("CREATE VIEW v (n COMMENT 'one') AS SELECT 1")
    create = JdbcViews.create

    def refuse(views: JdbcViews, view: View) -> None:
        if view.text() == "SELECT 2":
            raise StorageError("no")
        create(views, view)

    monkeypatch.setattr(JdbcViews, "create", refuse)
    with pytest.raises(StorageError):
        sql("CREATE OR REPLACE VIEW v AS SELECT 2")
    assert sql("SELECT n FROM v") == [[1]]
    assert sql("DESC v") == [["n", "INT NOT NULL", "one"]]


def test_columns_of_views_have_names_of_their_own(tmp_path: Path, session: Any) -> None:
    sql = Sql(tmp_path, session, catalog=options_of_kind("jdbc-sqlite", tmp_path))
    sql("CREATE VIEW kept AS SELECT 1 AS a, 2 AS A")  # as in Java
    assert sql("SELECT * FROM kept") == [[1, 2]]
    for statement in (
        "CREATE TEMPORARY VIEW v AS SELECT 1 AS a, 2 AS A",
        "CREATE GLOBAL TEMPORARY VIEW v (a, a) AS SELECT 1, 2",
        "CACHE TABLE v AS SELECT 1 AS a, 2 AS a",
    ):
        with pytest.raises(AnalysisError, match="`a` already exists"):
            sql(statement)


def test_other_catalogs_refuse_views(tmp_path: Path, session: Any) -> None:
    sql = Sql(tmp_path, session)
    with pytest.raises(UnsupportedFeature, match="filesystem catalog does not support views"):
        sql("CREATE VIEW v AS SELECT 1")
    assert sql("SHOW VIEWS") == []
    with pytest.raises(InvalidArgument):
        sql("DROP VIEW v")


def test_views_may_name_their_columns(sql: Sql) -> None:
    sql(
        "CREATE VIEW named (user_id COMMENT 'who', NAME) AS SELECT id + 1, name FROM t WHERE id < 3"
    )
    assert sql("SELECT user_id, v.name FROM named v ORDER BY user_id") == [[2, "a"], [3, "b"]]
    assert sql.columns("SELECT * FROM named") == ["user_id", "NAME"]
    assert sql("DESC named") == [["user_id", "INT", "who"], ["NAME", "STRING", None]]
    assert "user_id COMMENT 'who',\n  NAME)" in sql("SHOW CREATE TABLE named")[0][0]
    with pytest.raises(UnsupportedFeature, match="must match the number of columns"):
        sql("CREATE VIEW other (a) AS SELECT * FROM t")
    sql("DROP VIEW named")
