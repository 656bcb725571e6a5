"""Statements of Paimon's Spark documentation, and odd ones, with their answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

from paimon_spark.sql.errors import error_type

pytestmark = pytest.mark.spark

DESCRIPTOR = (
    "0243534544424f4c42" + "04000000" + b"/a/b".hex() + "0000000000000000" + "ffffffffffffffff"
)
ANSWERS = {
    # values
    "SELECT date '-0001-01-01', array(date '10000-01-01'), timestamp '+12345-01-01 00:00:00.5'": [
        ["-0001-01-01", ["+10000-01-01"], "+12345-01-01 00:00:00.5"]
    ],
    "SELECT array(), map(), map('b', 1, 'a', null), struct(1, null), array(struct(1), null)": [
        [[], [], [["a", None], ["b", 1]], [1, None], [[1], None]]
    ],
    "SELECT struct(1 AS a, 2 AS a), array(interval '1' year), x'00ff', cast(1 AS decimal(9, 3))": [
        [[1, 2], ["INTERVAL '1' YEAR"], "00ff", "1.000"]
    ],
    "SELECT parse_json('\"x\"'), parse_json('null'), struct(parse_json('[1]')), double('-inf')": [
        ['"x"', "null", ["[1]"], "-Infinity"]
    ],
    # what sqlglot does not parse
    "SELECT struct(t.id x), p FROM t WHERE t.id = 1": [[[1], "a"]],
    "WITH c AS (SELECT struct(id x) AS s FROM t) SELECT s.x FROM c ORDER BY 1": [[1], [2]],
    "SELECT X'FF', upper('a') FROM t WHERE CAST(p AS BINARY) NOT IN (X'C3A4', X'62')": [
        ["ff", "A"]
    ],
    f"SELECT {'(' * 60}id{')' * 60} FROM t WHERE {'lower(' * 60}p{')' * 60} = 'a'": [[1]],
    # columns and rows that are wanted without being named
    "FROM t |> WHERE id = 1": [[1, "a"]],
    "FROM t |> ORDER BY id |> LIMIT 1 |> WHERE id = 2": [],
    "SELECT b FROM t AS x(b, id) WHERE id = 'a'": [[1]],
    "SELECT struct(x.b q) FROM t AS x(b, c) WHERE x.c = 'b'": [[[2]]],
    "SELECT b FROM (t CROSS JOIN (SELECT 7 AS n)) AS x(b, c, d) WHERE c = 'b'": [[2]],
    # texts with escapes, in double quotes
    "CREATE TABLE escapes (s STRING)": [],
    r"INSERT INTO escapes VALUES ('a\tb'), ('a\\tb'), ('\u00e4'), ('\'')": [],
    r"SELECT length(s) FROM escapes WHERE s = 'a\tb' OR s = 's'": [[3]],
    r"SELECT length(s) FROM escapes WHERE s = 'a\\tb'": [[4]],
    r"SELECT length(s) FROM escapes WHERE s IN ('\u00e4', '\'') AND s <> '\''": [[1]],
    r"DELETE FROM escapes WHERE s = 'a\tb' OR s = '\''": [],
    r"""DELETE FROM escapes WHERE "s" = 's' AND s LIKE 'a\\\\%'""": [],
    "SELECT s FROM escapes ORDER BY s": [["ä"]],
    # functions
    "SELECT id FROM t WHERE p = paimon.sys.max_pt('default.t')": [[2]],
    "SELECT count(*) FROM k WHERE sys.bucket(3, id, v) = __paimon_bucket": [[4]],
    "SELECT sys.path_to_descriptor('/a/b')": [[DESCRIPTOR]],
    "SELECT sys.descriptor_to_string(sys.path_to_descriptor('/a/b'))": [
        ["BlobDescriptor{version=2, uri='/a/b', offset=0, length=-1}"]
    ],
    "SHOW FUNCTIONS IN sys LIKE 'max_p*'": [["paimon.sys.max_pt"]],
    # several targets, partitions by a condition
    "FROM t INSERT INTO o SELECT id, p INSERT INTO o SELECT id + 10, p WHERE id = 2": [],
    "INSERT INTO o REPLACE WHERE p = 'b' SELECT 5, 'b'": [],
    "SELECT * FROM o ORDER BY id": [[1, "a"], [5, "b"]],
    # whole partitions
    "INSERT INTO o VALUES (6, 'c'), (7, 'a')": [],
    "DELETE FROM o WHERE o.p IN (SELECT upper(p) FROM t) OR default.o.p = 'c'": [],
    "DELETE FROM o AS x WHERE x.p = (SELECT max(p) FROM t)": [],
    "SELECT id, p FROM o ORDER BY id": [[1, "a"], [7, "a"]],
    "SELECT commit_kind, delta_record_count, operation FROM `o$snapshots` ORDER BY snapshot_id "
    "DESC LIMIT 2": [["OVERWRITE", -1, "TRUNCATE"], ["OVERWRITE", -1, "TRUNCATE"]],
    "SELECT `partition`, total_buckets, done, deleted_record_count FROM `o$partitions`": [
        ["p=a", -1, False, 0]
    ],
    "DELETE FROM o WHERE p IN (SELECT p FROM t WHERE t.id + 6 = o.id)": [],
    "SELECT id FROM o": [[1]],
    # comments of columns, and tables that a query replaces
    "CREATE TABLE commented (id INT COMMENT 'the id', v CHAR(2) COMMENT 'vee')": [],
    "DESCRIBE QUERY SELECT id AS k, v, id + 1 AS n FROM commented": [
        ["k", "int", "the id"],
        ["v", "string", "vee"],
        ["n", "int", None],
    ],
    "CREATE OR REPLACE TABLE replaced AS SELECT id AS k, v, 1 AS n FROM commented": [],
    "CREATE OR REPLACE TABLE replaced AS SELECT *, 'x' AS x FROM replaced": [],
    "DESCRIBE replaced": [
        ["k", "int", "the id"],
        ["v", "char(2)", "vee"],
        ["n", "int", None],
        ["x", "string", None],
    ],
    "SELECT commit_kind FROM `replaced$snapshots`": [["OVERWRITE"]] * 3,
    # defaults of arrays, maps and structs
    """CREATE TABLE defaults (id INT, a ARRAY<STRING> DEFAULT array('x', 'y'), n INT DEFAULT 7,
    s STRUCT<u: INT, v: STRING> DEFAULT struct(1, 'z'))""": [],
    "INSERT INTO defaults VALUES (1, DEFAULT, DEFAULT, default), (2, array(), 8, struct(2, 'w'))": [],
    "INSERT INTO defaults (s, id) VALUES (DEFAULT, 3)": [],
    "SELECT id, a, n, s FROM defaults WHERE id < 3 ORDER BY id": [
        [1, ["x", "y"], 7, [1, "z"]],
        [2, [], 8, [2, "w"]],
    ],
    "SELECT s, n FROM defaults WHERE id = 3": [[[1, "z"], 7]],
    # a column that no query can read
    """CREATE TABLE described (id INT, photo BINARY COMMENT '__BLOB_DESCRIPTOR_FIELD')
    TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true')""": [],
    "INSERT INTO described SELECT 1, sys.path_to_descriptor('/a/b')": [],
    "SELECT id FROM described": [[1]],
    # odd names
    "CREATE TABLE `my table` (`a``b` INT, `x y` STRUCT<`it's`: INT, `c`: INT>)": [],
    "INSERT INTO `my table` VALUES (1, struct(2, 3))": [],
    "UPDATE `my table` SET `a``b` = abs(`a``b` + 1), `x y`.c = 5 WHERE `my table`.`a``b` = 1": [],
    "SELECT * FROM `my table`": [[2, [2, 5]]],
    "DELETE FROM `my table` AS `q``r` WHERE abs(`q``r`.`a``b`) = 2": [],
    "SELECT count(*) FROM `my table`": [[0]],
    # temporary views
    "CREATE TEMPORARY VIEW w AS SELECT 1 AS x": [],
    "ALTER VIEW w AS SELECT 2 AS y": [],
    "ALTER VIEW w RENAME TO z": [],
    "SELECT y FROM z": [[2]],
    "DESCRIBE EXTENDED z": [["y", "int", None]],
    "CREATE TEMPORARY VIEW o (x, y) AS SELECT 1, 'v'": [],
    "SHOW COLUMNS IN o": [["x"], ["y"]],
    # options of the table that is written
    "CREATE TABLE grows (id INT)": [],
    "INSERT INTO grows WITH ('write.merge-schema' = 'true') BY NAME SELECT 3 AS id, 5 AS more": [],
    "INSERT WITH SCHEMA EVOLUTION INTO grows VALUES (4, 6)": [],
    "SELECT * FROM grows ORDER BY id": [[3, 5], [4, 6]],
    "INSERT INTO default.o WITH ('write-only' = 'true') PARTITION (p = 'c') VALUES (7)": [],
    "INSERT INTO default.o WITH ('file.format' = 'orc') REPLACE WHERE p = 'c' SELECT 8, 'c'": [],
    "SELECT DISTINCT file_format FROM default.`o$files` WHERE partition = '{c}'": [["orc"]],
    "INSERT INTO default.o VALUES (9, NULL)": [],
    "INSERT INTO default.o REPLACE WHERE p = '__DEFAULT_PARTITION__' SELECT 10, NULL": [],
    "SELECT id FROM default.o WHERE p IS NULL": [[10]],
    # settings
    "SET TIME ZONE INTERVAL '02:00' HOUR TO MINUTE": [["spark.sql.session.timeZone", "+02:00"]],
    "SELECT timestamp '2024-01-01 00:00:00Z'": [["2024-01-01 02:00:00"]],
    "SET spark.sql.shuffle.nothing": [["spark.sql.shuffle.nothing", "<undefined>"]],
    "SET spark.sql.ansi.doubleQuotedIdentifiers=true": [
        ["spark.sql.ansi.doubleQuotedIdentifiers", "true"]
    ],
    'CREATE TABLE "in quotes" ("a""b" INT, v STRING)': [],
    """INSERT INTO "in quotes" ("v", "a""b") SELECT '"x"', "id" FROM "t" WHERE "t"."id" = 1""": [],
    """UPDATE "in quotes" SET "a""b" = "a""b" + 4 WHERE "v" = '"x"'""": [],
    """SELECT "a""b" AS "n", v FROM "default"."in quotes" WHERE v <> 'a''b'""": [[5, '"x"']],
    'DROP TABLE "in quotes"': [],
    "RESET spark.sql.ansi.doubleQuotedIdentifiers": [],
    "DECLARE n INT = 5": [],
    "SET VAR n = n + 1": [],
    "SELECT n": [[6]],
    "CREATE TEMPORARY FUNCTION double_of(x INT) RETURNS INT RETURN x * 2": [],
    "SELECT double_of(id) FROM t ORDER BY 1": [[2], [4]],
}
REFUSED = {
    "SELECT nope FROM t": ("AnalysisException", "[`p`, `id`]"),
    "CREATE TABLE x (id INT, ID STRING)": ("AnalysisException", "COLUMN_ALREADY_EXISTS"),
    "CREATE TABLE x AS SELECT 1 AS a, 2 AS A": ("AnalysisException", "COLUMN_ALREADY_EXISTS"),
    "SELECT * FROM `t$branch_b`": ("AnalysisException", "branch b of the table"),
    "SELECT * FROM vector_search('t', 'p', array(1F), 5)": (
        "UnsupportedOperationException",
        "the table function vector_search is not supported",
    ),
    "SELECT 1 +": ("ParseException", "PARSE_SYNTAX_ERROR"),
    "SELECT sys.max_pt('k')": ("UnsupportedOperationException", "not a partitioned table"),
    "SELECT sys.max_pt('t', 1)": ("UnsupportedOperationException", "expected 1 but got 2"),
    "SELECT sys.blob_view('t', 'p', 1L)": ("IllegalArgumentException", "is not a BLOB field"),
    "SELECT sys.blob_view('t', 'no', 1L)": ("IllegalArgumentException", "Cannot find blob field"),
    "SELECT sys.blob_view('t', concat('p', ''), 1L)": (
        "UnsupportedOperationException",
        "requires literal tableName and fieldName",
    ),
    "SELECT photo FROM described": (
        "UnsupportedOperationException",
        "set blob-as-descriptor=true",
    ),
    "SELECT sys.nope(1)": ("AnalysisException", "UNRESOLVED_ROUTINE"),
    "INSERT INTO default.o REPLACE WHERE id = 1 SELECT 5, 'b'": (
        "RuntimeException",
        "partition column p",
    ),
    "INSERT INTO t REPLACE USING (id) SELECT 5, 'b'": (
        "UnsupportedOperationException",
        "INSERT ... REPLACE USING",
    ),
    "INSERT INTO o VALUES (1, 'v')": ("AnalysisException", "EXPECT_TABLE_NOT_VIEW"),
    "UPDATE o SET x = 2": ("AnalysisException", "EXPECT_TABLE_NOT_VIEW"),
    "DELETE FROM o": ("AnalysisException", "EXPECT_TABLE_NOT_VIEW"),
    "TRUNCATE TABLE o": ("AnalysisException", "EXPECT_TABLE_NOT_VIEW"),
    "MERGE INTO o USING t ON o.x = t.id WHEN MATCHED THEN DELETE": (
        "AnalysisException",
        "EXPECT_TABLE_NOT_VIEW",
    ),
    "INSERT INTO t WITH ('bucket' = '9') VALUES (1, 'v')": (
        "UnsupportedOperationException",
        "bucket",
    ),
    "SELECT * FROM (DESC t) WHERE col_name = 'id'": ("AnalysisException", "`DESC`"),
    "SELECT * FROM (DESC EXTENDED t)": ("ParseException", "PARSE_SYNTAX_ERROR"),
    "SHOW CREATE TABLE t AS SERDE": ("AnalysisException", "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE"),
    "SHOW TBLPROPERTIES nope": ("AnalysisException", "TABLE_OR_VIEW_NOT_FOUND"),
}


