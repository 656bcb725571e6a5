"""`caretaker read 'db.t$snapshots'`: names, columns, conditions."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_core.table.system.read import SYSTEM_TABLES, VIEWS


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    lake.primary_key("db.t", partitioned=True)
    lake.fill(3)
    lake.table().branches.create("b")
    return lake


@pytest.mark.parametrize("name", [*SYSTEM_TABLES, *VIEWS])
def test_every_system_table_can_be_read(lake: Lake, name: str) -> None:
    ran = caretaker("read", f"db.t${name}", "-w", lake.warehouse)
    assert ran.code == 0, ran.err
    assert bool(ran.rows) == (name not in ("tags", "consumers", "statistics"))
    assert caretaker("read", f"db.t$branch_b${name}", "-w", lake.warehouse).code == 0


def test_columns_conditions_and_limits(lake: Lake) -> None:
    def read(*words: object) -> list[list[object]]:
        ran = caretaker("read", *words, "-w", lake.warehouse)
        assert ran.code == 0, ran.err
        return ran.rows

    kinds = ("--columns", "commit_kind,snapshot_id")
    assert read("db.t$snapshots", *kinds, "--where", "snapshot_id >= 2", "--limit", 1) == [
        ["+I", "APPEND", 2]
    ]
    assert read("db.t$partitions", "--columns", "partition,file_count", "--snapshot", 1) == [
        ["+I", "dt=day0", 1],
        ["+I", "dt=day1", 1],
    ]
    assert len(read("db.t$audit_log", "--where", "k = 1")) == 1
    assert read("db.t$branch_b") == []
    assert read("db.t$branch_b$snapshots") == []


@pytest.mark.parametrize(
    "words",
    [
        ("db.t$nope",),
        ("db.t$",),
        ("db.t$files$more",),
        ("db.t$branch_",),
        ("db.t$branch_b$files", "--branch", "c"),
        ("db.t$files", "--columns", "nope"),
        ("db.t$branch_no$files",),
    ],
)
def test_wrong_names_are_refused(lake: Lake, words: tuple[str, ...]) -> None:
    ran = caretaker("read", *words, "-w", lake.warehouse)
    assert ran.code == 2
    assert ran.out == ""
