"""The folders of a table: listed one by one, or taken from one listing of all files.

Object stores list all objects below a prefix, 1,000 in each request, which takes far fewer requests
than a listing of each folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileStat, parent
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.storage.bulk import list_folders


@dataclass(frozen=True, slots=True)
class FolderTree:
    """The content of the folders of a table and of external roots.

    `known` holds the folders below the roots that were listed by prefix.
    """

    table: FileStoreTable
    context: RunContext
    roots: tuple[str, ...] = ()
    known: dict[str, list[FileStat]] = field(default_factory=dict)

    @staticmethod
    def of(table: FileStoreTable, context: RunContext, external: Sequence[str]) -> FolderTree:
        """The tree; OSError if a listing fails."""
        known: dict[str, list[FileStat]] = {}
        roots = []
        for root in dict.fromkeys((table.root, *external)):
            files = table.io.list_below(root)
            if files is not None:
                roots.append(root)
                _add(known, root, files)
        return FolderTree(table, context, tuple(roots), known)

    def listed(self, folders: Sequence[str]) -> list[list[FileStat]]:
        """The content of each folder, as `list_folders`; the engine lists very many folders."""
        if all(self._is_known(folder) for folder in folders):
            return [self.known.get(folder, []) for folder in folders]
        return list_folders(self.table, folders, self.context)

    def _is_known(self, folder: str) -> bool:
        return any(folder == root or folder.startswith(f"{root}/") for root in self.roots)


def _add(known: dict[str, list[FileStat]], root: str, files: Iterable[FileStat]) -> None:
    seen = {root}
    for file in files:
        if file.is_dir and file.path in seen:
            continue
        if not file.is_dir:
            known.setdefault(parent(file.path), []).append(file)
        folder = file.path if file.is_dir else parent(file.path)
        while folder not in seen:
            seen.add(folder)
            known.setdefault(parent(folder), []).append(FileStat(folder, 0, 0, is_dir=True))
            folder = parent(folder)
