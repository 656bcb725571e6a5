"""A chain table whose partitions expire while its branches are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker
from sql_sessions import Sql

from paimon_core.retention.partitions import apply_partitions
from paimon_maintenance.job.exit_codes import ExitCode

OPTIONS = {
    "primary-key": "dt,k",
    "bucket": "1",
    "bucket-key": "k",
    "chain-table.enabled": "true",
    "sequence.field": "v",
    "partition.timestamp-pattern": "$dt",
    "partition.timestamp-formatter": "yyyyMMdd",
}


@pytest.fixture
def sql(tmp_path: Path) -> Sql:
    """One segment that expires, and one whose changes are merged with what the first leaves."""
    sql = Sql(tmp_path)
    options = ", ".join(f"'{key}' = '{value}'" for key, value in OPTIONS.items())
    columns = "k INT NOT NULL, v INT, dt STRING NOT NULL"
    sql(f"CREATE TABLE t ({columns}) PARTITIONED BY (dt) TBLPROPERTIES ({options})")
    sql("CALL sys.create_branch('t', 'snapshot'); CALL sys.create_branch('t', 'delta')")
    chain = "'scan.fallback-snapshot-branch' = 'snapshot', 'scan.fallback-delta-branch' = 'delta'"
    for name in ("t", "`t$branch_snapshot`", "`t$branch_delta`"):
        sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({chain})")
    sql("INSERT INTO `t$branch_snapshot` VALUES (1, 1, '20240101'), (2, 1, '20240201')")
    sql("INSERT INTO `t$branch_delta` VALUES (3, 1, '20240110'), (4, 1, '20240210')")
    return sql


@pytest.mark.parametrize("branch", ["delta", "snapshot"])
def test_a_partition_stays_whose_successor_is_dropped_meanwhile(
    branch: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(table: Any, *given: Any, **more: Any) -> Any:
        if table.branch == branch:
            # It drops this day of the other branch: its changes belong to the first segment now.
            sql("INSERT OVERWRITE `t$branch_delta` PARTITION (dt = '20240201') VALUES (5, 9)")
        return apply_partitions(table, *given, **more)

    monkeypatch.setattr("paimon_core.table.chain.expiry.apply_partitions", slow)
    words = ("expire_partitions", "default.t", "-w", tmp_path, "--expiration-time", "1 d")
    ran = caretaker("run", *words, "--force")
    assert ran.code == ExitCode.CONFLICT, ran.err
    assert "no longer expires: a concurrent commit" in ran.err
    found = caretaker("read", "default.t", "-w", tmp_path, "--where", "dt = '20240210'")
    assert {1, 4, 5} <= {row[1] for row in found.rows}
