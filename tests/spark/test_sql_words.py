"""Statements in statements: common tables, EXECUTE IMMEDIATE, IDENTIFIER, variables, and MERGE."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from sql_sessions import Sql

from paimon_core.errors import PaimonError
from paimon_spark.sql.dml import large_changes, large_writes
from paimon_spark.sql.errors import error_type
from paimon_spark.sql.query.registered import drop_registered, register

pytestmark = pytest.mark.spark


@pytest.fixture
def sql(tmp_path: Path, session: Any) -> Sql:
    made = Sql(tmp_path, session)
    made("""
        CREATE TABLE t (id INT, v STRING);
        INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');
        CREATE TABLE s (id INT, v STRING); INSERT INTO s VALUES (1, 'x'), (4, 'y');
        CREATE TABLE r (id INT, w STRING); INSERT INTO r VALUES (1, 'p'), (4, 'q')
    """)
    return made


def rows(sql: Sql) -> list[list[Any]]:
    return sql("SELECT * FROM t ORDER BY id")


def test_with_before_changes(sql: Sql) -> None:
    sql("WITH x AS (SELECT id FROM s), y AS (SELECT * FROM x) DELETE FROM t WHERE id IN (FROM y)")
    assert rows(sql) == [[2, "b"], [3, "c"]]
    sql(
        "WITH x(n, m) AS (SELECT max(id), 2 FROM t) UPDATE t SET v = 'z' WHERE id IN (SELECT n FROM x)"
    )
    assert rows(sql) == [[2, "b"], [3, "z"]]
    sql("""
        WITH RECURSIVE s(id, v) AS (SELECT 2, 'n' UNION ALL SELECT id + 2, v FROM s WHERE id < 5)
        MERGE INTO t USING s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
    """)
    assert rows(sql) == [[2, "n"], [3, "z"], [4, "n"], [6, "n"]]
    sql("WITH t AS (SELECT 3 AS id FROM t) DELETE FROM t WHERE id IN (SELECT id FROM t)")
    assert rows(sql) == [[2, "n"], [4, "n"], [6, "n"]]
    assert sql("SELECT count(*) FROM s") == [[2]]


def test_what_stands_behind_values_counts(sql: Sql) -> None:
    sql("INSERT INTO t VALUES (8, 'p'), (9, 'q') ORDER BY 1 DESC LIMIT 1")
    assert rows(sql) == [[1, "a"], [2, "b"], [3, "c"], [9, "q"]]
    sql("INSERT OVERWRITE t VALUES (8, 'p'), (9, 'q') AS x(a, b) LIMIT 1 OFFSET 1")
    assert rows(sql) == [[9, "q"]]
    sql("INSERT INTO t VALUES struct(7, 'o')")
    assert rows(sql)[0] == [7, "o"]  # the fields of a lone STRUCT are columns
    sql(
        "CREATE TABLE n (p STRUCT<a: INT, b: INT>); INSERT INTO n VALUES (named_struct('a', 1, 'b', 2))"
    )
    with pytest.raises(PaimonError, match=r"data columns \(2\)"):
        sql("INSERT INTO n VALUES (struct(3, 4))")
    assert sql("SELECT p FROM n") == [[[1, 2]]]
    sql("DELETE FROM t WHERE id = 7")
    for wrong in ("WHERE id = 7", "x(a)", "x y"):
        with pytest.raises(Exception, match=r"PARSE_SYNTAX_ERROR|NUM_COLUMNS|alias"):
            sql(f"INSERT INTO t VALUES (7, 'p') {wrong}")
    assert rows(sql) == [[9, "q"]]


def test_words_in_texts_after_with_are_no_statements(sql: Sql) -> None:
    query = "WITH x AS (SELECT 'INSERT' AS k) SELECT k FROM x WHERE k = "
    assert sql(f"{query}'INSERT'") == [["INSERT"]]
    assert sql(f"{query}'DELETE'") == []


def test_merges_with_a_query_without_alias(sql: Sql) -> None:
    sql("""
        MERGE INTO t USING (SELECT s.id, r.w FROM s JOIN r ON s.id = r.id) ON t.id = s.id
        WHEN MATCHED AND r.w = 'p' THEN UPDATE SET v = concat(r.w, t.v)
        WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, r.w)
    """)
    assert rows(sql) == [[1, "pa"], [2, "b"], [3, "c"], [4, "q"]]
    sql("""
        MERGE INTO t USING (SELECT * FROM s UNION ALL SELECT 9, 'nine') ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET t.v = s.v WHEN NOT MATCHED THEN INSERT *
    """)
    assert rows(sql) == [[1, "x"], [2, "b"], [3, "c"], [4, "y"], [9, "nine"]]


def test_execute_immediate(sql: Sql) -> None:
    sql("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (?, ?)' USING 7, 'it''s'")
    sql("EXECUTE IMMEDIATE 'UPDATE t SET v = :new WHERE id = :id' USING upper('q') AS new, 2 AS id")
    assert rows(sql) == [[1, "a"], [2, "Q"], [3, "c"], [7, "it's"]]
    sql(
        "DECLARE OR REPLACE most INT; DECLARE OR REPLACE what = 'SELECT max(id) FROM t WHERE id < ?'"
    )
    assert sql("EXECUTE IMMEDIATE what USING (5)") == [[3]]
    sql("EXECUTE IMMEDIATE what INTO most USING 5")
    assert sql("SELECT most") == [[3]]
    sql("SET VAR most = (SELECT max(id) + 1 FROM t)")
    assert sql("SELECT most") == [[8]]
    with pytest.raises(PaimonError, match="UNBOUND_SQL_PARAMETER"):
        sql("EXECUTE IMMEDIATE 'SELECT ?'")
    # A name after USING is that of a variable, and never that of a column.
    sql("DECLARE OR REPLACE v = 'a'; DECLARE OR REPLACE id = 2")
    assert sql("EXECUTE IMMEDIATE 'SELECT id FROM t WHERE v = ?' USING v") == [[1]]
    assert sql("EXECUTE IMMEDIATE 'SELECT v FROM t WHERE id = :id' USING id") == [["Q"]]
    assert sql("EXECUTE IMMEDIATE 'SELECT v FROM t WHERE id = ?' USING id + 1 AS n") == [["c"]]
    sql("DROP TEMPORARY VARIABLE v")
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        sql("EXECUTE IMMEDIATE 'SELECT id FROM t WHERE ? = v' USING v")
    nested = r"EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE \'SELECT v FROM t WHERE id = ?\' USING 1'"
    assert sql(nested) == [["a"]]
    for wrong, text in {
        "'SELECT ?, :a' USING 1 AS a, 2 AS b": "INVALID_QUERY_MIXED_QUERY_PARAMETERS",
        "'SELECT :a' USING 1, 2 AS a": "ALL_PARAMETERS_MUST_BE_NAMED",
        "'SELECT :a' USING 1 AS a, 2 AS A": "EXEC_IMMEDIATE_DUPLICATE_ARGUMENT_ALIASES",
        "'SELECT ?' USING rand()": "UNSUPPORTED_EXPR_FOR_PARAMETER",
        "'DELETE FROM t' INTO most": "INVALID_STATEMENT_FOR_EXECUTE_INTO",
        "5": "INVALID_EXPR_TYPE_FOR_QUERY_EXECUTE_IMMEDIATE",
        "CAST(NULL AS STRING)": "NULL_QUERY_STRING_EXECUTE_IMMEDIATE",
    }.items():
        with pytest.raises(PaimonError, match=text):
            sql(f"EXECUTE IMMEDIATE {wrong}")
    with pytest.raises(AnalysisException, match="SET_VARIABLE_USING_SET"):
        sql("SET most = 5")


def test_names_in_texts(sql: Sql) -> None:
    sql("INSERT INTO IDENTIFIER('t') VALUES (5, 'e')")
    assert sql("SELECT IDENTIFIER('id') FROM IDENTIFIER('default.' || 't') WHERE id > 3") == [[5]]
    sql("DECLARE OR REPLACE place = 't'; DELETE FROM IDENTIFIER(place) WHERE id < 5")
    assert rows(sql) == [[5, "e"]]
    assert sql("DESCRIBE IDENTIFIER('s')")[0] == ["id", "int", None]
    sql("DROP TABLE IDENTIFIER('s')")
    assert [row[1] for row in sql("SHOW TABLES")] == ["r", "t"]


def test_tables_as_queries(sql: Sql) -> None:
    assert sql("TABLE s |> UNION ALL TABLE s |> WHERE id = 1") == [[1, "x"], [1, "x"]]
    assert sql("SELECT id FROM t WHERE id IN (TABLE s |> SELECT id)") == [[1]]
    assert sql("SELECT v FROM t WHERE EXISTS (TABLE s |> WHERE s.id = t.id)") == [["a"]]
    assert sql("SELECT 9 AS id, '' AS v UNION (TABLE s) EXCEPT TABLE t ORDER BY 1") == [
        [1, "x"],
        [4, "y"],
        [9, ""],
    ]
    query = (
        "FROM s |> SET v = (SELECT v FROM t WHERE t.id = s.id), id = (FROM r |> AGGREGATE max(id))"
    )
    assert sql(f"{query} |> ORDER BY v") == [[4, None], [4, "a"]]
    with pytest.raises(AnalysisException, match="UNEXPECTED_INPUT_TYPE"):
        sql("SELECT * FROM explode(TABLE(t))")  # the table is found
    sql("WITH x AS (SELECT 6 AS n) FROM x INSERT INTO t SELECT n, 'm' INSERT INTO s SELECT n, 'm'")
    assert rows(sql)[-1] == sql("SELECT * FROM s WHERE id = 6")[0] == [6, "m"]


def test_databases_before_columns(sql: Sql) -> None:
    sql("""
        CREATE DATABASE d; CREATE TABLE d.n (id INT, n STRUCT<id: INT, m: INT>);
        INSERT INTO d.n VALUES (1, struct(2, 3)); USE SCHEMA `d`;
        CREATE GLOBAL TEMPORARY VIEW words_view AS SELECT id FROM n
    """)
    assert sql("SHOW CURRENT SCHEMA") == [["paimon", "d"]]
    query = "SELECT d.n.n.id, paimon.d.n.n.m, d.n.*, struct(d.n.id x) FROM d.n WHERE {}.id = 2"
    for column in ("d.n.n", "n.n", "paimon.d.n.n"):
        assert sql(query.format(column)) == [[2, 3, 1, [2, 3], [1]]]
    assert sql("SELECT n.id FROM n x WHERE x.n.id = 2 AND x.id = 1") == [[2]]
    view = "global_temp.words_view"
    assert sql(f"SELECT {view}.*, {view}.id FROM {view} WHERE {view}.id = 1") == [[1, 1]]
    sql(f"DROP VIEW {view}")


@pytest.mark.parametrize("large", [32 * 1024**2, 0])
def test_tables_with_one_name_in_two_databases(
    large: int, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_changes, "LARGE_CHANGE", large)
    sql("CREATE DATABASE d; CREATE TABLE d.t (id INT, v STRING); INSERT INTO d.t VALUES (2, 'z')")
    inner = "(SELECT 1 FROM d.t WHERE d.t.id = default.t.id)"
    for statement in (
        f"FROM t |> WHERE EXISTS {inner}",
        "SELECT t.id FROM t JOIN d.t ON default.t.id = d.t.id",
        "MERGE INTO t USING d.t ON t.id = d.t.id WHEN MATCHED THEN DELETE",
    ):
        with pytest.raises(PaimonError, match=r"AMBIGUOUS_REFERENCE.*give them aliases"):
            sql(statement)
    assert sql(f"SELECT * FROM t WHERE EXISTS {inner}") == [[2, "b"]]
    joined = "FROM t LEFT JOIN (d.t CROSS JOIN range(1)) ON default.t.id = paimon.d.t.id"
    assert sql(f"SELECT default.t.v, d.t.v {joined} WHERE default.t.id = 2") == [["b", "z"]]
    assert sql(f"SELECT t.* {joined} WHERE d.t.id > 0") == [[2, "b", 2, "z"]]
    renamed = "WITH t AS (SELECT d.t.id AS k FROM d.t WHERE t.id = 2) SELECT"
    assert sql(f"{renamed} k, d.t.v FROM t JOIN d.t ON t.k = d.t.id") == [[2, "z"]]
    sql(f"UPDATE t SET v = 'w' WHERE EXISTS {inner}")
    assert sql("SELECT v FROM t WHERE id = 2") == [["w"]]
    sql(f"DELETE FROM t WHERE EXISTS {inner}; INSERT INTO t VALUES (2, 'b')")
    assert rows(sql) == [[1, "a"], [2, "b"], [3, "c"]]
    both = "SELECT default.t.id FROM t WHERE id < 3 UNION ALL SELECT d.t.id FROM d.t"
    assert sorted(sql(both)) == [[1], [2], [2]]
    sql("""
        INSERT INTO d.t VALUES (7, 'new');
        MERGE INTO t USING d.t ON default.t.id = paimon.d.t.id
        WHEN MATCHED AND d.t.v = 'z' THEN UPDATE SET t.v = concat(d.t.v, default.t.v)
        WHEN NOT MATCHED THEN INSERT (id, t.v) VALUES (t.id, d.t.v)
        WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET v = upper(t.v)
    """)
    assert rows(sql) == [[1, "a"], [2, "zb"], [3, "C"], [7, "new"]]
    sql("DELETE FROM t WHERE EXISTS (SELECT 1 FROM d.t AS x WHERE x.id = default.t.id)")
    assert rows(sql) == [[1, "a"], [3, "C"]]


def test_temporary_functions_read_tables(sql: Sql) -> None:
    sql("""
        CREATE TEMPORARY FUNCTION words_last() RETURNS INT RETURN SELECT max(id) FROM t;
        CREATE TEMPORARY FUNCTION words_of(k INT) RETURNS TABLE (w STRING)
            RETURN SELECT t.v FROM t WHERE t.id <= k;
        CREATE TEMPORARY FUNCTION words_next(k INT) RETURNS INT
            RETURN k + (SELECT count(*) FROM words_of(9));
        CREATE DATABASE d; USE d; CREATE TABLE t (id INT)
    """)
    assert sql("SELECT words_last(), words_next(words_last())") == [[3, 6]]
    sql("INSERT INTO default.t SELECT words_last() + 1, 'd'")
    assert sql("SELECT w FROM words_of(9) ORDER BY w DESC LIMIT 1") == [["d"]]
    sql("DELETE FROM default.t WHERE id = words_last()")
    assert sql("SELECT words_next(id) FROM default.t WHERE id = words_last()") == [[6]]
    described = sql("DESCRIBE FUNCTION EXTENDED words_last")
    assert described[-1] == ["Body:          SELECT max(id) FROM t"]
    for name in ("last", "of", "next"):
        sql(f"DROP TEMPORARY FUNCTION words_{name}")
    with pytest.raises(AnalysisException, match="UNRESOLVED_ROUTINE"):
        sql("SELECT words_last()")
    with pytest.raises(PaimonError, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("CREATE TEMPORARY FUNCTION words_none() RETURNS INT RETURN SELECT max(id) FROM nope")


@pytest.mark.parametrize("large", [32 * 1024**2, 0])
def test_fields_go_where_their_names_are(
    large: int, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_changes, "LARGE_CHANGE", large)
    sql("""
        CREATE TABLE n (id INT, p STRUCT<a: INT, q: STRUCT<b: INT, c: INT>>, l ARRAY<STRUCT<x: INT, y: INT>>);
        INSERT INTO n VALUES (1, struct(1, struct(2, 3)), array(struct(4, 5)));
        UPDATE n SET p = named_struct('q', named_struct('C', id + 30, 'b', 20), 'a', 10),
            l = array(named_struct('y', 50, 'x', 40))
    """)
    assert sql("SELECT * FROM n") == [[1, [10, [20, 31]], [[40, 50]]]]
    sql("UPDATE n SET p.q = named_struct('c', 7, 'b', 6)")
    sql("""
        MERGE INTO n USING (SELECT 1 AS id) s ON n.id = s.id
        WHEN MATCHED THEN UPDATE SET p.q = named_struct('c', p.q.b, 'b', p.q.c), l = NULL
    """)
    assert sql("SELECT * FROM n") == [[1, [10, [7, 6]], None]]
    for wrong in ("named_struct('a', 1)", "named_struct('a', 1, 'q', NULL, 'z', 2)"):
        with pytest.raises(Exception, match="nested struct has"):
            sql(f"UPDATE n SET p = {wrong}")
    with pytest.raises(PaimonError, match="keys cannot be nested fields: p"):
        sql("""
            MERGE INTO n USING s ON n.id = s.id WHEN NOT MATCHED THEN INSERT (id, p.a) VALUES (1, 2)
        """)
    with pytest.raises(PaimonError, match="SCALAR_SUBQUERY") as caught:
        sql("UPDATE n SET id = (SELECT id FROM t)")
    assert error_type(caught.value) == "SparkException"


@pytest.mark.parametrize("large", [1024**2, -1])
def test_a_named_partition_is_overwritten_without_rows(
    large: int, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_writes, "LARGE_WRITE", large)
    sql("""
        CREATE TABLE n (id INT, p STRING, q INT) PARTITIONED BY (p, q);
        INSERT INTO n VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 1), (4, 'c', 1);
        SET spark.sql.sources.partitionOverwriteMode = dynamic;
        INSERT OVERWRITE n PARTITION (p = 'a', q) SELECT 5, 2;
        INSERT OVERWRITE n PARTITION (p = 'a', q = 1) SELECT 1 WHERE false;
        INSERT OVERWRITE n SELECT * FROM n WHERE false;
        INSERT INTO n REPLACE WHERE p = 'b' SELECT 6, 'b', 7
    """)
    assert sql("SELECT * FROM n ORDER BY id") == [[4, "c", 1], [5, "a", 2], [6, "b", 7]]
    sql("INSERT OVERWRITE t SELECT * FROM t WHERE false")  # it has no partitions
    assert rows(sql) == []
    sql("CREATE OR REPLACE TABLE n PARTITIONED BY (p, q) AS SELECT 8 AS id, 'd' AS p, 1 AS q")
    assert sql("SELECT * FROM n") == [[8, "d", 1]]
    sql("RESET spark.sql.sources.partitionOverwriteMode")


def test_aliases_after_a_time_travel(sql: Sql) -> None:
    for clause in ("VERSION AS OF 1", "FOR SYSTEM_VERSION AS OF 1", "FOR VERSION AS OF '1'"):
        assert sql(f"SELECT x.id FROM t {clause} x WHERE x.id = 2") == [[2]], clause
        assert sql(f"SELECT t.id FROM t {clause} WHERE t.id = 2") == [[2]], clause


def test_views_of_a_source_of_spark(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('{"id": 2}\n')
    sql(f"CREATE OR REPLACE TEMP VIEW from_json USING json OPTIONS (path '{tmp_path}/rows.json')")
    assert sql("SELECT v FROM t JOIN from_json USING (id)") == [["b"]]
    sql("DROP VIEW from_json")


@pytest.mark.parametrize(
    ("statement", "kind", "text"),
    [
        ("UPDATE n SET p.zz = 1", "AnalysisException", "FIELD_NOT_FOUND"),
        ("UPDATE n SET p.q.zz = 1", "AnalysisException", "FIELD_NOT_FOUND"),
        (
            """MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE
            WHEN MATCHED THEN UPDATE SET *""",
            "ParseException",
            "NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION",
        ),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (1)",
            "ParseException",
            "MERGE_INSERT_VALUE_COUNT_MISMATCH",
        ),
        ("MERGE INTO t USING s ON t.id = s.id", "ParseException", "MERGE_WITHOUT_WHEN"),
        ("INSERT INTO n PARTITION (d = 1, D = 2) SELECT 1", "ParseException", "DUPLICATE_KEY"),
        ("INSERT INTO t (id, ID) VALUES (1, 2)", "AnalysisException", "COLUMN_ALREADY_EXISTS"),
        (
            "INSERT INTO t (id, v) VALUES (1)",
            "AnalysisException",
            "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS",
        ),
        (
            "INSERT INTO t (id) SELECT 1, 2",
            "AnalysisException",
            "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS",
        ),
        ("INSERT INTO n (p) VALUES (NULL)", "RuntimeException", "no specified value"),
        ("UPDATE n SET nope.zz = 1", "AnalysisException", "UNRESOLVED_COLUMN"),
    ],
)
def test_what_is_refused(sql: Sql, statement: str, kind: str, text: str) -> None:
    sql(
        "CREATE TABLE n (id INT NOT NULL, p STRUCT<a: INT, q: STRUCT<b: INT>>) PARTITIONED BY (d INT)"
    )
    with pytest.raises(PaimonError) as caught:
        sql(statement)
    assert error_type(caught.value) == kind
    assert text in str(caught.value)


def test_days_that_are_not(sql: Sql) -> None:
    """Java's casts take the last day of the month for them; Spark, which parses them, does not."""
    sql("CREATE TABLE m (at TIMESTAMP_NTZ, n DOUBLE) PARTITIONED BY (p TIMESTAMP_NTZ)")
    for values in (
        "'2024-02-30', 0, NULL",
        "'2024-01-01 24:00:00', 0, NULL",
        "NULL, 0, '2024-2-30'",
    ):
        with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
            sql(f"INSERT INTO m VALUES ({values})")
    with pytest.raises(PaimonError, match="CAST_INVALID_INPUT"):
        sql("INSERT INTO m PARTITION (p = '2024-02-30') VALUES (NULL, 1)")
    with pytest.raises(PaimonError, match="INVALID_TIME_TRAVEL_TIMESTAMP_EXPR"):
        sql("SELECT * FROM t TIMESTAMP AS OF '2099-02-30'")
    sql("INSERT INTO m VALUES ('2024-02-29', -0.0, '2024-2-29')")
    assert sql("SELECT CAST(at AS STRING), CAST(n AS STRING), CAST(p AS STRING) FROM m") == [
        ["2024-02-29 00:00:00", "0.0", "2024-02-29 00:00:00"]
    ]


