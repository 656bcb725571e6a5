"""Takes out of a set of file names whatever any reference mentions: what is left are orphans.

Every entry of every manifest counts, whether it adds or deletes a file, as in Java's
`OrphanFilesClean`: no merging, each manifest is read once, and memory holds only the candidates.

Java takes a metadata file that is missing for an empty one, and has deleted live data so
(apache/paimon #7710).  Here it stops everything, unless its reference is gone by now.
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
    """Names that are not orphans, taken out of `candidates` (file names) as they are met."""

    table: FileStoreTable
    candidates: set[str]
    _seen: set[object] = field(default_factory=set)

    def look(self) -> int:
        """Look at all references that were not looked at before; how many these were.

        Called again right before deleting, it takes out what was committed meanwhile.
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
        # Anew for each: what is behind us is in `_seen`, and needs no memory for its content.
        metadata = Metadata(self.table)
        lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
        if reference.kind is RefKind.CHANGELOG:
            # Its base and delta lists may be gone, if it does not need them.
            for name in lists:
                self._list(metadata, name, optional=True)
        else:
            for name in lists:
                self._list(metadata, name)
        if snapshot.changelog_manifest_list is not None:
            # A tag outlives the changelog of its snapshot, and so does a snapshot that Java made
            # of a tag again, which then is the first.
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
