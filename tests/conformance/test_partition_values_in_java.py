"""Partition columns come from the partition: ORC files lose the blanks at the end of a CHAR."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from disk import assert_whole
from replay import run_step

from oracle import Oracle

COLUMNS = [
    {"name": "pt", "type": "CHAR(4) NOT NULL"},
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
]
TABLES: dict[str, dict[str, str]] = {
    "plain": {"bucket": "1"},
    "lookup": {"bucket": "1", "changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    "partial_update": {"bucket": "1", "merge-engine": "partial-update"},
    "dynamic": {"bucket": "-1"},
    "postponed": {"bucket": "-2"},
}


@pytest.mark.parametrize("kind", TABLES)
def test_blanks_at_the_end_stay(oracle: Oracle, tmp_path: Path, kind: str) -> None:
    at: dict[str, Any] = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    oracle.defaults(**at)

    def ours(op: str, **fields: Any) -> dict[str, Any]:
        result = run_step({**at, "op": op, **fields})
        assert "error" not in result, result
        return result

    ours(
        "create_table",
        columns=COLUMNS,
        primary_keys=["pt", "k"],
        partition_keys=["pt"],
        options={"file.format": "orc", "write-only": "true", **TABLES[kind]},
    )
    ours("write", rows=[["a ", 1, "x"], ["a ", 2, "y"], ["  ", 1, "z"]])
    compact = {"num_buckets": 2} if kind == "postponed" else {}
    for row in (["a ", 1, "u"], ["  ", 3, None]):
        oracle.one("write", rows=[row], compact=False)
        assert ours("read")["rows"] == oracle.rows()
        ours("compact", **compact)
        assert ours("read")["rows"] == oracle.rows()
        assert_whole(tmp_path)
    oracle.one("compact", **compact)
    expected = [["  ", 1, "z"], ["  ", 3, None], ["a ", 1, "u"], ["a ", 2, "y"]]
    assert [r[1:] for r in oracle.rows()] == expected
    assert ours("read")["rows"] == oracle.rows()
