"""`FileIO` for a local or mounted file system, through system calls only.

Files are created atomically.  The content goes to a hidden temporary file in the same folder
(`.snapshot-7.UUID.tmp`, the name that Java uses too; snapshot listings ignore it and the orphan
cleaner removes it) and is forced to disk.  Then the file gets its name in one step: by a hard link,
which fails if the name is taken, or by `renameat2(RENAME_NOREPLACE)` where hard links are not
supported.  A file system with neither is refused, because an existence check followed by a rename,
as in Java, loses commits.

Java's local rename replaces a file that another process creates between Java's check and its
rename.  This side cannot prevent that; `SnapshotStore.try_commit` detects it.
"""

# Paths are strings: pathlib costs more than the system calls themselves.
from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa

from paimon_core.errors import InvalidArgument, StorageError, UnsupportedFeature
from paimon_core.io.file_io import IS_DIR, IS_LINK, FileStat, FolderNames
from paimon_core.io.local_errors import (
    LEADS_NOWHERE,
    TO_NOTHING,
    CauseIsTold,
    Named,
    NothingBelow,
    TooLongIsMissing,
    broken_link,
    folder_in_place,
    lstat_or_none,
    not_a_folder,
    stale,
)

_AT_FDCWD: Final = -100
_RENAME_NOREPLACE: Final = 1
_NO_SUCH_CALL: Final = frozenset(
    {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.EMLINK}
)
_NANOS_OF_MILLI: Final = 1_000_000
LARGEST_WHOLE: Final = 1 << 30
"""The size in bytes of the largest file that is read as a whole: metadata and indexes are smaller.

A file of holes takes no space on the disk, but would take all of the memory.
"""
_LOOKS: Final = 2
"""How often something is opened that is missing and there at once: somebody
may just have made it."""
_READ_NOW: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def _random_text() -> str:
    return str(uuid4())


def local_path(path: str) -> str:
    """Return the path without the scheme: "file:/w", "file:///w" and "/w" all give "/w".

    Raises InvalidArgument for a path with a NUL character, which no system call accepts.
    """
    if "\0" in path:
        raise InvalidArgument(f"a path must not hold a NUL character: {path[:200]!r}")
    if not path.startswith("file:"):
        return path
    return "/" + path[5:].lstrip("/")


