"""Compaction of tables with row tracking keeps row ids and sequence numbers, as Java reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker, in_order
from row_deletes import delete_rows

from oracle import Oracle
from paimon_core.table.open import open_table
from paimon_maintenance.job.exit_codes import ExitCode

COLUMNS = [{"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}]
PARTITIONED = [*COLUMNS, {"name": "dt", "type": "STRING"}]


def _compact(warehouse: Path) -> None:
    words = ("run", "compact", "db.t", "-w", warehouse, "--strategy", "full", "--engine", "local")
    ran = caretaker(*words)
    assert ran.code == ExitCode.SUCCESS, ran.err


def _tracked(oracle: Oracle) -> list[list[Any]]:
    """The rows with their ids and sequence numbers, by Java."""
    return oracle.rows(system="row_tracking")


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_ids_survive_compaction(oracle: Oracle, tmp_path: Path, file_format: str) -> None:
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    options = {
        "bucket": "-1",
        "row-tracking.enabled": "true",
        "file.format": file_format,
        "compaction.min.file-num": "2",
    }
    oracle.one("create_database")
    oracle.one("create_table", columns=PARTITIONED, partition_keys=["dt"], options=options)
    for i in range(3):
        oracle.one("write", rows=[[i, f"v{i}", "a"], [i + 10, None, "a"], [i, "w", "b"]])
    before = _tracked(oracle)
    assert len({row[-2] for row in before}) == 9
    _compact(tmp_path)
    assert _tracked(oracle) == before
    files = oracle.one("files")["files"]
    assert [(f["rows"], f["first_row_id"], f["min_seq"], f["max_seq"]) for f in files] == [
        (6, None, 1, 3),
        (3, None, 1, 3),
    ]
    oracle.one("alter_table", changes=[{"change": "add_column", "name": "n", "type": "BIGINT"}])
    oracle.one("write", rows=[[20, "x", "a", 5]])
    again = _tracked(oracle)
    assert max(row[-2] for row in again) == 9
    _compact(tmp_path)
    assert _tracked(oracle) == again
    plain = caretaker("read", "db.t", "-w", tmp_path)
    assert in_order(plain.rows) == oracle.rows()
    assert caretaker("verify", "db.t", "-w", tmp_path, "--deep").code == 0
    filtered = caretaker("read", "db.t", "-w", tmp_path, "--where", "k = 20")
    assert len(filtered.rows) == 1
    found = oracle.rows(filter={"field": "k", "op": "=", "value": 20})
    assert len(found) == 1


def test_rows_of_avro_files_stay(oracle: Oracle, tmp_path: Path) -> None:
    """Java itself cannot read the row ids of Avro files."""
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    options = {"bucket": "-1", "row-tracking.enabled": "true", "file.format": "avro"}
    oracle.one("create_database")
    oracle.one("create_table", columns=COLUMNS, options=options)
    for i in range(6):
        oracle.one("write", rows=[[i, f"v{i}"], [i + 10, None]])
    rows = oracle.rows()
    _compact(tmp_path)
    assert oracle.rows() == rows
    assert in_order(caretaker("read", "db.t", "-w", tmp_path).rows) == rows


def test_ids_survive_deletion_vectors(oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    oracle = oracle_2_0_0.defaults(warehouse=tmp_path, database="db", table="t")
    options = {
        "bucket": "-1",
        "row-tracking.enabled": "true",
        "deletion-vectors.enabled": "true",
        "compaction.min.file-num": "2",
    }
    oracle.one("create_database")
    oracle.one("create_table", columns=COLUMNS, options=options)
    for i in range(3):
        oracle.one("write", rows=[[i, f"v{i}"], [i + 10, None], [i + 20, "x"]])
    assert delete_rows(open_table(str(tmp_path), "db.t"), [10, 11, 12]) == 3
    before = _tracked(oracle)
    assert len(before) == 6
    _compact(tmp_path)
    assert _tracked(oracle) == before
    assert [s["nextRowId"] for s in oracle.one("snapshots")["snapshots"]][-1] == 9
