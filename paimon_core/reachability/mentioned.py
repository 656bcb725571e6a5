"""Removes from a set of file names all names that a reference mentions; the rest are orphans.

Every entry of every manifest counts, whether it adds or deletes a file, as in Java's
`OrphanFilesClean`: no merging, each manifest is read once, and memory holds only the candidates.

Java treats a missing metadata file as empty, and has deleted live data that way (apache/paimon
#7710).  Here a missing file stops the job, unless its reference has been removed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.reachability.files import Metadata, resolved_changelog_path
from paimon_core.reachability.references import Reference, RefKind, all_references


@dataclass(slots=True)
class Mentioned:
    """Removes names that are not orphans from `candidates` (file names)."""

    table: FileStoreTable
    candidates: set[str]
    _seen: set[object] = field(default_factory=set)

    def look(self) -> int:
        """Read all references that were not read before; return their number.

        Called again right before deleting, it removes what was committed meanwhile.
        """
        new = [r for r in all_references(self.table) if r.key not in self._seen]
        for reference in new:
            self._seen.add(reference.key)
            try:
                self._reference(reference)
            except CorruptTable:
                if reference.is_alive():
                    raise
        return len(new)

    def _reference(self, reference: Reference) -> None:
        snapshot = reference.snapshot
        # A new reader for each: `_seen` holds what was read, so the content need not stay in
        # memory.
        metadata = Metadata(self.table)
        lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
        if reference.kind is RefKind.CHANGELOG:
            # Its base and delta lists may be gone if it does not need them.
            for name in lists:
                self._list(metadata, name, optional=True)
        else:
            for name in lists:
                self._list(metadata, name)
        if snapshot.changelog_manifest_list is not None:
            # A tag outlives the changelog of its snapshot, and so does a snapshot that Java
            # restored from a tag, which is then the first one.
            optional = (
                reference.kind is RefKind.TAG
                or snapshot.id == reference.table.snapshots.earliest_id()
            )
            self._list(metadata, snapshot.changelog_manifest_list, optional=optional)
        if snapshot.index_manifest is not None:
            optional = reference.kind is RefKind.CHANGELOG
            self._index(metadata, snapshot.index_manifest, optional=optional)
        if snapshot.statistics is not None:
            self.candidates.discard(snapshot.statistics)

    def _list(self, metadata: Metadata, name: str, *, optional: bool = False) -> None:
        if name in self._seen:
            return
        if optional and not self.table.io.exists(self.table.paths.manifest(name)):
            return
        self.candidates.discard(name)
        for meta in metadata.manifests(name):
            if meta.file_name in self._seen:
                continue
            self.candidates.discard(meta.file_name)
            for entry in metadata.entries([meta]):
                file = entry.file
                self.candidates.discard(file.file_name)
                real = resolved_changelog_path(f"bucket/{file.file_name}")
                self.candidates.discard(real.rsplit("/", 1)[-1])
                self.candidates.difference_update(file.extra_files)
            self._seen.add(meta.file_name)
        self._seen.add(name)

    def _index(self, metadata: Metadata, name: str, *, optional: bool) -> None:
        if name in self._seen:
            return
        if optional and not self.table.io.exists(self.table.paths.manifest(name)):
            return
        self.candidates.discard(name)
        names: Iterable[str] = (e.index_file.file_name for e in metadata.index_entries(name))
        self.candidates.difference_update(names)
        self._seen.add(name)
