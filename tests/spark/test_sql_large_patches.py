"""Executors change single rows of append tables, and show where rows are, as the driver does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from disk import assert_whole
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.errors import UnsupportedFeature
from paimon_spark.sql.dml import large_changes
from paimon_spark.sql.dml.large_changes import LargeTarget
from paimon_spark.sql.errors import WriteRefused
from paimon_spark.sql.frames import dataframes, distributed

pytestmark = pytest.mark.spark

TRACKED = "'row-tracking.enabled' = 'true'"
EVOLVED = f"{TRACKED}, 'data-evolution.enabled' = 'true'"
VECTORS = "'deletion-vectors.enabled' = 'true'"
KINDS = {
    "append": "'bucket' = '-1'",
    "buckets": "'bucket' = '2', 'bucket-key' = 'id'",
    "tracked": TRACKED,
    "tracked with vectors": f"{TRACKED}, {VECTORS}",
    "evolved": EVOLVED,
    "evolved with vectors": f"{EVOLVED}, {VECTORS}",
}
FILL = """
    INSERT INTO t SELECT CAST(id AS INT), concat('v', id), struct(id), concat('p', id % 2)
      FROM range(0, 6, 1, 1);
    INSERT INTO t SELECT CAST(id AS INT), NULL, NULL, 'p0' FROM range(6, 9, 1, 1);
    ALTER TABLE t ADD COLUMN note STRING;
    ALTER TABLE t ALTER COLUMN note SET DEFAULT 'new'
"""
CHANGES = """
    UPDATE t SET v = concat(v, '!'), s.x = -id WHERE length(v) = 2 AND id IN (1, 4);
    MERGE INTO t USING (SELECT id AS k FROM range(3, 9)) src ON t.id = src.k
    WHEN MATCHED AND src.k = 3 THEN UPDATE SET v = 'merged'
    WHEN MATCHED AND src.k = 7 THEN UPDATE SET v = 'merged', note = concat(p, '-', t.id);
    MERGE INTO t USING (SELECT id AS k FROM range(8, 10)) src ON t.id = src.k
    WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (src.k, 'inserted', 'p0')
"""
DELETES = """
    DELETE FROM t WHERE length(p) = 2 AND id = 2;
    MERGE INTO t USING (SELECT id AS k FROM range(0, 9, 5)) src ON t.id = src.k
    WHEN MATCHED AND src.k = 0 THEN UPDATE SET v = 'kept' WHEN MATCHED THEN DELETE
"""
HIDDEN = """
    SELECT id, __paimon_bucket, __paimon_partition.p, __paimon_row_index,
      substring_index(__paimon_file_path, '/', -1) LIKE 'data-%' FROM t WHERE id > 0 ORDER BY id
