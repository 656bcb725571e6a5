"""Rows that are in a table already keep their nulls, although a column got a default value later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

from paimon_core.environment import system_environment
from paimon_core.predicate import parse_where
from paimon_core.read.table_read import read_table
from paimon_core.table.delete_rows import delete_rows
from paimon_core.table.open import open_table
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table

TABLE = """
    CREATE TABLE t (k INT, v STRING) TBLPROPERTIES ({options});
    INSERT INTO t VALUES (1, NULL), (2, 'b');
    INSERT INTO t VALUES (3, NULL);
    ALTER TABLE t ALTER COLUMN v SET DEFAULT 'none'
"""
PLAIN = "'bucket' = '-1'"
TRACKED = "'bucket' = '-1', 'row-tracking.enabled' = 'true'"
KEYED = "'primary-key' = 'k', 'bucket' = '-1', 'write-only' = 'true'"


def rows(warehouse: Path, name: str = "default.t") -> list[list[Any]]:
    table = open_table(str(warehouse), name)
    batches = read_table(table, table.latest_or_not_found())
    return sorted([r["k"], r["v"]] for b in batches for r in b.to_pylist())


@pytest.mark.parametrize("options", [PLAIN, KEYED])
def test_sorting_fills_in_no_default(tmp_path: Path, options: str) -> None:
    Sql(tmp_path)(TABLE.format(options=options))
    job = job_named("sort_compact")
    arguments: dict[str, object] = {"order_by": ["v"], "order_strategy": "order"}
    if options == KEYED:
        arguments |= {"writers_stopped": True}
    request = RunRequest(
        job=job,
        warehouse=str(tmp_path),
        table="default.t",
        arguments=job.read_arguments(arguments),
    )
    report = run_table(request)
    assert report.error is None, report.error
    assert report.snapshots
    assert rows(tmp_path) == [[1, None], [2, "b"], [3, None]]


@pytest.mark.parametrize("options", [PLAIN, TRACKED])
def test_deleting_changes_no_other_row(tmp_path: Path, options: str) -> None:
    sql = Sql(tmp_path)
    sql(TABLE.format(options=options))
    sql("DELETE FROM t WHERE k = 2")
    assert rows(tmp_path) == [[1, None], [3, None]]


def test_deleting_in_the_library_changes_no_other_row(tmp_path: Path) -> None:
    Sql(tmp_path)(TABLE.format(options=PLAIN))
    table = open_table(str(tmp_path), "default.t")
    delete_rows(table, parse_where("k = 2", table.schema.row_type), env=system_environment())
    assert rows(tmp_path) == [[1, None], [3, None]]


@pytest.mark.parametrize("options", [PLAIN, TRACKED])
def test_an_update_gives_defaults_to_its_rows_only(tmp_path: Path, options: str) -> None:
    """Java writes an explicit NULL as the default value, too."""
    sql = Sql(tmp_path)
    sql(TABLE.format(options=options))
    sql("UPDATE t SET v = NULL WHERE k = 2")
    assert rows(tmp_path) == [[1, None], [2, "none"], [3, None]]


def test_a_copy_has_the_rows_of_its_source(tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    sql(TABLE.format(options=PLAIN))
    sql("CALL sys.copy('t', 'd.t'); INSERT INTO d.t (k) VALUES (4)")
    assert rows(tmp_path, "d.t") == [[1, None], [2, "b"], [3, None], [4, "none"]]
