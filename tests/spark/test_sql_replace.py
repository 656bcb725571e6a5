"""CREATE OR REPLACE TABLE ... AS SELECT: the new rows are in files before the old ones go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from disk import assert_whole
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.errors import PaimonError
from paimon_spark.sql.ddl import replace_table
from paimon_spark.sql.dml import as_select

pytestmark = pytest.mark.spark
KINDS = {
    "append": "",
    "partitions": "PARTITIONED BY (v)",
    "keys": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')",
    "dynamic": "TBLPROPERTIES ('primary-key' = 'id')",
    "postponed": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '-2')",
}


@pytest.fixture
def sql(tmp_path: Path, session: Any) -> Sql:
    made = Sql(tmp_path, session)
    made("CREATE DATABASE db; USE db")
    return made


@pytest.mark.sampled(one_of=2)
@pytest.mark.parametrize("kind", KINDS)
def test_java_reads_the_new_rows(kind: str, oracle_2_0_0: Oracle, sql: Sql, tmp_path: Path) -> None:
    oracle_2_0_0.defaults(warehouse=tmp_path, database="db", table="t")
    sql(f"CREATE TABLE t (id INT, v STRING) {KINDS[kind]}; INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    query = "SELECT id + 1 AS id, upper(v) AS v, id * 1.5 AS more FROM t"
    sql(f"CREATE OR REPLACE TABLE t {KINDS[kind]} AS {query}")
    expected = [[2, "A", 1.5], [3, "B", 3.0]]
    assert [[i, v, float(x)] for i, v, x in sql("SELECT * FROM t ORDER BY id")] == expected
    assert sorted([i, v, float(x)] for _, i, v, x in oracle_2_0_0.rows()) == expected
    sql("INSERT INTO t VALUES (9, 'z', 0)")
    assert len(oracle_2_0_0.rows()) == 3
    assert_whole(tmp_path)


def test_rows_that_are_refused_leave_the_table_as_it_was(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, v STRING); INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(PaimonError, match="id"):
        sql(f"CREATE OR REPLACE TABLE t {KINDS['keys']} AS SELECT CAST(NULL AS INT) AS id, 1 AS n")
    assert sql("SELECT * FROM t") == [[1, "a"]]


def test_a_disk_that_is_full_leaves_the_table_as_it_was(
    sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE t (id INT, v STRING); INSERT INTO t VALUES (1, 'a')")
    before = {p for p in tmp_path.rglob("*") if p.is_file()}

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(as_select, "prepare_rows", full)
    with pytest.raises(OSError, match="No space"):
        sql("CREATE OR REPLACE TABLE t AS SELECT 7 AS n")
    assert sql("SELECT * FROM t") == [[1, "a"]]
    assert {p for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_schema_that_came_meanwhile(
    sql: Sql, tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are written again under the number that is free then."""
    sql("CREATE TABLE t (id INT, v STRING); INSERT INTO t VALUES (1, 'a')")
    emptied = replace_table.replace_partitions

    def late(*args: Any, **options: Any) -> None:
        monkeypatch.undo()
        Sql(tmp_path, session)("ALTER TABLE db.t ADD COLUMN more INT")
        emptied(*args, **options)

    monkeypatch.setattr(replace_table, "replace_partitions", late)
    sql("CREATE OR REPLACE TABLE t AS SELECT 7 AS n, 'x' AS s")
    assert sql("SELECT * FROM t") == [[7, "x"]]
    assert sql("SELECT schema_id FROM `t$files`") == [[2]]
    assert_whole(tmp_path)
    data = list(tmp_path.rglob("data-*"))
    assert len(data) == 2, "of the old rows and the new ones"
