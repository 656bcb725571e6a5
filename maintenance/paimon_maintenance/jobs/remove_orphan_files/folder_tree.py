"""The folders of a table: listed one by one, or taken from one listing of all files.

Object stores list all objects below a prefix, 1,000 in each request, which takes far fewer requests
than a listing of each folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileStat, parent
from paimon_core.io.file_stats import FileStats, FileStatsBuilder
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.storage.bulk import list_folders

_FOLDERS_TOGETHER: Final = 1_000


@dataclass(frozen=True, slots=True)
class FolderTree:
    """The content of the folders of a table and of external roots.

    `known` holds the folders below the roots that were listed by prefix: a part of `files`.
    """

    table: FileStoreTable
    context: RunContext
    roots: tuple[str, ...] = ()
    files: FileStats = field(default_factory=FileStatsBuilder().finish)
    known: Mapping[str, slice] = field(default_factory=dict)

    @staticmethod
    def of(table: FileStoreTable, context: RunContext, external: Sequence[str]) -> FolderTree:
        """The tree; OSError if a listing fails."""
        builder = FileStatsBuilder()
        roots = []
        for root in dict.fromkeys((table.root, *external)):
            files = table.io.list_below(root)
            if files is not None:
                roots.append(root)
                _add(builder, root, files)
        return FolderTree(table, context, tuple(roots), *builder.finish().grouped())

    def listed(self, folders: Sequence[str]) -> Iterator[FileStats]:
        """The content of the folders, as `list_folders`; the engine lists very many folders."""
        if not all(self._is_known(folder) for folder in folders):
            yield from list_folders(self.table, folders, self.context)
            return
        for start in range(0, len(folders), _FOLDERS_TOGETHER):
            yield self._content(folders[start : start + _FOLDERS_TOGETHER])

    def _content(self, folders: Sequence[str]) -> FileStats:
        places = [self.known.get(folder, slice(0, 0)) for folder in folders]
        here = [np.arange(place.start, place.stop) for place in places]
        folder = np.repeat(np.arange(len(here), dtype=np.int32), [*map(len, here)])
        return replace(self.files.take(np.concatenate(here)), folders=folders, folder=folder)

    def _is_known(self, folder: str) -> bool:
        return any(folder == root or folder.startswith(f"{root}/") for root in self.roots)


def _add(builder: FileStatsBuilder, root: str, files: Iterable[FileStat]) -> None:
    """Add the files below the root, and the folders that they imply."""
    seen = {root}
    for file in files:
        if file.is_dir and file.path in seen:
            continue
        if not file.is_dir:
            builder.add(file)
        folder = file.path if file.is_dir else parent(file.path)
        while folder not in seen:
            seen.add(folder)
            builder.add(FileStat(folder, 0, 0, is_dir=True))
            folder = parent(folder)
