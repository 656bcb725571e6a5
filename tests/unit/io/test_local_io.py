from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from paimon_core.errors import UnsupportedFeature
from paimon_core.io import local
from paimon_core.io.local import LocalFileIO


def _refuse(*_: object) -> None:
    raise OSError(errno.EPERM, "no hard links here")


@pytest.fixture
def io() -> LocalFileIO:
    return LocalFileIO()


def test_without_hard_links_an_exclusive_rename_names_the_file(
    io: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", _refuse)
    target = str(tmp_path / "snapshot-1")
    assert io.create_if_absent(target, b"one")
    assert not io.create_if_absent(target, b"two")
    assert Path(target).read_bytes() == b"one"
    assert [p.name for p in tmp_path.iterdir()] == ["snapshot-1"]


def test_a_file_system_with_neither_is_refused(
    io: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", _refuse)
    monkeypatch.setattr(local, "_renameat2", None)
    with pytest.raises(UnsupportedFeature, match="hard links"):
        io.create_if_absent(str(tmp_path / "snapshot-1"), b"one")
    assert list(tmp_path.iterdir()) == []


def test_a_lost_reply_of_a_network_file_system_is_no_loss(
    io: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS may repeat a LINK that succeeded, and then answers that the name exists."""
    real = os.link

    def linked_but_told_otherwise(src: str, dst: str) -> None:
        real(src, dst)
        raise FileExistsError(dst)

    monkeypatch.setattr(os, "link", linked_but_told_otherwise)
    assert io.create_if_absent(str(tmp_path / "snapshot-1"), b"one")


def test_a_crash_before_naming_leaves_only_a_hidden_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    def crash(*_: object) -> None:
        raise Crash

    monkeypatch.setattr(local, "_name_exclusively", crash)
    monkeypatch.setattr(os, "unlink", crash)
    with pytest.raises(Crash):
        LocalFileIO(new_text=lambda: "ID").create_if_absent(str(tmp_path / "snapshot-1"), b"one")
    assert [p.name for p in tmp_path.iterdir()] == [".snapshot-1.ID.tmp"]


def test_a_full_disk_leaves_nothing(
    io: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        io.create_if_absent(str(tmp_path / "snapshot-1"), b"one")
    with pytest.raises(OSError, match="full"):
        io.overwrite(str(tmp_path / "LATEST"), b"1")
    assert list(tmp_path.iterdir()) == []


def test_what_vanishes_while_listing_is_left_out(
    io: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    (tmp_path / "there").write_bytes(b"x")
    assert [s.name for s in io.list_dir(str(tmp_path))] == ["there"]


def test_listing_a_file_is_an_error(io: LocalFileIO, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(NotADirectoryError):
        io.list_dir(str(tmp_path / "file"))


@pytest.mark.parametrize("write", ["write_bytes", "create_if_absent", "overwrite"])
def test_a_write_that_fails_names_its_file(io: LocalFileIO, tmp_path: Path, write: str) -> None:
    limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, most))
    try:
        with pytest.raises(OSError, match="snapshot-1"):
            getattr(io, write)(str(tmp_path / "snapshot-1"), bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))


def test_a_name_that_is_too_long_for_a_file_names_none(io: LocalFileIO, tmp_path: Path) -> None:
    path = f"{tmp_path}/{'é' * 200}"
    for read in (io.read_bytes, io.open_input, io.stat):
        with pytest.raises(FileNotFoundError, match="so long a name"):
            read(path)
    assert not io.exists(path)
    assert not io.delete(path)
    assert not io.delete_dir(path, recursive=False)
    assert io.list_dir(path) == []
