"""A file where a folder belongs: what the folder held is unknown, so the error names the file."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake, age_all, append_to_branch
from sql_sessions import Sql

from paimon_core.errors import BrokenLink, NotAFolder, PaimonError, StorageError
from paimon_core.io.local import LocalFileIO

RAW = ("Errno", "NotADirectory", "report this bug", "Traceback")
PLACES = (
    *("schema", "snapshot", "tag", "branch", "consumer", "changelog"),
    *("branch/branch-b/schema", "branch/branch-b/snapshot", "caretaker"),
)
OF_ORPHANS = ("manifest", "index", "statistics", "caretaker/leases")


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables; t has a tag, a branch and an orphan."""
    warehouse = tmp_path_factory.mktemp("lived")
    lake = Lake(warehouse)
    lake.primary_key("db.other")
    lake.primary_key()
    lake.fill(3)
    where = ("db.t", "-w", warehouse)
    assert caretaker("run", "create_tag", *where, "--tag", "t", "--snapshot", 2).code == 0
    assert caretaker("run", "create_branch", *where, "--branch", "b", "--tag", "t").code == 0
    append_to_branch(lake, "b")
    (warehouse / "db.db" / "t" / "bucket-0" / "data-orphan-0.parquet").write_bytes(b"x")
    age_all(warehouse)
    return warehouse


def with_file(lived: Path, to: Path, place: str) -> tuple[Path, Path]:
    """A copy of the warehouse, and the file in it."""
    warehouse = Path(shutil.copytree(lived, to / "warehouse"))
    path = warehouse / "db.db" / "t" / place
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    return warehouse, path


@pytest.mark.parametrize(
    ("job", "place"),
    [
        *(("expire_snapshots", place) for place in PLACES),
        *(("remove_orphan_files", place) for place in (*PLACES, *OF_ORPHANS)),
    ],
)
def test_jobs_that_delete_stop(lived: Path, tmp_path: Path, job: str, place: str) -> None:
    warehouse, path = with_file(lived, tmp_path, place)
    before = sorted(warehouse.rglob("*"))
    more = ("--retain-max", 1, "--retain-min", 1) if job == "expire_snapshots" else ()
    ran = caretaker("run", job, "db.t", "-w", warehouse, "--force", *more)
    assert ran.code == 1, (ran.code, ran.err)
    assert f"{path} is a file, but should be a folder" in ran.err
    assert not any(raw in ran.err for raw in RAW), ran.err
    assert sorted(warehouse.rglob("*")) == before


def test_the_other_tables_are_listed(lived: Path, tmp_path: Path) -> None:
    warehouse, path = with_file(lived, tmp_path, "schema")
    ran = caretaker("tables", "-w", warehouse)
    assert "db.other" in ran.out
    with pytest.raises(PaimonError, match=f"{path} is a file"):
        Sql(warehouse)("DROP TABLE db.t")


def test_files_below_a_link_in_a_circle_are_not_missing(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    io, below = LocalFileIO(), str(link / "a" / "b")
    for call in (lambda: io.delete(below), lambda: io.stat(below)):
        with pytest.raises(BrokenLink, match=f"{link} is a symbolic link to nothing"):
            call()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_an_expiry_names_what_lies_in_the_place_of_a_bucket(
    lived: Path, tmp_path: Path, kind: str
) -> None:
    warehouse, path = with_file(lived, tmp_path, "bucket-0")
    if kind == "link":
        path.unlink()
        path.symlink_to(path)
    where = ("db.t", "-w", warehouse, "--force")
    assert caretaker("run", "rollback", *where, "--snapshot", 1, "--safety-tag", "0 s").code == 1
    ran = caretaker("run", "delete_branch", *where, "--branch", "b")
    assert ran.code == 1, ran.err
    assert str(path) in ran.err
    assert not any(raw in ran.err for raw in RAW), ran.err


def test_it_may_lie_further_up(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    io, below = LocalFileIO(), str(file / "a" / "b")
    for call in (
        lambda: io.list_dir(below),
        lambda: io.list_names(str(file)),
        lambda: io.write_bytes(below, b"x"),
        lambda: io.make_dirs(below),
        lambda: io.delete(below),
        lambda: io.delete_dir(below, recursive=False),
        lambda: io.delete_dir(str(file)),
        lambda: io.stat(below),
    ):
        with pytest.raises(NotAFolder, match=f"{file} is a file") as caught:
            call()
        assert isinstance(caught.value, StorageError)
        assert isinstance(pickle.loads(pickle.dumps(caught.value)), NotADirectoryError)
    assert file.read_text() == "x"