NUMBERS = """
    CREATE TABLE numbers (id INT, f FLOAT, b BIGINT, d DECIMAL(38, 0), day DATE, at TIMESTAMP_NTZ);
    INSERT INTO numbers VALUES
        (1, 0.1, 9007199254740993, 1, date'2024-01-01', timestamp_ntz'1969-12-31 23:59:59.999999')
"""
CONDITIONS = (
    "f > 0.1",
    "f <> 0.1",
    "f < 1e300",
    "b IN (1e0, 9007199254740992)",
    "d = 0.5",
    "id = '1'",
    "id NOT IN ('1', 1.5)",
    "f = '0.1'",
    "day NOT IN ('2024-1-1')",
    "day = '2024-1-1'",
    "day NOT IN (date'2024-01-01', '2024-01-01 00:00:00')",
    "at >= '1969-12-31 23:59:59.9999999'",
)


@pytest.fixture
def sql(tmp_path: Path, session: Any) -> Sql:
    found = Sql(tmp_path, session)
    found("""
        SET TIME ZONE 'UTC';
        CREATE TABLE t (id INT, p STRING) PARTITIONED BY (p);
        INSERT INTO t VALUES (1, 'a'), (2, 'b');
        CREATE TABLE o (id INT, p STRING) PARTITIONED BY (p);
        CREATE TABLE k (id INT, v STRING)
        TBLPROPERTIES ('bucket' = '3', 'bucket-key' = 'id,v');
        INSERT INTO k VALUES (1, 'x'), (2, 'a longer text'), (3, NULL), (NULL, '')
    """)
    return found


