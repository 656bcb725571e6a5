"""Finds the files that no reference needs after some references are removed.

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
   unless all removed references are older and on the same branch.  Tags whose snapshot no longer
   exists are merged, and so are snapshots that do not build on the one before.  Changelogs are read
   only if a removed reference names changelog files as data files.

Metadata of removed references may be incomplete: unreadable files are skipped and remain as
orphans.  Metadata of remaining references must be readable; otherwise CorruptTable is raised and
nothing counts as garbage.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.confined import check_all_inside
from paimon_core.manifest.data_file import IndexFileMeta
from paimon_core.manifest.entries.columns import (
    Column,
    ColumnsBuilder,
    EntryColumns,
    Partitions,
    name_array,
)
from paimon_core.manifest.merge_columns import identity_hashes, merged_positions
from paimon_core.reachability.candidates import Candidates, find_candidates, is_appended
from paimon_core.reachability.cut_indexes import check_indexes
from paimon_core.reachability.files import (
    Metadata,
    Role,
    StoredFile,
    appended_is_changelog,
    listed_names,
)
from paimon_core.reachability.lost_history import check_history
from paimon_core.reachability.name_set import NameSet
from paimon_core.reachability.references import Reference, RefKind, check_own_lists
from paimon_core.reachability.stored_files import NO_FILES, StoredFiles
from paimon_core.scan.columns import entry_columns
from paimon_core.scan.manifests import merging
from paimon_core.snapshot.snapshot import CommitKind, Snapshot


@dataclass(frozen=True, slots=True)
class Garbage:
    """Files that no reference needs, and candidates that other references still need.

    `held` maps the label of a tag or of another branch's reference to the files and bytes that it
    keeps alive; files with several holders count for the first one found.
    """

    files: StoredFiles = NO_FILES
    held: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The total size in bytes, as far as metadata holds it."""
        return self.files.bytes

    def counts(self) -> dict[str, int]:
        """The number of files by role."""
        return self.files.counts()


def find_garbage(
    table: FileStoreTable,
    going: Sequence[Reference],
    staying: Sequence[Reference],
    metadata: Metadata,
) -> Garbage:
    """Return the files that only the references in `going` need.

    `staying` are all other references.  Raises CorruptTable if a staying reference is unreadable or
    names the lists of another one, or if a branch that is not deleted as a whole has lost its
    snapshots.
    """
    alive = {r.snapshot.identity for r in staying if r.kind is not RefKind.CHANGELOG}
    going = [r for r in going if r.kind is not RefKind.TAG or r.snapshot.identity not in alive]
    if not going:
        return Garbage()
    deleted = {r.table.branch for r in going} - {r.table.branch for r in staying} - {table.branch}
    check_history(table, chain(staying, going), deleted=deleted)
    check_own_lists(table, staying)
    candidates = find_candidates(going, staying, metadata)
    kept = _kept_names(staying)
    anchors = list(_anchors(going, staying))
    metadata.prefetch((n for a in anchors for n, _ in listed_names(a.reference)), missing=True)
    anchors = list(_with_broken_lines(anchors, metadata))
    for anchor in anchors:
        _keep_contents(anchor, metadata, kept)
    contents = _CandidateEntries(table, candidates, metadata, _beside_data(going, metadata))
    left, held = _drop_live(table, anchors, candidates, contents)
    if candidates.name_changelogs(left):
        left = _drop_changelogs(staying, candidates, contents, metadata, left)
    data = candidates.stored(left, contents.names)
    del candidates  # they may be as many as the files
    metadata_files = StoredFiles.of(_metadata_files(going, kept, metadata, contents.names))
    files = StoredFiles.joined(data, metadata_files).distinct()
    check_deletable(table, files)
    if files.positions(Role.INDEX).size:
        check_indexes(going, staying, metadata)
    pa.default_memory_pool().release_unused()  # memory of the decoder, before callers decode again
    return Garbage(files, held)


