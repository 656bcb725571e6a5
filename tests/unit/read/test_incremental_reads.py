"""What lies between two snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake


@pytest.mark.parametrize("mode", ["auto", "delta", "diff"])
def test_an_append_table_with_deletion_vectors_tells_its_appends(mode: str, tmp_path: Path) -> None:
    """Its files all say level 0, which only tables with a primary key wait to read."""
    lake = Lake(tmp_path)
    lake.log(**{"deletion-vectors.enabled": "true"})
    for k in (1, 2, 3):
        lake.append({"k": [k], "v": ["v"]})
    words = [
        "--option",
        "incremental-between=1,3",
        "--option",
        f"incremental-between-scan-mode={mode}",
    ]
    ran = caretaker("read", "db.t", "-w", tmp_path, *words)
    assert ran.code == 0, ran.err
    assert sorted(row[1] for row in ran.rows) == [2, 3]