def test_statements_and_their_answers(sql: Sql) -> None:
    try:
        for statement, answer in ANSWERS.items():
            assert sql(statement) == answer, statement
        for statement, (kind, text) in REFUSED.items():
            with pytest.raises(Exception) as caught:
                sql(statement)
            assert error_type(caught.value) == kind, statement
            assert text in str(caught.value), statement
        assert sql.columns("SELECT sys.bucket(3, id, v), sys.max_pt('t') FROM k") == [
            "bucket(3, id, v)",
            "max_pt(t)",
        ]
    finally:
        sql("SET TIME ZONE 'UTC'; DROP TEMPORARY VARIABLE IF EXISTS n")


def test_literals_mean_what_they_mean_in_spark(sql: Sql) -> None:
    """A condition on a table's rows, which are pushed down, and on rows that Spark has made."""
    sql(f"SET spark.sql.ansi.enabled=false; {NUMBERS}")
    try:
        for condition in CONDITIONS:
            pushed = sql(f"SELECT id FROM numbers WHERE {condition}")
            made = sql(
                f"SELECT id FROM (SELECT * FROM numbers ORDER BY rand() LIMIT 9) WHERE {condition}"
            )
            assert pushed == made, condition
            sql(
                f"UPDATE numbers SET id = 1 WHERE {condition}; DELETE FROM numbers WHERE {condition}"
            )
            assert sql("SELECT count(*) FROM numbers") == [[0 if made else 1]], condition
            sql("TRUNCATE TABLE numbers" + NUMBERS[NUMBERS.index(";") :])
    finally:
        sql("SET spark.sql.ansi.enabled=true")
