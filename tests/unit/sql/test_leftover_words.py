"""A statement with words that nothing reads is refused: a misspelt WHERE must not change all rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from sql_sessions import Sql

from paimon_core.read.table_read import read_table
from paimon_core.table.open import open_table
from paimon_spark.sql.errors import SqlSyntaxError


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM t WHER id = 1",
        "DELETE FROM t AS x WHER id = 1",
        "DELETE FROM t x y",
        "DELETE FROM t z (id = 1)",
        "UPDATE t x WHER SET v = 'b'",
        "TRUNCATE TABLE t WHERE id = 1",
        "TRUNCATE TABLE t PARTITION (p = 1) WHERE id = 1",
        "DROP TABLE t WHERE id = 1",
        "ALTER TABLE t DROP PARTITION (p = 1) WHERE id = 1",
        "EXPLAIN DELETE FROM t WHER id = 1",
        "DELETE FROM t 1",
        "DELETE FROM t USING",
        "DELETE FROM t AS LEFT",
        "DELETE FROM t /*+ WHERE id = 1 */",
        "DELETE FROM t /*+ x */ WHERE id = 1",
        "TRUNCATE TABLE t /*+ PARTITION (p = 2) */",
        "/*+ x */ DELETE FROM t",
        "DELETE FROM t AS 1",
        "DELETE FROM t {# WHERE id = 1 #}",
        "DELETE FROM t {% WHERE id = 1 %}",
        "DELETE FROM t n'x'",
        "DELETE FROM t WHERE SELECT true",
        "DELETE FROM t WHERE id = 1) OR (true",
        "ALTER TABLE t DROP PARTITION ()",
        "ALTER TABLE t DROP PARTITION (p = 1 AND id = 2)",
        "ALTER TABLE t DROP PARTITION (p = 1), PARTITION ()",
        "TRUNCATE TABLE t PARTITION ()",
        "TRUNCATE TABLE t PARTITION (p = 1 2)",
        "INSERT OVERWRITE t PARTITION () VALUES (3, 'a', 1)",
        "INSERT OVERWRITE t PARTITION (p = 1 OR 2) VALUES (3, 'a')",
        "INSERT OVERWRITE t PARTITION (p = IF EXISTS 1) VALUES (3, 'a')",
        "MERGE INTO t USING t AS s ON t.id = s.id WHEN MATCHED BY SOURCE THEN DELETE",
        "MERGE INTO t USING t AS s ON t.id = s.id WHEN NOT MATCHED BY THEN INSERT *",
        "MERGE INTO t USING (",
        "CREATE OR REPLACE TABLE t (id INT) TBLPROPERTIES ('a' IF EXISTS = 'b')",
        "REPLACE TABLE t (id INT, p INT) PARTITIONED BY ()",
        "DROP DATABASE default CASCADE RESTRICT",
    ],
)
def test_no_row_is_lost_to_a_statement_that_is_not_understood(tmp_path: Path, statement: str):
    sql = Sql(tmp_path)
    sql("CREATE TABLE t (id INT, v STRING, p INT) PARTITIONED BY (p)")
    sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 1)")
    with pytest.raises(SqlSyntaxError, match="PARSE_SYNTAX_ERROR"):
        sql(statement)
    table = open_table(str(tmp_path), "default.t")
    batches = list(read_table(table, table.latest_or_not_found()))
    assert sum(b.num_rows for b in batches) == 2


@pytest.mark.parametrize("spec", ["p", "P", "p, id = 1"])
@pytest.mark.parametrize("change", ["ALTER TABLE t DROP", "TRUNCATE TABLE t"])
def test_a_partition_without_a_value_does_not_stand_for_all(tmp_path: Path, change: str, spec: str):
    sql = Sql(tmp_path)
    sql("CREATE TABLE t (id INT, p INT) PARTITIONED BY (p)")
    sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    with pytest.raises(SqlSyntaxError, match="EMPTY_PARTITION_VALUE"):
        sql(f"{change} PARTITION ({spec})")
    assert sql("SHOW PARTITIONS t") == [["p=1"], ["p=2"]]


@pytest.mark.parametrize(
    "rows",
    [
        "VALUES (1, , 'a')",
        "VALUES (1, 'a',)",
        "VALUES (1, 'a'), , (2, 'b')",
        "VALUES (1, 'a'), -- no more",
        "VALUES , (1, 'a')",
        "SELECT 1, , 'a'",
        "SELECT AS 1, 'a'",
        "VALUES (1, 0x41)",
        "VALUES (CAST('1' AS STRING), 'a')",
        "VALUES (CAST(300 AS TINYINT), 'a')",
        "VALUES (CAST(1 AS BOOLEAN), 'a')",
    ],
)
def test_rows_that_spark_would_refuse_are_left_to_it(tmp_path: Path, rows: str):
    sql = Sql(tmp_path)
    sql("CREATE TABLE t (id INT, v STRING)")
    with pytest.raises(AssertionError, match="needs no Spark"):
        sql(f"INSERT INTO t {rows}")
    assert sql("SHOW TAGS t") == []
    assert open_table(str(tmp_path), "default.t").snapshots.latest() is None


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("007", "7"),
        ("5L", "5"),
        ("-5", "-5"),
        ("1.50", "1.50"),
        ("1e2", "100.0"),
        ("TRUE", "true"),
        ("X'41'", "A"),
        ("DATE '2024-1-2'", "2024-01-02"),
        ("'a' 'b'", "ab"),
        ("'it''s'", "it's"),
        (r"r'a\b'", r"a\b"),
        ("NULL", None),
    ],
)
def test_a_partition_of_text_has_the_literal_as_spark_casts_it(
    tmp_path: Path, written: str, kept: str | None
):
    sql = Sql(tmp_path)
    sql("CREATE TABLE t (id INT, p STRING) PARTITIONED BY (p)")
    sql(f"INSERT INTO t PARTITION (p = {written}) VALUES (1)")
    table = open_table(str(tmp_path), "default.t")
    rows = [r for b in read_table(table, table.latest_or_not_found()) for r in b.to_pylist()]
    assert [(r["id"], r["p"]) for r in rows] == [(1, kept)]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ALTER COLUMN v SET DEFAULT 'a' x",
        "ALTER TABLE t ALTER COLUMN v SET DEFAULT 'a' COMMENT 'x'",
        "ALTER TABLE t ALTER COLUMN v SET DEFAULT ('a'",
        "ALTER TABLE t ALTER COLUMN v COMMENT 'a' COMMENT 'b'",
        "ALTER TABLE t ALTER COLUMN id TYPE BIGINT TYPE STRING",
        "ALTER TABLE t ADD COLUMN c INT FIRST AFTER v",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS c INT",
        "ALTER TABLE t ADD COLUMN c DECIMAL(1, 2, 3)",
        "ALTER TABLE t ADD COLUMN c VARCHAR(1, 2)",
        "ALTER TABLE t ADD COLUMN c VARCHAR()",
        "ALTER TABLE t ADD COLUMN c `INT`",
        "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b', 'a' = 'c')",
        "ALTER TABLE t SET TBLPROPERTIES ('a' = NOT 'b')",
        "ALTER TABLE t SET TBLPROPERTIES (a b = 'c')",
        "ALTER TABLE t SET TBLPROPERTIES (a = NULL)",
        "ALTER TABLE t SET TBLPROPERTIES (a = b)",
        "ALTER TABLE t SET TBLPROPERTIES ()",
        "ALTER TABLE t UNSET TBLPROPERTIES ()",
        "ALTER TABLE t UNSET TBLPROPERTIES ('a' 'b')",
        "ALTER TABLE t ADD PARTITION (p = 3),",
        "CREATE TABLE n (id INT NOT NULL NULL)",
        "CREATE TABLE n (id INT, v STRING DEFAULT 'a' IF EXISTS)",
        "CREATE TABLE n LIKE t PARTITIONED BY (v)",
        "CREATE TABLE n (id INT) USING paimon USING paimon",
        "CREATE DATABASE d DBPROPERTIES ('a' = 'b')",
        "CREATE DATABASE d COMMENT 'a' COMMENT 'b'",
        "RESET x y",
        "RESET x = 1",
        "SHOW CURRENT x",
        "EXECUTE IMMEDIATE 'DROP TABLE t' USING (1 AS a) x",
        "SHOW TABLES LIKE",
        "SHOW TBLPROPERTIES t ()",
        "SHOW PROCEDURES x y",
        "DESC t v x",
        "DESC t PARTITION (p = 1) v",
        "REFRESH TABLE t x",
        "REFRESH x",
        "UNCACHE x",
        "CLEAR x",
    ],
)
def test_nothing_changes_where_words_are_left_over(tmp_path: Path, statement: str):
    sql = Sql(tmp_path)
    sql("CREATE TABLE t (id INT, v STRING, p INT) PARTITIONED BY (p)")
    before = [sql("SHOW CREATE TABLE t"), sql("SHOW TABLES"), sql("SHOW DATABASES")]
    with pytest.raises(SqlSyntaxError):
        sql(statement)
    assert [sql("SHOW CREATE TABLE t"), sql("SHOW TABLES"), sql("SHOW DATABASES")] == before


def test_hive_changes_type_comment_and_place_in_one(tmp_path: Path):
    sql = Sql(tmp_path)
    sql("CREATE TABLE t (id INT, v STRING)")
    sql("ALTER TABLE t CHANGE COLUMN v v STRING COMMENT 'text' FIRST")
    assert sql("DESCRIBE t") == [["v", "string", "text"], ["id", "int", None]]


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("-- not all\rWHERE id = 1", [2]),
        ("-- all \\\nWHERE id = 1", []),
        ("-- one \\\n more\nWHERE id = 1", [2]),
        ("/* x /* y */ */ WHERE id = 1 -- -- /*", [2]),
    ],
)
def test_comments_end_where_they_do_in_spark(tmp_path: Path, condition: str, left: list[int]):
    sql = Sql(tmp_path)
    sql("CREATE TABLE t (id INT, v STRING)")
    sql("INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    sql(f"DELETE FROM t {condition}")
    table = open_table(str(tmp_path), "default.t")
    rows = [r for b in read_table(table, table.latest_or_not_found()) for r in b.to_pylist()]
    assert [r["id"] for r in rows] == left