def check_deletable(table: FileStoreTable, files: StoredFiles) -> None:
    """Raise CorruptTable if a file lies outside the table, by its path or behind a symbolic link.

    A plan checks this before any reference is deleted; otherwise every later run would stop at the
    file.
    """
    check_all_inside(table.paths.boundary, (f.path for f in files.one_of_each_folder()))


# --- metadata files that are removed --------------------------------------------------------------


def _metadata_files(
    going: Iterable[Reference], kept: set[str], metadata: Metadata, unneeded: NameSet
) -> Iterator[StoredFile]:
    """Return lists, manifests, index files and statistics of what is removed, except kept ones.

    Of the index files that may lie among data files, only the `unneeded` ones.
    """
    known = set(kept)
    for reference in going:
        paths, snapshot = reference.table.paths, reference.snapshot
        for name, size in listed_names(reference):
            if name not in known:
                known.add(name)
                yield StoredFile(paths.manifest(name), Role.MANIFEST_LIST, size)
            for meta in metadata.manifests_if_readable(name):
                if meta.file_name not in known:
                    known.add(meta.file_name)
                    yield StoredFile(paths.manifest(meta.file_name), Role.MANIFEST, meta.file_size)
        if reference.kind is RefKind.CHANGELOG:
            continue
        index = snapshot.index_manifest
        if index is not None and index not in kept:
            for entry in metadata.index_entries_if_readable(index):
                file = entry.index_file
                if _is_beside_data(reference, file) and file.file_name not in unneeded:
                    continue
                if file.file_name not in kept:
                    path = paths.index_file(entry.partition, entry.bucket, file)
                    yield StoredFile(path, Role.INDEX, file.file_size)
            yield StoredFile(paths.manifest(index), Role.INDEX_MANIFEST, None)
        if snapshot.statistics is not None and snapshot.statistics not in kept:
            yield StoredFile(paths.statistics(snapshot.statistics), Role.STATISTICS, None)


def _is_beside_data(reference: Reference, file: IndexFileMeta) -> bool:
    beside = reference.table.paths.index_beside_data and file.global_index is None
    return beside or file.external_path is not None


def _beside_data(going: Iterable[Reference], metadata: Metadata) -> list[str]:
    """Return the names of index files that may lie among data files."""
    return [
        entry.index_file.file_name
        for reference in going
        if reference.snapshot.index_manifest is not None and reference.kind is not RefKind.CHANGELOG
        for entry in metadata.index_entries_if_readable(reference.snapshot.index_manifest)
        if _is_beside_data(reference, entry.index_file)
    ]


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
    lines: dict[str, dict[int, Snapshot]] = defaultdict(dict)
    alive = set()
    for reference in staying:
        if reference.kind is RefKind.SNAPSHOT:
            lines[reference.table.branch][reference.snapshot.id] = reference.snapshot
            alive.add(_content(reference.snapshot))
    newest_going = max(r.snapshot.id for r in going)
    branches = {r.table.branch for r in going}
    believed = _are_older(going, staying)
    order = {RefKind.SNAPSHOT: 0, RefKind.TAG: 1, RefKind.CHANGELOG: 2}
    for reference in sorted(staying, key=lambda r: order[r.kind]):
        snapshot, branch = reference.snapshot, reference.table.branch
        match reference.kind:
            case RefKind.SNAPSHOT:
                before = lines[branch].get(snapshot.id - 1)
                first = before is None
                overwrites = snapshot.commit_kind is CommitKind.OVERWRITE
                whole = before is None or overwrites or not _may_follow(before, snapshot)
                all_older = believed and branches == {branch} and newest_going < min(lines[branch])
                if whole or not all_older:
                    yield Anchor(reference, whole, first)
            case RefKind.TAG:
                if _content(snapshot) not in alive:
                    yield Anchor(reference, whole=True)
            case RefKind.CHANGELOG:
                yield Anchor(reference, whole=True)


