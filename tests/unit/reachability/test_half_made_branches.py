"""Folders of branches whose creation failed: what blocks expiry, and what does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_maintenance.job.exit_codes import ExitCode

EXPIRE = ("--retain-max", "1", "--retain-min", "1")


@pytest.fixture
def lake(lake: Lake, tmp_path: Path) -> Lake:
    """Tag t1 of snapshot 1, which has expired; 3 is the newest."""
    lake.primary_key()
    lake.fill(1)
    assert caretaker("run", "create_tag", "db.t", "-w", tmp_path, "--tag", "t1").code == 0
    assert caretaker("run", "compact", "db.t", "-w", tmp_path, "--engine", "local").code == 0
    lake.fill(1)
    assert caretaker("run", "expire_snapshots", "db.t", "-w", tmp_path, *EXPIRE).code == 0
    lake.fill(1)
    return lake


def half_made(lake: Lake, *parts: str) -> Path:
    """What Java 1.4 leaves of a branch at t1: the tag is copied first, then the snapshot fails."""
    root = Path(lake.table().root)
    for part in parts:
        target = root / "branch" / "branch-b" / part
        target.parent.mkdir(parents=True)
        shutil.copy(root / part, target)
    return root / "branch" / "branch-b"


def test_a_branch_of_tags_alone_blocks_nothing(lake: Lake) -> None:
    half_made(lake, "tag/tag-t1")
    ran = caretaker("run", "expire_snapshots", "db.t", "-w", lake.warehouse, *EXPIRE)
    assert ran.code == 0, ran.err
    assert len(lake.table().snapshots.ids()) == 1


def test_a_branch_whose_creation_was_interrupted_blocks_nothing(lake: Lake) -> None:
    """Its tag is there, and its snapshot is not."""
    half_made(lake, "tag/tag-t1", "schema/schema-0").joinpath(".creating").write_text("t1")
    manifests = Path(lake.table().root) / "manifest"
    manifests.joinpath("manifest-list-of-a-failed-commit-0").write_bytes(b"x")
    for job, *words in (("expire_snapshots", *EXPIRE), ("remove_orphan_files",)):
        ran = caretaker("run", job, "db.t", "-w", lake.warehouse, *words)
        assert ran.code in {0, 3}, ran.err


def test_its_tags_keep_what_they_name(lake: Lake) -> None:
    """Nobody knows whether it will be repaired, so it is a reference like any other."""
    needed = {Path(p).name for p in lake.on_disk()}
    half_made(lake, "tag/tag-t1")
    assert caretaker("run", "delete_tag", "db.t", "-w", lake.warehouse, "--tag", "t1").code == 0
    caretaker("run", "expire_snapshots", "db.t", "-w", lake.warehouse, *EXPIRE)
    assert needed <= lake.on_disk()
    words = ("--branch-name", "b")
    assert caretaker("run", "delete_branch", "db.t", "-w", lake.warehouse, *words).code == 0
    ran = caretaker(
        *("run", "remove_orphan_files", "db.t", "-w", lake.warehouse, "--allow-young"),
        *("--older-than", "0 ms"),
    )
    assert ran.code == 0, ran.err
    assert lake.on_disk() == lake.referenced()


def test_a_branch_with_snapshots_and_no_schema_still_blocks(lake: Lake) -> None:
    half_made(lake, "tag/tag-t1", "snapshot/snapshot-4")
    ran = caretaker("run", "expire_snapshots", "db.t", "-w", lake.warehouse, *EXPIRE)
    assert ran.code == ExitCode.CORRUPT_TABLE
    assert "branch b of table db.t has no schema" in ran.err
