"""Views of a catalog whose texts others wrote: no statement is run, and no view reads itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from catalog_kinds import options_of_kind
from sql_sessions import Sql

from paimon_core.catalog.jdbc.jdbc_catalog import JdbcCatalog
from paimon_core.catalog.views import View
from paimon_core.types.data_types import DataField
from paimon_core.types.sql import parse_type
from paimon_spark.sql.errors import AnalysisError

pytestmark = pytest.mark.spark

FIELDS = (DataField(id=0, name="n", type=parse_type("INT")),)


@pytest.fixture
def catalog(tmp_path: Path) -> JdbcCatalog:
    made = JdbcCatalog(options_of_kind("jdbc-sqlite", tmp_path))
    made.create_database("d")
    return made


@pytest.fixture
def sql(catalog: JdbcCatalog, tmp_path: Path, session: Any) -> Sql:
    made = Sql(tmp_path, session, catalog=catalog.options)
    made("USE d")
    return made


def create(catalog: JdbcCatalog, name: str, query: str) -> None:
    catalog.views.create(View(name=f"d.{name}", fields=FIELDS, query=query))


def test_a_text_that_is_no_query(catalog: JdbcCatalog, sql: Sql, session: Any) -> None:
    before = session.conf.get("spark.sql.shuffle.partitions")
    create(catalog, "v", "SET spark.sql.shuffle.partitions=1234")
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        sql("SELECT * FROM v")
    assert session.conf.get("spark.sql.shuffle.partitions") == before


def test_a_text_that_ends_with_a_comment(catalog: JdbcCatalog, sql: Sql) -> None:
    create(catalog, "v", "SELECT 7 AS n -- the number")
    assert sql("SELECT n + 1 FROM v WHERE n > 0") == [[8]]
    sql("CREATE TEMPORARY VIEW t AS SELECT 8 AS n -- the number")
    assert sql("SELECT n + 1 FROM t WHERE n > 0") == [[9]]


def test_a_view_that_reads_itself(catalog: JdbcCatalog, sql: Sql) -> None:
    create(catalog, "a", "SELECT n FROM b")
    create(catalog, "b", "WITH x AS (SELECT n FROM a) SELECT n FROM x")
    cycle = r"\[RECURSIVE_VIEW\].*paimon\.d\.a -> paimon\.d\.b -> paimon\.d\.a"
    with pytest.raises(AnalysisError, match=cycle):
        sql("SELECT * FROM a")
    for kind in ("", "TEMPORARY "):
        sql(f"CREATE OR REPLACE {kind}VIEW t AS SELECT 1 AS n")
        sql(f"CREATE OR REPLACE {kind}VIEW u AS SELECT n FROM t")
        for query, cycle in (("SELECT n FROM t", "t -> t"), ("SELECT n FROM u", "t -> u -> t")):
            between = cycle.replace(" ", r" (paimon\.d\.)?")
            with pytest.raises(AnalysisError, match=rf"\[RECURSIVE_VIEW\].*{between}"):
                sql(f"CREATE OR REPLACE {kind}VIEW t AS {query}")
        assert sql("SELECT n FROM u") == [[1]]
    create(catalog, "c", "SELECT 1 AS n")
    assert sql("SELECT l.n FROM c l JOIN c r ON l.n = r.n") == [[1]]


def test_views_that_are_nested_too_deeply(catalog: JdbcCatalog, sql: Sql) -> None:
    for number in range(102):
        create(catalog, f"v{number}", f"SELECT n FROM v{number + 1}")
    with pytest.raises(AnalysisError, match="VIEW_EXCEED_MAX_NESTED_DEPTH"):
        sql("SELECT * FROM v0")
