"""Streams of tables that are rolled back while they are read: other commits get the same numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_core.errors import NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.stream import Start, StreamScan


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    lake = Lake(tmp_path / "lake")
    lake.log("db.log")
    lake.fill(6, name="db.log")
    return lake.table("db.log")


def roll_back(table: FileStoreTable, to: int, commits: int) -> None:
    """Roll back, and commit others in place of what is gone."""
    warehouse = Path(table.root).parents[1]
    ran = caretaker("run", "rollback", "db.log", "-w", warehouse, "--snapshot", str(to))
    assert ran.code == 0, ran.err
    Lake(warehouse).fill(commits, name="db.log")


@pytest.mark.parametrize("commits", [3, 4, 9])
def test_a_stream_does_not_go_on_behind_other_snapshots(
    table: FileStoreTable, commits: int
) -> None:
    scan = StreamScan(table=table)
    assert scan.plan().next_snapshot == 7
    assert scan.plan().is_empty
    roll_back(table, 3, commits)
    if commits == 3:
        assert scan.plan().is_empty, "it waits for snapshot 7"
        Lake(Path(table.root).parents[1]).fill(1, name="db.log")
    with pytest.raises(NotFound, match=r"snapshot 6 .* is not the one that the stream has read"):
        scan.plan()


def test_a_stream_goes_on_if_only_what_it_has_not_read_is_gone(table: FileStoreTable) -> None:
    scan = StreamScan(table=table, start=Start.FROM_SNAPSHOT, at=2)
    scan.plan()
    assert [scan.plan().next_snapshot for _ in range(3)] == [3, 4, 5]
    roll_back(table, 4, 2)
    assert [scan.plan().next_snapshot for _ in range(2)] == [6, 7]


def test_the_start_of_a_stream_counts_as_read(table: FileStoreTable) -> None:
    scan = StreamScan(table=table, start=Start.LATEST)
    assert scan.plan().is_empty
    roll_back(table, 5, 2)
    with pytest.raises(NotFound, match="rolled back or created again"):
        scan.plan()


def test_a_stream_goes_on_if_what_it_has_read_expires(table: FileStoreTable) -> None:
    scan = StreamScan(table=table)
    scan.plan()
    lake = Lake(Path(table.root).parents[1])
    lake.fill(1, name="db.log")
    ran = caretaker(
        "run",
        "expire_snapshots",
        "db.log",
        "-w",
        lake.warehouse,
        "--retain-max",
        "1",
        "--retain-min",
        "1",
    )
    assert ran.code == 0, ran.err
    assert scan.plan().next_snapshot == 8
