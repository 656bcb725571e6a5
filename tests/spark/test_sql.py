"""SQL on a real Spark: the tour of docs/sql.md, queries, and changes that Spark computes."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.errors import InvalidArgument, NullInRequiredColumn, UnsupportedFeature
from paimon_spark.sql.dml import large_writes
from paimon_spark.sql.errors import AnalysisError, IncompatibleRows, WriteRefused, error_type
from paimon_spark.sql.frames import distributed
from paimon_spark.sql.run import execute
from paimon_spark.sql.run import sql as sql_function
from paimon_spark.sql.text.splitter import split_statements

pytestmark = pytest.mark.spark

TOUR = Path(__file__).parents[2] / "docs" / "sql.md"
BLOCK = re.compile(r"^```(sql|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def spark(session: Any) -> Any:
    return session


@pytest.fixture
def sql(tmp_path: Path, spark: Any) -> Sql:
    return Sql(tmp_path, spark)


def test_the_tour(sql: Sql) -> None:
    answer = ""
    compared = 0
    for kind, text in BLOCK.findall(TOUR.read_text("utf-8")):
        if kind == "text":
            assert answer == text
            compared += 1
            continue
        for statement in split_statements(text):
            found = execute(sql.session, statement)
            rows = [[v if isinstance(v, str) else json.dumps(v) for v in row] for row in found.rows]
            answer = "".join("\t".join(row) + "\n" for row in [found.columns, *rows])
    assert compared > 10


def test_names_in_queries(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, v STRING); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    sql("CREATE DATABASE d; CREATE TABLE d.t (id INT, w STRING); INSERT INTO d.t VALUES (2, 'x')")
    assert sql("SELECT default.t.v, x.w FROM default.t JOIN paimon.d.t x ON t.id = x.id") == [
        ["b", "x"]
    ]
    assert sql("WITH t AS (SELECT max(id) AS m FROM t) SELECT m FROM t") == [[2]]
    assert sql("SELECT (SELECT count(*) FROM d.t) AS n, 't' AS t FROM t LIMIT 1") == [[1, "t"]]
    sql("CREATE TEMPORARY VIEW v AS SELECT id FROM t; INSERT INTO t VALUES (3, 'c')")
    assert sql("SELECT count(*) FROM v") == [[3]]
    assert sql("SHOW VIEWS") == [["", "v", True]]
    sql("CREATE TEMPORARY VIEW w (a, b) AS SELECT * FROM t WHERE id = 1")
    sql("CREATE TEMPORARY VIEW x AS TABLE w; ALTER TABLE t ADD COLUMN n INT FIRST")
    assert sql("SELECT * FROM x") == [[1, "a"]]
    sql("ALTER TABLE t DROP COLUMN n; DROP VIEW w; DROP VIEW x")
    sql("DROP VIEW v")
    assert sql("SELECT id FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */ ORDER BY id") == [
        [1],
        [2],
    ]
    assert sql("SELECT id FROM t WITH ('scan.snapshot-id' = '1') WHERE id > 1") == [[2]]
    assert sql("FROM t SELECT max(id)") == [[3]]
    assert sql("SELECT *, __paimon_bucket FROM t WHERE id = 3") == [[3, "c", 0]]


def test_values_as_json(sql: Sql) -> None:
    assert sql("""
        SELECT timestamp '2024-01-31 12:34:56.120', date '2024-01-31', 1.50BD, X'0aff',
               array(1, NULL), map('k', 1), named_struct('a', 1, 'b', 'x'), double('NaN'),
               interval '1' day, cast(1.1 AS float), NULL
    """) == [
        [
            "2024-01-31 12:34:56.12",
            "2024-01-31",
            "1.50",
            "0aff",
            [1, None],
            [["k", 1]],
            [1, "x"],
            "NaN",
            "INTERVAL '1' DAY",
            1.1,
            None,
        ]
    ]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "properties",
    [
        "'primary-key' = 'a', 'bucket' = '2'",
        "'bucket' = '-1'",
        "'deletion-vectors.enabled' = 'true'",
        "'bucket' = '2', 'bucket-key' = 'a'",
    ],
)
def test_changes(sql: Sql, properties: str) -> None:
    sql(f"CREATE TABLE t (a INT, b INT, c STRING, s STRUCT<x: INT>) TBLPROPERTIES ({properties})")
    sql("INSERT INTO t SELECT id, id * 10, concat('c', id), named_struct('x', id) FROM range(1, 6)")
    sql("UPDATE t SET b = b + 1, s.x = 0 WHERE a IN (SELECT 1 UNION SELECT 2)")
    assert sql("SELECT b, s.x FROM t WHERE a < 4 ORDER BY a") == [[11, 0], [21, 0], [30, 3]]
    sql("DELETE FROM t WHERE length(c) = 2 AND a = 2")
    sql("CREATE TABLE src (a INT, b INT, c STRING, s STRUCT<x: INT>)")
    sql("INSERT INTO src VALUES (1, 100, 'n1', NULL), (3, 300, 'n3', NULL), (9, 900, 'n9', NULL)")
    sql("INSERT INTO src VALUES (8, 800, 'n8', NULL)")
    sql("""
        MERGE INTO t USING src ON t.a = src.a
        WHEN MATCHED AND t.a = 3 THEN DELETE
        WHEN MATCHED THEN UPDATE SET c = CASE WHEN src.b > 1 THEN src.c ELSE '' END
        WHEN NOT MATCHED AND a > 8 THEN INSERT (a, b) VALUES (a, b * 2)
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.a = 5 THEN UPDATE SET b = -1
    """)
    assert sql("SELECT a, b, c FROM t ORDER BY a") == [
        [1, 11, "n1"],
        [4, 40, "c4"],
        [5, -1, "c5"],
        [8, 800, "n8"],
        [9, 1800, None],
    ]
    with pytest.raises(WriteRefused, match="MERGE_CARDINALITY_VIOLATION"):
        sql("""
            MERGE INTO t USING (SELECT 1 AS a UNION ALL SELECT 1) s ON t.a = s.a
            WHEN MATCHED THEN UPDATE SET b = 0
        """)
    for clauses in (
        "WHEN MATCHED THEN DELETE",
        "WHEN MATCHED AND s.n = 1 THEN UPDATE SET b = 0",
        "WHEN MATCHED AND s.n > 2 THEN DELETE WHEN NOT MATCHED THEN INSERT (a) VALUES (0)",
    ):
        with pytest.raises(WriteRefused, match="MERGE_CARDINALITY_VIOLATION"):
            sql(
                "MERGE INTO t USING (SELECT 1 AS a, 1 AS n UNION ALL SELECT 1, 2) s ON t.a = s.a "
                + clauses
            )
    assert sql("SELECT count(*) FROM t WHERE b <> 0") == [[5]]


def test_characters_and_clocks(sql: Sql) -> None:
    sql("CREATE TABLE t (a CHAR(4), b VARCHAR(2), ts TIMESTAMP, n TIMESTAMP_NTZ)")
    sql("SET TIME ZONE 'Asia/Shanghai'")
    sql("INSERT INTO t SELECT 'x', 'y', timestamp '2024-01-01 08:00:00', '2024-01-01 08:00:00'")
    assert sql("SELECT * FROM t WHERE a = 'x'") == [
        ["x   ", "y", "2024-01-01 08:00:00", "2024-01-01 08:00:00"]
    ]
    sql("UPDATE t SET b = 'z' WHERE a = 'x' AND ts = timestamp '2024-01-01 08:00:00'")
    sql("SET TIME ZONE 'UTC'")
    assert sql("SELECT b, ts, n FROM t") == [["z", "2024-01-01 00:00:00", "2024-01-01 08:00:00"]]
    with pytest.raises(WriteRefused, match="EXCEED_LIMIT_LENGTH"):
        sql("INSERT INTO t (b) VALUES ('abc')")
    sql("CREATE TABLE u AS SELECT a, b FROM t")
    assert [row[1] for row in sql("DESC u")] == ["char(4)", "varchar(2)"]


@pytest.mark.parametrize("large", [-1, large_writes.LARGE_WRITE])
def test_characters_within_others(sql: Sql, monkeypatch: pytest.MonkeyPatch, large: int) -> None:
    monkeypatch.setattr(large_writes, "LARGE_WRITE", large)
    sql("""
        CREATE TABLE t (id INT, a ARRAY<CHAR(3)>, s STRUCT<c: CHAR(3), v: VARCHAR(2)>,
            m MAP<VARCHAR(3), STRUCT<c: CHAR(2)>>);
        INSERT INTO t SELECT id, array('q', NULL, upper('abc   ')), named_struct('c', 'z', 'v', 'w '),
            map('k', named_struct('c', 'y')) FROM range(1, 2);
        INSERT INTO t SELECT id, NULL, NULL, NULL FROM range(2, 3);
    """)
    one = [1, ["q  ", None, "ABC"], ["z  ", "w "], [["k", ["y "]]]]
    assert sql("SELECT * FROM t ORDER BY id") == [one, [2, None, None, None]]
    for column, value in {
        "a": "array('abcd')",
        "s": "named_struct('c', 'c', 'v', 'abc')",
        "m": "map('long', NULL)",
    }.items():
        with pytest.raises(Exception, match=f"EXCEED_LIMIT_LENGTH.*column {column}"):
            sql(f"INSERT INTO t (id, {column}) SELECT id, {value} FROM range(9)")
    with pytest.raises(WriteRefused, match=r"EXCEED_LIMIT_LENGTH.*column s"):
        sql("UPDATE t SET s.v = 'abc' WHERE id = 1")
    sql("UPDATE t SET s.c = 'x' WHERE id = 1")
    assert sql("SELECT s, m['k'].c FROM t WHERE id = 1") == [[["x  ", "w "], "y "]]
    sql("CREATE TABLE u AS SELECT a, s, m FROM t")
    assert [row[1] for row in sql("DESC u")] == [row[1] for row in sql("DESC t")][1:]
    sql("CREATE TABLE w (x STRUCT<c: CHAR(2)>, y STRUCT<c: CHAR(5)>)")
    sql("INSERT INTO w SELECT struct('a'), struct('a')")
    assert sql("SELECT x = y, x.c = y.c FROM w WHERE x = y") == [[True, False]]


@pytest.mark.parametrize("large", [0, distributed.LARGE_READ])
def test_characters_within_others_are_padded(
    sql: Sql, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    monkeypatch.setattr(distributed, "LARGE_READ", large)
    monkeypatch.setattr(distributed, "PARQUET_READ", large)
    sql("""
        CREATE TABLE t (id INT, a ARRAY<CHAR(3)>, s STRUCT<c: CHAR(2)>, m MAP<CHAR(2), VARCHAR(3)>);
        SET spark.sql.legacy.charVarcharAsString=true;
        INSERT INTO t SELECT 1, array('q'), named_struct('c', NULL), map('k', 'v');
        SET spark.sql.legacy.charVarcharAsString=false;
    """)
    assert sql("SELECT * FROM t") == [[1, ["q  "], [None], [["k ", "v"]]]]
    sql("SET spark.sql.readSideCharPadding=false")
    assert sql("SELECT * FROM t") == [[1, ["q"], [None], [["k", "v"]]]]


def test_inserting_by_name_merges_the_schema(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, b STRING); INSERT INTO t VALUES (1, '1')")
    sql("SET `spark.paimon.write.merge-schema` = true")
    sql("INSERT INTO t BY NAME SELECT 3L AS a, '3' AS b, 3 AS c")
    assert sql("SELECT * FROM t ORDER BY a") == [[1, "1", None], [3, "3", 3]]
    assert sql("DESC t a")[1] == ["data_type", "int"]
    sql("SET `spark.paimon.write.merge-schema.type-widening` = true")
    sql("INSERT INTO t BY NAME SELECT 5000000000 AS a")
    assert sql("DESC t a")[1] == ["data_type", "bigint"]


def test_tables_from_queries(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, d DATE); INSERT INTO t VALUES (1, date '2024-01-01')")
    sql(
        "CREATE TABLE u PARTITIONED BY (d) TBLPROPERTIES ('primary-key' = 'a,d') AS SELECT * FROM t"
    )
    assert sql("SELECT * FROM u WHERE d = sys.max_pt('u')") == [[1, "2024-01-01"]]
    sql("CREATE OR REPLACE TABLE t AS SELECT a + 1 AS a FROM t")
    assert sql("SELECT * FROM t") == [[2]]
    sql("WITH x AS (SELECT 5 AS a) INSERT INTO t SELECT a FROM x")
    assert sql("SELECT * FROM t ORDER BY a") == [[2], [5]]


def test_tables_from_queries_with_odd_names_within(sql: Sql) -> None:
    sql("""
        CREATE TABLE t AS SELECT named_struct('a b', 1, 'c-d', array(named_struct('x:y', 2))) AS `s t`,
            map(struct(3 AS `select`), named_struct('q`r', CAST(4.5 AS DECIMAL(4, 1)))) AS m
    """)
    assert sql("SELECT * FROM t") == [[[1, [[2]]], [[[3], ["4.5"]]]]]
    assert [row[1] for row in sql("DESC t")] == [
        "struct<`a b`:int,`c-d`:array<struct<`x:y`:int>>>",
        "map<struct<select:int>,struct<`q``r`:decimal(4,1)>>",
    ]


def test_hidden_columns(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, p1 INT, p2 STRING) PARTITIONED BY (p1, p2)")
    sql("INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y'), (3, 2, 'y')")
    assert sql("SELECT *, __paimon_partition, __paimon_row_index FROM t ORDER BY a") == [
        [1, 1, "x", [1, "x"], 0],
        [2, 2, "y", [2, "y"], 0],
        [3, 2, "y", [2, "y"], 1],
    ]
    (path,) = sql("SELECT DISTINCT input_file_name() FROM t WHERE p1 = 1")[0]
    assert path.startswith(sql.session.catalog.get_table("default.t").root)
    calls = "input_file_name(), upper(INPUT_FILE_NAME()), __paimon_file_path"
    called = ["input_file_name()", "upper(input_file_name())", "__paimon_file_path"]
    assert sql.columns(f"SELECT {calls} FROM t") == called
    sql("SET spark.sql.caseSensitive=true")
    assert sql("SELECT DISTINCT input_file_name() FROM t WHERE p1 = 1") == [[path]]
    sql("RESET spark.sql.caseSensitive")
    sql(f"DELETE FROM t WHERE __paimon_file_path = '{path}'")
    assert sql("SELECT a FROM (SELECT *, __paimon_bucket FROM t) ORDER BY a") == [[2], [3]]
    sql("CREATE TABLE k (a INT) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '1')")
    sql("INSERT INTO k VALUES (1)")
    assert sql("SELECT a, __paimon_file_path IS NOT NULL FROM k") == [[1, True]]
    sql("INSERT INTO k VALUES (1), (2)")
    assert sql("SELECT a, __paimon_bucket FROM k ORDER BY a") == [[1, 0], [2, 0]]
    with pytest.raises(UnsupportedFeature, match="support querying metadata columns"):
        sql("SELECT __paimon_file_path FROM k")
    sql("CREATE TABLE r (a INT) TBLPROPERTIES ('row-tracking.enabled' = 'true')")
    sql("INSERT INTO r VALUES (1), (2); INSERT INTO r VALUES (3)")
    assert sql("SELECT * EXCEPT (a), r.* EXCEPT (a), _ROW_ID AS id FROM r") == [[0], [1], [2]]
    assert sql("SELECT a, _ROW_ID, _SEQUENCE_NUMBER FROM r ORDER BY a") == [
        [1, 0, 1],
        [2, 1, 1],
        [3, 2, 2],
    ]


def test_structs_match_by_name(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, s STRUCT<x: STRING, y: INT>)")
    sql("INSERT INTO t BY NAME SELECT named_struct('y', 1, 'x', 'one') AS s, 1 AS id")
    with pytest.raises(IncompatibleRows, match="extra fields: z"):
        sql("INSERT INTO t BY NAME SELECT 2 AS id, named_struct('x', 'a', 'y', 1, 'z', 1) AS s")
    with pytest.raises(IncompatibleRows, match=r"ambiguous column name `s\.x`"):
        sql("INSERT INTO t BY NAME SELECT 2 AS id, named_struct('x', 'a', 'X', 'b') AS s")
    sql("CREATE TEMPORARY VIEW v AS SELECT 1 AS id, named_struct('y', 2, 'z', 9) AS s, 'n' AS new")
    star = "ON t.id = v.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    with pytest.raises(IncompatibleRows, match="extra fields: z"):
        sql(f"MERGE INTO t USING v {star}")
    sql("SET spark.paimon.write.merge-schema=true")
    sql(f"MERGE INTO t USING v {star}")
    assert sql("SELECT * FROM t") == [[1, ["one", 2, 9], "n"]]
    sql("INSERT INTO t BY NAME SELECT 2 AS id, named_struct('z', 7, 'w', 1L) AS s")
    assert sql("SELECT * FROM t WHERE id = 2") == [[2, [None, None, 7, 1], None]]


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("keys", ["'bucket' = '-1'", "'primary-key' = 'id,p', 'bucket' = '2'"])
def test_executors_read_and_write_the_same_rows(
    sql: Sql, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    columns = "id INT, s STRING, c CHAR(3), ts TIMESTAMP, m MAP<STRING, INT>, p STRING"
    sql(f"CREATE TABLE t ({columns}) PARTITIONED BY (p) TBLPROPERTIES ({keys})")
    sql("SET TIME ZONE 'Asia/Shanghai'")
    sql("""
        INSERT INTO t SELECT id, concat('s', id), 'c', timestamp '2024-01-01 08:00:00',
        map('k', id), concat('p', id % 2) FROM range(10)
    """)
    queries = [
        "SELECT * FROM t ORDER BY id",
        "SELECT count(*) FROM t",
        "SELECT s FROM t WHERE p = 'p1' AND id > 4 ORDER BY s",
        "SELECT id FROM t WHERE c = 'c' AND ts > timestamp '2024-01-01 00:00:00' ORDER BY id",
        "SELECT max(id) FROM t VERSION AS OF 1",
    ]
    before = [sql(q) for q in queries]
    monkeypatch.setattr(distributed, "LARGE_READ", 0)
    monkeypatch.setattr(distributed, "PARQUET_READ", 0)
    assert [sql(q) for q in queries] == before
    monkeypatch.setattr(large_writes, "LARGE_WRITE", -1)
    sql("CREATE TABLE u (id INT, v BIGINT, p STRING) PARTITIONED BY (p)")
    sql("INSERT INTO u SELECT id, id * 2, p FROM t")
    sql("INSERT OVERWRITE u PARTITION (p = 'p1') SELECT id, 0 FROM t WHERE id < 2")
    sql("SET spark.sql.sources.partitionOverwriteMode=dynamic")
    sql("INSERT OVERWRITE u SELECT 7, 7, 'p0'")
    assert sql("SELECT * FROM u ORDER BY p, id") == [[7, 7, "p0"], [0, 0, "p1"], [1, 0, "p1"]]
    with pytest.raises(NullInRequiredColumn) as refused:
        sql("CREATE TABLE n (a INT NOT NULL); INSERT INTO n SELECT nullif(id, 1) FROM range(3)")
    assert error_type(refused.value) == "SparkException"
    assert sql("SELECT count(*) FROM n") == [[0]]


@pytest.mark.sampled
@pytest.mark.parametrize(("large", "tags"), [(True, 1), (False, 0)])
def test_a_query_tags_what_it_reads_once(
    sql: Sql, monkeypatch: pytest.MonkeyPatch, *, large: bool, tags: int
) -> None:
    """Where the driver sees the end of the read, no tag stays."""
    if large:
        monkeypatch.setattr(distributed, "LARGE_READ", 0)
    options = "'file.format' = 'avro', 'scan.plan-auto-tag-for-read.time-retained' = '1 h'"
    sql(f"CREATE TABLE t (id INT, s STRING) TBLPROPERTIES ({options})")
    sql("INSERT INTO t VALUES (1, 'one')")
    assert sql("SELECT id FROM t") == [[1]]
    assert sql("SELECT count(*) FROM `t$tags`") == [[tags]]


@pytest.mark.sampled
@pytest.mark.parametrize("small", [True, False])
def test_a_query_sees_what_changed_since_it_last_ran(
    sql: Sql, monkeypatch: pytest.MonkeyPatch, *, small: bool
) -> None:
    if not small:
        monkeypatch.setattr(distributed, "LARGE_READ", 0)
        monkeypatch.setattr(distributed, "PARQUET_READ", 0)
    keys = "'primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true'"
    sql(f"CREATE TABLE t (id INT, s STRING) TBLPROPERTIES ({keys})")
    query = "SELECT a.id, a.s FROM t AS a JOIN t AS b ON a.id = b.id AND b.id > 0 ORDER BY a.id"
    sql("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    assert sql(query) == [[1, "one"], [2, "two"]]
    assert sql("SELECT id FROM t WHERE s = 'two'") == [[2]]
    sql("INSERT INTO t VALUES (2, 'zwei')")
    assert sql(query) == [[1, "one"], [2, "zwei"]]
    sql("CALL sys.rollback(table => 'default.t', version => '1')")
    assert sql(query) == [[1, "one"], [2, "two"]]
    sql("INSERT INTO t VALUES (1, 'eins')")
    assert sql(query) == [[1, "eins"], [2, "two"]]
    assert sql(query.replace("FROM t", "FROM t VERSION AS OF 1")) == [[1, "one"], [2, "two"]]
    sql("ALTER TABLE t RENAME COLUMN s TO name")
    assert sql("SELECT name FROM t ORDER BY id") == [["eins"], ["two"]]
    sql("DROP TABLE t")
    sql(f"CREATE TABLE t (id INT, s STRING) TBLPROPERTIES ({keys})")
    assert sql("SELECT * FROM t") == []


def test_conditions_go_to_the_table_that_they_are_about(sql: Sql) -> None:
    sql("CREATE TABLE a (k INT, x INT, f DOUBLE); CREATE TABLE b (k INT, x INT, y STRING)")
    sql("INSERT INTO a VALUES (1, 5, 0.0), (2, 6, -0.0), (3, NULL, 1.0)")
    sql("INSERT INTO b VALUES (1, 7, 'p'), (2, 8, 'q')")
    exists = "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND a.x = 5)"
    assert sql(exists) == [[1]]
    assert sql("SELECT k FROM a WHERE EXISTS (SELECT * FROM b WHERE b.k = a.k) AND x = 6") == [[2]]
    anti = "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE b.x IS NULL"
    assert sql(anti) == [[3]]
    on = "SELECT a.k, y FROM a LEFT JOIN b ON a.k = b.k AND y = 'q' WHERE f < 1 ORDER BY a.k"
    assert sql(on) == [[1, None], [2, "q"]]
    full = "SELECT count(*) FROM a FULL JOIN b ON a.k = b.k AND b.x = 7"
    assert sql(full) == [[4]]
    both = "SELECT s.k FROM a AS s, a AS t WHERE s.k = t.k AND s.x = 5 AND t.f = 0"
    assert sql(both) == [[1]]
    assert sql("SELECT count(*) FROM a WHERE f = 0") == [[2]]
    assert sql("SELECT count(*) FROM a TABLESAMPLE (2 ROWS) WHERE x = 5") == [[1]]


def test_full_scans_can_be_forbidden(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, p INT) PARTITIONED BY (p); INSERT INTO t VALUES (1, 1), (2, 2)")
    sql("SET spark.paimon.read.allow.fullScan=false")
    assert sql("SELECT * FROM t WHERE p > 1") == [[2, 2]]
    for query in ("SELECT * FROM t", "SELECT * FROM t WHERE p > 0 AND a = 1"):
        with pytest.raises(InvalidArgument, match="Full scan is not supported"):
            sql(query)


def test_sys_tables_and_functions(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT)")
    assert sql("SELECT table_name, partitioned FROM sys.tables") == [["t", False]]
    assert sql("SELECT current_database(), current_catalog()") == [["default", "paimon"]]
    assert sql.columns("SELECT current_database()") == ["current_database()"]


def test_sessions_on_threads_share_spark(spark: Any, tmp_path: Path) -> None:
    """Each sees its own tables, although the views that stand for them are those of one Spark."""

    def counted(number: int) -> int:
        mine = Sql(tmp_path / str(number), spark)
        mine(f"CREATE TABLE t (a INT, n INT); INSERT INTO t VALUES (0, {number})")
        for _ in range(5):
            assert mine("UPDATE t SET a = a + 1") == []
            assert mine("SELECT n FROM t") == [[number]]
        (row,) = mine("SELECT a FROM t")
        return int(row[0])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(counted, range(4))) == [5] * 4


def test_no_view_is_left(spark: Any, tmp_path: Path) -> None:
    text = "CREATE TABLE t (a INT); INSERT INTO t VALUES (1); SELECT a FROM t"
    frame = sql_function(spark, text, warehouse=str(tmp_path))
    assert [v.name for v in spark.catalog.listTables() if v.isTemporary] == []
    assert frame.collect()[0].a == 1


def test_from_python(spark: Any, tmp_path: Path) -> None:
    text = "CREATE TABLE t (a INT); INSERT INTO t VALUES (1); SELECT a + 1 AS b FROM t"
    frame = sql_function(spark, text, warehouse=str(tmp_path))
    assert frame.collect()[0].b == 2


def test_answers_from_python_have_types(spark: Any, tmp_path: Path) -> None:
    where = str(tmp_path)
    sql_function(spark, "CREATE TABLE t (a INT); INSERT INTO t VALUES (1)", warehouse=where)
    tables = sql_function(spark, "SHOW TABLES", warehouse=where)
    assert [tuple(row) for row in tables.collect()] == [("default", "t", False)]
    assert tables.where("NOT isTemporary").count() == 1


def test_temporary_views_of_spark_from_python(spark: Any, tmp_path: Path) -> None:
    spark.range(2).selectExpr("CAST(id AS INT) AS a").createOrReplaceTempView("made_in_spark")
    text = "CREATE TABLE t (a INT); INSERT INTO t SELECT a + 1 FROM made_in_spark"
    try:
        sql_function(spark, text, warehouse=str(tmp_path))
    finally:
        spark.catalog.dropTempView("made_in_spark")
    frame = sql_function(spark, "SELECT sum(a) AS n FROM t", warehouse=str(tmp_path))
    assert frame.collect()[0].n == 3


def test_temporary_views_of_spark_hide_tables(spark: Any, tmp_path: Path) -> None:
    sql = Sql(tmp_path, spark)
    sql("CREATE TABLE hidden (id BIGINT); CREATE TABLE t (id BIGINT)")
    assert sql("INSERT INTO hidden VALUES (7); SELECT id FROM hidden") == [[7]]
    spark.range(3).createOrReplaceTempView("hidden")
    try:
        assert sql("SELECT count(*) FROM hidden") == [[3]]
        assert sql("SELECT * FROM default.hidden") == [[7]]
        sql("MERGE INTO t USING Hidden AS h ON t.id = h.id WHEN NOT MATCHED THEN INSERT *")
        with pytest.raises(AnalysisError, match="`hidden` is a temporary view"):
            sql("INSERT INTO hidden VALUES (8)")
    finally:
        spark.catalog.dropTempView("hidden")
    assert sql("SELECT sum(id) FROM t") == [[3]]
    assert sql("SELECT id FROM hidden") == [[7]]


def test_temporary_views_of_spark_can_be_dropped(sql: Sql, spark: Any) -> None:
    sql("CREATE TABLE kept (id INT)")
    for name, statement in (
        ("made", "DROP TABLE IF EXISTS made"),
        ("made", "DROP VIEW made"),
        ("kept", "DROP VIEW kept"),
        ("kept", "DROP TABLE kept"),
    ):
        spark.range(3).createOrReplaceTempView(name)
        assert sql("SELECT count(*) FROM range(1)") == [[1]]  # Spark runs
        sql(statement)
        assert not spark.catalog.dropTempView(name), statement
    assert sql("SELECT count(*) FROM kept") == [[0]]


def test_partition_columns_that_are_named_last_go_last(sql: Sql) -> None:
    sql("CREATE TABLE visits (id INT, day STRING, page STRING) PARTITIONED BY (day)")
    sql("INSERT INTO visits PARTITION (day) SELECT 1 AS id, 'home' AS page, 'mon' AS day")
    sql("INSERT INTO visits PARTITION (day) SELECT id, 'shop' AS page, 'tue' AS day FROM visits")
    sql("INSERT INTO visits PARTITION (day) SELECT 2 AS id, 'wed' AS day, 'help' AS page")
    sql("INSERT INTO visits PARTITION (day) VALUES (3, 'thu', 'home')")
    assert sql("SELECT id, day, page FROM visits ORDER BY day") == [
        [1, "mon", "home"],
        [3, "thu", "home"],
        [1, "tue", "shop"],
        [2, "wed", "help"],
    ]


def test_the_source_of_a_merge_has_the_name_of_its_table(sql: Sql) -> None:
    sql("CREATE TABLE stock (id INT, n INT); INSERT INTO stock VALUES (1, 10), (2, 20)")
    sql("CREATE TABLE news (id INT, n INT); INSERT INTO news VALUES (1, 1), (3, 3)")
    sql("""
        MERGE INTO stock USING (SELECT * FROM news WHERE n > 0) ON stock.id = news.id
        WHEN MATCHED THEN UPDATE SET n = stock.n + news.n
        WHEN NOT MATCHED THEN INSERT (id, n) VALUES (news.id, news.n)
    """)
    sql("""
        MERGE INTO stock USING (SELECT id AS old, -1 AS less FROM stock) ON stock.id = old
        WHEN MATCHED AND old = 2 THEN UPDATE SET n = less
    """)
    assert sql("SELECT * FROM stock ORDER BY id") == [[1, 11], [2, -1], [3, 3]]


def test_times_to_travel_to_are_those_that_spark_casts(sql: Sql) -> None:
    sql("SET TIME ZONE 'UTC'; CREATE TABLE past (id INT); INSERT INTO past VALUES (1)")
    try:
        for when in (
            "'2999-01-31T12:57:40.540617123'",
            "'2999-01-31 12:57:40.540617123 America/New_York'",
            "'+12999-01-31'",
            "2999999999",
            "date '2999-01-31'",
            "(SELECT max(commit_time) + INTERVAL 1 DAY FROM `past$snapshots`) WHERE id > 0",
        ):
            assert sql(f"SELECT id FROM past TIMESTAMP AS OF {when}") == [[1]], when
        for when in ("'soon'", "NULL", "CAST(NULL AS TIMESTAMP)"):
            with pytest.raises(AnalysisError, match="INVALID_TIME_TRAVEL_TIMESTAMP_EXPR"):
                sql(f"SELECT id FROM past TIMESTAMP AS OF {when}")
    finally:
        sql("RESET `spark.sql.session.timeZone`")


def test_the_option_branch_chooses_the_branch(sql: Sql) -> None:
    sql("CREATE TABLE main (a INT, p STRING) PARTITIONED BY (p); INSERT INTO main VALUES (1, 'm')")
    sql("CALL sys.create_branch('main', 'dev')")
    sql("SET spark.paimon.*.*.main.branch=dev")
    sql("INSERT OVERWRITE main PARTITION (p = 'm') VALUES (2)")
    sql("INSERT INTO main SELECT id + 3, 'x' FROM range(2)")
    sql("UPDATE main SET a = a * 10 WHERE a < 4; DELETE FROM main WHERE a = 4")
    sql("MERGE INTO main USING (SELECT 30 AS b) ON a = b WHEN MATCHED THEN UPDATE SET p = 'y'")
    sql("ALTER TABLE main SET TBLPROPERTIES ('snapshot.num-retained.max' = '77')")
    assert sql("SELECT * FROM main ORDER BY a") == [[20, "m"], [30, "y"]]
    assert sql("SELECT count(*) > 4 FROM `main$snapshots`") == [[True]]
    assert sql("SELECT count(*) FROM main WITH ('branch' = 'dev')") == [[2]]
    for other in ("main WITH ('branch' = 'other')", "`main$branch_other`"):
        with pytest.raises(InvalidArgument, match="one branch"):
            sql(f"SELECT * FROM {other}")
    sql("RESET `spark.paimon.*.*.main.branch`")
    assert sql("SELECT * FROM main") == [[1, "m"]]
    assert ["snapshot.num-retained.max", "77"] in sql("SHOW TBLPROPERTIES main")
    assert sql("SELECT a FROM main /*+ OPTIONS('branch'='dev') */ ORDER BY a") == [[20], [30]]


def test_system_tables_are_described(sql: Sql) -> None:
    sql("CREATE TABLE shown (a INT); INSERT INTO shown VALUES (1)")
    described = sql("DESCRIBE TABLE `shown$snapshots`")
    assert ["snapshot_id", "bigint"] in [row[:2] for row in described]
    assert "a" not in [row[0] for row in described]


def test_a_branch_takes_in_new_columns_alone(sql: Sql) -> None:
    sql("CREATE TABLE trunk (a INT); INSERT INTO trunk VALUES (1)")
    sql("CALL sys.create_branch('trunk', 'dev'); SET spark.paimon.write.merge-schema=true")
    try:
        sql("INSERT INTO `trunk$branch_dev` BY NAME SELECT 2 AS a, 'new' AS b")
    finally:
        sql("RESET `spark.paimon.write.merge-schema`")
    assert sql("SELECT * FROM trunk") == [[1]]
    assert sql("SELECT * FROM `trunk$branch_dev`") == [[2, "new"]]


def test_a_merge_with_data_evolution_runs_again(spark: Any, tmp_path: Path) -> None:
    sql, other = Sql(tmp_path, spark), Sql(tmp_path, spark)
    sql(
        "CREATE TABLE t (id INT, v STRING, w STRING) TBLPROPERTIES "
        "('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true')"
    )
    sql("INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    changes, new_uuid = ["UPDATE t SET v = 'B'"], sql.session.env.new_uuid

    def after_a_change() -> str:
        if changes:
            other(changes.pop())
        return new_uuid()

    sql.session.env = replace(sql.session.env, new_uuid=after_a_change)
    sql("""
        MERGE INTO t USING (SELECT 2 AS i UNION ALL SELECT 3) s ON id = i
        WHEN MATCHED THEN UPDATE SET w = v WHEN NOT MATCHED THEN INSERT (id) VALUES (i)
    """)
    assert sql("SELECT * FROM t ORDER BY id") == [[1, "B", "x"], [2, "B", "B"], [3, None, None]]


def test_a_merge_deletes_with_data_evolution(
    oracle_2_0_0: Oracle, sql: Sql, tmp_path: Path
) -> None:
    sql("""
        CREATE TABLE t (id INT, v STRING) TBLPROPERTIES
        ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true');
        INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e');
        CREATE TEMPORARY VIEW s AS SELECT * FROM VALUES (2), (3), (4), (6) AS s (i)
    """)
    merge = "MERGE INTO t USING s ON id = i WHEN MATCHED AND id = 3 THEN DELETE"
    with pytest.raises(UnsupportedFeature, match=r"requires deletion-vectors\.enabled=true"):
        sql(merge)
    sql("""
        ALTER TABLE t SET TBLPROPERTIES ('deletion-vectors.modifiable' = 'true');
        ALTER TABLE t SET TBLPROPERTIES ('deletion-vectors.enabled' = 'true');
        DELETE FROM t WHERE length(v) = 1 AND id = 4
    """)
    gone = "WHEN NOT MATCHED BY SOURCE AND id = 5 THEN"
    with pytest.raises(UnsupportedFeature, match="Only DELETE clause is supported"):
        sql(f"{merge} {gone} UPDATE SET v = 'x'")
    sql(f"""
        {merge} WHEN MATCHED THEN UPDATE SET v = concat(v, '!')
        WHEN NOT MATCHED THEN INSERT (id, v) VALUES (i, 'new') {gone} DELETE
    """)
    sql("UPDATE t SET v = upper(v) WHERE v LIKE '%!'")
    rows = [[1, "a"], [2, "B!"], [4, "new"], [6, "new"]]
    assert sql("SELECT * FROM t ORDER BY id") == rows
    assert sql("SELECT count(*), sum(id) FROM t WHERE id < 6") == [[3, 7]]
    ids = sql("SELECT id, _ROW_ID FROM t ORDER BY id")
    assert ids in ([[1, 0], [2, 1], [4, 5], [6, 6]], [[1, 0], [2, 1], [4, 6], [6, 5]])
    assert sql("SELECT id, _ROW_ID FROM `t$row_tracking` ORDER BY id") == ids
    oracle_2_0_0.defaults(warehouse=tmp_path, database="default", table="t")
    assert sorted(row[1:] for row in oracle_2_0_0.rows()) == rows
    tracked = oracle_2_0_0.rows(system="row_tracking")
    assert sorted([row[1], row[3]] for row in tracked) == ids


@pytest.mark.parametrize("action", ["throw_error", "DROP_PARTITION_INDEX", "ignore"])
def test_updates_of_a_column_with_a_global_index(
    oracle_2_0_0: Oracle, sql: Sql, tmp_path: Path, action: str
) -> None:
    sql(f"""
        CREATE TABLE t (id INT, name STRING) PARTITIONED BY (id) TBLPROPERTIES
        ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true',
         'global-index.column-update-action' = '{action}');
        INSERT INTO t VALUES (0, 'v0'), (1, 'v1'), (0, 'v2'), (1, 'v3'), (0, 'v4'), (1, 'v5')
    """)
    assert sql("CALL sys.create_global_index('t', 'name', 'btree')") == [[True]]
    dropped = "CALL sys.drop_global_index(table => 't', index_column => 'name', "
    assert sql(f"{dropped} index_type => 'btree', dry_run => true)") == [[True, 2]]
    update = "UPDATE t SET name = 'new' WHERE id = 1"
    if action == "throw_error":
        with pytest.raises(UnsupportedFeature, match="globally indexed columns"):
            sql(update)
        return
    sql(update)
    oracle_2_0_0.defaults(warehouse=tmp_path, database="default", table="t")
    left = oracle_2_0_0.one("files")["index_files"]
    assert len(left) == (2 if action == "ignore" else 1)
    assert sql("SELECT count(*) FROM t WHERE name = 'new'") == [[3]]
    assert sql("SELECT count(*) FROM t WHERE name = 'v2'") == [[1]]
    found = oracle_2_0_0.rows(
        filter={"field": "name", "op": "=", "value": "new"},
        options={"scalar-index.search-mode": "full"},
    )
    # Where the index stays, Java finds the old values.
    assert len(found) == (0 if action == "ignore" else 3)
