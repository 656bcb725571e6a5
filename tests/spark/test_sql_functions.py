"""Functions of a REST catalog in SQL, kept by the server of Java Paimon's own tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from sql_sessions import Sql

from oracle import RestServer
from paimon_core.errors import UnsupportedFeature
from paimon_spark.sql.errors import AnalysisError, QueryFailed, SqlSyntaxError, error_text

pytestmark = [pytest.mark.spark, pytest.mark.oracle]


@pytest.fixture
def sql(tmp_path: Path, session: Any, rest_server: RestServer) -> Sql:
    made = Sql(tmp_path, session)
    for key, value in rest_server.options.items():
        made(f"SET spark.sql.catalog.rest.{key}={value}")
    made("CREATE DATABASE IF NOT EXISTS rest.fns; USE rest.fns")
    return made


def test_functions_of_a_rest_catalog(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, name STRING); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    sql("CREATE FUNCTION area(w DOUBLE, h DOUBLE COMMENT 'up') RETURNS DOUBLE RETURN w * h")
    sql("CREATE FUNCTION IF NOT EXISTS area(w INT) RETURNS INT RETURN w")
    with pytest.raises(AnalysisError, match="already exists"):
        sql("CREATE FUNCTION area(w INT) RETURNS INT RETURN w")
    sql(
        "CREATE OR REPLACE FUNCTION fns.above(x INT, y INT DEFAULT 1) RETURNS BIGINT COMMENT 'c' "
        "RETURN SELECT count(*) FROM t WHERE id > x + y - 1"
    )
    assert sql("SHOW USER FUNCTIONS") == [["rest.fns.above"], ["rest.fns.area"]]
    sql("USE paimon.default")
    assert sql("SELECT rest.fns.area(2, 3), rest.fns.above(1), upper('a')") == [[6.0, 2, "A"]]
    sql("USE rest.fns")
    assert sql.columns("SELECT area(id, 2) FROM t") == ["area(id, 2)"]
    assert sql("DESCRIBE FUNCTION area") == [
        ["Function: fns.area"],
        ["Type:     SCALAR"],
        ["Input:    w DOUBLE"],
        ["          h DOUBLE"],
        ["Returns:  DOUBLE"],
    ]
    sql(
        'CALL sys.create_function(\'f\', \'[{"id": 0, "name": "x", "type": "INT"}]\', '
        '\'[{"id": 0, "name": "y", "type": "BIGINT"}]\', true, \'made\', \'k=v\')'
    )
    with pytest.raises(UnsupportedFeature, match="neither in SQL nor by a class"):
        sql("SELECT f(1)")
    change = '{"action": "addDefinition", "name": "spark", "definition": {"type": "sql", "definition": "x * 3L"}}'
    sql(f"CALL sys.alter_function(`function` => 'fns.f', `change` => '{change}')")
    assert sql("SELECT f(2) AS six") == [[6]]
    sql("CALL sys.drop_function('f'); DROP FUNCTION area; DROP FUNCTION IF EXISTS area")
    assert sql("SHOW USER FUNCTIONS IN fns") == [["rest.fns.above"]]


def test_functions_of_two_databases_may_have_one_name(sql: Sql) -> None:
    sql("CREATE DATABASE rest.others; CREATE TABLE t2 (id INT); INSERT INTO t2 VALUES (3)")
    for database, factor in (("fns", 2), ("others", 3)):
        sql(f"CREATE FUNCTION rest.{database}.times(x INT) RETURNS INT RETURN x * {factor}")
    assert sql("SELECT fns.times(1), others.times(1), rest.fns.times(id) FROM t2") == [[2, 3, 6]]
    assert sql.columns("SELECT others.times(1)") == ["times(1)"]


def test_functions_are_checked_when_they_are_made(sql: Sql) -> None:
    for definition, text in {
        "bad(x INT) RETURNS INT RETURN sum(x)": "CANNOT_CONTAIN_COMPLEX_FUNCTIONS",
        "bad(x INT) RETURNS INT RETURN row_number() OVER (ORDER BY x)": "COMPLEX_FUNCTIONS",
        "bad(x INT, x INT) RETURNS INT RETURN x": "[Dd]uplicate",
        "bad(x INT DEFAULT 1, y INT) RETURNS INT RETURN x + y": "DEFAULT",
        "bad(x INT) RETURNS INT RETURN nope": "nope",
        "bad(x INT) RETURNS TABLE(a INT) RETURN SELECT x": "SQL table functions",
    }.items():
        with pytest.raises(Exception, match=text):
            sql(f"CREATE FUNCTION {definition}")
    assert "rest.fns.bad" not in [row[0] for row in sql("SHOW USER FUNCTIONS")]


def test_errors_name_functions_as_the_catalog_does(sql: Sql) -> None:
    sql("CREATE FUNCTION one(x INT) RETURNS INT RETURN x")
    for statement, text in {
        "SELECT one()": "The `one` requires 1 parameters",
        "SELECT transform(array(1), e -> one(e))": "SQL UDF one",
        "CREATE FUNCTION bad(x INT, x INT) RETURNS INT RETURN x": "routine bad",
        "DROP FUNCTION nope": "The routine rest.fns.nope cannot be found",
    }.items():
        with pytest.raises(Exception, match=r"one|bad|nope") as error:
            sql(statement)
        assert text in error_text(error.value)
    sql("DROP FUNCTION one")


def test_functions_of_spark_hide_those_of_a_catalog(sql: Sql) -> None:
    sql("CREATE FUNCTION hidden(x INT) RETURNS INT RETURN x * 2")
    sql("CREATE TEMPORARY FUNCTION hidden(x INT) RETURNS INT RETURN x + 100")
    assert sql("SELECT hidden(1), fns.hidden(1)") == [[101, 2]]
    for statement, text in {
        "CREATE FUNCTION hidden(x INT) RETURNS INT RETURN x": "does not support CREATE FUNCTION",
        "CREATE FUNCTION abs(x INT) RETURNS INT RETURN x": "does not support CREATE FUNCTION",
        "CREATE FUNCTION hidden AS 'a.B'": "hidden is a temporary function and already exists",
        "CREATE OR REPLACE FUNCTION hidden AS 'a.B'": "OR REPLACE TEMPORARY FUNCTION hidden`",
        "CREATE FUNCTION sys.max_pt AS 'a.B'": "Can't create built-in function: rest.sys.max_pt",
        "CREATE FUNCTION sys.bucket(x INT) RETURNS INT RETURN x": "Can't create built-in function",
        "DROP FUNCTION hidden": "hidden",
        "DROP FUNCTION sys.max_pt": "Can't drop built-in function: rest.sys.max_pt",
        "DROP FUNCTION fns.none": "ROUTINE_NOT_FOUND",
    }.items():
        with pytest.raises(Exception, match=text):
            sql(statement)
    sql("DROP TEMPORARY FUNCTION hidden; DROP FUNCTION IF EXISTS fns.none")
    assert sql("SELECT hidden(1)") == [[2]]
    sql("DROP FUNCTION hidden")


ABSOLUTE = "org.apache.hadoop.hive.ql.udf.generic.GenericUDFAbs"
"""A class of Hive; only sessions with Hive support can call it."""
NO_HIVE = r"INVALID_UDF_IMPLEMENTATION|No handler"


def test_temporary_functions_in_jars_are_those_of_spark(sql: Sql) -> None:
    with pytest.raises(PySparkException, match=NO_HIVE):
        sql(f"CREATE TEMPORARY FUNCTION in_jar AS '{ABSOLUTE}'; SELECT in_jar(-1)")
    with pytest.raises(PySparkException, match="CANNOT_LOAD_FUNCTION_CLASS"):
        sql("CREATE TEMPORARY FUNCTION nowhere AS 'no.such.Class'")
    sql("DROP TEMPORARY FUNCTION IF EXISTS in_jar")


def test_functions_of_a_catalog_in_jars(sql: Sql, tmp_path: Path, rest_server: RestServer) -> None:
    jar = tmp_path / "functions.jar"
    sql(f"CREATE FUNCTION in_jar AS '{ABSOLUTE}' USING JAR '{jar}', FILE '{tmp_path}/it''s'")
    stored = [r for r in rest_server.requests() if r["path"].endswith("/functions")][-1]
    for text in ('"resourceType":"jar"', '"className"', '"functionName":"in_jar"', '"file"'):
        assert text in str(stored).replace('": "', '":"').replace("\\", "")
    assert sql("DESCRIBE FUNCTION in_jar") == [["Function: fns.in_jar"], [f"Class: {ABSOLUTE}"]]
    described = sql("DESCRIBE FUNCTION EXTENDED fns.in_jar")
    assert described[2] == [f"File Resources: {jar}, {tmp_path}/it's"]
    with pytest.raises(AnalysisError, match="already exists"):
        sql(f"CREATE FUNCTION in_jar AS '{ABSOLUTE}'")
    with pytest.raises(QueryFailed, match=rf"fns.in_jar: Spark cannot load its class {ABSOLUTE}"):
        sql("SELECT in_jar(-1)")
    sql(f"CREATE OR REPLACE FUNCTION in_jar AS '{ABSOLUTE}'")
    with pytest.raises(PySparkException, match=NO_HIVE):
        sql("SELECT in_jar(-1)")
    for rest in ("USING ZIP 'x'", "USING JAR", "x"):
        with pytest.raises(SqlSyntaxError):
            sql(f"CREATE FUNCTION wrong AS '{ABSOLUTE}' {rest}")
    sql("SET spark.sql.catalog.rest.v1Function.enabled=false")
    assert sql("SHOW USER FUNCTIONS LIKE 'in_jar'") == []
    with pytest.raises(AnalysisError, match="does not support CREATE FUNCTION"):
        sql(f"CREATE FUNCTION other AS '{ABSOLUTE}'")
    sql("RESET `spark.sql.catalog.rest.v1Function.enabled`; DROP FUNCTION in_jar")


def test_functions_may_leave_their_type_to_spark(sql: Sql) -> None:
    sql("CREATE OR REPLACE FUNCTION inc(x INT) RETURN x + 1L")
    assert sql("SELECT inc(10)") == [[11]]
    assert ["Returns:  BIGINT"] in sql("DESCRIBE FUNCTION inc")


def test_functions_keep_the_settings_under_which_they_were_made(sql: Sql) -> None:
    sql("CREATE OR REPLACE FUNCTION reciprocal(x INT) RETURNS DOUBLE RETURN 1 / x")
    sql("SET spark.sql.ansi.enabled=false")
    assert sql("SELECT 1 / 0") == [[None]]
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        sql("SELECT reciprocal(0)")
    assert sql("SELECT 1 / 0") == [[None]]
    sql("RESET spark.sql.ansi.enabled")


def test_presigned_urls_of_stores_that_make_none(sql: Sql) -> None:
    sql("CREATE TABLE urls (id INT)")
    second = "INTERVAL '1' SECOND"
    for argument in ("CAST(NULL AS BINARY)", "X'00'", "sys.path_to_descriptor('/tmp/x')"):
        call = f"SELECT sys.try_descriptor_to_presigned_url('fns.urls', {argument}, {second}) AS u"
        assert sql(call) == [[None]]
    assert sql(
        f"SELECT sys.descriptor_to_presigned_url('urls', CAST(NULL AS BINARY), {second}) AS u"
    ) == [[None]]
    there = "sys.path_to_descriptor('/tmp/x')"
    for arguments, text in {
        f"'urls', {there}, {second}": "does not support creating blob presigned URLs",
        f"'urls', X'00', {second}": "BlobDescriptor",
        f"'urls', {there}, INTERVAL '1.000001' SECOND": "whole seconds",
        f"'urls', {there}, INTERVAL '0' SECOND": "must be positive",
        f"CAST(NULL AS STRING), {there}, {second}": "requires a non-null literal sourceTable",
        f"'none', {there}, {second}": "cannot be found",
    }.items():
        with pytest.raises(Exception, match=text):
            sql(f"SELECT sys.descriptor_to_presigned_url({arguments})")
