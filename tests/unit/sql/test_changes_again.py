"""Changes of tables with data evolution run again where another one of the same rows came first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sql_sessions import Sql

from paimon_core.errors import RowsChanged
from paimon_core.read.table_read import read_table
from paimon_core.table.open import open_table

EVOLVED = "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true'"
ATTEMPTS = "SET spark.paimon.write.data-evolution.update-conflict-retry.max-attempts"


def _raced(warehouse: Path, changes: list[str]) -> Sql:
    """A session in which another one makes these changes, each after rows were read."""
    first, other = Sql(warehouse), Sql(warehouse)
    first(f"CREATE TABLE t (id INT, v STRING, w STRING) TBLPROPERTIES ({EVOLVED})")
    first("INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    new_uuid = first.session.env.new_uuid

    def after_a_change() -> str:
        if changes:
            other(changes.pop())
        return new_uuid()

    first.session.env = replace(first.session.env, new_uuid=after_a_change)
    return first


def _rows(warehouse: Path) -> list[tuple[int, str, str]]:
    table = open_table(str(warehouse), "default.t")
    batches = list(read_table(table, table.latest_or_not_found()))
    rows = (tuple(r.values()) for b in batches for r in b.drop_columns(["_VALUE_KIND"]).to_pylist())
    return sorted(rows)


def test_an_update_runs_again(tmp_path: Path) -> None:
    sql = _raced(tmp_path, ["UPDATE t SET v = 'B'"])
    sql("UPDATE t SET w = 'mine' WHERE v = 'a' OR id = 2")
    assert _rows(tmp_path) == [(1, "B", "x"), (2, "B", "mine")]


def test_not_more_often_than_allowed(tmp_path: Path) -> None:
    changes = ["UPDATE t SET v = 'other' WHERE id = 2"] * 20
    sql = _raced(tmp_path, changes)
    sql(f"{ATTEMPTS}=2")
    with pytest.raises(RowsChanged, match="multiple 'MERGE INTO'"):
        sql("UPDATE t SET w = 'mine' WHERE id = 1")
    assert _rows(tmp_path) == [(1, "a", "x"), (2, "other", "y")]
    changes.clear()
    sql("UPDATE t SET w = 'mine' WHERE id = 1")
    assert _rows(tmp_path)[0] == (1, "a", "mine")
