"""The table functions of incremental queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

from paimon_spark.sql.frames import dataframes, distributed

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

    def check() -> None:
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

    check()
    sql("""
        CALL sys.expire_snapshots(table => 't', retain_max => 1, retain_min => 1,
          older_than => '2999-01-01 00:00:00')
    """)
    assert sql("SELECT count(*) FROM `t$snapshots`") == [[1]]
    check()  # the versions live on in their tags


@pytest.mark.sampled
@pytest.mark.parametrize("producer", ["none", "input"])
def test_executors_read_the_changes_that_the_driver_reads(
    producer: str, tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = Sql(tmp_path, session)
    sql(f"""
        CREATE TABLE t (a INT, b STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES
          ('primary-key' = 'a,p', 'bucket' = '2', 'changelog-producer' = '{producer}');
        INSERT INTO t SELECT id, concat('v', id), id % 2 FROM range(6);
        INSERT INTO t VALUES (1, 'new', 1);
        DELETE FROM t WHERE a = 2;
        INSERT OVERWRITE t PARTITION (p = 1) SELECT 7, 'seven';
        INSERT INTO t VALUES (2, 'again', 0);
        CALL sys.compact(table => 't', partitions => 'p=1')
    """)
    queries = [
        "SELECT a, b FROM paimon_incremental_query('t', 1, 5) WHERE p < 2 ORDER BY a, b",
        "SELECT * FROM `t$audit_log` ORDER BY a, rowkind",
        "SELECT * FROM paimon_incremental_query('`t$audit_log`', 1, 5) ORDER BY a, rowkind, b",
        "SELECT rowkind, a, b FROM paimon_incremental_query('`t$binlog`', 1, 5) ORDER BY a, rowkind",
        "SELECT * FROM `t$ro` ORDER BY a",
    ]
    by_driver = [sql(query) for query in queries]
    monkeypatch.setattr(distributed, "LARGE_READ", 0)
    monkeypatch.setattr(distributed, "LARGE_CHANGES", -1)
    for name in ("_scanned", "_system_rows"):
        monkeypatch.setattr(dataframes, name, None)
    assert [sql(query) for query in queries] == by_driver
    assert ["-D", 2] in [row[:2] for row in by_driver[2]]
    assert by_driver[4] == [[7, "seven", 1]]
