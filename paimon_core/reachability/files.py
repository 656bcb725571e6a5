"""The files that references need, read from their metadata: each list and manifest once.

A reference needs its manifest lists and their manifests, the index manifest and its index files,
statistics, and data or changelog files with their extra files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import read_parallel
from paimon_core.lsm.changelog_producers import changelog_producer_of
from paimon_core.manifest.data_file import (
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
)
from paimon_core.manifest.entries.columns import EntryColumns
from paimon_core.manifest.index_manifest import IndexEntries, read_index_manifest
from paimon_core.manifest.manifest_list import SizedList, read_manifest_list
from paimon_core.paths import compacted_changelog
from paimon_core.reachability.references import Reference, RefKind
from paimon_core.scan.manifests import (
    LEAST_BLOCK_BYTES,
    check_not_emptied,
    read_entries,
    wrong_list_size,
)
from paimon_core.schema.table_schema import TableSchema
from paimon_core.snapshot.metadata_files import first_missing_metadata
from paimon_core.snapshot.snapshot import Snapshot


class Role(StrEnum):
    """The kind of a stored file."""

    DATA = "data"
    CHANGELOG = "changelog"
    INDEX = "index"
    STATISTICS = "statistics"
    MANIFEST = "manifest"
    INDEX_MANIFEST = "index manifest"
    MANIFEST_LIST = "manifest list"


class StoredFile(NamedTuple):
    """The path of a file and its size in bytes; the size is None if metadata does not hold it."""

    path: str
    role: Role
    size: int | None

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(slots=True)
class Metadata:
    """Reads manifest lists and index manifests of a table, each once.  Not thread-safe."""

    table: FileStoreTable
    _lists: dict[str, SizedList] = field(default_factory=dict)
    _indexes: dict[str, IndexEntries] = field(default_factory=dict)

    def prefetch(self, lists: Iterable[str | None], *, missing: bool = False) -> None:
        """Read manifest lists concurrently; `missing` allows missing ones, which are skipped."""
        wanted = [n for n in dict.fromkeys(lists) if n is not None and n not in self._lists]
        read = self._optional_list if missing else self._read_list
        for name, found in zip(wanted, read_parallel(self.table.io, read, wanted), strict=True):
            if found is not None:
                self._lists[name] = found

    def manifests(self, name: str, of: Snapshot | None = None) -> list[ManifestFileMeta]:
        """Return the manifests that a list names; CorruptTable if the list is missing.

        Also if its file has lost blocks since snapshot `of` named it, or is another one.
        """
        found = self._lists.get(name)
        if found is None:
            found = self._lists[name] = self._read_list(name)
        if of is not None:
            size, path = of.list_size(name), self.table.paths.manifest(name)
            if size is not None and abs(size - found.size) >= LEAST_BLOCK_BYTES:
                raise wrong_list_size(self.table, path, found.size, size)
            check_not_emptied(found, path, of, name, table=self.table.name)
        return found.copy()

    def needed_lists(self, reference: Reference, *, first: bool) -> list[str]:
        """Return the lists that a reference needs, except a changelog list that Java lost.

        When Java rolls back to a tag whose snapshot has expired, it creates the snapshot again, but
        its changelog is gone.  Such a snapshot is the first of its branch; no other snapshot may
        lack a list.
        """
        names = [name for name, _ in listed_names(reference)]
        lost = reference.snapshot.changelog_manifest_list
        if first and lost in names and reference.kind is RefKind.SNAPSHOT:
            path = self.table.paths.manifest(lost)
            if lost not in self._lists and not self.table.io.exists(path):
                names.remove(lost)
        return names

    def data_manifests(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return base, then delta manifests; CorruptTable if a list is missing."""
        return [
            *self.manifests(snapshot.base_manifest_list, snapshot),
            *self.manifests(snapshot.delta_manifest_list, snapshot),
        ]

    def entries(self, metas: Iterable[ManifestFileMeta]) -> Iterator[ManifestEntry]:
        """Yield the entries of these manifests in order; CorruptTable if one is missing."""
        for meta in metas:
            yield from read_entries(self.table, meta)

    def index_entries(self, name: str) -> IndexEntries:
        """Return the entries of an index manifest; CorruptTable if it is missing."""
        if name not in self._indexes:
            path = self.table.paths.manifest(name)
            try:
                self._indexes[name] = read_index_manifest(self.table.io, path)
            except FileNotFoundError as e:
                raise _missing(self.table, path) from e
        return self._indexes[name]

    def prove_readable(self, snapshot: Snapshot) -> None:
        """Raise CorruptTable if a metadata file that a reader of the snapshot needs is missing.

        Checks storage for each file, even if it was read before.
        """
        table = self.table
        missing = first_missing_metadata(
            table.io,
            table.paths,
            snapshot,
            lambda name: self.manifests(name, snapshot),
        )
        if missing is not None:
            raise _missing(table, missing)

    # Metadata of removed references may be incomplete: files not found there remain as orphans.
    # Metadata of remaining references must be read by the methods above.

    def manifests_if_readable(self, name: str) -> list[ManifestFileMeta]:
        """Return the manifests that a list names; empty if it is missing or cannot be decoded."""
        if name not in self._lists:
            found = self._optional_list(name)
            if found is None:
                return []
            self._lists[name] = found
        return self._lists[name].copy()

    def index_entries_if_readable(self, name: str) -> list[IndexManifestEntry]:
        """Return the entries of an index manifest; empty if it is missing or cannot be decoded."""
        try:
            return self.index_entries(name)
        except CorruptTable:
            return []

    def _read_list(self, name: str) -> SizedList:
        path = self.table.paths.manifest(name)
        try:
            return self._decoded_list(name)
        except FileNotFoundError as e:
            raise _missing(self.table, path) from e

    def _optional_list(self, name: str) -> SizedList | None:
        try:
            return self._decoded_list(name)
        except (FileNotFoundError, CorruptTable):
            return None

    def _decoded_list(self, name: str) -> SizedList:
        table = self.table
        cache, path = table.manifests, table.paths.manifest(name)
        return cache.get_list(name, lambda: read_manifest_list(table.io, path, cache.seen_lists))


