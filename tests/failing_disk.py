"""A disk or network file system that fails: calls of the operating system raise errors.

Below `failing_io`: these are the calls that `LocalFileIO` itself makes, so that what it takes for
"missing" is tested, too.  Only paths below one folder fail.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR
from types import TracebackType
from typing import Any, Final, Self

import pytest

_FSTAT: Final = os.fstat
ON_PATHS = ("stat", "lstat", "open", "scandir", "link", "replace", "unlink", "rmdir", "mkdir")
ON_HANDLES = ("fsync", "fstat", "write", "close")
KINDS = (*ON_PATHS, *ON_HANDLES, "entry", "read")
"""Kinds of calls: "entry" is the listing behind an open folder, "read" that of a whole file."""


@dataclass
class Disk:
    """Counts the calls below `root`; number `at` (from 0) fails, or none for -1.

    With `only`, a kind and a path, it is the calls of these that count.
    """

    root: str
    at: int = -1
    code: int = errno.EIO
    stays: bool = False
    """Whether all later calls of the same kind and path fail too."""
    only: tuple[str, str] | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    """The kind and path of each call."""
    failed: tuple[str, str] | None = None
    armed: bool = False

    def call(self, kind: str, path: object) -> None:
        """A call begins; OSError if it is its turn."""
        if not self.armed or not isinstance(path, str) or not path.startswith(self.root):
            return
        if self.only not in {None, (kind, path)}:
            return
        self.calls.append((kind, path))
        again = self.stays and self.failed == (kind, path)
        if len(self.calls) == self.at + 1 or again:
            self.failed = (kind, path)
            if kind in ON_HANDLES or kind in {"entry", "read"}:
                raise OSError(self.code, os.strerror(self.code))  # these know no path
            raise OSError(self.code, os.strerror(self.code), path)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Put this in the way of the module `os`."""
        for kind in ON_PATHS:
            patch.setattr(os, kind, self._on_path(kind, getattr(os, kind)))
        for kind in ON_HANDLES:
            patch.setattr(os, kind, self._on_handle(kind, getattr(os, kind)))
        patch.setattr(os, "fdopen", self._opened(os.fdopen))

    def _on_path(self, kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Any, *args: Any, **named: Any) -> Any:
            self.call(kind, path)
            found = real(path, *args, **named)
            return _Entries(self, path, found) if kind == "scandir" else found

        return called

    def _on_handle(self, kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(handle: int, *args: Any) -> Any:
            path = _path_of(handle)
            if kind == "close":
                of_folder = S_ISDIR(_FSTAT(handle).st_mode)
                found = real(handle, *args)  # a file is closed even if this fails
                if not of_folder:
                    self.call(kind, path)
                return found
            self.call(kind, path)
            return real(handle, *args)

        return called

    def _opened(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(handle: int, *args: Any, **named: Any) -> Any:
            return _Opened(self, _path_of(handle), real(handle, *args, **named))

        return called


def _path_of(handle: int) -> str:
    try:
        return str(Path(f"/proc/self/fd/{handle}").readlink())
    except OSError:
        return ""


@dataclass
class _Entries:
    """What `os.scandir` returns, failing while it is read."""

    disk: Disk
    path: object
    inner: Any

    def __iter__(self) -> Iterator[os.DirEntry[str]]:
        return self

    def __next__(self) -> os.DirEntry[str]:
        found: os.DirEntry[str] = next(self.inner)
        self.disk.call("entry", self.path)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.inner.close()

    def close(self) -> None:
        self.inner.close()


@dataclass
class _Opened:
    """A file that fails while it is read."""

    disk: Disk
    path: str
    inner: Any

    def readall(self) -> bytes:
        self.disk.call("read", self.path)
        data: bytes = self.inner.readall()
        return data

    def fileno(self) -> int:
        number: int = self.inner.fileno()
        return number

    def __enter__(self) -> Self:
        self.inner.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.inner.__exit__(kind, error, at)
