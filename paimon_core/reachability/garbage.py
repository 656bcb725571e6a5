"""Finds the files that nothing needs once some references are gone.

1. *Candidates*: the files that the removed references name.  For a run of consecutive snapshots
   whose successor remains: the data files that its deltas deleted (Java: `SnapshotDeletion`).  For
   one whose predecessor remains: the files that it added.  Otherwise all files that were ever live
   in the run.
2. *Kept names*: lists, manifests, index files and statistics that a remaining reference names.
3. *Live files*: the candidates that are live in a remaining version.  Not every version has to be
   merged.  In consecutive snapshots a file is live from the snapshot that adds it to the one that
   deletes it, so it is live in one of them if the first holds it or a later one adds it.  If it
   comes from older snapshots of the same branch, only an OVERWRITE can add it *again*. So the first
   snapshot and the overwrites of every branch are merged; the additions of the others are read
   unless all removed references are older and on the same branch.  Tags whose snapshot is gone are
   merged.

Metadata of removed references may be incomplete: unreadable files are skipped and remain as
orphans.  Metadata of remaining references must be readable; otherwise CorruptTable is raised and
nothing counts as garbage.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.confined import check_inside
from paimon_core.io.file_io import parent
from paimon_core.manifest.data_file import FileIdentity, FileKind, FileSource, ManifestEntry
from paimon_core.manifest.entry_columns import Partitions, name_array
from paimon_core.manifest.merge_entries import merge_entries, merge_kinds
from paimon_core.reachability.files import (
    Metadata,
    Role,
    StoredFile,
    appended_is_changelog,
    data_files,
    is_appended,
    listed_names,
)
from paimon_core.reachability.references import Reference, RefKind
from paimon_core.scan.columns import entry_columns
from paimon_core.scan.manifests import may_hold
from paimon_core.snapshot.snapshot import CommitKind, Snapshot

MOST_PARTITIONS_PRUNED: Final = 64
"""With more partitions, checking each manifest for each of them costs more than it saves."""


@dataclass(frozen=True, slots=True)
class Garbage:
    """Files that nothing needs, and what other references still hold.

    `held` maps the label of a tag or of another branch's reference to the files and bytes that it
    keeps alive; files with several holders count for the first one found.
    """

    files: tuple[StoredFile, ...] = ()
    held: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The total size in bytes, as far as metadata holds it."""
        return sum(f.size or 0 for f in self.files)

    def counts(self) -> dict[str, int]:
        """The number of files by role."""
        return dict(Counter(str(f.role) for f in self.files))


def find_garbage(
    table: FileStoreTable,
    going: Sequence[Reference],
    staying: Sequence[Reference],
    metadata: Metadata,
) -> Garbage:
    """Return the files that only the references `going` need, with `staying` as all that remain."""
    alive = {r.snapshot.identity for r in staying if r.kind is not RefKind.CHANGELOG}
    going = [r for r in going if r.kind is not RefKind.TAG or r.snapshot.identity not in alive]
    if not going:
        return Garbage()
    candidates = _candidates(going, staying, metadata)
    kept = _kept_names(staying)
    anchors = list(_anchors(going, staying))
    metadata.prefetch((n for a in anchors for n, _ in listed_names(a.reference)), missing=True)
    for anchor in anchors:
        _keep_contents(anchor, metadata, kept)
    held = _drop_live(table, anchors, candidates, metadata)
    files = [f for candidate in candidates.values() for f in candidate.files]
    files += _metadata_files(going, kept, metadata)
    check_deletable(table, files)
    return Garbage(tuple(dict.fromkeys(files)), held)


def check_deletable(table: FileStoreTable, files: Iterable[StoredFile]) -> None:
    """Raise CorruptTable if a file lies outside the table, by its path or behind a symbolic link.

    A plan checks this before any reference is deleted; otherwise every later run would stop at the
    file.
    """
    boundary = table.paths.boundary
    for path in {parent(f.path): f.path for f in files}.values():
        check_inside(boundary, path)


