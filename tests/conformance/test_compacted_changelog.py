"""Changelog files that Flink joined: one file of one bucket holds those of all (java-rules F6)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker, read_rows
from replay import run_step

from paimon_core.paths import FileSlice, compacted_changelog


@pytest.fixture
def warehouse(golden: Callable[..., Any]) -> Path:
    path: Path = golden("compacted_changelog", "flink", copy=True).warehouse
    return path


def joined(warehouse: Path) -> list[Path]:
    return sorted(warehouse.rglob("compacted-changelog-*"))


def test_the_changelog_is_what_flink_reads(warehouse: Path) -> None:
    read = run_step(
        {
            "op": "read",
            "warehouse": str(warehouse),
            "database": "db",
            "table": "t",
            "incremental_between": [0, 4],
        }
    )
    flink = Path(__file__).parents[1] / "golden/flink/compacted_changelog/changelog.json"
    assert sorted(read["rows"]) == json.loads(flink.read_text())


def test_verify_counts_the_rows_of_every_part(warehouse: Path) -> None:
    ran = caretaker("verify", "db.t", "-w", warehouse, "--json")
    assert ran.code == 0, ran.out
    assert ran.json["checked"]["rows"] == 2 * 111


def test_verify_sees_a_file_that_ends_too_early(warehouse: Path) -> None:
    short, gone = joined(warehouse)
    short.write_bytes(short.read_bytes()[:-1])
    gone.unlink()
    found = caretaker("verify", "db.t", "-w", warehouse, "--json").json["findings"]
    problems = sorted(f["problem"] for f in found)
    # The two parts before the end are whole; each of the three of the other file is missing.
    assert problems == [*["missing_changelog_file"] * 3, "wrong_size"]


def test_parts_are_no_orphans_and_expire_with_their_snapshots(warehouse: Path) -> None:
    rows = read_rows(warehouse)
    for path in warehouse.rglob("*"):
        os.utime(path, (0, 0))
    ran = caretaker("run", "remove_orphan_files", "db.t", "-w", warehouse, "--json")
    assert ran.code == 3, ran.out
    assert len(joined(warehouse)) == 2
    expire = ("run", "expire_snapshots", "db.t", "-w", warehouse, "--force", "--json")
    expire += ("--older-than", "2000-01-01 00:00:00")  # by number alone, however old the table is
    assert caretaker(*expire, "--retain-max", "3", "--retain-min", "1").code == 0
    assert len(joined(warehouse)) == 1
    assert caretaker("verify", "db.t", "-w", warehouse).code == 0
    assert caretaker(*expire, "--retain-max", "1", "--retain-min", "1").code == 0
    assert joined(warehouse) == []
    assert read_rows(warehouse) == rows


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/t/bucket-1/data-x.orc", None),
        ("/t/bucket-1/compacted-changelog-x.orc", None),
        ("/t/bucket-1/compacted-changelog-x$1-a.cc-orc", None),
        ("/t/bucket-1/compacted-changelog-x$1-1024.cc-orc", (1, 1024, 0, 1024)),
        ("/t/bucket-2/compacted-changelog-x$1-1024-4096-512.cc-orc", (1, 1024, 4096, 512)),
    ],
)
def test_names(path: str, expected: tuple[int, int, int, int] | None) -> None:
    found = compacted_changelog(path)
    if expected is None:
        assert found is None
    else:
        bucket, first, offset, length = expected
        real = f"/t/bucket-{bucket}/compacted-changelog-x${bucket}-{first}.cc-orc"
        assert found == FileSlice(real, offset, length)
