"""Reads the metadata files of references, with read-ahead and bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from paimon_core.errors import CorruptTable
from paimon_core.io.file_io import FileIO, map_parallel
from paimon_core.manifest.avro_codec import SeenRecords
from paimon_core.manifest.data_file import IndexManifestEntry, ManifestEntry, ManifestFileMeta
from paimon_core.manifest.entries.columns import Partitions
from paimon_core.manifest.index_manifest import read_index_manifest
from paimon_core.manifest.manifest_file import read_manifest
from paimon_core.manifest.manifest_list import read_manifest_list
from paimon_core.scan.columns import read_chosen
from paimon_maintenance.verify.collector import Collector
from paimon_maintenance.verify.findings import Problem
from paimon_maintenance.verify.inventory import Inventory
from paimon_maintenance.verify.references import Reference, RefKind
from paimon_maintenance.verify.share import Share

T = TypeVar("T")


@dataclass(slots=True)
class Metadata:
    """Reads manifest lists and manifests of one table; missing and unreadable files become findings.

    `read_ahead` fetches the files of some references in parallel and drops the files fetched before,
    so that memory is bounded even with ten thousand snapshots.
    """

    io: FileIO
    collector: Collector
    inventory: Inventory
    _lists: dict[str, list[ManifestFileMeta]] = field(default_factory=dict)
    _seen: SeenRecords[ManifestFileMeta] = field(default_factory=SeenRecords)
    _manifests: dict[str, Sequence[ManifestEntry]] = field(default_factory=dict)
    _schemas: set[str] = field(default_factory=set)
    _missing_schemas: dict[str, set[str]] = field(default_factory=dict)

    def read_ahead(self, references: Sequence[Reference]) -> None:
        """Fetch the manifest lists of these references, and the manifests of their changes."""
        self._lists.clear()
        self._manifests.clear()
        if self.io.parallelism <= 1:
            return
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
        self._lists.update(
            self._fetched(paths, lambda p: read_manifest_list(self.io, p, self._seen))
        )
        changed = [
            r.table.paths.manifest(meta.file_name)
            for r in references
            if r.kind is RefKind.SNAPSHOT
            for meta in self._lists.get(r.table.paths.manifest(r.snapshot.delta_manifest_list), ())
        ]
        self._manifests.update(self._fetched(changed, lambda p: read_manifest(self.io, p)))

    def _fetched(self, paths: Iterable[str], read: Callable[[str], T]) -> dict[str, T]:
        """The readable files; a later read reports the other files."""

        def attempt(path: str) -> tuple[str, T] | None:
            try:
                return path, read(path)
            except (CorruptTable, FileNotFoundError):
                return None

        wanted = [p for p in dict.fromkeys(paths) if self.inventory.listed(p)]
        return dict(found for found in map_parallel(self.io, attempt, wanted) if found is not None)

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

        A broken schema is a finding about the first snapshot and the first changelog that need it, and
        about each tag, because tags are deleted one by one.
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
        """The manifests of a manifest list; None, with a finding, if it is missing or unreadable."""
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
        return known

    def entries(
        self,
        reference: Reference,
        metas: Iterable[ManifestFileMeta],
        share: Share | None = None,
    ) -> list[ManifestEntry] | None:
        """The entries of these manifests in order; None, with findings, if one is missing or unreadable.

        With `share`, only those of its partitions.
        """
        result: list[ManifestEntry] = []
        complete = True
        for meta in metas:
            entries = self._entries_of(reference, meta, share)
            if entries is None:
                complete = False
            else:
                result += entries
        return result if complete else None

    def _entries_of(
        self, reference: Reference, meta: ManifestFileMeta, share: Share | None
    ) -> Sequence[ManifestEntry] | None:
        path = reference.table.paths.manifest(meta.file_name)
        if self.inventory.size(path) is None:
            return None  # the caller looked for all manifests of the lists
        if share is not None:  # which is taken where the entries are too many to be kept
            return self._read(
                reference, path, lambda: read_chosen(self.io, path, Partitions(), share.chooses)
            )
        known = self._manifests.get(path)
        if known is None:
            known = self._read(reference, path, lambda: read_manifest(self.io, path))
            if known is not None:
                self._manifests[path] = known
        return known

    def index_entries(self, reference: Reference, name: str) -> list[IndexManifestEntry] | None:
        """The entries of an index manifest; None, with a finding, if it is missing or unreadable."""
        path = reference.table.paths.manifest(name)
        if not self.present(reference, path, None, problem=Problem.MISSING_INDEX_MANIFEST):
            return None
        return self._read(reference, path, lambda: list(read_index_manifest(self.io, path)))

    def _read(self, reference: Reference, path: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (CorruptTable, FileNotFoundError) as e:
            message = e.message if isinstance(e, CorruptTable) else f"{path} is missing"
            self.collector.error(reference, Problem.UNREADABLE, message, file=path)
            return None
