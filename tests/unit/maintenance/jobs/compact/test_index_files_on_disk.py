"""Index files that compactions replace go with their snapshots, and never before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command_line import caretaker, read_rows
from disk import on_disk, referenced
from lakes import Lake
from row_deletes import delete_rows

from paimon_core.scan.vectors import vector_files


def history(lake: Lake, kind: str) -> None:
    """A table whose newest snapshot has vectors, and whose older ones had others."""
    vectors = {"deletion-vectors.enabled": "true"}
    compact = ("run", "compact", "db.t", "-w", lake.warehouse, "--engine", "local")
    noise = [str(i * 7919 % 10007) for i in range(300)]
    if kind == "keys":
        lake.primary_key(**vectors)
        lake.append({"k": list(range(300)), "v": noise})
        assert caretaker(*compact).code == 0
        for first in range(3):
            lake.append({"k": [first, 10, 20], "v": ["x"] * 3})
            assert caretaker(*compact, "--strategy", "minor").code == 0
    else:
        lake.log(target__file__size="1 kb", **vectors)
        lake.append({"k": list(range(300)), "v": noise})
        for first in range(3):
            for _ in range(5):
                lake.append({"k": [1000 + first], "v": ["small"]})
            delete_rows(lake.table(), {first, 1000})
            assert caretaker(*compact).code == 0


@pytest.mark.parametrize("kind", ["keys", "log"])
def test_files_on_disk_are_files_referenced(tmp_path: Path, kind: str) -> None:
    lake = Lake(tmp_path)
    history(lake, kind)
    root = Path(lake.table().root)
    index = root / "index"
    rows = read_rows(tmp_path)
    before = len(list(index.iterdir()))
    assert before > 2
    assert on_disk(root) == referenced(tmp_path)

    stray = index / "index-5f4fd1cc-b481-4bf5-9c70-bb799d59bff4-0"
    stray.write_bytes(b"\x01")
    for path in root.rglob("*"):
        os.utime(path, (0, 0))
    assert caretaker("run", "remove_orphan_files", "db.t", "-w", tmp_path).code == 0
    assert not stray.exists()
    assert on_disk(root) == referenced(tmp_path)

    expire = ("run", "expire_snapshots", "db.t", "-w", tmp_path, "--force")
    assert caretaker(*expire, "--retain-max", "1", "--retain-min", "1").code == 0
    table = lake.table()
    live = vector_files(table, table.latest_or_not_found())
    names = {f.file_name for files in live.values() for f in files}
    assert {p.name for p in index.iterdir()} == names
    assert 0 < len(names) < before
    assert on_disk(root) == referenced(tmp_path)
    assert caretaker("verify", "db.t", "-w", tmp_path).code == 0
    assert read_rows(tmp_path) == rows