# --- what is removed
# ----------------------------------------------------------------------------------


class Candidate(NamedTuple):
    """A data or changelog file and its extra files."""

    partition: bytes
    files: tuple[StoredFile, ...]


Candidates = dict[str, Candidate]
"""By the name of the data or changelog file."""


def _candidates(
    going: Sequence[Reference], staying: Sequence[Reference], metadata: Metadata
) -> Candidates:
    metadata.prefetch((n for r in going for n, _ in listed_names(r)), missing=True)
    lines: dict[str, dict[int, Snapshot]] = defaultdict(dict)
    for reference in staying:
        if reference.kind is RefKind.SNAPSHOT:
            lines[reference.table.branch][reference.snapshot.id] = reference.snapshot
    lists_left = {s.changelog_manifest_list for line in lines.values() for s in line.values()}
    lists_left |= {
        r.snapshot.changelog_manifest_list for r in staying if r.kind is RefKind.CHANGELOG
    }
    found: Candidates = {}

    def add(table: FileStoreTable, entries: Iterable[ManifestEntry], role: Role) -> None:
        for entry in entries:
            files = tuple(data_files(table, entry, role))
            found[entry.file.file_name] = Candidate(entry.partition, files)

    for run in _runs(going):
        table = run[0].table
        snapshots = [r.snapshot for r in run]
        line = lines[table.branch]
        before, after = line.get(snapshots[0].id - 1), line.get(snapshots[-1].id + 1)
        if before is not None:
            entries = _added(snapshots, metadata)
        elif after is not None:
            entries = _deleted([*snapshots[1:], after], metadata)
        else:
            entries = _ever_live(snapshots, metadata)
        add(table, entries, Role.DATA)
    for reference in going:
        snapshot = reference.snapshot
        if reference.kind is RefKind.TAG:
            add(reference.table, _ever_live([snapshot], metadata), Role.DATA)
            continue
        if reference.kind is RefKind.CHANGELOG and appended_is_changelog(reference):
            added = metadata.entries_if_readable(snapshot.delta_manifest_list)
            add(reference.table, filter(is_appended, added), Role.DATA)
        name = snapshot.changelog_manifest_list
        if name is not None and name not in lists_left:
            added = metadata.entries_if_readable(name)
            add(reference.table, (e for e in added if e.kind is FileKind.ADD), Role.CHANGELOG)
    return found


def _runs(references: Iterable[Reference]) -> Iterator[list[Reference]]:
    """Snapshots of one branch with consecutive ids, oldest first."""
    snapshots = sorted(
        (r for r in references if r.kind is RefKind.SNAPSHOT),
        key=lambda r: (r.table.branch, r.snapshot.id),
    )
    run: list[Reference] = []
    for reference in snapshots:
        if run and (
            run[-1].table.branch != reference.table.branch
            or run[-1].snapshot.id + 1 != reference.snapshot.id
        ):
            yield run
            run = []
        run.append(reference)
    if run:
        yield run


def _added(snapshots: Iterable[Snapshot], metadata: Metadata) -> Iterator[ManifestEntry]:
    for snapshot in snapshots:
        for entry in metadata.entries_if_readable(snapshot.delta_manifest_list):
            if entry.kind is FileKind.ADD:
                yield entry


def _deleted(snapshots: Iterable[Snapshot], metadata: Metadata) -> Iterator[ManifestEntry]:
    """Yield what these snapshots deleted; an upgraded file is deleted and added at once."""
    for snapshot in snapshots:
        gone: dict[str, ManifestEntry] = {}
        for entry in metadata.entries_if_readable(snapshot.delta_manifest_list):
            if entry.kind is FileKind.DELETE:
                gone[entry.file.file_name] = entry
            else:
                gone.pop(entry.file.file_name, None)
        yield from gone.values()


