"""VECTOR columns: Flink writes, ours rescales and writes, Flink reads the same rows and goes on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import caretaker

from oracle import FlinkSql
from paimon_maintenance.job.exit_codes import ExitCode

TABLES = """
CREATE TABLE p (k INT, e ARRAY<FLOAT>, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH (
  'bucket' = '2', 'write-only' = 'true', 'vector-field' = 'e', 'field.e.vector-dim' = '2');
CREATE TABLE a (k INT, e ARRAY<FLOAT>, v STRING) WITH (
  'bucket' = '2', 'bucket-key' = 'k', 'vector-field' = 'e', 'field.e.vector-dim' = '2');
"""
ROWS = "(1, ARRAY[1.5, 1]), (2, ARRAY[1.5, 2]), (3, ARRAY[1.5, 3]), (4, ARRAY[1.5, 4])"
LATER = "(2, ARRAY[2.5, 2]), (3, CAST(NULL AS ARRAY<FLOAT>)), (5, ARRAY[2.5, 5])"


def _insert(rows: str) -> str:
    return "".join(
        f"INSERT INTO {t} SELECT k, CAST(e AS ARRAY<FLOAT>), 'x' FROM (VALUES {rows}) AS v (k, e);\n"
        for t in ("p", "a")
    )


@pytest.mark.slow
def test_rescaled_vectors_are_read_by_java(flink_sql: FlinkSql, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    begin = (
        f"CREATE CATALOG c WITH ('type' = 'paimon', 'warehouse' = '{lake}');\n"
        "USE CATALOG c;\nCREATE DATABASE IF NOT EXISTS db;\nUSE db;\n"
        "SET 'table.dml-sync' = 'true';\nSET 'parallelism.default' = '1';\n"
    )
    flink_sql(begin + TABLES + _insert(ROWS) + _insert(LATER))
    expected = {}
    for table, count in (("db.p", 5), ("db.a", 7)):
        rows = caretaker("read", table, "-w", lake).rows
        assert len(rows) == count
        expected[table] = sorted(map(str, rows))
        for number in (5, 3):
            words = ("--bucket-num", number, "--engine", "local", "--force")
            ran = caretaker("run", "rescale", table, "-w", lake, *words)
            assert ran.code == ExitCode.SUCCESS, ran.err
            assert sorted(map(str, caretaker("read", table, "-w", lake).rows)) == expected[table]
        assert caretaker("verify", table, "-w", lake, "--deep").code == ExitCode.SUCCESS
    more = _insert("(5, ARRAY[3.5, 5]), (6, ARRAY[3.5, 6])")
    lines = flink_sql(begin + "SELECT * FROM p;\nSELECT * FROM a;\n" + more + "SELECT * FROM p;\n")
    theirs = [line for line in lines if re.match(r"\+I\[\d", line)]
    assert sorted(theirs[:5]) == [
        "+I[1, [1.5, 1.0], x]",
        "+I[2, [2.5, 2.0], x]",
        "+I[3, null, x]",
        "+I[4, [1.5, 4.0], x]",
        "+I[5, [2.5, 5.0], x]",
    ]
    assert len(set(theirs[5:12])) == 7
    assert sorted(theirs[12:])[4:] == ["+I[5, [3.5, 5.0], x]", "+I[6, [3.5, 6.0], x]"]
    for table, count in (("db.p", 6), ("db.a", 9)):
        assert len(caretaker("read", table, "-w", lake).rows) == count
