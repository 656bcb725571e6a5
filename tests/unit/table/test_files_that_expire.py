"""A write whose compaction finds that others have compacted the files, and let them expire."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from disk import assert_whole
from sql_sessions import Sql

from paimon_core.environment import system_environment
from paimon_core.errors import CorruptTable
from paimon_core.table.open import open_table
from paimon_core.table.sink import compact_table, write_session
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch

TABLE = """
    CREATE TABLE t (a INT, v INT) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '1',
      'num-sorted-run.compaction-trigger' = '2', 'write-only' = 'true');
    INSERT INTO t VALUES (0, 0); INSERT INTO t VALUES (1, 1);
    ALTER TABLE t UNSET TBLPROPERTIES ('write-only')
"""
COMPACTED_AND_EXPIRED = """
    CALL sys.compact(table => 't', compact_strategy => 'full');
    CALL sys.expire_snapshots(table => 't', retain_max => 1, retain_min => 1,
      older_than => '2999-01-01 00:00:00')
"""


def rows(warehouse: Path) -> list[tuple[int, int]]:
    table = open_table(str(warehouse), "default.t")
    batches = read_batch(batch_scan_of(table))
    return [(row["a"], row["v"]) for batch in batches for row in batch.to_pylist()]


def let_others_compact_first(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, warehouse: Path, *, expires: bool
) -> list[bool]:
    """Before the module's first compaction others compact; what comes back is empty after that.

    Without an expiry, the oldest data file is lost instead.
    """
    compact_buckets, waiting = module.compact_buckets, [True]

    def after_others(*given: Any, **options: Any) -> Any:
        if waiting and waiting.pop():
            if expires:
                Sql(warehouse)(COMPACTED_AND_EXPIRED)
            else:
                min(warehouse.rglob("data-*"), key=lambda p: p.stat().st_mtime_ns).unlink()
        return compact_buckets(*given, **options)

    monkeypatch.setattr(module, "compact_buckets", after_others)
    return waiting


@pytest.mark.parametrize("expires", [True, False])
def test_rows_are_written_whose_compaction_misses_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, expires: bool
) -> None:
    """What is missing without an expiry is damage."""
    sql = Sql(tmp_path)
    sql(TABLE)
    waiting = let_others_compact_first(monkeypatch, write_session, tmp_path, expires=expires)
    if not expires:
        with pytest.raises(CorruptTable, match="a data file is missing"):
            sql("INSERT INTO t VALUES (2, 2)")
        return
    sql("INSERT INTO t VALUES (2, 2)")
    assert not waiting
    assert_whole(tmp_path, "default.t")
    assert sorted(rows(tmp_path)) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("expires", [True, False])
def test_a_compaction_from_the_library_misses_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, expires: bool
) -> None:
    Sql(tmp_path)(TABLE)
    waiting = let_others_compact_first(monkeypatch, compact_table, tmp_path, expires=expires)
    table = open_table(str(tmp_path), "default.t")
    if not expires:
        with pytest.raises(CorruptTable, match="a data file is missing"):
            compact_table.compact_table(table, full=True, env=system_environment())
        return
    compact_table.compact_table(table, full=True, env=system_environment())
    assert not waiting
    assert_whole(tmp_path, "default.t")
    assert sorted(rows(tmp_path)) == [(0, 0), (1, 1)]
