"""Rows that are in a table already keep their nulls, although a column got a default value later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command_line import caretaker
from sql_sessions import Sql

from paimon_core.environment import system_environment
from paimon_core.predicate import parse_where
from paimon_core.read.table_read import read_table
from paimon_core.table.open import open_table
from paimon_core.table.sink.delete_rows import delete_rows
from paimon_core.table.sink.write_session import write_rows
from paimon_maintenance.job.report import Report
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


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_postponed_rows_get_no_default_that_came_later(tmp_path: Path, engine: str) -> None:
    """In a partial update, a default would replace the value that the null leaves alone."""
    options = f"'primary-key' = 'k', 'bucket' = '-2', 'merge-engine' = '{engine}'"
    Sql(tmp_path)(f"CREATE TABLE t (k INT, v STRING) TBLPROPERTIES ({options})")
    for values in ({"k": [1, 2], "v": ["a", "b"]}, {"k": [1, 3], "v": [None, None]}):
        table = open_table(str(tmp_path), "default.t")
        columns = {"k": pa.array(values["k"], pa.int32()), "v": pa.array(values["v"], pa.string())}
        write_rows(table, pa.table(columns), env=system_environment())
        if values["v"][0]:
            run_job(tmp_path, "compact")
    Sql(tmp_path)("ALTER TABLE t ALTER COLUMN v SET DEFAULT 'none'")
    assert run_job(tmp_path, "compact").snapshots
    kept = "a" if engine == "partial-update" else None
    assert rows(tmp_path) == [[1, kept], [2, "b"], [3, None]]


@pytest.mark.parametrize("how", ["DELETE", "library"])
def test_a_changelog_takes_back_the_null_that_it_told(tmp_path: Path, how: str) -> None:
    sql = Sql(tmp_path)
    options = "'primary-key' = 'k', 'bucket' = '1', 'changelog-producer' = 'input'"
    sql(TABLE.format(options=options))
    table = open_table(str(tmp_path), "default.t")
    if how == "DELETE":
        sql("DELETE FROM t WHERE k = 1")
    else:
        delete_rows(table, parse_where("k = 1", table.schema.row_type), env=system_environment())
    ran = caretaker("read", "default.t$audit_log", "-w", tmp_path)
    assert ran.code == 0, ran.err
    assert ["+I", "-D", 1, None] in ran.rows
    assert rows(tmp_path) == [[2, "b"], [3, None]]


def run_job(warehouse: Path, name: str) -> Report:
    job = job_named(name)
    request = RunRequest(
        job=job,
        warehouse=str(warehouse),
        table="default.t",
        arguments=job.read_arguments({}),
    )
    report = run_table(request)
    assert report.error is None, report.error
    return report
