"""Lists the files of a table that are old enough to be orphans.

Lists only folders that Paimon writes: bucket folders at the depth of the partition keys, `manifest`,
`index`, `statistics`, and the metadata folders of every branch and of Caretaker.  In metadata and
partition folders, only temporary files are candidates.  External paths (`data-file.external-paths`) are
listed only on request, because other tables may use the same paths.

A file whose name has no pattern that this version knows is listed apart: a newer version may use it
although no manifest mentions it.

Symbolic links are not followed: neither a link nor its target is a candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from paimon_core.errors import InvalidArgument, StorageAccessDenied
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.confined import is_inside
from paimon_core.io.file_io import FileStat, parent
from paimon_core.io.file_stats import Column, FileStats, FileStatsBuilder
from paimon_core.names import location
from paimon_core.options import DATA_FILE_EXTERNAL_PATHS
from paimon_core.paths import BUCKET_PREFIX, CARETAKER_DIR, SCHEMA_PREFIX, TablePaths
from paimon_core.reachability.known_kinds import (
    MANAGED_BLOB_SUFFIX,
    Folder,
    is_known_kind,
    is_temporary,
)
from paimon_core.reachability.references import branches_of
from paimon_core.reachability.release import JOURNALS
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.jobs.remove_orphan_files.folder_tree import FolderTree
from paimon_maintenance.jobs.remove_orphan_files.quarantine import QUARANTINES


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The candidates, and the totals of all listed files.

    `kinds` and `entries` are the kind of each folder of `files.folders`, None where all its candidates
    are temporary, and the number of its entries.
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

    def unknown(self, chosen: Column, *, unknown_kinds: bool) -> Column:
        """Marks the `chosen` candidates whose names have no pattern that this version knows.

        With `unknown_kinds`, only packs of managed BLOBs, which data files share.
        """
        found = np.zeros(len(self.files), bool)
        at = np.flatnonzero(chosen)
        files = self.files.take(at)
        for i, folder, file in zip(at.tolist(), files.folder.tolist(), files, strict=True):
            kind = self.kinds[folder]
            if kind is not None and not is_known_kind(file.name, kind):
                found[i] = not unknown_kinds or file.name.endswith(MANAGED_BLOB_SUFFIX)
        return found


@dataclass(slots=True)
class _Found:
    """The candidates while folders are listed."""

    files: FileStatsBuilder = field(default_factory=FileStatsBuilder)
    kinds: dict[str, Folder | None] = field(default_factory=dict)
    entries: dict[str, int] = field(default_factory=dict)
    empty_folders: list[str] = field(default_factory=list)
    data_files: int = 0
    data_bytes: int = 0
    metadata_files: int = 0
    young: int = 0
    links: int = 0

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
    """All files last modified before the time.  OSError if a listing fails.

    `external` are additional roots of partition and bucket folders.
    """
    found = _Found()
    tree = FolderTree.of(table, context, external)
    roots = dict.fromkeys((table.paths.data_root, *external))
    temporary: list[FileStat] = []
    below = (f for root in roots for f in _bucket_folders(tree, root, found, temporary))
    folders = dict.fromkeys(below)  # an external path may be inside another one
    paths = table.paths
    kinds = {
        paths.manifest_dir: Folder.MANIFEST,
        paths.index_dir: Folder.INDEX,
        paths.statistics_dir: Folder.STATISTICS,
    }
    metadata = _without_links(table, kinds, found)
    for folder, listed in _listed(tree, [*folders, *metadata]):
        files = [f for f in listed if not f.is_dir]
        kind = kinds.get(folder, Folder.BUCKET)
        found.kinds[folder] = kind
        if _add(found, files, older_than_millis, kind):
            found.entries[folder] = len(listed)
        if not listed and folder.rsplit("/", 1)[1].startswith(BUCKET_PREFIX):
            found.empty_folders.append(folder)
    for files in (temporary, *_metadata_files(tree, found)):
        for file in files:
            found.kinds.setdefault(parent(file.path), None)
        _add(found, files, older_than_millis)
    return found.candidates()


def _add(
    found: _Found,
    files: Sequence[FileStat],
    older_than_millis: int,
    kind: Folder | None = None,
) -> bool:
    """Add the files of a folder of this kind, or (None) files that are all temporary.

    Returns whether one of them is a candidate.
    """
    own = [f for f in files if not f.is_link]
    found.links += len(files) - len(own)
    if kind is Folder.BUCKET:
        found.data_files += len(own)
        found.data_bytes += sum(f.size for f in own)
    else:
        found.metadata_files += len(own)
    old = [f for f in own if f.modified_millis < older_than_millis]
    found.young += len(own) - len(old)
    found.files.extend(old)
    return bool(old)


def _listed(tree: FolderTree, folders: list[str]) -> Iterator[tuple[str, Sequence[FileStat]]]:
    yield from zip(folders, tree.listed(folders), strict=True)


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


def _subfolders(listed: Iterable[FileStat], found: _Found) -> list[str]:
    folders = list(listed)
    found.links += sum(f.is_link for f in folders)
    return [f.path for f in folders if not f.is_link]


def _bucket_folders(
    tree: FolderTree, root: str, found: _Found, temporary: list[FileStat]
) -> Iterator[str]:
    """The bucket folders below a root; records empty partition folders.

    Adds files of an interrupted partition mark to `temporary`.
    """
    level = _without_links(tree.table, [root], found)
    for _ in tree.table.schema.partition_keys:
        below: list[str] = []
        for folder, listed in _listed(tree, level):
            temporary += _temporary(listed)
            below += _subfolders((f for f in listed if f.is_dir and "=" in f.name), found)
            if not listed and folder != root:
                found.empty_folders.append(folder)
        level = below
    for folder, listed in _listed(tree, level):
        temporary += _temporary(listed)
        yield from _subfolders(
            (f for f in listed if f.is_dir and f.name.startswith(BUCKET_PREFIX)), found
        )
        if not listed and folder != root:
            found.empty_folders.append(folder)


def _metadata_files(tree: FolderTree, found: _Found) -> Iterator[list[FileStat]]:
    """The files that interrupted writes left in the metadata folders of each branch."""
    table = tree.table

    def listed(folder: str) -> list[FileStat]:
        inside = _without_links(table, [folder], found)
        return [f for content in tree.listed(inside) for f in content]

    (branches,) = tree.listed([table.paths.branches_dir])
    for branch in branches_of(table) if branches else [table]:
        paths = branch.paths
        for folder in (
            paths.snapshot_dir,
            paths.changelog_dir,
            paths.tag_dir,
            paths.schema_dir,
            paths.consumer_dir,
            paths.tag_success_dir,
        ):
            yield _temporary(listed(folder))
        if paths.branch_root != paths.root:
            yield _temporary(listed(paths.branch_root))
    yield _temporary(listed(f"{table.root}/{CARETAKER_DIR}"))
    yield _temporary(listed(f"{table.root}/{JOURNALS}"))
    for quarantine in listed(f"{table.root}/{QUARANTINES}"):
        if quarantine.is_dir and not quarantine.is_link:
            yield _temporary(listed(quarantine.path))


def _temporary(listed: Iterable[FileStat]) -> list[FileStat]:
    """The temporary files of killed writers (`.NAME.UUID.tmp`)."""
    return [f for f in listed if not f.is_dir and is_temporary(f.name)]
