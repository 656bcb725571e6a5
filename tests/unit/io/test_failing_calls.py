"""Calls of the operating system that fail are failures, and no missing files."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from failing_disk import Disk

from paimon_core.io.confined import check_inside
from paimon_core.io.local import LocalFileIO
from paimon_core.names import Boundary

IO = LocalFileIO()


def failing(patch: pytest.MonkeyPatch, kind: str, path: Path, code: int, *, stays: bool) -> None:
    disk = Disk(str(path), at=0, code=code, stays=stays, only=(kind, str(path)), armed=True)
    disk.install(patch)


@pytest.mark.parametrize("listing", [IO.list_dir, IO.list_names])
@pytest.mark.parametrize("kind", ["scandir", "entry"])
def test_a_folder_that_is_there_is_not_missing(
    listing: Callable[[str], object], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not IO.list_dir(f"{tmp_path}/none")
    (tmp_path / "tag-1").write_bytes(b"")
    failing(monkeypatch, kind, tmp_path, errno.ENOENT, stays=True)
    with pytest.raises(OSError, match="said to be missing") as error:
        listing(str(tmp_path))
    assert error.value.errno == errno.ESTALE
    assert error.value.filename == str(tmp_path)


def test_a_folder_that_was_just_made_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tag-1").write_bytes(b"")
    failing(monkeypatch, "scandir", tmp_path, errno.ENOENT, stays=False)
    assert [f.name for f in IO.list_dir(str(tmp_path))] == ["tag-1"]


def test_a_file_that_is_there_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tag-1").write_bytes(b"x")
    with monkeypatch.context() as patch:
        failing(patch, "open", tmp_path / "tag-1", errno.ENOENT, stays=True)
        with pytest.raises(OSError, match="said to be missing") as error:
            IO.read_bytes(f"{tmp_path}/tag-1")
        assert error.value.errno == errno.ESTALE
    failing(monkeypatch, "stat", tmp_path / "tag-1", errno.ENOENT, stays=True)
    assert IO.exists(f"{tmp_path}/tag-1")


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.EACCES])
def test_a_folder_that_cannot_be_looked_at_is_not_deleted_and_not_gone(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "branch-b"
    folder.mkdir()
    failing(monkeypatch, "lstat", folder, code, stays=True)
    with pytest.raises(OSError, match="branch-b"):
        IO.delete_dir(str(folder))
    with pytest.raises(OSError, match="branch-b"):
        IO.rename(str(tmp_path), str(folder))


def test_a_link_that_cannot_be_looked_at_leads_out_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, outside = tmp_path / "t", tmp_path / "outside"
    table.mkdir()
    outside.mkdir()
    (table / "bucket-0").symlink_to(outside)
    failing(monkeypatch, "lstat", table / "bucket-0", errno.EIO, stays=True)
    with pytest.raises(OSError, match="bucket-0"):
        check_inside(Boundary(str(table)), f"{table}/bucket-0/data")


@pytest.mark.parametrize("kind", ["write", "fsync", "close"])
def test_a_file_that_cannot_be_written_is_named(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = LocalFileIO(new_text=lambda: "x")
    temporary = tmp_path / ".LATEST.x.tmp"
    failing(monkeypatch, kind, temporary, errno.EIO, stays=True)
    with pytest.raises(OSError, match="LATEST") as error:
        made.overwrite(f"{tmp_path}/LATEST", b"7")
    assert error.value.filename == f"{tmp_path}/LATEST"
    assert not list(tmp_path.iterdir())


def test_a_new_file_that_cannot_be_closed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "close", tmp_path / "data", errno.EDQUOT, stays=True)
    with pytest.raises(OSError, match="data") as error:
        IO.open_output(f"{tmp_path}/data")
    assert error.value.filename == f"{tmp_path}/data"
