"""A FileIO that fails at its k-th call, or whose process is killed there.

Changes fail before or after they took effect, reads fail; the process lives on and may clean up, or
the store is down or full from then on.  A kill (`Trigger.kill`, in a process of the caller's making) comes
before a change, after it, or midway: half of a file is written.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

import pyarrow as pa

from paimon_core.io.file_io import FileIO, FileStat, FolderNames
from paimon_core.io.local import LocalFileIO

When = Literal["before", "midway", "after"]
MIDWAY = ("open_output", "write_bytes", "create_if_absent", "overwrite")
"""The changes that a kill can cut in two."""
WRITES = (*MIDWAY, "make_dirs")
"""The changes that need space."""


class Injected(OSError):
    """The failure that a test asked for."""


@dataclass
class Trigger:
    """Counts changes; fires at number `at` (from 0), or never for -1."""

    at: int = -1
    when: When = "before"
    kill: bool = False
    """Whether it ends the process, with SIGKILL, instead of failing the call."""
    down: bool = False
    """Whether every later call fails too: the store is down."""
    full: bool = False
    """Whether every later call that writes fails too, while others work: the disk is full."""
    reads: bool = False
    """Whether it is reads that count, and fail, instead of changes."""
    copies: bool = False
    """Whether a file is renamed as object stores do it: copied, then deleted."""
    action: Callable[[], object] | None = None
    """What is done before the change instead of failing it: something else that comes between."""
    calls: list[str] = field(default_factory=list)
    """The names of those that counted."""
    fired: bool = False

    @property
    def count(self) -> int:
        return len(self.calls)

    def is_next(self, name: str) -> bool:
        """Whether the call that begins is the one; it is counted."""
        self.calls.append(name)
        return self.count == self.at + 1

    def fire(self, what: str) -> None:
        if self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        self.fired = True
        if self.action is None:
            raise Injected(what)
        self.action()

    def check_up(self) -> None:
        if self.fired and self.down:
            raise Injected("the store is down")

    def check_space(self, name: str) -> None:
        if self.fired and self.full and name in WRITES:
            raise Injected("the disk is full")

    def read(self, name: str, path: str) -> None:
        """A read begins; fails if it is its turn."""
        self.check_up()
        if self.reads and self.is_next(name):
            self.fire(f"{name} {path} failed")


class FailingFileIO:
    """Local files; every call that changes something counts."""

    def __init__(self, trigger: Trigger, inner: FileIO | None = None) -> None:
        self.trigger = trigger
        self.inner = inner or LocalFileIO()

    @property
    def parallelism(self) -> int:
        return 1  # so that the k-th call is the same call in every run

    @property
    def deletes_at_once(self) -> int:
        return 1

    def _change(self, name: str, *args: Any, **kwargs: Any) -> Any:
        trigger = self.trigger
        trigger.check_up()
        trigger.check_space(name)
        mine = not trigger.reads and trigger.is_next(name)
        if mine and trigger.when == "before":
            trigger.fire(f"{name} {args[0]} failed before it took effect")
        if mine and trigger.when == "midway":
            if name == "open_output":
                return pa.PythonFile(_HalfWritten(trigger, args[0]), "w")
            self._half(name, *args)
            trigger.fire(f"{name} {args[0]} stopped midway")
        result = getattr(self.inner, name)(*args, **kwargs)
        if mine and trigger.when == "after":
            trigger.fire(f"{name} {args[0]} took effect, but its reply was lost")
        return result

    def _half(self, name: str, path: str, data: bytes) -> None:
        """What `LocalFileIO` has done when it is killed inside of a call."""
        folder, _, file = path.rpartition("/")
        temporary = f"{folder}/.{file}.{uuid4()}.tmp"
        if name == "create_if_absent":  # the file has its name already, and its temporary one still
            self.inner.create_if_absent(path, data)
            self.inner.write_bytes(temporary, data)
        else:
            self.inner.write_bytes(
                path if name == "write_bytes" else temporary, data[: len(data) // 2]
            )

    def open_output(self, path: str) -> pa.NativeFile:
        return self._change("open_output", path)

    def write_bytes(self, path: str, data: bytes) -> None:
        self._change("write_bytes", path, data)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        return bool(self._change("create_if_absent", path, data))

    def overwrite(self, path: str, data: bytes) -> None:
        self._change("overwrite", path, data)

    def delete(self, path: str) -> bool:
        return bool(self._change("delete", path))

    def delete_many(self, paths: Sequence[str]) -> list[bool]:
        return [self.delete(path) for path in paths]

    def delete_dir(self, path: str, *, recursive: bool = True) -> bool:
        """File by file, as stores and file systems do it: it may stop half way."""
        if recursive:
            for found in sorted(self.inner.list_dir(path), key=lambda f: f.name):
                if found.is_dir:
                    self.delete_dir(found.path)
                else:
                    self.delete(found.path)
        return bool(self._change("delete_dir", path, recursive=recursive))

    def rename(self, src: str, dst: str) -> bool:
        if self.trigger.copies and not self.inner.stat(src).is_dir:
            if self.inner.exists(dst):
                return False
            self._change("overwrite", dst, self.inner.read_bytes(src))
            return self.delete(src)
        return bool(self._change("rename", src, dst))

    def make_dirs(self, path: str) -> None:
        self._change("make_dirs", path)

    def read_bytes(self, path: str) -> bytes:
        self.trigger.read("read_bytes", path)
        return self.inner.read_bytes(path)

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        self.trigger.read("open_input", path)
        return self.inner.open_input(path, size)

    def exists(self, path: str) -> bool:
        self.trigger.read("exists", path)
        return self.inner.exists(path)

    def stat(self, path: str) -> FileStat:
        self.trigger.read("stat", path)
        return self.inner.stat(path)

    def list_dir(self, path: str) -> list[FileStat]:
        self.trigger.read("list_dir", path)
        return self.inner.list_dir(path)

    def list_names(self, path: str) -> FolderNames | None:
        self.trigger.read("list_names", path)
        return self.inner.list_names(path)

    def list_below(self, path: str) -> list[FileStat] | None:
        return None  # so that folders are listed one by one, each with a call of its own


class _HalfWritten:
    """A file whose process dies with half of it on disk, when it would be closed."""

    def __init__(self, trigger: Trigger, path: str) -> None:
        self._trigger = trigger
        self._path = path
        self._data = bytearray()
        self.closed = False

    def write(self, data: bytes) -> int:
        self._data += data
        return len(data)

    def tell(self) -> int:
        return len(self._data)

    def flush(self) -> None:
        """All at the end."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            LocalFileIO().write_bytes(self._path, bytes(self._data[: len(self._data) // 2]))
            self._trigger.fire(f"{self._path} was half written")