@dataclass(frozen=True, slots=True)
class LocalFileIO:
    """`FileIO` over system calls.  `new_text` makes temporary names unique across processes."""

    new_text: Callable[[], str] = _random_text

    @property
    def parallelism(self) -> int:
        return 1

    def read_bytes(self, path: str) -> bytes:
        target = local_path(path)
        descriptor = _opened_file(target)
        with Named(target):
            try:
                found = os.fstat(descriptor)
                _refuse_other_than_file(found, target)
                if found.st_size > LARGEST_WHOLE:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), target)
            except OSError:
                os.close(descriptor)
                raise
            with os.fdopen(descriptor, "rb", buffering=0) as f:
                return f.readall()

    @property
    def deletes_at_once(self) -> int:
        return 1

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:  # noqa: ARG002 - as in FileIO
        target = local_path(path)
        with TooLongIsMissing(target):
            _refuse_other_than_file(os.stat(target), target)
        return pa.OSFile(target, "rb")

    def open_output(self, path: str) -> pa.NativeFile:
        with Named(local_path(path)):
            os.close(self._open_new(path))
        # Append mode: opened with truncation, an existing empty file would be flushed on close.
        return pa.OSFile(local_path(path), "ab")

    def write_bytes(self, path: str, data: bytes) -> None:
        descriptor = self._open_new(path)
        with Named(local_path(path)), os.fdopen(descriptor, "wb", buffering=0) as f:
            _write_all(f.fileno(), data)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        target = local_path(path)
        temporary = self._write_temporary(target, data)
        try:
            created = _name_exclusively(temporary, target)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        if created:
            _sync_folder(os.path.dirname(target))
        return created

    def overwrite(self, path: str, data: bytes) -> None:
        target = local_path(path)
        temporary = self._write_temporary(target, data)
        try:
            os.replace(temporary, target)
        except OSError as e:
            with suppress(OSError):
                os.unlink(temporary)
            if isinstance(e, IsADirectoryError):
                raise folder_in_place(target, "overwritten") from e
            raise

    def exists(self, path: str) -> bool:
        target = local_path(path)
        try:
            with TooLongIsMissing(target):
                os.stat(target)
        except OSError as e:
            found = lstat_or_none(target) if e.errno in LEADS_NOWHERE else None
            if found is not None and S_ISLNK(found.st_mode):
                raise broken_link(target) from e
            if isinstance(e, FileNotFoundError | NotADirectoryError):
                return found is not None
            raise
        return True

    def stat(self, path: str) -> FileStat:
        target = local_path(path)
        with NothingBelow(target), TooLongIsMissing(target):
            found = os.lstat(target)
            is_link = S_ISLNK(found.st_mode)
            if is_link:
                found = _of_target(target)
        return _file_stat(path, found, is_dir=S_ISDIR(found.st_mode), is_link=is_link)

    def list_dir(self, path: str) -> list[FileStat]:
        prefix = path.rstrip("/") + "/"
        found = []
        with _entries(path) as entries:
            for entry in entries:
                file = _listed(prefix + entry.name, entry)
                if file is not None:
                    found.append(file)
        return found

    def list_names(self, path: str) -> FolderNames:
        names: list[str] = []
        kinds = bytearray()
        with _entries(path) as entries:
            for entry in entries:
                names.append(entry.name)
                # Nearly all file systems tell the kind with the name.
                kinds.append(_is_dir(entry) * IS_DIR + entry.is_symlink() * IS_LINK)
        return FolderNames(names, bytes(kinds))

    def list_below(self, path: str) -> list[FileStat] | None:  # noqa: ARG002 - a folder is one call
        return None

    def delete_many(self, paths: Sequence[str]) -> list[bool]:
        return [self.delete(path) for path in paths]

    def delete(self, path: str) -> bool:
        target = local_path(path)
        try:
            with NothingBelow(target), TooLongIsMissing(target):
                os.unlink(target)
        except FileNotFoundError:
            return False
        except IsADirectoryError as e:
            raise folder_in_place(target, "deleted") from e
        return True

    def delete_dir(self, path: str, *, recursive: bool = True) -> bool:
        target = local_path(path)
        if recursive:
            return _remove_tree(target)
        try:
            with NothingBelow(target), TooLongIsMissing(target):
                os.rmdir(target)
        except FileNotFoundError:
            return False
        except OSError as e:
            if e.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        return True

    def rename(self, src: str, dst: str) -> bool:
        source, target = local_path(src), local_path(dst)
        is_dir = S_ISDIR(os.stat(source).st_mode)
        if lstat_or_none(target) is not None:
            return False
        with CauseIsTold(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            done = _rename_exclusively(source, target)
        if done is not None:
            return done
        if not is_dir:
            try:
                os.link(source, target)
            except FileExistsError:
                return False
            os.unlink(source)
            return True
        try:
            os.rename(source, target)  # for a folder: fails if the target is a non-empty folder
        except OSError as e:
            if e.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                return False
            raise
        return True

    def make_dirs(self, path: str) -> None:
        target = local_path(path)
        with CauseIsTold(target):
            os.makedirs(target, exist_ok=True)

    def _open_new(self, path: str) -> int:
        target = local_path(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        with CauseIsTold(target):
            try:
                return os.open(target, flags, 0o666)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                return os.open(target, flags, 0o666)

    def _write_temporary(self, target: str, data: bytes) -> str:
        """Write a hidden file beside the target, sync it to disk and return its path."""
        folder, name = os.path.split(target)
        temporary = f"{folder}/.{name}.{self.new_text()}.tmp"
        handle = self._open_new(temporary)
        try:
            with Named(target):
                try:
                    _write_all(handle, data)
                    os.fsync(handle)
                finally:
                    os.close(handle)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        return temporary


@contextmanager
def _entries(path: str) -> Iterator[Iterable[os.DirEntry[str]]]:
    """Give the entries of a folder; none for a missing folder."""
    target = local_path(path)
    found = _opened_folder(target)
    if found is None:
        yield ()
        return
    with Named(target), found as entries:
        yield entries


def _opened_file(target: str) -> int:
    """Open a file to read it; FileNotFoundError only if it is missing by its name, too."""
    for _ in range(_LOOKS):
        try:
            with TooLongIsMissing(target):
                # Non-blocking: opening a pipe would otherwise wait for a writer.
                return os.open(target, _READ_NOW)
        except FileNotFoundError as e:
            found = lstat_or_none(target)
            if found is None:
                raise
            if S_ISLNK(found.st_mode):
                raise OSError(errno.ELOOP, TO_NOTHING, target) from e
    raise stale(target)


def _opened_folder(target: str) -> AbstractContextManager[Iterable[os.DirEntry[str]]] | None:
    """Open a folder to list it; None for a missing one.

    A network file system may say "missing" for a folder that was replaced on another machine, and
    snapshots, tags and branches that are not listed would lose their files.  So the folder must be
    missing by its name, too.
    """
    for _ in range(_LOOKS):
        try:
            with TooLongIsMissing(target):
                return os.scandir(target)
        except OSError as e:
            found = lstat_or_none(target) if e.errno in LEADS_NOWHERE else None
            if found is not None and S_ISLNK(found.st_mode):
                raise broken_link(target) from e
            if isinstance(e, NotADirectoryError):
                raise not_a_folder(target) from e
            if not isinstance(e, FileNotFoundError):
                raise
            if found is None:
                return None
    raise stale(target)


def is_link(target: str) -> bool:
    """Return whether a symbolic link is there; OSError if that cannot be told."""
    found = lstat_or_none(target)
    return found is not None and S_ISLNK(found.st_mode)


def _listed(path: str, entry: os.DirEntry[str]) -> FileStat | None:
    """Return an entry of a folder; None if it was deleted meanwhile."""
    is_link = entry.is_symlink()
    try:
        return _file_stat(path, entry.stat(), is_dir=entry.is_dir(), is_link=is_link)
    except OSError as e:
        if not (is_link and e.errno in LEADS_NOWHERE):
            if isinstance(e, FileNotFoundError):
                return None
            raise
    try:
        modified = entry.stat(follow_symlinks=False).st_mtime_ns // _NANOS_OF_MILLI
    except FileNotFoundError:
        return None
    return FileStat(path, 0, modified, is_link=True, is_to_nothing=True)


def _of_target(link: str) -> os.stat_result:
    try:
        return os.stat(link)
    except OSError as e:
        if e.errno in LEADS_NOWHERE:
            raise FileNotFoundError(errno.ENOENT, TO_NOTHING, link) from e
        raise


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as e:
        if entry.is_symlink() and e.errno in LEADS_NOWHERE:
            return False
        raise


def _file_stat(path: str, stat: os.stat_result, *, is_dir: bool, is_link: bool = False) -> FileStat:
    modified = stat.st_mtime_ns // _NANOS_OF_MILLI
    return FileStat(path, 0 if is_dir else stat.st_size, modified, is_dir, is_link)


def _refuse_other_than_file(found: os.stat_result, target: str) -> None:
    """Raise IsADirectoryError for a folder, OSError for a device or pipe, which may never end."""
    if S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
    if not S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", target)


def _remove_tree(target: str) -> bool:
    found = lstat_or_none(target)
    if found is None:
        return False
    if S_ISLNK(found.st_mode):
        raise StorageError(
            f"{target} is a symbolic link, not a folder, and was not deleted",
            file=target,
            next_step="delete the link, or replace it by the folder that it leads to, then run again",
        )
    while True:
        try:
            with NothingBelow(target), Named(target):
                shutil.rmtree(target)
        except OSError as e:
            # Another process deletes or writes here too; repeat until the tree is gone.
            if e.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise
            if lstat_or_none(target) is not None:
                continue
        return True


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _name_exclusively(temporary: str, target: str) -> bool:
    """Give the temporary file its final name; return False if the name is taken."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        # A network file system may retry a request whose reply was lost: then the link is our own.
        return os.stat(temporary).st_nlink > 1
    except OSError as e:
        if e.errno not in _NO_SUCH_CALL:
            raise
        renamed = _rename_exclusively(temporary, target)
        if renamed is None:
            raise UnsupportedFeature(
                "commit on a file system without hard links and without exclusive rename",
                file=target,
                next_step="keep the warehouse on a file system that has one of the two",
            ) from e
        return renamed
    return True


def _load_renameat2() -> Any:
    try:
        return ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return None  # not Linux, or a C library without this call


_renameat2 = _load_renameat2()


def _rename_exclusively(source: str, target: str) -> bool | None:
    """Return True if renamed, False if the target exists, None if the system has no such call."""
    if _renameat2 is None:
        return None
    if (
        _renameat2(
            _AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE
        )
        == 0
    ):
        return True
    code = ctypes.get_errno()
    if code == errno.EEXIST:
        return False
    if code in _NO_SUCH_CALL:
        return None
    raise OSError(code, os.strerror(code), source, None, target)


def _sync_folder(folder: str) -> None:
    """Make a new name in the folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    with Named(folder):
        try:
            os.fsync(handle)
        except OSError as e:
            if e.errno not in _NO_SUCH_CALL:  # some file systems cannot sync folders
                raise
        finally:
            os.close(handle)
