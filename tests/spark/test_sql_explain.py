"""EXPLAIN prints plans of changes, and makes none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ParseException
from sql_sessions import Sql

from paimon_core.errors import PaimonError, UnsupportedFeature

pytestmark = pytest.mark.spark

MERGE = """
    MERGE INTO t AS x USING (SELECT 1 AS i, 'n' AS n) s ON x.id = s.i
    WHEN MATCHED AND x.v = 'a' THEN UPDATE SET v = concat(x.v, s.n)
    WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.i, DEFAULT)
    WHEN NOT MATCHED BY SOURCE THEN DELETE
"""
STATEMENTS = {
    "DELETE FROM t WHERE id = 1": "DeleteFromPaimonTable",
    "DELETE FROM t": "DeleteFromPaimonTable",
    "UPDATE t AS x SET x.v = upper(v) WHERE x.id = 1": "UpdatePaimonTable",
    "INSERT INTO t PARTITION (p = 'b') SELECT id, v FROM t": "WriteIntoPaimonTable",
    "INSERT INTO t (id, p) VALUES (7, 'c')": "WriteIntoPaimonTable",
    "INSERT OVERWRITE t SELECT * FROM t": "OverwritePaimonTable",
    "INSERT INTO t REPLACE WHERE p = 'a' SELECT 5, 'b', 'a'": "WriteIntoPaimonTable",
    MERGE: "MergeIntoPaimonTable",
    "WITH c AS (SELECT 1 AS i) DELETE FROM t WHERE id IN (SELECT i FROM c)": "DeleteFromPaimonTable",
    "WITH c AS (SELECT 1, 'b', 'a') INSERT INTO t SELECT * FROM c": "WriteIntoPaimonTable",
}


@pytest.fixture(scope="module")
def sql(session: Any, tmp_path_factory: pytest.TempPathFactory) -> Sql:
    sql = Sql(Path(tmp_path_factory.mktemp("explain")), session)
    sql("CREATE TABLE t (id INT, v STRING, p STRING) PARTITIONED BY (p)")
    sql("INSERT INTO t VALUES (1, 'a', 'a'), (2, 'b', 'b')")
    return sql


@pytest.mark.sampled
@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("mode", ["", "FORMATTED"])
def test_changes_are_not_made(sql: Sql, statement: str, mode: str) -> None:
    ((plan,),) = sql(f"EXPLAIN {mode} {statement}")
    assert plan.startswith(f"{STATEMENTS[statement]} `paimon`.`default`.`t`\n")
    assert "== Physical Plan ==" in plan
    assert sql("SELECT max(snapshot_id) FROM `t$snapshots`") == [[1]]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET nope = 1",
        "INSERT INTO nope SELECT 1",
        "UPDATE `t$snapshots` SET snapshot_id = 1",
        "DELETE FROM t WHERE id = 1 nope",
    ],
)
def test_wrong_statements_are_refused(sql: Sql, statement: str) -> None:
    with pytest.raises((PaimonError, ParseException), match=r"nope|system table"):
        sql(f"EXPLAIN {statement}")


def test_the_plan_shows_what_spark_does_not_resolve(sql: Sql) -> None:
    for statement in (
        "DELETE FROM t WHERE nope = 1",
        "MERGE INTO t USING t AS s ON t.id = s.nope WHEN MATCHED THEN DELETE",
    ):
        assert "UNRESOLVED_COLUMN" in sql(f"EXPLAIN {statement}")[0][0]


def test_other_statements_have_no_plan(sql: Sql) -> None:
    with pytest.raises(UnsupportedFeature, match="EXPLAIN DROP"):
        sql("EXPLAIN DROP TABLE t")
