"""Tables with `pk-clustering-override` in SQL: changes, compactions and queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker
from sql_sessions import Sql

from paimon_maintenance.job.exit_codes import ExitCode

pytestmark = pytest.mark.spark


def test_changes_and_compactions(session: Any, tmp_path: Path) -> None:
    sql = Sql(tmp_path, session)
    sql(
        "CREATE TABLE t (id BIGINT, city STRING, amount DOUBLE, dt STRING) PARTITIONED BY (dt) "
        "TBLPROPERTIES ('primary-key' = 'id,dt', 'bucket' = '2', 'write-only' = 'true', "
        "'pk-clustering-override' = 'true', 'clustering.columns' = 'city,amount', "
        "'deletion-vectors.enabled' = 'true')"
    )
    insert = "INSERT INTO t SELECT id, concat('city ', (id * 7) % {}), id / 4, 'd' FROM range({})"
    sql(insert.format(10, "0, 1000"))
    assert sql("SELECT count(*) FROM t") == [[0]]  # rows are shown once they are compacted
    sql("CALL sys.compact(table => 't', compact_strategy => 'minor')")
    sql("UPDATE t SET city = 'Bern' WHERE id % 10 = 3")
    sql("DELETE FROM t WHERE id >= 900")
    sql(insert.format(5, "950, 1050"))
    for strategy in ("minor", "minor", "full"):
        sql(f"CALL sys.compact(table => 't', compact_strategy => '{strategy}')")
        assert sql("SELECT count(*), count(DISTINCT id) FROM t") == [[1000, 1000]]
        assert sql("SELECT count(*), max(id) FROM t WHERE city = 'Bern'") == [[90, 893]]
        ran = caretaker("verify", "default.t", "-w", tmp_path, "--deep")
        assert ran.code == ExitCode.SUCCESS, ran.out
    sql(
        "MERGE INTO t USING (SELECT 5 AS n UNION ALL SELECT 2000) s ON t.id = s.n AND t.dt = 'd' "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN "
        "INSERT (id, city, amount, dt) VALUES (s.n, 'Bern', 1.0, 'e')"
    )
    sql("CALL sys.compact(table => 't')")
    assert sql("SELECT count(*), max(id) FROM t WHERE id IN (5, 2000)") == [[1, 2000]]
    assert sql("SELECT DISTINCT level, deleteRowCount FROM `t$files`") == [[1, 0]]
    lowest = sql("SELECT min(min_key), max(max_key) FROM `t$files` WHERE partition = '{d}'")
    assert lowest[0][0].startswith("[Bern, 0.75")
    sql("INSERT OVERWRITE t PARTITION (dt = 'd') VALUES (1, 'Basel', 1.0), (2, 'Bern', 2.0)")
    sql("CALL sys.compact(table => 't')")
    assert sql("SELECT id, city, dt FROM t ORDER BY id") == [
        [1, "Basel", "d"],
        [2, "Bern", "d"],
        [2000, "Bern", "e"],
    ]
    plan = caretaker("plan", "repair", "default.t", "-w", tmp_path)
    assert plan.code == ExitCode.NOTHING_TO_DO, plan.out
