"""A link to nothing (a disk is not mounted) is not a missing file: what it stands for is unknown."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command_line import caretaker
from disk import assert_whole
from lakes import Lake, age_all, append_to_branch

from paimon_core.errors import BrokenLink
from paimon_core.io.local import LocalFileIO


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a tag, a branch, changelogs that outlive their snapshots, and an orphan."""
    warehouse = tmp_path_factory.mktemp("lived")
    lake = Lake(warehouse)
    lake.primary_key(changelog__producer="input")
    lake.fill(3)
    where = ("db.t", "-w", warehouse)
    for words in (
        ("create_tag", "--tag", "t", "--snapshot", "2"),
        ("create_branch", "--branch", "b", "--tag", "t"),
        ("compact", "--engine", "local"),
    ):
        assert caretaker("run", words[0], *where, *words[1:]).code == 0
    append_to_branch(lake, "b")
    lake.fill(3)
    lake.change_options("db.t", "changelog.num-retained.max", "100")
    retained = ("--retain-max", "4", "--retain-min", "1")
    assert caretaker("run", "expire_snapshots", *where, *retained).code == 0
    orphan = warehouse / "db.db" / "t" / "bucket-0" / "data-orphan-0.parquet"
    orphan.write_bytes(b"x")
    age_all(warehouse)
    return warehouse


PLACES = (
    *("snapshot", "snapshot/snapshot-4", "snapshot/snapshot-7", "snapshot/snapshot-8"),
    *("tag", "tag/tag-t", "changelog", "changelog/changelog-1", "schema/schema-0"),
    *("branch", "branch/branch-b", "branch/branch-b/snapshot", "branch/branch-b/tag/tag-t"),
    "branch/branch-b/snapshot/snapshot-3",
)


@pytest.mark.sampled
@pytest.mark.parametrize("in_a_circle", [False, True])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("job", ["remove_orphan_files", "delete_branch"])
def test_jobs_that_delete_stop(
    lived: Path,
    tmp_path: Path,
    job: str,
    place: str,
    in_a_circle: bool,  # noqa: FBT001 - a case
) -> None:
    warehouse = tmp_path / "lake"
    shutil.copytree(lived, warehouse)
    path = warehouse / "db.db" / "t" / place
    kept = tmp_path / "kept"
    there = path.exists()
    if there:
        path.rename(kept)
    path.symlink_to(path if in_a_circle else tmp_path / "not_mounted")
    before = {p for p in warehouse.rglob("*") if "caretaker" not in p.parts}
    more = ("--branch", "b") if job == "delete_branch" else ()
    ran = caretaker("run", job, "db.t", "-w", warehouse, "--force", *more)
    if there or job == "remove_orphan_files":
        assert ran.code in (1, 7), ran.out
        assert f"{path} is a symbolic link to nothing" in ran.err
        assert "Errno" not in ran.err
        assert {p for p in warehouse.rglob("*") if "caretaker" not in p.parts} == before
    path.unlink()
    if there:
        kept.rename(path)
    assert_whole(warehouse)


@pytest.mark.parametrize("job", ["remove_orphan_files", "delete_tag"])
def test_a_file_in_the_place_of_a_branch(lived: Path, tmp_path: Path, job: str) -> None:
    warehouse = tmp_path / "lake"
    shutil.copytree(lived, warehouse)
    path = warehouse / "db.db" / "t" / "branch" / "branch-b"
    path.rename(tmp_path / "kept")
    path.write_bytes(b"")
    more = ("--tag", "t") if job == "delete_tag" else ()
    ran = caretaker("run", job, "db.t", "-w", warehouse, "--force", *more)
    assert ran.code == 7
    assert f"{path} is a file, where Paimon has a folder" in ran.err
    path.unlink()
    (tmp_path / "kept").rename(path)
    assert_whole(warehouse)


def test_a_consumer_keeps_its_snapshots(lived: Path, tmp_path: Path) -> None:
    warehouse = tmp_path / "lake"
    shutil.copytree(lived, warehouse)
    path = warehouse / "db.db" / "t" / "consumer" / "consumer-team"
    path.parent.mkdir()
    path.symlink_to(tmp_path / "not_mounted")
    retained = ("--retain-max", "1", "--retain-min", "1")
    ran = caretaker("run", "expire_snapshots", "db.t", "-w", warehouse, *retained)
    assert ran.code == 7
    assert f"{path} is a symbolic link to nothing" in ran.err


def test_a_commit_that_would_take_the_place_of_a_link(lake: Lake) -> None:
    lake.primary_key()
    lake.fill(2)
    path = Path(lake.table().root) / "snapshot" / "snapshot-3"
    path.symlink_to(lake.warehouse / "not_mounted")
    with pytest.raises(BrokenLink, match="snapshot-3 is a symbolic link to nothing"):
        lake.fill(1)
    path.unlink()
    lake.fill(1)
    assert lake.table().latest_or_not_found().id == 3


def test_other_tables_are_listed_and_maintained(lake: Lake) -> None:
    for name in ("db.good", "db.lost"):
        lake.primary_key(name)
    schemas = lake.warehouse / "db.db" / "lost" / "schema"
    shutil.rmtree(schemas)
    schemas.symlink_to(lake.warehouse / "not_mounted")
    assert caretaker("tables", "-w", lake.warehouse).out.split() == ["db.good", "db.lost"]
    assert "symbolic link to nothing" in caretaker("read", "db.lost", "-w", lake.warehouse).err


def test_a_data_file_is_missing_and_its_link_stays(lake: Lake) -> None:
    lake.primary_key()
    lake.fill(1)
    (path,) = Path(lake.table().root).glob("bucket-0/*.parquet")
    path.unlink()
    path.symlink_to(lake.warehouse / "not_mounted")
    verified = caretaker("verify", "db.t", "-w", lake.warehouse)
    assert verified.code == 7
    assert "missing" in verified.out
    assert path.name in verified.out


def test_listings(tmp_path: Path) -> None:
    (tmp_path / "nothing").symlink_to(tmp_path / "not_mounted")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "below").symlink_to(tmp_path / "file" / "x")
    (tmp_path / "good").symlink_to(tmp_path / "file")
    io = LocalFileIO()
    found = {f.name: (f.is_link, f.is_to_nothing, f.size) for f in io.list_dir(str(tmp_path))}
    assert found == {
        "file": (False, False, 1),
        "good": (True, False, 1),
        **dict.fromkeys(("nothing", "circle", "below"), (True, True, 0)),
    }
    assert sorted(io.list_names(str(tmp_path)).names) == sorted(found)
    for name in ("nothing", "circle", "below"):
        path = str(tmp_path / name)
        for call in (io.exists, io.list_dir, io.list_names):
            with pytest.raises(BrokenLink, match=f"{name} is a symbolic link to nothing"):
                call(path)
        with pytest.raises(OSError, match=name) as raised:
            io.read_bytes(path)
        assert not isinstance(raised.value, FileNotFoundError)
        with pytest.raises(FileNotFoundError, match=name):
            io.stat(path)
        assert io.delete(path)