def _missing(table: FileStoreTable, path: str) -> CorruptTable:
    return CorruptTable(
        f"metadata file {path} of table {table.name} is missing",
        table=table.name,
        file=path,
        next_step="if it expired meanwhile, run again, "
        "otherwise run `caretaker verify` on the table",
    )


# --- files of entries ---------------------------------------------------------------------------


def data_files(table: FileStoreTable, entry: ManifestEntry) -> Iterator[StoredFile]:
    """Return the file of a manifest entry and its extra files."""
    paths, file = table.paths, entry.file
    path = paths.data_file(entry.partition, entry.bucket, file)
    yield StoredFile(resolved_changelog_path(path), Role.DATA, file.file_size)
    for extra in file.extra_files:
        yield StoredFile(
            paths.extra_file(entry.partition, entry.bucket, file, extra), Role.DATA, None
        )


def paths_of(table: FileStoreTable, live: EntryColumns, position: int) -> Iterator[str]:
    """Return the path of an entry's file and those of its extra files."""
    file = live.located(position)
    paths, place = table.paths, (file.partition, file.bucket)
    yield resolved_changelog_path(paths.data_file(*place, file))
    for extra in file.extra_files:
        yield paths.extra_file(*place, file, extra)


def resolved_changelog_path(path: str) -> str:
    """Return the path that holds a file's bytes: slices written by Flink are in another file."""
    piece = compacted_changelog(path)
    return path if piece is None else piece.path


def appended_is_changelog(reference: Reference) -> bool:
    """Return whether the appended files are the changelog of a reference (java-rules H4).

    For a changelog that outlived its snapshot, it depends on the table's changelog producer at that
    time: with one, the lists of its files were deleted.
    """
    table, snapshot = reference.table, reference.snapshot
    if snapshot.changelog_manifest_list is not None:
        return False
    if reference.kind is not RefKind.CHANGELOG or _was_the_same(table, since=snapshot.schema_id):
        return not _has_producer(table.schema)
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    return all(table.io.exists(table.paths.manifest(name)) for name in lists)


def _was_the_same(table: FileStoreTable, *, since: int) -> bool:
    """Return whether all schemas from this id on have a changelog producer, or none has one."""
    ids = range(since, table.schema.id)
    try:
        return len({_has_producer(table.schema_of(i)) for i in (*ids, table.schema.id)}) == 1
    except CorruptTable:
        return False


def _has_producer(schema: TableSchema) -> bool:
    return changelog_producer_of(schema.options).has_changelog


def listed_names(reference: Reference) -> list[tuple[str, int | None]]:
    """Return the manifest lists that a reference needs, with their sizes.

    A tag needs no changelog, and a changelog only its own list.  A changelog without a list, on a
    table without a changelog producer, consists of the appended rows: it needs the base and delta
    lists (java-rules H4).
    """
    s = reference.snapshot
    changelog = (s.changelog_manifest_list, s.changelog_manifest_list_size)
    data = [
        (s.base_manifest_list, s.base_manifest_list_size),
        (s.delta_manifest_list, s.delta_manifest_list_size),
    ]
    found: list[tuple[str | None, int | None]]
    match reference.kind:
        case RefKind.CHANGELOG:
            found = list(data) if appended_is_changelog(reference) else [changelog]
        case RefKind.TAG:
            found = list(data)
        case _:
            found = [*data, changelog]
    return [(name, size) for name, size in found if name is not None]