def _may_follow(before: Snapshot, snapshot: Snapshot) -> bool:
    """Return whether the snapshot is younger and its records add up, as if made from that one.

    A fast-forward puts another one there if its branch has lost the snapshots before it.
    """
    if snapshot.time_millis < before.time_millis:
        return False
    old, added = before.total_record_count, snapshot.delta_record_count
    total = snapshot.total_record_count
    return old is None or added is None or total is None or old + added == total


def _with_broken_lines(anchors: Sequence[Anchor], metadata: Metadata) -> Iterator[Anchor]:
    """Yield the anchors; a snapshot that does not build on its predecessor must be read as a whole.

    The base of a commit consists of the manifests of its predecessor.  If it has others, the commit
    merged manifests, or the snapshot was made from another one; then the additions of the snapshots
    before may not account for all of its files.
    """
    lines = {
        (a.reference.table.branch, a.reference.snapshot.id): a.reference.snapshot
        for a in anchors
        if a.reference.kind is RefKind.SNAPSHOT
    }
    for anchor in anchors:
        snapshot = anchor.reference.snapshot
        before = lines.get((anchor.reference.table.branch, snapshot.id - 1))
        if anchor.whole or before is None:
            yield anchor
            continue
        base = metadata.manifests(snapshot.base_manifest_list, snapshot)
        left = {m.file_name for m in metadata.data_manifests(before)}
        yield anchor._replace(whole={m.file_name for m in base} != left)


def _content(snapshot: Snapshot) -> tuple[object, ...]:
    """Return a key that is equal for references that need the same files."""
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest)
    return (snapshot.identity, *lists)


def _are_older(going: Sequence[Reference], staying: Sequence[Reference]) -> bool:
    """Return whether the snapshot ids of the references in `going` can be trusted.

    A tag or a journal may hold any id, but each snapshot has manifest lists of its own.
    """
    names = {
        name
        for r in staying
        if r.kind is RefKind.SNAPSHOT
        for name in (r.snapshot.base_manifest_list, r.snapshot.delta_manifest_list)
    }
    return not any(
        s.base_manifest_list in names or s.delta_manifest_list in names
        for s in (r.snapshot for r in going)
    )


def _keep_contents(anchor: Anchor, metadata: Metadata, kept: set[str]) -> None:
    """Add the manifests and index files that an anchor names to `kept`."""
    reference = anchor.reference
    for name in metadata.needed_lists(reference, first=anchor.first):
        found = metadata.manifests(name, reference.snapshot)
        kept.update(m.file_name for m in found)
    index = reference.snapshot.index_manifest
    if index is not None and reference.kind is not RefKind.CHANGELOG:
        kept.update(e.index_file.file_name for e in metadata.index_entries(index))


def _drop_live(
    table: FileStoreTable,
    anchors: Iterable[Anchor],
    candidates: Candidates,
    contents: _CandidateEntries,
) -> tuple[Column, dict[str, tuple[int, int]]]:
    """Return which candidates no anchor needs, and what each of the anchors holds."""
    held: dict[str, tuple[int, int]] = {}
    names = candidates.entries.names
    left = np.ones(len(candidates), bool)
    for reference, whole, _ in anchors:
        if contents.names.is_empty:
            break
        needed = _needed(reference, contents, whole=whole)
        contents.names.remove_array(needed.names)
        contents.names.remove(name for rare in needed.rare.values() for name in rare.extra_files)
        before, left = left, contents.names.left(names)
        mine = before & ~left
        others = reference.kind is not RefKind.SNAPSHOT or reference.table.branch != table.branch
        if others and mine.any():
            held[reference.label] = candidates.size(mine)
    return left, held


