"""MERGE INTO on tables with row tracking and data evolution, and VARIANT: Java reads the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ArithmeticException
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.errors import UnsupportedFeature

pytestmark = pytest.mark.spark

MERGE = """
    MERGE INTO t USING s ON t.id = s.id
    WHEN MATCHED AND s.n = 0 THEN {deleted}
    WHEN MATCHED THEN UPDATE SET n = t.n + s.n
    WHEN NOT MATCHED THEN INSERT *
"""


def _tracked(oracle: Oracle) -> list[list[Any]]:
    return sorted(row[1:] for row in oracle.rows(system="row_tracking"))


@pytest.fixture
def sql(tmp_path: Path, session: Any) -> Sql:
    return Sql(tmp_path, session)


def _tables(oracle: Oracle, sql: Sql, tmp_path: Path, **options: str) -> None:
    oracle.defaults(warehouse=tmp_path, database="default", table="t")
    given = ", ".join(f"'{k.replace('_', '-')}.enabled' = '{v}'" for k, v in options.items())
    sql(f"CREATE TABLE t (id INT, n INT) TBLPROPERTIES ({given})")
    oracle.one("write", rows=[[i, i * 10] for i in range(4)])
    sql("CREATE TABLE s (id INT, n INT)")


def test_merge_keeps_row_ids(oracle_2_0_0: Oracle, sql: Sql, tmp_path: Path) -> None:
    _tables(oracle_2_0_0, sql, tmp_path, row_tracking="true")
    sql("INSERT INTO s VALUES (1, 5), (2, 0), (7, 70)")
    sql(MERGE.format(deleted="DELETE"))
    assert _tracked(oracle_2_0_0) == [[0, 0, 0, 1], [1, 15, 1, 2], [3, 30, 3, 1], [7, 70, 4, 2]]
    assert sql("SELECT id FROM t WHERE _ROW_ID = 3") == [[3]]
    # With deletion vectors, Java writes merged rows as new ones.
    sql("DROP TABLE t; DROP TABLE s")
    _tables(oracle_2_0_0, sql, tmp_path, row_tracking="true", deletion_vectors="true")
    sql("INSERT INTO s VALUES (1, 5)")
    sql(MERGE.format(deleted="DELETE"))
    assert _tracked(oracle_2_0_0)[1] == [1, 15, 4, 2]


def test_merge_writes_columns(oracle_1_4_2: Oracle, sql: Sql, tmp_path: Path) -> None:
    _tables(oracle_1_4_2, sql, tmp_path, row_tracking="true", data_evolution="true")
    sql("INSERT INTO s VALUES (1, 5), (2, 0), (7, 70)")
    with pytest.raises(UnsupportedFeature, match="MERGE INTO DELETE on DataEvolution"):
        sql(MERGE.format(deleted="DELETE"))
    sql(MERGE.format(deleted="UPDATE SET n = -1"))
    expected = [[0, 0, 0, 2], [1, 15, 1, 2], [2, -1, 2, 2], [3, 30, 3, 2], [7, 70, 4, 2]]
    assert _tracked(oracle_1_4_2) == expected
    columns = sorted(str(row[0]) for row in sql("SELECT write_cols FROM `t$files`"))
    assert columns == ["None", "None", "['n']"]
    selected = sql("SELECT *, _ROW_ID, _SEQUENCE_NUMBER FROM t ORDER BY id")
    assert selected == expected == sql("SELECT * FROM `t$row_tracking` ORDER BY id")
    oracle_1_4_2.one("compact")
    assert [row[:3] for row in _tracked(oracle_1_4_2)] == [row[:3] for row in expected]


def test_java_reads_variants_of_spark(oracle_1_4_2: Oracle, sql: Sql, tmp_path: Path) -> None:
    oracle_1_4_2.defaults(warehouse=tmp_path, database="default", table="t")
    sql("CREATE TABLE t (id INT, v VARIANT, a ARRAY<VARIANT>)")
    sql("""INSERT INTO t VALUES (1, parse_json('{"a":[1,2.5],"b":null}'), array(parse_json('1'))),
                                (2, NULL, NULL)""")
    assert oracle_1_4_2.rows(projection=["id", "v"]) == [
        ["+I", 1, '{"a":[1,2.5],"b":null}'],
        ["+I", 2, None],
    ]
    assert sql("SELECT id, v, a FROM t ORDER BY id") == [
        [1, '{"a":[1,2.5],"b":null}', ["1"]],
        [2, None, None],
    ]
    assert sql("SELECT variant_get(v, '$.a[1]', 'double') FROM t WHERE id = 1") == [[2.5]]


def test_types_stay_without_type_widening(sql: Sql) -> None:
    sql("""
        CREATE TABLE t (id INT, v ARRAY<FLOAT> COMMENT '__VECTOR_FIELD;2');
        SET spark.paimon.write.merge-schema=true;
        INSERT INTO t BY NAME SELECT 1L AS id, array(1F, 2F) AS v, 'new' AS extra;
    """)
    assert sql("DESCRIBE t")[0][:2] == ["id", "int"]
    assert sql("SELECT * FROM t") == [[1, [1.0, 2.0], "new"]]
    with pytest.raises(ArithmeticException, match="CAST_OVERFLOW"):
        sql("INSERT INTO t BY NAME SELECT 5000000000 AS id")
    sql("""
        SET spark.paimon.write.merge-schema.type-widening=true;
        INSERT INTO t BY NAME SELECT 5000000000 AS id;
    """)
    assert sql("DESCRIBE t")[0][:2] == ["id", "bigint"]


def test_structs_are_merged_by_name(sql: Sql) -> None:
    sql("""
        CREATE TABLE t (id INT, i STRUCT<x: INT, y: INT>, m MAP<STRING, STRUCT<a: INT, b: STRING>>);
        INSERT INTO t VALUES (1, struct(1, 2), map('k', struct(1, 'v')));
        CREATE TABLE s (id INT, i STRUCT<y: INT, x: INT>, m MAP<STRING, STRUCT<b: STRING, a: INT>>);
        INSERT INTO s VALUES (1, struct(20, 10), map('k', struct('u', 5)));
        MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET i = s.i, m = s.m
    """)
    assert sql("SELECT * FROM t") == [[1, [10, 20], [["k", [5, "u"]]]]]
    sql("""
        SET spark.paimon.write.merge-schema=true;
        CREATE TEMPORARY VIEW v AS SELECT 1 AS id, named_struct('x', 7) AS i, 'new' AS extra, 1 AS no;
        CREATE TEMPORARY VIEW flat AS SELECT 1 AS id, 8 AS x;
        MERGE INTO t USING flat ON t.id = flat.id WHEN MATCHED THEN UPDATE SET i.x = flat.x;
    """)
    assert sql("SELECT * FROM t") == [[1, [8, 20], [["k", [5, "u"]]]]]
    sql("""
        MERGE INTO t USING v ON t.id = v.id
        WHEN MATCHED THEN UPDATE SET t.i.x = v.i.x, extra = v.extra;
    """)
    assert sql("SELECT id, i, extra FROM t") == [[1, [7, 20], "new"]]
    sql("MERGE INTO t USING v ON t.id = v.id WHEN MATCHED THEN UPDATE SET *")
    assert sql("SELECT id, i, extra, no FROM t") == [[1, [7, 20], "new", 1]]
    sql("DELETE FROM t")
    assert sql("SELECT i FROM t") == []
