"""Statements that Spark's grammar does not have are refused as a whole, before anything changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

from paimon_core.errors import OutsideTable
from paimon_spark.sql.errors import SqlSyntaxError

pytestmark = pytest.mark.spark

ROWS = [[1, "a", 1], [2, "a", 1], [3, "b", 2]]


@pytest.fixture
def sql(tmp_path: Path, session: Any) -> Sql:
    sql = Sql(tmp_path, session)
    sql("CREATE TABLE t (id INT, v STRING, p INT) PARTITIONED BY (p)")
    sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 1), (3, 'b', 2)")
    sql("CREATE TABLE s (id INT, v STRING, p INT)")
    sql("INSERT INTO s VALUES (1, 'new', 1)")
    return sql


@pytest.mark.sampled
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM t WHERE upper(v) = 'A' LIMIT 1",
        "DELETE FROM t WHERE id = 1 LIMIT 0",
        "DELETE FROM t WHERE id = 1 UNION SELECT 2L",
        "DELETE FROM t WHERE id = 1 ORDER BY id",
        "DELETE FROM t WHERE id = 1 |> LIMIT 1",
        "DELETE FROM t WHERE id = 1 GROUP BY id, __paimon_row",
        "WITH c AS (SELECT 1 AS id) DELETE FROM t WHERE id IN (SELECT id FROM c) LIMIT 0",
        "UPDATE t SET v = upper(v) WHERE p = 1 LIMIT 1",
        "UPDATE t SET v = 'x' WHERE p = 1 LIMIT 1",
        "UPDATE t SET v = upper(v) x WHERE p = 1",
        "MERGE INTO t USING s ON t.id = s.id LEFT JOIN s AS z ON true WHEN MATCHED THEN DELETE",
        "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id x)",
        "INSERT INTO t REPLACE WHERE p = 1 OR p = 2 SELECT 7, 'q', 1",
        "INSERT INTO t REPLACE WHERE p = 1 LIMIT 1 SELECT 7, 'q', 1",
        "INSERT INTO t PARTITION (p = 2) REPLACE WHERE p = 1 SELECT 7, 'q', 1",
        "INSERT OVERWRITE t REPLACE WHERE p = 1 SELECT 7, 'q', 1",
        "INSERT INTO t TABLE s WHERE id = 1",
        "INSERT INTO t TABLE s x",
        "INSERT INTO t VALUES (7, , 'q', 1)",
        "INSERT INTO t VALUES (7, 'q', 1), -- no more",
        "FROM s INSERT INTO t SELECT * INSERT INTO s SELECT id,, v, p",
        "FROM s INSERT INTO t SELECT * INSERT INTO s x SELECT *",
        "FROM s INSERT INTO t SELECT * INSERT INTO",
        "CREATE OR REPLACE TABLE t PARTITIONED BY (p) AS SELECT * FROM s LIMIT 1 LIMIT 2",
    ],
)
def test_rows_stay_where_spark_cannot_parse_the_statement(sql: Sql, statement: str):
    with pytest.raises(Exception, match=r"SYNTAX|Overwrite filters"):
        sql(statement)
    assert sql("SELECT * FROM t ORDER BY id") == ROWS
    assert sql("SELECT * FROM s") == [[1, "new", 1]]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("upper(v) = 'A' -- of all", [3]),
        ("upper(v) = 'B' OR id = 1", [2]),
        ("id = 1 /* or */ OR upper(v) = 'B'", [2]),
        ("EXISTS (SELECT 1 FROM s WHERE s.id = t.id LIMIT 1)", [2, 3]),
        ("(SELECT max(id) FROM s) = id", [2, 3]),
        ("id IN (SELECT id FROM s UNION SELECT 3 LIMIT 5) ;", [2]),
        ("CASE WHEN id = 1 THEN true END", [2, 3]),
    ],
)
def test_conditions_mean_what_they_mean_in_a_query(sql: Sql, condition: str, left: list[int]):
    sql.session.views.clear()
    found = sql(f"SELECT id FROM t WHERE {condition.rstrip(' ;')}")
    assert sorted(r[0] for r in found) == sorted({1, 2, 3} - set(left))
    sql(f"DELETE FROM t WHERE {condition.rstrip(' ;')}")
    assert [r[0] for r in sql("SELECT id FROM t ORDER BY id")] == left


def test_rows_of_a_common_table_replace_those_of_a_condition(sql: Sql):
    sql(
        "WITH s AS (SELECT 8 AS id, 'q' AS v, 1 AS p) INSERT INTO t REPLACE WHERE p = 1 SELECT * FROM s"
    )
    assert sql("SELECT * FROM t ORDER BY id") == [[3, "b", 2], [8, "q", 1]]
    sql("FROM s INSERT INTO t REPLACE WHERE p = 2 SELECT id, v, 2")
    assert sql("SELECT * FROM t ORDER BY id") == [[1, "new", 2], [8, "q", 1]]


def test_a_table_is_a_query_with_an_order_and_a_limit(sql: Sql):
    assert sql("TABLE t ORDER BY id DESC LIMIT 1") == [[3, "b", 2]]
    sql("INSERT INTO s TABLE t LIMIT 0")
    sql("INSERT INTO s TABLE t UNION SELECT 9, 'z', 9")
    assert sorted(sql("SELECT id FROM s")) == [[1], [1], [2], [3], [9]]


def test_files_of_a_folder_have_the_rows_of_a_common_table(tmp_path: Path, sql: Sql):
    folder = tmp_path / "files"
    command = f"INSERT OVERWRITE DIRECTORY '{folder}' USING json SELECT id, v FROM s"
    sql(f"WITH s AS (SELECT 8 AS id, 'q' AS v) {command}")
    assert sql(f"SELECT id, v FROM json.`{folder}`") == [[8, "q"]]


def test_files_of_a_folder_do_not_replace_a_table(tmp_path: Path, sql: Sql):
    root = sql.session.open(sql.session.table_name(["t"])).root
    before = sql("SELECT * FROM t ORDER BY id")
    for target in (
        f"DIRECTORY '{root}' USING json",
        f"LOCAL DIRECTORY '{Path(root).parent}' USING json",
        f"DIRECTORY 'file:{root}/bucket-0' USING json",
        f"DIRECTORY '{root}/manifest' USING json",
        f"DIRECTORY USING json OPTIONS ('path' = '{root}')",
    ):
        with pytest.raises(OutsideTable, match="is the folder of a Paimon table"):
            sql(f"INSERT OVERWRITE {target} SELECT 1 AS id")
    assert sql("SELECT * FROM t ORDER BY id") == before


def test_texts_stay_as_they_are(sql: Sql):
    """What looks like a hint or a function of files in a text is neither."""
    sql(
        "INSERT INTO s SELECT 2, 'input_file_name() /*+ OPTIONS(a) */ -- ' || v, 2 FROM t WHERE id = 1"
    )
    assert sql("SELECT v FROM s WHERE id = 2") == [["input_file_name() /*+ OPTIONS(a) */ -- a"]]


def test_defaults_in_rows_that_spark_computes(sql: Sql):
    sql("ALTER TABLE s ALTER COLUMN v SET DEFAULT 'new'")
    sql("INSERT INTO s VALUES (1 + 1, DEFAULT, 2), (3, upper('a'), DEFAULT)")
    assert sql("SELECT * FROM s WHERE id > 1 ORDER BY id") == [[2, "new", 2], [3, "A", None]]


def test_hints_stay_behind_select_and_tables(sql: Sql):
    assert sql(
        "SELECT /*+ COALESCE(1) */ /*+ REPARTITION(2) */ max(id) FROM t /*+ OPTIONS('a' = 'b') */"
    ) == [[3]]
    with pytest.raises(SqlSyntaxError, match="near"):
        sql("SELECT * FROM t /*+ WHERE id = 1 */")


def test_a_view_is_a_query(sql: Sql):
    with pytest.raises(Exception, match="SYNTAX"):
        sql("CREATE TEMPORARY VIEW w AS SET spark.sql.x = 1")
    assert sql("SHOW VIEWS") == []
