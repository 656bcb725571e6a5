"""Reads the metadata files of references, with read-ahead and bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np

from paimon_core.errors import CorruptTable
from paimon_core.io.file_io import FileIO, map_parallel
from paimon_core.manifest.avro_codec import SeenRecords
from paimon_core.manifest.data_file import IndexManifestEntry, ManifestEntry, ManifestFileMeta
from paimon_core.manifest.entries.columns import (
    ColumnsBuilder,
    EntryColumns,
    Partitions,
    columns_of,
)
from paimon_core.manifest.index_manifest import read_index_manifest
from paimon_core.manifest.manifest_list import read_manifest_list
from paimon_core.scan.columns import read_chosen, read_columns
from paimon_core.scan.manifests import check_not_emptied
from paimon_maintenance.verify.collector import Collector
from paimon_maintenance.verify.findings import Problem
from paimon_maintenance.verify.inventory import Inventory
from paimon_maintenance.verify.references import Reference, RefKind
from paimon_maintenance.verify.share import PartitionCounts, Share

T = TypeVar("T")
COLUMNS: Final = ("file_size", "row_count", "schema_id", "file_source")
"""The numbers of each file that are checked."""
_MOST_AHEAD: Final = 100_000
"""Number of entries that are fetched ahead."""
_MOST_TOGETHER: Final = 50_000
"""Number of entries of manifests that are decoded together."""


@dataclass(slots=True)
class Metadata:
    """Reads manifest lists and manifests of one table.

    Missing and unreadable files become findings.  `read_ahead` fetches the files of some references
    in parallel and drops the files fetched before, so that memory is bounded even with ten thousand
    snapshots.
    """

    io: FileIO
    collector: Collector
    inventory: Inventory
    _lists: dict[str, list[ManifestFileMeta]] = field(default_factory=dict)
    _seen: SeenRecords[ManifestFileMeta] = field(default_factory=SeenRecords)
    partitions: Partitions = field(default_factory=Partitions)
    _manifests: dict[str, EntryColumns] = field(default_factory=dict)
    _schemas: set[str] = field(default_factory=set)
    _missing_schemas: dict[str, set[str]] = field(default_factory=dict)

    def read_ahead(self, references: Sequence[Reference]) -> None:
        """Fetch the manifest lists of these references, and the manifests of their changes."""
        self.forget_ahead()
        paths = [
            r.table.paths.manifest(name)
            for r in references
            for name in (
                r.snapshot.base_manifest_list,
                r.snapshot.delta_manifest_list,
                r.snapshot.changelog_manifest_list,
            )
            if name is not None
        ]
        wanted = [p for p in dict.fromkeys(paths) if self.inventory.listed(p)]
        found = map_parallel(self.io, self._list_or_none, wanted)
        self._lists.update(
            (p, metas) for p, metas in zip(wanted, found, strict=True) if metas is not None
        )
        changed: dict[str, None] = {}
        left = _MOST_AHEAD
        for r in references:
            if r.kind is RefKind.SNAPSHOT:
                name = r.table.paths.manifest(r.snapshot.delta_manifest_list)
                for meta in self._lists.get(name, ()):
                    left -= meta.num_added_files + meta.num_deleted_files
                    if left >= 0:
                        changed[r.table.paths.manifest(meta.file_name)] = None
        readable = [p for p in changed if self.inventory.listed(p)]
        entries = read_columns(self.io, readable, self.partitions, COLUMNS)
        self._manifests.update(
            (p, columns)
            for p, columns in zip(readable, entries, strict=True)
            if isinstance(columns, EntryColumns)
        )

    def forget_ahead(self) -> None:
        """Free the memory of what was fetched ahead; it is read again if it is needed."""
        self._lists.clear()
        self._manifests.clear()

    def _list_or_none(self, path: str) -> list[ManifestFileMeta] | None:
        try:
            return read_manifest_list(self.io, path, self._seen)
        except (CorruptTable, FileNotFoundError):
            return None  # a later read reports it

    def present(
        self,
        reference: Reference,
        path: str,
        size: int | None,
        *,
        problem: Problem = Problem.MISSING_MANIFEST,
    ) -> bool:
        """Whether a file exists; adds a finding if it is missing or has an unexpected size."""
        self.collector.checked["metadata files"] += 1
        found = self.inventory.size(path)
        if found is None:
            message = f"{reference.label} needs {path}, which is missing"
            self.collector.error(reference, problem, message, file=path)
            return False
        if size is not None and found != size:
            message = f"{path} has {found:,} bytes, but {reference.label} says {size:,}"
            self.collector.error(reference, Problem.WRONG_SIZE, message, file=path)
        return True

    def schema(self, reference: Reference, schema_id: int) -> None:
        """Check that a schema exists and is readable, once per branch.

        A broken schema is a finding about the first snapshot and the first changelog that need it,
        and about each tag, because tags are deleted one by one.
        """
        path = reference.table.paths.schema(schema_id)
        whose = reference.label if reference.kind is RefKind.TAG else str(reference.kind)
        affected = self._missing_schemas.get(path)
        if affected is None and path in self._schemas:
            return
        self._schemas.add(path)
        if affected is not None and whose in affected:
            return
        found = None
        if self.present(reference, path, None, problem=Problem.MISSING_SCHEMA):
            found = self._read(reference, path, lambda: reference.table.schemas.get(schema_id))
        if found is None:
            self._missing_schemas.setdefault(path, set()).add(whose)

    def manifests_of(
        self, reference: Reference, name: str, size: int | None
    ) -> list[ManifestFileMeta] | None:
        """The manifests of a manifest list.

        None, with a finding, if it is missing or unreadable.
        """
        path = reference.table.paths.manifest(name)
        if not self.present(reference, path, size, problem=Problem.MISSING_MANIFEST_LIST):
            return None
        known = self._lists.get(path)
        if known is None:
            known = self._read(
                reference, path, lambda: read_manifest_list(self.io, path, self._seen)
            )
            if known is not None:
                self._lists[path] = known
        if known:
            return known

        def empty() -> list[ManifestFileMeta]:
            table = reference.table.name
            check_not_emptied((), path, reference.snapshot, name, table=table)
            return []

        return None if known is None else self._read(reference, path, empty)

    def changes(
        self, reference: Reference, metas: Sequence[ManifestFileMeta]
    ) -> EntryColumns | None:
        """The entries of these manifests in order; None, with findings, if one cannot be read."""
        ahead = [self._manifests.get(reference.table.paths.manifest(m.file_name)) for m in metas]
        if len(ahead) == 1 and ahead[0] is not None:
            return ahead[0]
        return self.columns(reference, metas, COLUMNS)

    def counts(
        self, reference: Reference, metas: Sequence[ManifestFileMeta]
    ) -> PartitionCounts | None:
        """The entries by partition; None, with findings, if a manifest cannot be read."""
        counts = PartitionCounts()
        complete = True
        for path, found in self._each(reference, metas, ()):
            if found is None:
                complete = False
            else:
                counts.add(path, found)
        return counts if complete else None

    def columns(
        self,
        reference: Reference,
        metas: Sequence[ManifestFileMeta],
        wanted: Sequence[str],
        share: Share | None = None,
    ) -> EntryColumns | None:
        """The entries, of a share of the partitions; None, with findings, if one cannot be read."""
        builder = ColumnsBuilder(self.partitions)
        builder.add(columns_of((), self.partitions, wanted))
        complete = True
        for _, found in self._each(reference, metas, wanted):
            if found is None:
                complete = False
            elif share is None:
                builder.add(found)
            else:
                builder.add(found.take(np.flatnonzero(share.chooses(found))))
        return builder.columns() if complete else None

    def _each(
        self, reference: Reference, metas: Sequence[ManifestFileMeta], wanted: Sequence[str]
    ) -> Iterator[tuple[str, EntryColumns | None]]:
        """Yield the path and the entries of each manifest; None, with a finding, if unreadable."""
        for together in _groups(metas):
            paths = [reference.table.paths.manifest(m.file_name) for m in together]
            # The caller looked for all manifests of the lists.
            there = [p for p in paths if self.inventory.size(p) is not None]
            yield from ((p, None) for p in paths if p not in there)
            for path, found in zip(
                there, read_columns(self.io, there, self.partitions, wanted), strict=True
            ):
                if isinstance(found, EntryColumns):
                    yield path, found
                else:
                    self._unreadable(reference, path, found)
                    yield path, None

    def objects(
        self, reference: Reference, metas: Sequence[ManifestFileMeta], share: Share
    ) -> list[ManifestEntry] | None:
        """The entries of a share as objects; None, with findings, if one cannot be read."""

        def read(path: str) -> list[ManifestEntry] | CorruptTable | FileNotFoundError:
            try:
                return read_chosen(self.io, path, self.partitions, share.chooses)
            except (CorruptTable, FileNotFoundError) as e:
                return e

        paths = [reference.table.paths.manifest(m.file_name) for m in metas]
        there = [p for p in paths if self.inventory.size(p) is not None]
        complete = len(there) == len(paths)
        entries: list[ManifestEntry] = []
        for path, found in zip(there, map_parallel(self.io, read, there), strict=True):
            if isinstance(found, list):
                entries += found
            else:
                complete = False
                self._unreadable(reference, path, found)
        return entries if complete else None

    def index_entries(self, reference: Reference, name: str) -> list[IndexManifestEntry] | None:
        """The entries of an index manifest.

        None, with a finding, if it is missing or unreadable.
        """
        path = reference.table.paths.manifest(name)
        if not self.present(reference, path, None, problem=Problem.MISSING_INDEX_MANIFEST):
            return None
        return self._read(reference, path, lambda: list(read_index_manifest(self.io, path)))

    def _read(self, reference: Reference, path: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (CorruptTable, FileNotFoundError) as e:
            self._unreadable(reference, path, e)
            return None

    def _unreadable(self, reference: Reference, path: str, error: Exception) -> None:
        message = error.message if isinstance(error, CorruptTable) else f"{path} is missing"
        self.collector.error(reference, Problem.UNREADABLE, message, file=path)


def _groups(metas: Iterable[ManifestFileMeta]) -> Iterator[list[ManifestFileMeta]]:
    """Yield manifests with at most `_MOST_TOGETHER` entries, or one larger manifest."""
    group: list[ManifestFileMeta] = []
    entries = 0
    for meta in metas:
        more = meta.num_added_files + meta.num_deleted_files
        if group and entries + more > _MOST_TOGETHER:
            yield group
            group, entries = [], 0
        group.append(meta)
        entries += more
    if group:
        yield group
