"""A condition that is NULL is met by no row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("properties", ["'bucket' = '-1'", "'primary-key' = 'id', 'bucket' = '1'"])
def test_changes_nothing(session: Any, tmp_path: Path, properties: str) -> None:
    sql = Sql(tmp_path, session)
    sql(f"CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ({properties})")
    sql("INSERT INTO t VALUES (1, 'a'), (2, NULL)")
    sql("DELETE FROM t WHERE NULL")
    sql("DELETE FROM t WHERE ((null))")
    sql("UPDATE t SET v = upper(v) WHERE NULL")
    sql("MERGE INTO t USING (SELECT 1 AS i) s ON NULL WHEN MATCHED THEN DELETE")
    sql("""
        MERGE INTO t USING (SELECT 1 AS i UNION ALL SELECT 9) s ON id = i
        WHEN MATCHED AND NULL THEN UPDATE SET v = 'x'
        WHEN MATCHED AND (NULL) THEN DELETE
        WHEN NOT MATCHED AND NULL THEN INSERT (id) VALUES (i)
        WHEN NOT MATCHED BY SOURCE AND NULL THEN DELETE
    """)
    assert sql("SELECT * FROM t ORDER BY id") == [[1, "a"], [2, None]]
    assert sql("SELECT max(snapshot_id) FROM `t$snapshots`") == [[1]]
    sql("MERGE INTO t USING (SELECT 9 AS i) s ON NULL WHEN NOT MATCHED THEN INSERT (id) VALUES (i)")
    assert sql("SELECT id FROM t ORDER BY id") == [[1], [2], [9]]
    sql("DELETE FROM t WHERE NULL IS NULL AND id = 9")
    assert sql("SELECT id FROM t ORDER BY id") == [[1], [2]]
