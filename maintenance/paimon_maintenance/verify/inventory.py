"""Lists the folders of a table, each once and several in parallel.

One listing covers a whole bucket, while a check per file costs one request per file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from paimon_core.io.file_io import FileIO, map_parallel, parent


@dataclass(slots=True)
class Inventory:
    """Names and sizes (bytes) of the files in each folder, at the time of its first use."""

    io: FileIO
    _folders: dict[str, dict[str, int]] = field(default_factory=dict)

    def prefetch(self, folders: Iterable[str]) -> None:
        """List these folders in parallel, except those already listed."""
        missing = sorted(set(folders) - self._folders.keys())
        self._folders.update(zip(missing, map_parallel(self.io, self._list, missing), strict=True))

    def forget(self, folders: Iterable[str]) -> None:
        """Drop the listings of these folders."""
        for folder in folders:
            self._folders.pop(folder, None)

    def sizes(self, folder: str) -> Mapping[str, int]:
        """The size of each file in the listing of the folder, by name."""
        return self._folder(folder)

    def listed(self, path: str) -> bool:
        """Whether the listing of the folder contains the file."""
        return path.rpartition("/")[2] in self._folder(parent(path))

    def size(self, path: str) -> int | None:
        """The size of the file at this path; None if it does not exist.

        A separate request confirms a missing file, because the listing may be outdated.
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
        # A failed listing raises: it must not make files count as missing.
        listed = self.io.list_dir(folder)
        return {s.name: s.size for s in listed if not s.is_dir and not s.is_to_nothing}
