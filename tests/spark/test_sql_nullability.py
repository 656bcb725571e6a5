"""Columns of queries are NOT NULL where no row can have a null, whoever reads the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

from paimon_spark.sql.frames import distributed
from paimon_spark.sql.query.queries import query_dataframe

pytestmark = pytest.mark.spark


@pytest.fixture(params=["driver", "executors"])
def sql(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Sql:
    if request.param == "executors":
        monkeypatch.setattr(distributed, "LARGE_READ", 0)
        monkeypatch.setattr(distributed, "PARQUET_READ", 0)
    return Sql(tmp_path, session)


def not_null(sql: Sql, query: str) -> list[str]:
    frame = query_dataframe(sql.session, query)
    frame.collect()
    return [f.name for f in frame.schema.fields if not f.nullable]


def test_what_the_schema_says(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT NOT NULL, v STRING, s STRING NOT NULL, c CHAR(3) NOT NULL)")
    sql("INSERT INTO t VALUES (1, 'a', 'x', 'c'), (2, NULL, 'y', 'd')")
    assert not_null(sql, "SELECT * FROM t") == ["id", "s", "c"]
    assert not_null(sql, "SELECT id + 1 AS n, s FROM t WHERE id > 1 AND s IS NOT NULL") == [
        "n",
        "s",
    ]
    assert sql("SELECT s FROM t WHERE s IS NULL OR id = 2") == [["y"]]


def test_merged_rows(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (id INT, v STRING NOT NULL, w INT) TBLPROPERTIES "
        "('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true')"
    )
    sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2); INSERT INTO t VALUES (2, 'B', 3)")
    assert not_null(sql, "SELECT * FROM t") == ["id", "v"]
    assert sql("SELECT * FROM t ORDER BY id") == [[1, "a", 1], [2, "B", 3]]


def test_not_where_rows_are_combined(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (id INT, v STRING NOT NULL) TBLPROPERTIES ('primary-key' = 'id', "
        "'bucket' = '1', 'merge-engine' = 'partial-update', 'write-only' = 'true')"
    )
    sql("INSERT INTO t VALUES (1, 'a'); INSERT INTO t VALUES (1, 'b')")
    assert not_null(sql, "SELECT * FROM t") == ["id"]


def test_not_what_was_nullable_before(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (id INT NOT NULL, v STRING) TBLPROPERTIES "
        "('alter-column-null-to-not-null.disabled' = 'false')"
    )
    sql("INSERT INTO t VALUES (1, NULL)")
    change = [{"change": "update_nullability", "name": "v", "nullable": False}]
    from paimon_core.ddl.schema_change import change_from_object

    sql.session.catalog.alter_table(
        "default.t", [change_from_object(c) for c in change], now_millis=0
    )
    assert not_null(sql, "SELECT * FROM t") == ["id"]
    source = sql.session.spark.read.format("paimon").load(f"{sql.session.warehouse}/default.db/t")
    assert [f.nullable for f in source.schema.fields] == [False, True]
    assert [tuple(r) for r in source.collect()] == [(1, None)]
    sql("ALTER TABLE t ALTER COLUMN id DROP NOT NULL")
    assert not_null(sql, "SELECT * FROM t") == []