def test_versions_that_are_not(sql: Sql) -> None:
    sql("CREATE TABLE empty (id INT)")
    for query, text in {
        "SELECT * FROM t VERSION AS OF 9": "out of available snapshotId range [1, 1]",
        "SELECT * FROM empty VERSION AS OF 1": "There is currently no snapshot.",
        "SELECT * FROM t VERSION AS OF 'none'": "Tag 'none' doesn't exist",
        "SELECT * FROM t TIMESTAMP AS OF 1": "no snapshot earlier than or equal to timestamp [1000]",
    }.items():
        with pytest.raises(PaimonError) as caught:
            sql(query)
        assert error_type(caught.value) == "IllegalArgumentException", query
        assert text in str(caught.value), query
    assert sql("SELECT count(*) FROM `empty$snapshots` VERSION AS OF 1") == [[0]]
    sql("CREATE TEMPORARY VIEW words_now AS SELECT * FROM t")
    for clause in ("VERSION AS OF 1", "FOR SYSTEM_TIME AS OF current_timestamp()"):
        with pytest.raises(PaimonError, match="TIME_TRAVEL"):
            sql(f"SELECT * FROM words_now {clause}")
    assert sql("SELECT schema_id FROM `t$schemas` TIMESTAMP AS OF 1") == [[0]]


