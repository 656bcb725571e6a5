"""A FileIO that fails at its k-th change, before or after the change took effect.

What a crash or a lost reply leaves behind is the same whether the process dies or the call fails,
so a run with `FailingFileIO` stands for both: everything after the failure is refused as well when
`dead` is set, as after a kill.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from paimon_core.io.file_io import FileIO, FileStat
from paimon_core.io.local import LocalFileIO

When = Literal["before", "after"]


class Injected(OSError):
    """The failure that a test asked for."""


@dataclass
class Trigger:
    """Counts changes; fires at number `at` (from 0), or never for -1."""

    at: int = -1
    when: When = "before"
    dead: bool = False
    reads: bool = False
    """Whether it is reads that count, and fail, instead of changes."""
    copies: bool = False
    """Whether a file is renamed as object stores do it: copied, then deleted."""
    count: int = 0
    fired: bool = False

    def check_alive(self) -> None:
        if self.fired and self.dead:
            raise Injected("the process is dead")

    def read(self, name: str, path: str) -> None:
        """A read begins; fails if it is its turn."""
        self.check_alive()
        if not self.reads:
            return
        mine = self.count == self.at
        self.count += 1
        if mine:
            self.fired = True
            raise Injected(f"{name} {path} failed")


class FailingFileIO:
    """Local files; every call that changes something counts."""

    def __init__(self, trigger: Trigger, inner: FileIO | None = None) -> None:
        self.trigger = trigger
        self.inner = inner or LocalFileIO()

    @property
    def parallelism(self) -> int:
        return 1  # so that the k-th call is the same call in every run

    def _change(self, name: str, *args: Any, **kwargs: Any) -> Any:
        trigger = self.trigger
        trigger.check_alive()
        mine = not trigger.reads and trigger.count == trigger.at
        trigger.count += not trigger.reads
        if mine and trigger.when == "before":
            trigger.fired = True
            raise Injected(f"{name} {args[0]} failed before it took effect")
        result = getattr(self.inner, name)(*args, **kwargs)
        if mine:
            trigger.fired = True
            raise Injected(f"{name} {args[0]} took effect, but its reply was lost")
        return result

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

    def open_input(self, path: str) -> pa.NativeFile:
        self.trigger.read("open_input", path)
        return self.inner.open_input(path)

    def exists(self, path: str) -> bool:
        self.trigger.read("exists", path)
        return self.inner.exists(path)

    def stat(self, path: str) -> FileStat:
        self.trigger.read("stat", path)
        return self.inner.stat(path)

    def list_dir(self, path: str) -> list[FileStat]:
        self.trigger.read("list_dir", path)
        return self.inner.list_dir(path)