"""


def changed(sql: Sql, kind: str) -> dict[str, Any]:
    """What the statements leave behind."""
    columns = "id INT NOT NULL, v STRING, s STRUCT<x: BIGINT>, p STRING"
    sql(f"CREATE TABLE t ({columns}) PARTITIONED BY (p) TBLPROPERTIES ({KINDS[kind]})")
    sql(FILL)
    sql(CHANGES)
    if kind != "evolved":
        sql(DELETES)
    found = {"rows": sql("SELECT * FROM t ORDER BY id")}
    found["snapshots"] = sql("SELECT count(*) FROM `t$snapshots`")
    if "evolved" not in kind:
        found["hidden"] = sorted(row[:3] for row in sql(HIDDEN))
    if kind not in ("append", "buckets"):
        found["ids"] = sql("SELECT id, _ROW_ID, _SEQUENCE_NUMBER FROM t ORDER BY id")
        assert found["ids"] == sql(
            "SELECT id, _ROW_ID, _SEQUENCE_NUMBER FROM `t$row_tracking` ORDER BY id"
        )
    return found


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("kind", KINDS)
def test_executors_change_what_the_driver_changes(
    kind: str,
    oracle_1_4_2: Oracle,
    oracle_2_0_0: Oracle,
    session: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_driver = changed(Sql(tmp_path / "driver", session), kind)
    monkeypatch.setattr(large_changes, "LARGE_CHANGE", 0)
    for module in (dataframes, distributed):
        monkeypatch.setattr(module, "LARGE_READ", 0)
    committed: list[LargeTarget] = []
    commit = LargeTarget.commit
    monkeypatch.setattr(
        LargeTarget, "commit", lambda t, *a, **k: (committed.append(t), commit(t, *a, **k))
    )
    sql = Sql(tmp_path / "executors", session)
    by_executors = changed(sql, kind)
    assert len(committed) == (3 if kind == "evolved" else 5)
    assert by_executors == by_driver
    oracle = oracle_2_0_0 if kind == "evolved with vectors" else oracle_1_4_2
    oracle.defaults(warehouse=tmp_path / "executors", database="default", table="t")
    java = [[i, v, s and [s["x"]], p, n] for _, i, v, s, p, n in oracle.rows()]
    assert sorted(java) == by_executors["rows"]
    if "ids" in by_executors:
        ids = [[row[1], *row[-2:]] for row in oracle.rows(system="row_tracking")]
        assert sorted(ids) == by_executors["ids"]
    assert_whole(tmp_path / "executors", "default.t")


def test_what_is_refused_leaves_no_file(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_changes, "LARGE_CHANGE", 0)
    sql = Sql(tmp_path, session)
    sql(
        f"CREATE TABLE t (id INT NOT NULL, v STRING, p STRING) PARTITIONED BY (p) TBLPROPERTIES ({EVOLVED})"
    )
    sql("INSERT INTO t VALUES (1, 'a', 'p'), (2, 'b', 'p')")
    before = {p for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(UnsupportedFeature, match="partition columns"):
        sql("UPDATE t SET p = upper(p) WHERE length(v) = 1")
    with pytest.raises(WriteRefused, match="non-null column"):
        sql("UPDATE t SET id = NULL WHERE length(v) = 1")
    with pytest.raises(WriteRefused, match="MERGE_CARDINALITY_VIOLATION"):
        sql("""
            MERGE INTO t USING (SELECT 1 AS k UNION ALL SELECT 1) s ON t._ROW_ID = s.k
            WHEN MATCHED THEN UPDATE SET v = 'x'
        """)
    assert {p for p in tmp_path.rglob("*") if p.is_file()} == before
    sql(
        "MERGE INTO t USING (SELECT 1 AS k) s ON t._ROW_ID = s.k WHEN MATCHED THEN UPDATE SET v = 'x'"
    )
    assert sql("SELECT id, v FROM t ORDER BY id") == [[1, "a"], [2, "x"]]


@pytest.mark.sampled
@pytest.mark.parametrize("merged", [True, False])
def test_executors_show_where_the_rows_of_keys_are(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, merged: bool
) -> None:
    sql = Sql(tmp_path, session)
    options = "'primary-key' = 'id,d', 'bucket' = '2', 'write-only' = 'true'"
    sql(f"CREATE TABLE t (id INT, v STRING, d DATE) PARTITIONED BY (d) TBLPROPERTIES ({options})")
    sql("INSERT INTO t SELECT id, concat('v', id), date '2024-01-01' FROM range(9)")
    sql("INSERT INTO t SELECT id, 'new', date '2024-01-01' FROM range(3)")
    query = "SELECT id, v, __paimon_bucket, __paimon_partition FROM t WHERE id < 7 ORDER BY id"
    if not merged:
        sql("CALL sys.compact('t')")
        query = query.replace("__paimon_bucket", "__paimon_file_path, __paimon_row_index")
    by_driver = sql(query)
    monkeypatch.setattr(dataframes, "LARGE_READ", 0)
    monkeypatch.setattr(dataframes, "collected", None)
    assert sql(query) == by_driver
    assert len(by_driver) == 7
