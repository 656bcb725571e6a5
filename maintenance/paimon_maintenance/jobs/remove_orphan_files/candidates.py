"""Lists the files of a table that may be orphans: those that are not known to be young.

Lists only folders that Paimon writes: bucket folders at the depth of the partition keys,
`manifest`, `index`, `statistics`, and the metadata folders of every branch and of Caretaker.  In
metadata and partition folders, only temporary files are candidates.  External paths
(`data-file.external-paths`) are listed only on request, because other tables may use the same
paths.

Where a listing has no sizes and times, every file is a candidate, and `states.py` reads these
later, only of files that nothing mentions.

A file whose name has no pattern that this version knows is listed apart: a newer version may use it
although no manifest mentions it.

Symbolic links are not followed: neither a link nor its target is a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from paimon_core.errors import InvalidArgument, OutsideTable, StorageAccessDenied
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.blob.pack_references import PACK_SUFFIX
from paimon_core.io.confined import is_inside
from paimon_core.io.file_io import IS_DIR, IS_LINK, FileStat, parent
from paimon_core.io.file_stats import Column, FileStats, FileStatsBuilder
from paimon_core.names import location
from paimon_core.options import DATA_FILE_EXTERNAL_PATHS
from paimon_core.paths import BUCKET_PREFIX, CARETAKER_DIR, SCHEMA_PREFIX, TablePaths
from paimon_core.reachability.known_kinds import (
    Folder,
    is_known_kind,
    is_temporary,
)
from paimon_core.reachability.mentioned import Mentioned
from paimon_core.reachability.references import branches_of
from paimon_core.reachability.release import JOURNALS
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.jobs.remove_orphan_files.folder_tree import FolderTree
from paimon_maintenance.jobs.remove_orphan_files.quarantine import QUARANTINES

_SCHEMAS: Final = TablePaths(root="").schema_dir.strip("/")
"""The name of the folder that each Paimon table has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The candidates, and the totals of all listed files.

    `data_bytes` and `young` do not count candidates without a size and time.  `kinds` and `entries`
    are the kind of each folder of `files.folders`, None where all its candidates are temporary, and
    the number of its entries.
    """

    files: FileStats
    kinds: Sequence[Folder | None]
    entries: Column
    empty_folders: Sequence[str]
    data_files: int = 0
    data_bytes: int = 0
    metadata_files: int = 0
    young: int = 0
    links: int = 0

    @property
    def is_data(self) -> Column:
        """Marks the candidates in bucket folders."""
        is_bucket = np.fromiter((kind is Folder.BUCKET for kind in self.kinds), bool)
        return is_bucket[self.files.folder]

    def unmentioned(self, mentioned: Mentioned) -> Candidates:
        """The candidates that nothing mentions; others count with the sizes that manifests tell."""
        left = np.flatnonzero(mentioned.candidates.left(self.files.names))
        told = mentioned.told_bytes if self.files.without_state.any() else 0
        return replace(self, files=self.files.take(left), data_bytes=self.data_bytes + told)

    def unknown(self, *, unknown_kinds: bool) -> Column:
        """Marks the candidates whose names have no pattern that this version knows.

        With `unknown_kinds`, only packs of managed BLOBs, which data files share.
        """
        found = np.zeros(len(self.files), bool)
        for i, (folder, file) in enumerate(
            zip(self.files.folder.tolist(), self.files, strict=True)
        ):
            kind = self.kinds[folder]
            if kind is not None and not is_known_kind(file.name, kind):
                found[i] = not unknown_kinds or file.name.endswith(PACK_SUFFIX)
        return found


@dataclass(slots=True)
class _Found:
    """The candidates while folders are listed."""

    older_than_millis: int
    files: FileStatsBuilder = field(default_factory=FileStatsBuilder)
    kinds: dict[str, Folder | None] = field(default_factory=dict)
    entries: dict[str, int] = field(default_factory=dict)
    empty_folders: list[str] = field(default_factory=list)
    data_files: int = 0
    data_bytes: int = 0
    metadata_files: int = 0
    young: int = 0
    links: int = 0

    def add(self, listed: FileStats, kind: Folder | None) -> None:
        """Add the files of folders of this kind, or (None) files that are all temporary."""
        if not len(listed):
            return
        is_file = listed.is_file
        has_state = is_file & ~listed.without_state
        is_young = has_state & (listed.times >= self.older_than_millis)
        self.links += int((listed.kinds == IS_LINK).sum())
        self.young += int(is_young.sum())
        if kind is Folder.BUCKET:
            self.data_files += int(is_file.sum())
            self.data_bytes += int(listed.sizes[has_state].sum())
        else:
            self.metadata_files += int(is_file.sum())
        for folder in listed.folders:
            self.kinds.setdefault(folder, kind)
        self.files.add_part(listed.take(np.flatnonzero(is_file & ~is_young)))

    def add_folders(self, listed: FileStats, kind: Folder) -> None:
        """Add the whole content of folders of this kind."""
        self.add(listed, kind)
        for folder, count in zip(listed.folders, listed.counts().tolist(), strict=True):
            self.entries[folder] = count
            if not count and folder.rsplit("/", 1)[1].startswith(BUCKET_PREFIX):
                self.empty_folders.append(folder)

    def candidates(self) -> Candidates:
        """Return what was found."""
        files = self.files.finish()
        entries = (self.entries.get(folder, 0) for folder in files.folders)
        return Candidates(
            files=files,
            kinds=[self.kinds[folder] for folder in files.folders],
            entries=np.fromiter(entries, np.int64, len(files.folders)),
            empty_folders=self.empty_folders,
            data_files=self.data_files,
            data_bytes=self.data_bytes,
            metadata_files=self.metadata_files,
            young=self.young,
            links=self.links,
        )


def find_candidates(
    table: FileStoreTable,
    older_than_millis: int,
    context: RunContext,
    external: Sequence[str] = (),
) -> Candidates:
    """All files that may have been last modified before the time.  OSError if a listing fails.

    OutsideTable if a partition folder is that of another Paimon table.
    `external` are additional roots of partition and bucket folders.
    """
    found = _Found(older_than_millis)
    tree = FolderTree.of(table, context, external)
    roots = dict.fromkeys((table.paths.data_root, *external))
    temporary: list[FileStats] = []
    below = (f for root in roots for f in _bucket_folders(tree, root, found, temporary))
    folders = dict.fromkeys(below)  # an external path may be inside another one
    for listed in tree.listed(list(folders)):
        found.add_folders(listed, Folder.BUCKET)
    paths = table.paths
    kinds = {
        paths.manifest_dir: Folder.MANIFEST,
        paths.index_dir: Folder.INDEX,
        paths.statistics_dir: Folder.STATISTICS,
    }
    for folder in _without_links(table, kinds, found):
        for listed in tree.listed([folder]):
            found.add_folders(listed, kinds[folder])
    for listed in (*temporary, *_metadata_files(tree, found)):
        found.add(listed, None)
    return found.candidates()


def external_roots(table: FileStoreTable) -> tuple[str, ...]:
    """The external roots that the current table options set."""
    return tuple(p.rstrip("/") for p in table.options.value(DATA_FILE_EXTERNAL_PATHS))


def check_no_table(table: FileStoreTable, roots: Iterable[str]) -> None:
    """InvalidArgument if an external root lies in the folder of another table.

    The files of that table would be orphans.
    """
    for root in roots:
        folder = root
        while folder.strip("/").count("/") and not folder.endswith(":/"):
            if location(folder) == location(table.root):
                break
            schemas = _content_above(table, TablePaths(root=folder).schema_dir)
            if any(f.name.startswith(SCHEMA_PREFIX) for f in schemas):
                raise InvalidArgument(
                    f"the folder {root} in data-file.external-paths lies in the folder of a table, "
                    f"{folder}, whose files would count as orphans",
                    table=table.name,
                    file=root,
                    next_step="correct the option, or do not set external_paths",
                )
            folder = parent(folder)


def _content_above(table: FileStoreTable, folder: str) -> list[FileStat]:
    """The content of a folder above an external root; nothing if it may not be read."""
    try:
        return table.io.list_dir(folder)
    except (PermissionError, StorageAccessDenied):
        return []


def _without_links(table: FileStoreTable, folders: Iterable[str], found: _Found) -> list[str]:
    """The folders that are inside the table after symbolic links are resolved."""
    boundary = table.paths.boundary
    inside = {folder: is_inside(boundary, folder) for folder in folders}
    found.links += sum(not ok for ok in inside.values())
    return [folder for folder, ok in inside.items() if ok]


def _bucket_folders(
    tree: FolderTree, root: str, found: _Found, temporary: list[FileStats]
) -> Iterator[str]:
    """The bucket folders below a root; records empty partition folders.

    Adds files of an interrupted partition mark to `temporary`.
    """
    level = _without_links(tree.table, [root], found)
    for _ in tree.table.schema.partition_keys:
        level = list(_subfolders(tree, level, _is_partition, root, found, temporary))
    yield from _subfolders(tree, level, _is_bucket, root, found, temporary)


def _is_partition(name: str) -> bool:
    return "=" in name


def _is_bucket(name: str) -> bool:
    return name.startswith(BUCKET_PREFIX)


def _subfolders(
    tree: FolderTree,
    level: list[str],
    is_wanted: Callable[[str], bool],
    root: str,
    found: _Found,
    temporary: list[FileStats],
) -> Iterator[str]:
    for listed in tree.listed(level):
        temporary.append(_temporary(listed))
        for folder in listed.take(np.flatnonzero(listed.kinds & IS_DIR)):
            if is_wanted(folder.name):
                if folder.is_link:
                    found.links += 1
                else:
                    yield folder.path
            elif folder.name == _SCHEMAS and parent(folder.path) != root:
                _check_no_schemas(tree, folder.path)
        empty = (listed.folders[i] for i in np.flatnonzero(listed.counts() == 0).tolist())
        found.empty_folders += (folder for folder in empty if folder != root)


def _check_no_schemas(tree: FolderTree, folder: str) -> None:
    """OutsideTable if a partition folder, whose `schema` folder this is, is another table's folder.

    Its buckets have the places of this table's, so all its files would be orphans.
    """
    table, theirs = tree.table, parent(folder)
    if any(f.name.startswith(SCHEMA_PREFIX) for listed in tree.listed([folder]) for f in listed):
        raise OutsideTable(
            f"{theirs} in table {table.name} is the folder of a Paimon table, whose files would count "
            "as orphans; nothing was changed",
            table=table.name,
            file=theirs,
            next_step="move the other table to a folder of its own",
        )


def _metadata_files(tree: FolderTree, found: _Found) -> Iterator[FileStats]:
    """The files that interrupted writes left in the metadata folders of each branch."""
    table = tree.table

    def listed(folder: str) -> Iterator[FileStats]:
        return tree.listed(_without_links(table, [folder], found))

    folders = []
    has_branches = any(map(len, tree.listed([table.paths.branches_dir])))
    for branch in branches_of(table) if has_branches else [table]:
        paths = branch.paths
        folders += [
            paths.snapshot_dir,
            paths.changelog_dir,
            paths.tag_dir,
            paths.schema_dir,
            paths.consumer_dir,
            paths.tag_success_dir,
        ]
        if paths.branch_root != paths.root:
            folders.append(paths.branch_root)
    folders += [f"{table.root}/{CARETAKER_DIR}", f"{table.root}/{JOURNALS}"]
    for folder in folders:
        yield from map(_temporary, listed(folder))
    for quarantines in listed(f"{table.root}/{QUARANTINES}"):
        for quarantine in quarantines.take(np.flatnonzero(quarantines.kinds == IS_DIR)):
            yield from map(_temporary, listed(quarantine.path))


def _temporary(listed: FileStats) -> FileStats:
    """The temporary files of killed writers (`.NAME.UUID.tmp`)."""
    at = np.flatnonzero((listed.kinds & IS_DIR) == 0)
    files = zip(at.tolist(), listed.take(at), strict=True)
    return listed.take(np.array([i for i, file in files if is_temporary(file.name)], np.int64))
