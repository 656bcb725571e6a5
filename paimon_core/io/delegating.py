"""The base of stores that check or record some calls and pass on all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from paimon_core.io.file_io import FileIO, FileStat, FolderNames

if TYPE_CHECKING:
    import pyarrow as pa


class DelegatingFileIO:
    """`FileIO` that passes every call on to `inner`; subclasses define it and override the rest.

    A subclass that overrides `delete` overrides `delete_many` too, which does not call it.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # a field of most subclasses

        @property
        def inner(self) -> FileIO: ...

    @property
    def parallelism(self) -> int:
        return self.inner.parallelism

    def read_bytes(self, path: str) -> bytes:
        return self.inner.read_bytes(path)

    @property
    def deletes_at_once(self) -> int:
        return self.inner.deletes_at_once

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        return self.inner.open_input(path, size)

    def open_output(self, path: str) -> pa.NativeFile:
        return self.inner.open_output(path)

    def write_bytes(self, path: str, data: bytes) -> None:
        self.inner.write_bytes(path, data)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        return self.inner.create_if_absent(path, data)

    def overwrite(self, path: str, data: bytes) -> None:
        self.inner.overwrite(path, data)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def stat(self, path: str) -> FileStat:
        return self.inner.stat(path)

    def list_dir(self, path: str) -> list[FileStat]:
        return self.inner.list_dir(path)

    def list_names(self, path: str) -> FolderNames | None:
        return self.inner.list_names(path)

    def list_below(self, path: str) -> list[FileStat] | None:
        return self.inner.list_below(path)

    def delete(self, path: str) -> bool:
        return self.inner.delete(path)

    def delete_many(self, paths: Sequence[str]) -> list[bool]:
        return self.inner.delete_many(paths)

    def delete_dir(self, path: str, *, recursive: bool = True) -> bool:
        return self.inner.delete_dir(path, recursive=recursive)

    def rename(self, src: str, dst: str) -> bool:
        return self.inner.rename(src, dst)

    def make_dirs(self, path: str) -> None:
        self.inner.make_dirs(path)
