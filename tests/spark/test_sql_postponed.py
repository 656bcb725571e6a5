"""Queries under `postpone.merge-on-read`: the same rows from the driver and from executors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

from paimon_core.errors import PaimonError
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_spark.source.reads.frames import read
from paimon_spark.sql.frames import distributed
from paimon_spark.sql.query.queries import query_dataframe

pytestmark = pytest.mark.spark

FIXED = "spark.paimon.postpone.batch-write-fixed-bucket"
MERGED = "spark.paimon.postpone.merge-on-read"


def made(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (k INT, v STRING, s INT, dt STRING) PARTITIONED BY (dt) TBLPROPERTIES ("
        "'primary-key' = 'k,dt', 'bucket' = '-2', 'sequence.field' = 's', "
        "'postpone.target-row-num-per-bucket' = '80')"
    )
    ids = "SELECT CAST(id AS INT), concat('a', id), 5, concat('d', id % 2) FROM range(0, 240)"
    sql(f"INSERT INTO t {ids}")
    sql(f"SET {FIXED}=false")
    sql(
        "INSERT INTO t SELECT CAST(id AS INT), concat('b', id), 4 + id % 3, concat('d', id % 3) "
        "FROM range(80, 320)"
    )
    sql("DELETE FROM t WHERE k < 10")


def expected() -> dict[tuple[int, str], str]:
    rows = {(k, f"d{k % 2}"): (f"a{k}", 5) for k in range(240)}
    for k in range(80, 320):
        key, row = (k, f"d{k % 3}"), (f"b{k}", 4 + k % 3)
        if key not in rows or row[1] >= rows[key][1]:
            rows[key] = row
    return {key: v for key, (v, _) in rows.items() if key[0] >= 10}


def test_queries_and_changes(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = Sql(tmp_path, session)
    made(sql)
    hidden = sql("SELECT count(*) FROM t")
    assert hidden == [[240]]
    sql(f"SET {MERGED}=true")
    rows = expected()
    query = "SELECT k, dt, v FROM t WHERE v IS NOT NULL ORDER BY k, dt"
    wanted = [[k, dt, v] for (k, dt), v in sorted(rows.items())]
    counted = "SELECT dt, count(*), max(k) FROM t WHERE k >= 160 GROUP BY dt ORDER BY dt"
    groups = [
        [dt, len(ks), max(ks)]
        for dt in ("d0", "d1", "d2")
        for ks in [[k for k, d in rows if d == dt and k >= 160]]
    ]
    assert sql(query) == wanted
    assert sql(counted) == groups
    # Each partition larger than a split goes through a shuffle, bucket by bucket.
    monkeypatch.setattr(distributed, "LARGE_READ", 0)
    for size in ("1 b", "128 mb"):
        sql(f"SET spark.paimon.source.split.target-size={size}")
        plan = query_dataframe(sql.session, query)._jdf.queryExecution().toString()
        assert ("RepartitionByExpression" in plan) == (size == "1 b")
        assert sql(query) == wanted
        assert sql(counted) == groups
        options = {"source.split.target-size": size, "postpone.merge-on-read": "true"}
        frame = read(session, warehouse=str(tmp_path), table="default.t", columns=["v"], **options)
        assert sorted(r.v for r in frame.collect()) == sorted(rows.values())
    source = session.read.format("paimon").option("postpone.merge-on-read", "true")
    assert source.load(f"{tmp_path}/default.db/t").count() == len(rows)

    # Changes of rows that a postponed row shows are newer than it.
    sql(f"RESET `{FIXED}`")
    sql("UPDATE t SET v = 'changed', s = 9 WHERE k IN (50, 300)")
    sql("DELETE FROM t WHERE k = 301")
    assert sql("SELECT k, v FROM t WHERE k IN (50, 300, 301) ORDER BY k") == [
        [50, "changed"],
        [300, "changed"],
    ]
    for refused, why in (
        ("SELECT __paimon_bucket FROM t", "does not support metadata columns"),
        ("SELECT * FROM paimon_incremental_query('t', 1, 2)", "requires a full snapshot scan"),
    ):
        with pytest.raises(PaimonError, match=why):
            sql(refused)
    assert sql("SELECT count(*) FROM t VERSION AS OF 1") == [[240]]
    sql("CALL sys.compact('t')")
    latest = open_table(str(tmp_path), "default.t").latest_or_not_found()
    left = scan_files(open_table(str(tmp_path), "default.t"), latest)
    assert all(e.bucket >= 0 for e in left)
    shown = sql(query)
    sql(f"SET {MERGED}=false")
    assert sql(query) == shown
