"""What lies in the folders of a table: each folder listed once, many at a time.

Asking for every file by itself costs a request a file; a listing answers for a whole bucket.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from paimon_core.io.file_io import FileIO, map_parallel, parent


@dataclass(slots=True)
class Inventory:
    """Names and sizes (bytes) of the files in folders, as of when each was first asked for."""

    io: FileIO
    _folders: dict[str, dict[str, int]] = field(default_factory=dict)

    def prefetch(self, paths: Iterable[str]) -> None:
        """List the folders of these files concurrently, those not listed yet."""
        missing = sorted({parent(p) for p in paths} - self._folders.keys())
        self._folders.update(zip(missing, map_parallel(self.io, self._list, missing), strict=True))

    def listed(self, path: str) -> bool:
        """Whether the folder's listing names the file."""
        return path.rpartition("/")[2] in self._folder(parent(path))

    def size(self, path: str) -> int | None:
        """The size of the file at this path, or None if it is not there.

        Absence is confirmed by a request of its own, since a listing may be too old for it.
        """
        listed = self._folder(parent(path))
        size = listed.get(path.rpartition("/")[2])
        if size is not None:
            return size
        try:
            return self.io.stat(path).size
        except FileNotFoundError:
            return None

    def _folder(self, folder: str) -> dict[str, int]:
        listed = self._folders.get(folder)
        if listed is None:
            listed = self._folders[folder] = self._list(folder)
        return listed

    def _list(self, folder: str) -> dict[str, int]:
        # A listing that fails raises: nothing may be called missing because of it.
        return {s.name: s.size for s in self.io.list_dir(folder) if not s.is_dir}
