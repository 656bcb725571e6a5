"""Changelogs that outlive their snapshots on a table whose changelog producer is changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from disk import assert_whole, on_disk, referenced
from harness import run_job
from sql_sessions import Sql

from paimon_core.table.open import open_table

TABLE = """
    CREATE TABLE t (k INT, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1',
        'write-only' = 'true', 'changelog-producer' = '{}',
        'changelog.num-retained.min' = '20', 'changelog.num-retained.max' = '20');
    INSERT INTO t VALUES (1, 'a'); INSERT OVERWRITE t VALUES (2, 'b'); INSERT INTO t VALUES (3, 'c');
    CALL sys.compact('t'); INSERT INTO t VALUES (4, 'd')
"""
ONE = {"retain_max": 1, "retain_min": 1}


@pytest.mark.parametrize(("before", "after"), [("input", "none"), ("none", "input")])
def test_history_expires_under_either(before: str, after: str, tmp_path: Path) -> None:
    """An overwrite and a compaction have no changelog of a producer, so they keep no list."""
    sql = Sql(tmp_path)
    sql(TABLE.format(before))
    assert run_job(tmp_path, "expire_snapshots", ONE, table="default.t").error is None
    changelogs = open_table(str(tmp_path), "default.t").changelogs
    assert len(changelogs.ids()) >= 4
    sql(f"ALTER TABLE t SET TBLPROPERTIES ('changelog-producer' = '{after}')")
    assert_whole(tmp_path, "default.t")
    sql("INSERT INTO t VALUES (5, 'e')")
    for job in ("expire_snapshots", "expire_changelogs"):
        assert run_job(tmp_path, job, ONE, table="default.t").error is None
    assert len(changelogs.ids()) == 1
    root = tmp_path / "default.db/t"
    assert sorted(on_disk(root) - referenced(tmp_path, "default.t")) == []
