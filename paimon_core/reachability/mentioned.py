"""Removes from a set of file names all names that a reference mentions; the rest are orphans.

Every entry of every manifest counts, whether it adds or deletes a file, as in Java's
`OrphanFilesClean`: no merging, each manifest is read once, and memory holds only the candidates
(`NameSet`).

Java treats a missing metadata file as empty, and has deleted live data that way (apache/paimon
#7710).  Here a missing file stops the job, unless its reference has been removed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow.compute as pc

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import ManifestFileMeta
from paimon_core.manifest.entries.columns import Partitions, as_flags
from paimon_core.manifest.unknown_fields import UnknownFields
from paimon_core.reachability.files import (
    Metadata,
    appended_is_changelog,
    listed_names,
    resolved_changelog_path,
)
from paimon_core.reachability.name_set import NameSet
from paimon_core.reachability.references import (
    Reference,
    RefKind,
    all_references,
    check_own_lists,
)
from paimon_core.scan.columns import entry_columns
from paimon_core.snapshot.snapshot import Snapshot

_LONGEST_NAME: Final = 255
_READ_TOGETHER: Final = 512
"""Number of references whose manifest lists are in memory at the same time."""
_REMOVED_TOGETHER: Final = 10_000
"""Number of names that wait until they are removed: many together cost less."""
_LARGEST_FILE: Final = 2**40
_SLICE: Final = "$"
"""In the names of slices of joined changelog files only."""


@dataclass(slots=True)
class Mentioned:
    """Removes names that are not orphans from `candidates`.

    A name also counts as mentioned if a field that this version does not know holds it.
    """

    table: FileStoreTable
    candidates: NameSet
    _seen: set[object] = field(default_factory=set)
    _seen_lists: set[str] = field(default_factory=set)
    """Apart from `_seen`: a list that names another list, as if it were a manifest, is corrupt."""
    _waiting: dict[str, ManifestFileMeta] = field(default_factory=dict)
    """The manifests of lists that were read, before they are read themselves."""
    _waiting_lists: set[str] = field(default_factory=set)
    _optional: dict[str, ManifestFileMeta] = field(default_factory=dict)
    """Those of `_waiting` that no reference needs so far: an interrupted run
    may have deleted them."""
    _gone: list[str] = field(default_factory=list)
    """Names that wait to be removed from `candidates`."""
    _newest: dict[str, set[str]] = field(default_factory=dict)
    """The manifests of the newest snapshot of each branch: most candidates are mentioned there."""
    told_bytes: int = 0
    """The sizes of removed files, as far as manifests tell them; absurd ones count as 0."""
    cut_index: str | None = None
    """The path of an index manifest that may have lost entries, so that any
    index file may be needed."""
    newest: Snapshot | None = None
    """The newest snapshot of the table's own branch that was read."""
    _held: set[str] = field(default_factory=set)
    """The branches with tags or changelogs."""

    @property
    def tags_alone(self) -> bool:
        """Whether a branch has tags or changelogs, but no snapshot."""
        return not self._held <= self._newest.keys()

    def look(self) -> int:
        """Read all references that were not read before; return their number.

        Called again right before deleting, it removes what was committed meanwhile.  Nothing is
        read once no candidate is left.  CorruptTable if the lists of a version are those of another
        one: nothing mentions its own any more.
        """
        if self.candidates.is_empty:
            return 0
        references = all_references(self.table)
        check_own_lists(self.table, references)
        new = [r for r in references if r.key not in self._seen]
        try:
            for start in range(0, len(new), _READ_TOGETHER):
                group = new[start : start + _READ_TOGETHER]
                # A new reader for each group: `_seen` holds what was read, so the content need not
                # stay in memory.
                metadata = Metadata(self.table)
                lists = [n for r in group for n, _ in listed_names(r) if n not in self._seen_lists]
                metadata.prefetch(lists, missing=True)
                for reference in group:
                    self._reference(reference, metadata)
            self._read_manifests()
        except CorruptTable:
            # One of them may have been removed meanwhile: read them one by one to find it.
            self._forget_waiting()
            self._one_by_one(new)
        finally:
            self._remove_gone()
        self._seen.update(r.key for r in new)
        return len(new)

    def _remove(self, *names: str) -> None:
        self._gone += names
        if len(self._gone) >= _REMOVED_TOGETHER:
            self._remove_gone()

    def _remove_gone(self) -> None:
        self.candidates.remove(self._gone)
        self._gone = []

    def _one_by_one(self, references: Iterable[Reference]) -> None:
        for reference in references:
            try:
                self._reference(reference, Metadata(self.table))
                self._read_manifests()
            except CorruptTable:
                self._forget_waiting()
                if reference.is_alive():
                    raise

    def _forget_waiting(self) -> None:
        """Forget lists whose manifests were not read: another reference may need them."""
        self._waiting = {}
        self._waiting_lists = set()
        self._optional = {}

    def _reference(self, reference: Reference, metadata: Metadata) -> None:
        snapshot = reference.snapshot
        # The base and delta lists of a changelog, and their manifests, may be gone if it does not
        # need them.
        of_changelog = reference.kind is RefKind.CHANGELOG
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            if of_changelog and not self.table.io.exists(self.table.paths.manifest(name)):
                continue
            optional = of_changelog and not appended_is_changelog(reference)
            self._list(metadata, name, snapshot, optional=optional)
        if reference.kind is RefKind.SNAPSHOT:
            manifests = metadata.data_manifests(snapshot)
            self._newest[reference.table.branch] = {m.file_name for m in manifests}
            if reference.table.branch == self.table.branch:
                self.newest = snapshot
        else:
            self._held.add(reference.table.branch)
        if snapshot.changelog_manifest_list is not None:
            # A tag outlives the changelog of its snapshot, and so does a snapshot that Java
            # restored from a tag, which is then the first one.
            optional = (
                reference.kind is RefKind.TAG
                or snapshot.id == reference.table.snapshots.earliest_id()
            )
            self._list(metadata, snapshot.changelog_manifest_list, snapshot, optional=optional)
        if snapshot.index_manifest is not None:
            optional = reference.kind is RefKind.CHANGELOG
            self._index(metadata, snapshot.index_manifest, optional=optional)
        if snapshot.statistics is not None:
            self._remove(snapshot.statistics)
        self._unknown_of_snapshot(reference)

    def _unknown_of_snapshot(self, reference: Reference) -> None:
        """Protect names in unknown fields; UnsupportedFeature if one is a metadata file.

        What that file mentions is unknown, so that every candidate may be needed.
        """
        paths = self.table.paths
        for name, text in _texts(reference.snapshot.unknown):
            self._protect(text.encode())
            if "/" in text or "\0" in text or len(text) > _LONGEST_NAME or text in self._seen:
                continue
            self._seen.add(text)
            for path in (paths.manifest(text), paths.statistics(text), paths.index(text)):
                if text and self.table.io.exists(path):
                    raise UnsupportedFeature(
                        f"snapshot field {name}",
                        f"orphans of table {self.table.name} cannot be found: the field {name} of "
                        f"snapshot {reference.snapshot.id} names the file {path}, and this version "
                        "does not know which files that one needs",
                        table=self.table.name,
                        snapshot=reference.snapshot.id,
                        file=path,
                        next_step="run the job with a version of Caretaker that knows the field",
                    )

    def _protect(self, content: bytes) -> None:
        """Remove the candidates whose names the content of an unknown field holds."""
        if b"-" in content and content not in self._seen:
            self._seen.add(content)
            self.candidates.remove_inside(content)

    def _protect_all(self, fields: UnknownFields) -> None:
        for unknown in fields:
            self._protect(unknown.data)

    def _list(
        self, metadata: Metadata, name: str, snapshot: Snapshot, *, optional: bool = False
    ) -> None:
        if name in self._seen_lists or name in self._waiting_lists:
            return
        if optional and not self.table.io.exists(self.table.paths.manifest(name)):
            return
        self._remove(name)
        found = {
            meta.file_name: meta
            for meta in metadata.manifests(name, snapshot)
            if meta.file_name not in self._seen and meta.file_name not in self._waiting
        }
        self._remove(*found)
        for meta in found.values():
            self._protect_all(meta.unknown)
        if optional:
            self._optional |= found
            return
        for needed in found:
            self._optional.pop(needed, None)
        self._waiting |= found
        self._waiting_lists.add(name)

    def _read_manifests(self) -> None:
        """Read the manifests of all lists that were read, each once and many together.

        Those of the newest snapshots come first; the others are only read if a candidate is left.
        """
        self._remove_gone()
        newest = set().union(*self._newest.values())
        parts: tuple[list[ManifestFileMeta], list[ManifestFileMeta]] = ([], [])
        for name, meta in self._waiting.items():
            parts[name not in newest].append(meta)
        for metas in parts:
            if not self.candidates.is_empty:
                self._read(metas)
        self._read_optional()
        self._seen.update(self._waiting)
        self._seen_lists |= self._waiting_lists
        self._forget_waiting()

    def _read_optional(self) -> None:
        if self.candidates.is_empty or not self._optional:
            return
        try:
            self._read(list(self._optional.values()))
        except CorruptTable:
            for name, meta in self._optional.items():
                if self.table.io.exists(self.table.paths.manifest(name)):
                    self._read([meta])
        self._seen.update(self._optional)

    def _read(self, metas: Sequence[ManifestFileMeta]) -> None:
        for part in entry_columns(self.table, metas, Partitions(), ("file_size",), exact=True):
            lost = self.candidates.remove_array(part.names)
            sizes = part.numbers["file_size"][lost]
            self.told_bytes += int(sizes[(sizes > 0) & (sizes <= _LARGEST_FILE)].sum())
            sliced = np.flatnonzero(as_flags(pc.match_substring(part.names, _SLICE)))
            real = (resolved_changelog_path(f"bucket/{part.name(i)}") for i in sliced.tolist())
            self.candidates.remove(path.rsplit("/", 1)[-1] for path in real)
            self.candidates.remove(name for rare in part.rare.values() for name in rare.extra_files)
            for of_file, of_entry in part.unknown.values():
                self._protect_all(of_file)
                self._protect_all(of_entry)

    def _index(self, metadata: Metadata, name: str, *, optional: bool) -> None:
        if name in self._seen:
            return
        if optional and not self.table.io.exists(self.table.paths.manifest(name)):
            return
        self._remove(name)
        entries = metadata.index_entries(name)
        if entries.may_be_cut and not optional:
            self.cut_index = self.table.paths.manifest(name)
        self._remove(*(e.index_file.file_name for e in entries))
        for entry in entries:
            self._protect_all(entry.unknown)
        self._seen.add(name)


def _texts(extra: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the texts in unknown fields, at any depth, each with the name of its field."""
    waiting: list[tuple[str, object]] = list(extra.items())
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, Mapping):
            waiting += ((name, v) for kv in value.items() for v in kv)
        elif isinstance(value, list):
            waiting += ((name, v) for v in value)