def _ever_live(snapshots: Sequence[Snapshot], metadata: Metadata) -> Iterator[ManifestEntry]:
    base = metadata.entries_if_readable(snapshots[0].base_manifest_list)
    try:
        live: Iterable[ManifestEntry] = merge_entries(base).values()
    except CorruptTable:
        live = base
    yield from (e for e in live if e.kind is FileKind.ADD)
    yield from _added(snapshots, metadata)


def _metadata_files(
    going: Iterable[Reference], kept: set[str], metadata: Metadata
) -> Iterator[StoredFile]:
    """Return lists, manifests, index files and statistics of what is removed, except kept ones."""
    for reference in going:
        paths, snapshot = reference.table.paths, reference.snapshot
        for name, size in listed_names(reference):
            if name not in kept:
                yield StoredFile(paths.manifest(name), Role.MANIFEST_LIST, size)
            for meta in metadata.manifests_if_readable(name):
                if meta.file_name not in kept:
                    yield StoredFile(paths.manifest(meta.file_name), Role.MANIFEST, meta.file_size)
        if reference.kind is RefKind.CHANGELOG:
            continue
        index = snapshot.index_manifest
        if index is not None and index not in kept:
            for entry in metadata.index_entries_if_readable(index):
                file = entry.index_file
                if file.file_name not in kept:
                    path = paths.index_file(entry.partition, entry.bucket, file)
                    yield StoredFile(path, Role.INDEX, file.file_size)
            yield StoredFile(paths.manifest(index), Role.INDEX_MANIFEST, None)
        if snapshot.statistics is not None and snapshot.statistics not in kept:
            yield StoredFile(paths.statistics(snapshot.statistics), Role.STATISTICS, None)


# --- what remains ---------------------------------------------------------------------------------


def _kept_names(staying: Iterable[Reference]) -> set[str]:
    """Return the names that the references themselves hold."""
    kept: set[str] = set()
    for reference in staying:
        kept.update(name for name, _ in listed_names(reference))
        if reference.kind is not RefKind.CHANGELOG:
            snapshot = reference.snapshot
            kept.update(n for n in (snapshot.index_manifest, snapshot.statistics) if n)
    return kept


class Anchor(NamedTuple):
    """A reference whose content must be read: all of it, or only what it added.

    `first`: its branch has no snapshot right before it.
    """

    reference: Reference
    whole: bool
    first: bool = False


def _anchors(going: Sequence[Reference], staying: Sequence[Reference]) -> Iterator[Anchor]:
    """Yield the references to read (third point of the module docstring), snapshots first."""
    lines: dict[str, set[int]] = defaultdict(set)
    alive = set()
    for reference in staying:
        if reference.kind is RefKind.SNAPSHOT:
            lines[reference.table.branch].add(reference.snapshot.id)
            alive.add(reference.snapshot.identity)
    newest_going = max(r.snapshot.id for r in going)
    branches = {r.table.branch for r in going}
    order = {RefKind.SNAPSHOT: 0, RefKind.TAG: 1, RefKind.CHANGELOG: 2}
    for reference in sorted(staying, key=lambda r: order[r.kind]):
        snapshot, branch = reference.snapshot, reference.table.branch
        match reference.kind:
            case RefKind.SNAPSHOT:
                first = snapshot.id - 1 not in lines[branch]
                whole = first or snapshot.commit_kind is CommitKind.OVERWRITE
                all_older = branches == {branch} and newest_going < min(lines[branch])
                if whole or not all_older:
                    yield Anchor(reference, whole, first)
            case RefKind.TAG:
                if snapshot.identity not in alive:
                    yield Anchor(reference, whole=True)
            case RefKind.CHANGELOG:
                yield Anchor(reference, whole=True)


