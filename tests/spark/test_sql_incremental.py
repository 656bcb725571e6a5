"""The table functions of incremental queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

pytestmark = pytest.mark.spark


def test_versions_with_other_buckets_are_compared_by_their_rows(
    tmp_path: Path, session: Any
) -> None:
    sql = Sql(tmp_path, session)
    sql("""
        CREATE TABLE t (a INT, b INT) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '1');
        INSERT INTO t VALUES (1, 11), (2, 22);
        CALL sys.create_tag('t', '2024-01-01', 1);
        ALTER TABLE t SET TBLPROPERTIES ('bucket' = '2');
        INSERT OVERWRITE t SELECT * FROM t;
        INSERT INTO t VALUES (3, 33);
        CALL sys.create_tag('t', '2024-01-03', 3);
        DELETE FROM t WHERE a = 1;
        CALL sys.create_tag('t', '2024-01-04', 4);
        UPDATE t SET b = 222 WHERE a = 2;
        CALL sys.create_tag('t', '2024-01-05', 5)
    """)

    def changes(table: str, end: str) -> list[list[Any]]:
        query = f"SELECT * FROM paimon_incremental_query('`{table}`', '2024-01-01', '{end}') q"
        return sql(f"{query} ORDER BY q.a, q.b")

    assert changes("t", "2024-01-03") == [[3, 33]]
    assert changes("t", "2024-01-04") == [[3, 33]]
    assert changes("t", "2024-01-05") == [[2, 222], [3, 33]]
    assert sql("SELECT * FROM paimon_incremental_to_auto_tag('t', '2024-01-03')") == [[3, 33]]
    assert changes("t$audit_log", "2024-01-04") == [["-D", 1, 11], ["+I", 3, 33]]
    assert changes("t$audit_log", "2024-01-05") == [
        ["-D", 1, 11],
        ["+U", 2, 222],
        ["+I", 3, 33],
    ]