def test_columns_that_differ_only_in_case(sql: Sql) -> None:
    sql("SET spark.sql.caseSensitive=true; CREATE TABLE two (a INT, A INT)")
    try:
        sql("INSERT INTO two VALUES (1, 2)")
        assert sql("SELECT a, A FROM two WHERE A = 2") == [[1, 2]]
        for statement in (
            "INSERT INTO two (a) VALUES (5)",
            "INSERT INTO two BY NAME SELECT 5 AS a",
            "UPDATE two SET a = 5",
            "MERGE INTO two USING (SELECT 1 AS x) s ON two.a = s.x WHEN MATCHED THEN UPDATE SET A = 5",
            "MERGE INTO two USING (SELECT 1 AS a, 3 AS A) s ON two.a = s.a WHEN MATCHED THEN UPDATE SET *",
        ):
            with pytest.raises(PaimonError, match="other names than a"):
                sql(statement)
        assert sql("SELECT * FROM two") == [[1, 2]]
    finally:
        sql("RESET spark.sql.caseSensitive")


def test_a_comma_at_the_end_is_too_much(sql: Sql) -> None:
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        sql("INSERT INTO t VALUES (9, 'z'),")
    assert sql("SELECT count(*) FROM t") == [[3]]


def test_a_session_may_run_statements_in_two_threads(sql: Sql) -> None:
    """The end of one statement does not take away the views of another."""
    ended, going = Event(), Event()
    counted: list[int] = []

    def other() -> None:
        view = register(sql.session, sql.session.spark.range(3))
        going.set()
        ended.wait(60)
        counted.append(sql.session.spark.table(view).count())
        drop_registered(sql.session)

    thread = Thread(target=other)
    thread.start()
    assert going.wait(60)
    drop_registered(sql.session)
    ended.set()
    thread.join()
    assert counted == [3]
    with ThreadPoolExecutor(4) as pool:
        query = "SELECT count(*), max(x.v) FROM t JOIN s AS x USING (id)"
        assert list(pool.map(sql, [query] * 12)) == [[[1, "x"]]] * 12
