from __future__ import annotations

import errno
import os
import resource
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from paimon_core.errors import StorageError, UnsupportedFeature
from paimon_core.io import local
from paimon_core.io.file_io import IS_DIR, IS_LINK, read_parallel
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
    for name in ("there", "gone"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    scandir = os.scandir

    def slow(path: str) -> Any:
        with scandir(path) as entries:
            found = list(entries)
        for name in ("gone", "link"):
            (tmp_path / name).unlink(missing_ok=True)
        return nullcontext(found)

    monkeypatch.setattr(os, "scandir", slow)
    assert [s.name for s in io.list_dir(str(tmp_path))] == ["there"]


def test_listing_a_file_is_an_error(io: LocalFileIO, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    for listed in (io.list_dir, io.list_names):
        with pytest.raises(NotADirectoryError):
            listed(str(tmp_path / "file"))


def test_links_are_told_from_what_they_lead_to(io: LocalFileIO, tmp_path: Path) -> None:
    for name, target in (("to-file", "file"), ("to-folder", "folder"), ("to-nothing", "gone")):
        (tmp_path / name).symlink_to(tmp_path / target)
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "folder").mkdir()
    kinds = {"file": 0, "folder": IS_DIR, "to-file": IS_LINK, "to-folder": IS_DIR + IS_LINK}
    found = io.list_names(str(tmp_path))
    assert dict(zip(found.names, found.kinds, strict=True)) == {**kinds, "to-nothing": IS_LINK}
    listed = io.list_dir(str(tmp_path))
    (nothing,) = [s for s in listed if s.is_to_nothing]
    assert (nothing.name, nothing.is_link, nothing.is_dir) == ("to-nothing", True, False)
    listed.remove(nothing)
    assert {s.name: s.is_dir * IS_DIR + s.is_link * IS_LINK for s in listed} == kinds
    assert sorted(listed, key=lambda s: s.path) == [io.stat(f"{tmp_path}/{name}") for name in kinds]
    with pytest.raises(FileNotFoundError):
        io.stat(f"{tmp_path}/to-nothing")


def test_threads_read_where_reading_waits(io: LocalFileIO) -> None:
    threads = set()

    def read(number: int) -> int:
        time.sleep(0.001)  # as a disk would let us wait
        threads.add(threading.get_ident())
        return number

    assert read_parallel(io, read, range(300)) == list(range(300))
    assert len(threads) > 1
    assert read_parallel(io, read, []) == []


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
        with pytest.raises(FileNotFoundError, match="such a long name"):
            read(path)
    assert not io.exists(path)
    assert not io.delete(path)
    assert not io.delete_dir(path, recursive=False)
    assert io.list_dir(path) == []


def test_a_new_name_that_is_too_long_is_told(io: LocalFileIO, tmp_path: Path) -> None:
    path = f"{tmp_path}/{'é' * 110}"  # with the ending of its temporary file
    (tmp_path / "here").write_bytes(b"x")
    for made in (
        lambda: io.create_if_absent(path, b"x"),
        lambda: io.overwrite(path, b"x"),
        lambda: io.write_bytes(f"{path}/{'x' * 256}", b"x"),
        lambda: io.make_dirs(f"{tmp_path}/{'x' * 256}"),
        lambda: io.rename(f"{tmp_path}/here", f"{tmp_path}/{'x' * 256}"),
    ):
        with pytest.raises(StorageError, match="too long") as refusal:
            made()
        assert "shorter" in (refusal.value.next_step or "")
    assert (tmp_path / "here").exists()


def test_a_folder_that_is_a_link_is_not_deleted(io: LocalFileIO, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/kept").write_bytes(b"x")
    (tmp_path / "t").symlink_to("there")
    with pytest.raises(StorageError, match="symbolic link") as refusal:
        io.delete_dir(f"{tmp_path}/t")
    assert "delete the link" in (refusal.value.next_step or "")
    assert (tmp_path / "there/kept").exists()
