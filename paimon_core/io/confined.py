"""Confines a store to one table: nothing outside the table is created, deleted, moved or replaced.

Every table handle wraps its store in this class (`table.open`), so it checks the changes of every
caller: writers, compaction, expiry, orphan removal, rollback, clean-up after a failed commit.

A path must lie under the table's root or under a folder that the table declares. The check uses the
path's text and, on a local file system, also the path with its symbolic links resolved.  The root
itself may be reached through a link.  Links inside the table are followed only into a declared
folder: a link to another place of the table, say from a branch to the root, gives files a second
path, under which something else would be deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from paimon_core.errors import OutsideTable
from paimon_core.io.delegating import DelegatingFileIO
from paimon_core.io.file_io import FileIO, parent
from paimon_core.io.local import is_link, local_path
from paimon_core.names import Boundary, lies_under, location

if TYPE_CHECKING:
    import pyarrow as pa

_LOCAL_STORE: Final = "file://"
_MOST_KNOWN: Final = 10_000
"""Number of resolved folders that are kept in memory."""


@dataclass(frozen=True, slots=True)
class ConfinedFileIO(DelegatingFileIO):
    """`FileIO` whose changes outside the boundary raise CorruptTable (OutsideTable by a link)."""

    inner: FileIO
    boundary: Boundary

    def open_output(self, path: str) -> pa.NativeFile:
        check_inside(self.boundary, path)
        return self.inner.open_output(path)

    def write_bytes(self, path: str, data: bytes) -> None:
        check_inside(self.boundary, path)
        self.inner.write_bytes(path, data)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        check_inside(self.boundary, path)
        return self.inner.create_if_absent(path, data)

    def make_dirs(self, path: str) -> None:
        check_inside(self.boundary, path)
        self.inner.make_dirs(path)

    def overwrite(self, path: str, data: bytes) -> None:
        check_inside(self.boundary, path)
        self.inner.overwrite(path, data)

    def delete(self, path: str) -> bool:
        check_inside(self.boundary, path)
        return self.inner.delete(path)

    def delete_many(self, paths: Sequence[str]) -> list[bool]:
        for path in paths:
            check_inside(self.boundary, path)
        return self.inner.delete_many(paths)

    def delete_dir(self, path: str, *, recursive: bool = True) -> bool:
        check_inside(self.boundary, path)
        return self.inner.delete_dir(path, recursive=recursive)

    def rename(self, src: str, dst: str) -> bool:
        check_inside(self.boundary, src)
        check_inside(self.boundary, dst)
        return self.inner.rename(src, dst)


def check_inside(boundary: Boundary, path: str) -> None:
    """Raise CorruptTable if the path's text leaves the boundary, OutsideTable if a link does."""
    boundary.checked(path)
    if not is_inside(boundary, parent(path)):
        raise OutsideTable(
            f"{path} is reached through a symbolic link that leads out of the table, or to another "
            "place in it",
            file=path,
        )


def check_all_inside(boundary: Boundary, paths: Iterable[str]) -> None:
    """As `check_inside` for each of many paths; a folder above them is resolved once."""
    known: dict[str, str] = {}
    roots: list[_Root] | None = None
    for path in paths:
        boundary.checked(path)
        folder = parent(path)
        if not _is_local(folder):
            continue
        if roots is None:
            roots = _local_roots(boundary)
        if len(known) > _MOST_KNOWN:
            known.clear()
        if not _stays(local_path(folder), _resolved(local_path(folder), known), roots):
            check_inside(boundary, path)


def _resolved(folder: str, known: dict[str, str]) -> str:
    """Return `os.path.realpath` of a folder; `known` are the folders that were resolved before.

    OSError for a part that cannot be looked at: `realpath` takes it for a folder, not for a link.
    """
    found = known.get(folder)
    if found is not None:
        return found
    above, name = os.path.split(folder)
    if name in {"", ".", ".."} or is_link(folder):
        found = os.path.realpath(folder)
    else:
        found = os.path.join(_resolved(above, known), name)
    known[folder] = found
    return found


def is_inside(boundary: Boundary, folder: str) -> bool:
    """Return whether a folder, with its links resolved, is a folder of the table or below one.

    False if links lead from one place of the table to another one.  Always True on stores without
    symbolic links.
    """
    if not _is_local(folder):
        return True
    place = local_path(folder)
    return _stays(place, _resolved(place, {}), _local_roots(boundary))


class _Root(NamedTuple):
    """A folder of the table, and the same with its links resolved."""

    path: str
    real: str


def _local_roots(boundary: Boundary) -> list[_Root]:
    paths = [local_path(root).rstrip("/") for root in boundary.known_roots() if _is_local(root)]
    return [_Root(path, _resolved(path, {})) for path in paths]


def _stays(folder: str, real: str, roots: Sequence[_Root]) -> bool:
    """Return whether a folder is where its path says, or in another one of the roots."""
    own = [r for r in roots if folder == r.path or folder.startswith(f"{r.path}/")]
    if any(real == r.real + folder[len(r.path) :] for r in own):
        return True
    elsewhere = any(_same_or_under(real, r.real) for r in own)
    return not elsewhere and any(_same_or_under(real, r.real) for r in roots)


def _is_local(path: str) -> bool:
    place = location(path)
    return place is not None and place[0] == _LOCAL_STORE


def _same_or_under(folder: str, root: str) -> bool:
    place, base = location(folder), location(root)
    return place is not None and base is not None and (place == base or lies_under(place, base))
