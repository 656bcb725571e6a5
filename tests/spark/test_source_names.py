"""Columns and fields of rows go to those of the table whatever their case, and none gets lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

from paimon_core.errors import InvalidArgument
from paimon_spark.source import write
from paimon_spark.sql.errors import AnalysisError

pytestmark = pytest.mark.spark

MERGE = {"write.merge-schema": "true"}


@pytest.fixture
def sql(session: Any, tmp_path: Path) -> Sql:
    return Sql(tmp_path, session)


def put(sql: Sql, query: str, table: str = "t", **options: str) -> None:
    root = f"{sql.session.warehouse}/default.db/{table}"
    write(sql.session.spark.sql(query), path=root, **options)


def test_names_in_another_case(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, s STRUCT<x: INT, Y: STRING>, a ARRAY<STRUCT<z: INT>>)")
    query = "SELECT 1 AS ID, named_struct('y', 'q', 'X', 5) AS S, array(named_struct('Z', 7)) AS a"
    put(sql, query)
    put(sql, query, **MERGE)
    assert sql("SELECT * FROM t") == [[1, [5, "q"], [[7]]]] * 2
    assert sql("SHOW COLUMNS IN t") == [["id"], ["s"], ["a"]]


def test_a_name_as_it_stands_comes_first(sql: Sql, session: Any) -> None:
    session.conf.set("spark.sql.caseSensitive", "true")
    try:
        sql.session.conf["spark.sql.caseSensitive"] = "true"
        sql("CREATE TABLE t (id INT, ID INT)")
        put(sql, "SELECT 2 AS ID, 1 AS id")
    finally:
        session.conf.unset("spark.sql.caseSensitive")
    assert sql("SELECT * FROM t") == [[1, 2]]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t (ID) VALUES (2)",
        "INSERT INTO t BY NAME SELECT 2 AS ID",
        "UPDATE t SET ID = 2",
        "MERGE INTO t USING s ON t.id = s.ID WHEN MATCHED THEN UPDATE SET *",
        "MERGE INTO t USING s ON t.id = s.ID WHEN NOT MATCHED THEN INSERT (ID) VALUES (s.ID)",
    ],
)
@pytest.mark.parametrize("merges", [False, True])
def test_case_counts_where_spark_says_so(sql: Sql, statement: str, *, merges: bool) -> None:
    sql("CREATE TABLE t (id INT, v STRING); INSERT INTO t VALUES (1, 'a')")
    sql("CREATE TEMPORARY VIEW s AS SELECT 1 AS ID")
    sql(f"SET spark.paimon.write.merge-schema={merges}; SET spark.sql.caseSensitive=true")
    try:
        with pytest.raises(AnalysisError, match=r"UNRESOLVED_COLUMN.*`ID`.*caseSensitive"):
            sql(statement)
    finally:
        sql("RESET spark.sql.caseSensitive")
    assert sql("SELECT * FROM t") == [[1, "a"]]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT named_struct('x', 1, 'nope', 2) AS s", "no field s.nope"),
        ("SELECT struct(1, 'a') AS s", "no field s.col1, s.col2"),
        ("SELECT array(named_struct('w', 1)) AS a", "no field a.element.w"),
        ("SELECT map('k', named_struct('w', 1)) AS m", "no field m.value.w"),
    ],
)
def test_unknown_fields_are_refused(sql: Sql, query: str, problem: str) -> None:
    sql(
        "CREATE TABLE t (id INT, s STRUCT<x: INT, y: STRING>, a ARRAY<STRUCT<z: INT>>, "
        "m MAP<STRING, STRUCT<z: INT>>)"
    )
    with pytest.raises(InvalidArgument, match=problem):
        put(sql, query)


def test_types_stay_that_need_not_merge(sql: Sql) -> None:
    """Java 2.0: `SchemaMergingUtils.merge` without `typeWidening`."""
    sql("CREATE TABLE t (id INT, d DECIMAL(10, 2), a ARRAY<STRUCT<x: INT>>)")
    sql("SET spark.paimon.write.merge-schema=true")
    sql("INSERT INTO t BY NAME SELECT '5' AS ID, cast(1.5 AS DECIMAL(5, 3)) AS d, 1 AS new")
    sql("INSERT INTO t BY NAME SELECT array(named_struct('X', 1L, 'y', 2L)) AS a")
    assert sql("SELECT * FROM t ORDER BY id") == [
        [None, None, [[1, 2]], None],
        [5, "1.50", None, 1],
    ]
    assert [row[1] for row in sql("DESCRIBE t")] == [
        "int",
        "decimal(10,2)",
        "array<struct<x:int,y:bigint>>",
        "int",
    ]
