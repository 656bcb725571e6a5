"""The storage of a table whose commits a catalog makes: its history is changed by the catalog only.

Every handle of such a table has this wrapper around its store, so that no code path, whatever it
does, commits through the file system: other clients ask the catalog and would never see it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.io.delegating import DelegatingFileIO
from paimon_core.io.file_io import FileIO
from paimon_core.paths import MAIN_BRANCH
from paimon_core.snapshot.snapshot_commit import SnapshotCommit

if TYPE_CHECKING:
    import pyarrow as pa

_SNAPSHOT: Final = re.compile(r"(?:branch/branch-([^/]+)/)?snapshot/snapshot-(\d+)")
_MADE_BY_CATALOG: Final = re.compile(
    r"(?:branch/branch-[^/]+/)?(?:snapshot/snapshot-|schema/schema-)\d+|branch/branch-[^/]+/\.creating"
)
_KEPT_BY_CATALOG: Final = re.compile(r"(?:branch/branch-[^/]+/)?schema/schema-\d+")
_FOLDER_OF_CATALOG: Final = re.compile(
    r"|(?:branch/branch-[^/]+/)?(?:snapshot|schema)|branch|branch/branch-[^/]+"
)


@dataclass(frozen=True, slots=True)
class CatalogOwnedFileIO(DelegatingFileIO):
    """`FileIO` that refuses with UnsupportedFeature what only the catalog may change.

    Refused are the creation, replacement and renaming of snapshots and schemas, the deletion of
    schemas and of the newest snapshot, and the creation, deletion and renaming of branches.
    Deleting an older snapshot is expiry, which clients do in the file system, as in Java.
    """

    inner: FileIO
    root: str
    snapshot_commit: SnapshotCommit

    def open_output(self, path: str) -> pa.NativeFile:
        self._check_made(path)
        return self.inner.open_output(path)

    def write_bytes(self, path: str, data: bytes) -> None:
        self._check_made(path)
        self.inner.write_bytes(path, data)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        self._check_made(path)
        return self.inner.create_if_absent(path, data)

    def overwrite(self, path: str, data: bytes) -> None:
        self._check_made(path)
        self.inner.overwrite(path, data)

    def delete(self, path: str) -> bool:
        self._check_deletable(path)
        return self.inner.delete(path)

    def delete_many(self, paths: Sequence[str]) -> list[bool]:
        for path in paths:
            self._check_deletable(path)
        return self.inner.delete_many(paths)

    def _check_deletable(self, path: str) -> None:
        inside = self._inside(path)
        if _KEPT_BY_CATALOG.fullmatch(inside):
            raise self._refused("deleted", path)
        snapshot = _SNAPSHOT.fullmatch(inside)
        if snapshot is not None:
            newest = self.snapshot_commit.latest(snapshot.group(1) or MAIN_BRANCH)
            if newest is None or int(snapshot.group(2)) >= newest.id:
                raise self._refused("deleted", path)

    def delete_dir(self, path: str, *, recursive: bool = True) -> bool:
        if recursive and _FOLDER_OF_CATALOG.fullmatch(self._inside(path)):
            raise self._refused("deleted", path)
        return self.inner.delete_dir(path, recursive=recursive)

    def rename(self, src: str, dst: str) -> bool:
        for path in (src, dst):
            inside = self._inside(path)
            if _FOLDER_OF_CATALOG.fullmatch(inside) or _MADE_BY_CATALOG.fullmatch(inside):
                raise self._refused("renamed", path)
        return self.inner.rename(src, dst)

    def _inside(self, path: str) -> str:
        """The path as seen from the table's folder; one outside of it as it is."""
        path = path.rstrip("/")
        return "" if path == self.root else path.removeprefix(f"{self.root}/")

    def _check_made(self, path: str) -> None:
        if _MADE_BY_CATALOG.fullmatch(self._inside(path)):
            raise self._refused("written", path)

    def _refused(self, what: str, path: str) -> UnsupportedFeature:
        owner = self.snapshot_commit.owner
        return UnsupportedFeature(
            f"history that {owner} manages",
            f"{path} is not {what}: only {owner} changes the history of this table",
            file=path,
            next_step="do this through the catalog, with a client of the catalog",
        )