def _drop_changelogs(
    staying: Iterable[Reference],
    candidates: Candidates,
    contents: _CandidateEntries,
    metadata: Metadata,
    left: Column,
) -> Column:
    """Return which of the candidates in `left` are not changelog files of a staying reference.

    The other checks do not read changelog manifest lists: an intact reference in `going` never
    names the changelog of another one.
    """
    ids = {(r.table.branch, r.snapshot.id) for r in staying if r.kind is RefKind.SNAPSHOT}
    for reference in staying:
        snapshot = reference.snapshot
        first = (reference.table.branch, snapshot.id - 1) not in ids
        lists = metadata.needed_lists(reference, first=first)
        if snapshot.changelog_manifest_list in lists:
            changelog = contents.of(snapshot.changelog_manifest_list)
            contents.names.remove_array(changelog.names)
            contents.names.remove(n for rare in changelog.rare.values() for n in rare.extra_files)
    return left & contents.names.left(candidates.entries.names)


class _CandidateEntries:
    """The entries of manifests that name candidates, each manifest read once.

    `names` are those of the candidates, of their extra files and the `others`, as long as nothing
    is known to need them.
    """

    def __init__(
        self,
        table: FileStoreTable,
        candidates: Candidates,
        metadata: Metadata,
        others: Sequence[str],
    ) -> None:
        extra = [n for rare in candidates.entries.rare.values() for n in rare.extra_files]
        chunks = candidates.entries.names
        chunks = chunks.chunks if isinstance(chunks, pa.ChunkedArray) else [chunks]
        names = pa.chunked_array([*chunks, name_array([*extra, *others])])
        self.names = NameSet(names)
        self._all = NameSet(names)
        self._table = table
        self._metadata = metadata
        self._partitions = Partitions()
        self._found: dict[str, list[EntryColumns]] = {}

    def _mentioned_in(self, part: EntryColumns) -> Column:
        """Return which entries name one of the files, as their file or an extra file of it."""
        mentioned = self._all.left(part.names)
        extra = [(i, name) for i, rare in part.rare.items() for name in rare.extra_files]
        if extra:
            found = self._all.left(name_array([name for _, name in extra]))
            mentioned[[extra[i][0] for i in np.flatnonzero(found).tolist()]] = True
        return mentioned

    def of(self, *lists: str) -> EntryColumns:
        """Return the entries of all manifests in these lists, in order."""
        metas = [meta for name in lists for meta in self._metadata.manifests(name)]
        new = {m.file_name: m for m in metas if m.file_name not in self._found}
        found: dict[str, list[EntryColumns]] = {name: [] for name in new}
        # None is left out by its partition range: with a wrong one, live files would be garbage.
        wanted = list(new.values())
        numbers = ("file_source",)
        for part in entry_columns(self._table, wanted, self._partitions, numbers, exact=True):
            mentions = part.take(np.flatnonzero(self._mentioned_in(part)))
            if not len(mentions):
                continue
            chosen, starts = np.unique(mentions.manifest, return_index=True)
            ends = np.append(starts[1:], len(mentions))
            for number, start, end in zip(chosen, starts.tolist(), ends.tolist(), strict=True):
                here = mentions.take(np.arange(start, end))
                found[wanted[number].file_name].append(here)
        self._found |= found
        builder = ColumnsBuilder(self._partitions)
        for meta in metas:
            for part in self._found[meta.file_name]:
                builder.add(part)
        return builder.columns()


def _needed(reference: Reference, contents: _CandidateEntries, *, whole: bool) -> EntryColumns:
    """Return the entries of candidates that a reference needs."""
    snapshot = reference.snapshot
    if reference.kind is RefKind.CHANGELOG:
        name = snapshot.changelog_manifest_list
        if name is not None:
            return contents.of(name)
        if not appended_is_changelog(reference):
            return contents.of()
        added = contents.of(snapshot.delta_manifest_list)
        return added.take(np.flatnonzero(is_appended(added))) if len(added) else added
    if not whole:
        delta = contents.of(snapshot.delta_manifest_list)
        return delta.take(np.flatnonzero(delta.added))
    mentions = contents.of(snapshot.base_manifest_list, snapshot.delta_manifest_list)
    live = np.zeros(len(mentions), bool)
    with merging(reference.table, snapshot):
        live[merged_positions(mentions, identity_hashes(mentions))] = True
    return mentions.take(np.flatnonzero(live & mentions.added))