def _keep_contents(anchor: Anchor, metadata: Metadata, kept: set[str]) -> None:
    """Add the manifests and index files that an anchor names to `kept`."""
    reference = anchor.reference
    for name in metadata.needed_lists(reference, first=anchor.first):
        kept.update(m.file_name for m in metadata.manifests(name))
    index = reference.snapshot.index_manifest
    if index is not None and reference.kind is not RefKind.CHANGELOG:
        kept.update(e.index_file.file_name for e in metadata.index_entries(index))


def _drop_live(
    table: FileStoreTable,
    anchors: Iterable[Anchor],
    candidates: Candidates,
    metadata: Metadata,
) -> dict[str, tuple[int, int]]:
    """Remove from the candidates what the anchors need; return what each of them holds."""
    held: dict[str, tuple[int, int]] = {}
    contents = _CandidateEntries(table, candidates, metadata)
    for reference, whole, _ in anchors:
        if not candidates:
            break
        live = _needed_names(reference, contents, whole=whole)
        mine = [candidates.pop(name) for name in live if name in candidates]
        others = reference.kind is not RefKind.SNAPSHOT or reference.table.branch != table.branch
        if mine and others:
            files = [f for candidate in mine for f in candidate.files]
            held[reference.label] = (len(files), sum(f.size or 0 for f in files))
    return held


def _partitions(candidates: Candidates) -> frozenset[bytes] | None:
    """Return the partitions of the candidates if they are few enough to filter manifests."""
    partitions = frozenset(c.partition for c in candidates.values())
    return partitions if len(partitions) <= MOST_PARTITIONS_PRUNED else None


class _Mention(NamedTuple):
    """An entry of a manifest that names a candidate."""

    identity: FileIdentity
    kind: FileKind
    appended: bool


class _CandidateEntries:
    """The entries of manifests that name candidates, each manifest read once."""

    def __init__(self, table: FileStoreTable, candidates: Candidates, metadata: Metadata) -> None:
        self._table = table
        self._metadata = metadata
        self._names = name_array(candidates)
        partitions = _partitions(candidates)
        self._in_range = None if partitions is None else may_hold(table, partitions)
        self._found: dict[str, list[_Mention]] = {}

    def of(self, *lists: str) -> list[_Mention]:
        """Return the entries of all manifests in these lists, in order."""
        metas = [meta for name in lists for meta in self._metadata.manifests(name)]
        new = {m.file_name: m for m in metas if m.file_name not in self._found}
        found: dict[str, list[_Mention]] = {name: [] for name in new}
        wanted = [m for m in new.values() if self._in_range is None or self._in_range(m)]
        for part in entry_columns(self._table, wanted, Partitions(), ("file_source",)):
            source = part.numbers["file_source"]
            for i in np.flatnonzero(part.named(self._names)).tolist():
                kind = FileKind(int(part.kind[i]))
                appended = kind is FileKind.ADD and source[i] != FileSource.COMPACT
                mention = _Mention(part.identity(i), kind, appended)
                found[wanted[part.manifest[i]].file_name].append(mention)
        self._found |= found
        return [mention for meta in metas for mention in self._found[meta.file_name]]


def _needed_names(reference: Reference, contents: _CandidateEntries, *, whole: bool) -> set[str]:
    snapshot = reference.snapshot
    if reference.kind is RefKind.CHANGELOG:
        name = snapshot.changelog_manifest_list
        if name is not None:
            return {m.identity.file_name for m in contents.of(name)}
        if not appended_is_changelog(reference):
            return set()
        added = contents.of(snapshot.delta_manifest_list)
        return {m.identity.file_name for m in added if m.appended}
    if not whole:
        delta = contents.of(snapshot.delta_manifest_list)
        return {m.identity.file_name for m in delta if m.kind is FileKind.ADD}
    mentions = contents.of(snapshot.base_manifest_list, snapshot.delta_manifest_list)
    merged = merge_kinds((m.identity, m.kind) for m in mentions)
    return {i.file_name for i, kind in merged.items() if kind is FileKind.ADD}
