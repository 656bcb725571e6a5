"""UPDATE and DELETE run again where another commit changed or moved their rows first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from disk import on_disk, referenced
from sql_sessions import Sql

from paimon_core.errors import RowsChanged
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.table_read import read_table
from paimon_core.snapshot.snapshot import NO_SNAPSHOT
from paimon_core.table.open import open_table
from paimon_core.table.sink.write_session import write_rows
from paimon_spark.sql.dml import large_changes, targets

EVOLVED = "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true'"
KEYED = "'primary-key' = 'id', 'bucket' = '1'"
KINDS = {
    "evolved": EVOLVED,
    "keyed": KEYED,
    "dynamic": "'primary-key' = 'id'",
    "vectors": "'deletion-vectors.enabled' = 'true'",
    "append": "'bucket' = '-1'",
}
ATTEMPTS = "SET spark.paimon.write.data-evolution.update-conflict-retry.max-attempts"

_REWRITTEN = """
    UPDATE t SET v = 'B';
    CALL sys.compact(table => 't', compact_strategy => 'full');
    CALL sys.expire_snapshots(table => 't', retain_max => 1, retain_min => 1,
      older_than => '2999-01-01 00:00:00')
"""


def _raced(warehouse: Path, changes: list[str], options: str = EVOLVED) -> Sql:
    """A session in which another one makes these changes, each after rows were read."""
    first, other = Sql(warehouse), Sql(warehouse)
    first(f"CREATE TABLE t (id INT, v STRING, w STRING) TBLPROPERTIES ({options})")
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


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(
    "statement", ["UPDATE t SET w = 'mine' WHERE id = 2", "DELETE FROM t WHERE id = 2"]
)
@pytest.mark.parametrize("place", [targets, large_changes], ids=["driver", "executors"])
def test_rows_that_expire_before_they_are_read_are_read_anew(
    options: str, statement: str, place: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if options == EVOLVED:
        options += ", 'deletion-vectors.enabled' = 'true'"
    sql, check_target, waiting = _raced(tmp_path, [], options), targets.check_target, [True]

    def after_others(table: FileStoreTable, what: str) -> None:
        check_target(table, what)
        if waiting and waiting.pop():
            Sql(tmp_path)(_REWRITTEN)

    monkeypatch.setattr(place, "check_target", after_others)
    sql(statement)
    assert not waiting
    left = [(2, "B", "mine")] if statement.startswith("UPDATE") else []
    assert _rows(tmp_path) == [(1, "B", "x"), *left]


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_an_update_runs_again(options: str, tmp_path: Path) -> None:
    sql = _raced(tmp_path, ["UPDATE t SET v = 'B'"], options)
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


@pytest.mark.parametrize(
    ("other", "left"),
    [
        ("TRUNCATE TABLE t", []),
        ("INSERT OVERWRITE t VALUES (2, 'over', 'y')", [(2, "over", "y")]),
        ("DELETE FROM t WHERE id = 1", [(2, "b", "y")]),
        (
            "ALTER TABLE t ADD COLUMN u INT; INSERT INTO t VALUES (1, 'a', 'x', 7)",
            [(1, "a", "mine", 7), (2, "b", "y", None)],
        ),
        ("INSERT INTO t VALUES (3, 'a', 'z')", [(1, "a", "mine"), (2, "b", "y"), (3, "a", "z")]),
        ("INSERT INTO t VALUES (1, 'c', 'z')", [(1, "c", "z"), (2, "b", "y")]),
        ("CALL sys.compact('t')", [(1, "a", "mine"), (2, "b", "y")]),
    ],
)
def test_rows_with_keys_are_as_they_were_read(
    other: str, left: list[object], tmp_path: Path
) -> None:
    """Java writes back rows that are gone, and values that are old."""
    sql = _raced(tmp_path, [other], KEYED)
    sql("UPDATE t SET w = 'mine' WHERE id = 1 AND v = 'a'")
    assert _rows(tmp_path) == left
    assert on_disk(tmp_path / "default.db/t") == referenced(tmp_path, "default.t")


def test_a_delete_spares_a_row_that_changed(tmp_path: Path) -> None:
    sql = _raced(tmp_path, ["UPDATE t SET v = 'B' WHERE id = 2"], KEYED)
    sql("DELETE FROM t WHERE v IN ('a', 'b')")
    assert _rows(tmp_path) == [(2, "B", "y")]


def test_rows_come_into_a_table_without_a_snapshot(tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    sql(f"CREATE TABLE t (id INT, v STRING, w STRING) TBLPROPERTIES ({KEYED})")
    table = open_table(str(tmp_path), "default.t")
    rows = pa.table({"id": [1], "v": ["a"], "w": ["x"]})
    write_rows(table, rows, env=sql.session.env, rows_at=NO_SNAPSHOT)
    assert _rows(tmp_path) == [(1, "a", "x")]
    again = pa.table({"id": [1], "v": ["b"], "w": ["y"]})
    with pytest.raises(RowsChanged, match="snapshot 1 by user"):
        write_rows(table, again, env=sql.session.env, rows_at=NO_SNAPSHOT)
    write_rows(table, again.set_column(0, "id", [[2]]), env=sql.session.env, rows_at=NO_SNAPSHOT)
    assert _rows(tmp_path) == [(1, "a", "x"), (2, "b", "y")]
