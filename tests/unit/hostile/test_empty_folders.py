"""An empty folder in place of `snapshot/` is no table without commits: its disk may not be mounted."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import caretaker
from disk import assert_whole
from lakes import Lake, age_all, append_to_branch


@pytest.fixture
def warehouse(lake: Lake) -> Path:
    """A table so small that no guard protects its files, with a tag and a branch that share them."""
    lake.primary_key()
    lake.fill(3)
    where = ("db.t", "-w", lake.warehouse)
    assert caretaker("run", "create_tag", *where, "--tag", "t", "--snapshot", "2").code == 0
    assert caretaker("run", "create_branch", *where, "--branch", "b", "--tag", "t").code == 0
    append_to_branch(lake, "b")
    assert caretaker("run", "create_tag", *where, "--tag", "newest").code == 0
    age_all(lake.warehouse)
    return lake.warehouse


def files(warehouse: Path) -> set[Path]:
    return {p for p in warehouse.rglob("*") if "caretaker" not in p.parts}


@pytest.mark.parametrize(
    "words",
    [
        ["remove_orphan_files"],
        ["delete_branch", "--branch", "b"],
        ["delete_tag", "--tag", "newest"],
    ],
    ids=lambda words: words[0],
)
def test_jobs_that_delete_stop(warehouse: Path, tmp_path: Path, words: list[str]) -> None:
    folder = warehouse / "db.db" / "t" / "snapshot"
    folder.rename(tmp_path / "kept")
    folder.mkdir()
    before = files(warehouse)
    job, *more = words
    ran = caretaker("run", job, "db.t", "-w", warehouse, "--force", *more)
    assert ran.code == 7, ran.out
    assert f"{folder} is not mounted, or has lost its files" in ran.err
    assert files(warehouse) == before
    folder.rmdir()
    (tmp_path / "kept").rename(folder)
    assert_whole(warehouse)
    assert caretaker("run", job, "db.t", "-w", warehouse, *more).code in {0, 3}
    assert_whole(warehouse)


@pytest.mark.parametrize(
    "words",
    [["remove_orphan_files"], ["delete_branch", "--branch", "b"], ["fast_forward", "--name", "b"]],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_tags_tell_that_main_had_commits(
    warehouse: Path, tmp_path: Path, words: list[str], *, is_there: bool
) -> None:
    """Although a branch has commits, so that main might be one that never had any."""
    folder = warehouse / "db.db" / "t" / "snapshot"
    folder.rename(tmp_path / "kept")
    if is_there:
        folder.mkdir()
    before = files(warehouse)
    job, *more = words
    ran = caretaker("run", job, "db.t", "-w", warehouse, "--force", *more)
    assert ran.code == 7, ran.out
    assert f"{folder} is not mounted, or has lost its files" in ran.err
    assert files(warehouse) == before


@pytest.mark.parametrize(
    "words",
    [["remove_orphan_files"], ["expire_snapshots", "--retain-max", "1", "--retain-min", "1"]],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_tags_tell_that_a_branch_had_commits(
    warehouse: Path, tmp_path: Path, words: list[str], *, is_there: bool
) -> None:
    folder = warehouse / "db.db" / "t" / "branch" / "branch-b" / "snapshot"
    folder.rename(tmp_path / "kept")
    if is_there:
        folder.mkdir()
    before = files(warehouse)
    job, *more = words
    where = ("db.t", "-w", warehouse)
    ran = caretaker("run", job, *where, "--force", *more)
    assert ran.code == 7, ran.out
    assert f"{folder} is not mounted, or has lost its files" in ran.err
    assert files(warehouse) == before
    # Who wants the branch no longer can delete it, and then all is as with any other table.
    assert caretaker("run", "delete_branch", *where, "--branch", "b").code == 0
    assert caretaker("run", job, *where, *more).code == 0
    assert_whole(warehouse)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_repair_deletes_no_tags_because_of_manifests_that_are_not_mounted(
    warehouse: Path, tmp_path: Path, *, is_there: bool
) -> None:
    folder = warehouse / "db.db" / "t" / "manifest"
    folder.rename(tmp_path / "kept")
    if is_there:
        folder.mkdir()
    before = files(warehouse)
    words = ("repair", "db.t", "-w", warehouse, "--repair", "delete_reference")
    assert "mount or restore the storage first" in caretaker("plan", *words).out
    caretaker("run", *words)
    assert files(warehouse) == before
    if is_there:
        folder.rmdir()
    (tmp_path / "kept").rename(folder)
    assert_whole(warehouse)


def test_a_table_without_commits_has_orphans(lake: Lake) -> None:
    lake.primary_key()
    orphan = lake.warehouse / "db.db" / "t" / "bucket-0" / "data-orphan-0.parquet"
    orphan.parent.mkdir()
    orphan.write_bytes(b"x")
    age_all(lake.warehouse)
    assert caretaker("run", "remove_orphan_files", "db.t", "-w", lake.warehouse).code == 0
    assert not orphan.exists()


def test_main_may_be_empty_beside_a_branch(lake: Lake) -> None:
    lake.primary_key()
    where = ("db.t", "-w", lake.warehouse)
    assert caretaker("run", "create_branch", *where, "--branch", "b").code == 0
    append_to_branch(lake, "b")
    root = lake.warehouse / "db.db" / "t"
    assert not (root / "snapshot").exists()
    orphan = root / "manifest" / "manifest-list-of-a-failed-commit-0"
    orphan.write_bytes(b"x")
    age_all(lake.warehouse)
    assert caretaker("run", "remove_orphan_files", *where).code == 0
    assert not orphan.exists()
    assert caretaker("run", "delete_branch", *where, "--branch", "b").code == 0
