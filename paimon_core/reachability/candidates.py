"""The data and changelog files that removed references name, as columns."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow.compute as pc

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind, FileSource, ManifestFileMeta
from paimon_core.manifest.entries.columns import (
    Column,
    ColumnsBuilder,
    EntryColumns,
    Partitions,
    as_flags,
    name_array,
)
from paimon_core.manifest.merge_columns import identity_hashes, merged_positions, name_hashes
from paimon_core.options import CHANGELOG_FILE_PREFIX, DATA_FILE_PREFIX
from paimon_core.reachability.files import (
    Metadata,
    Role,
    StoredFile,
    appended_is_changelog,
    listed_names,
    paths_of,
)
from paimon_core.reachability.name_set import NameSet
from paimon_core.reachability.references import Reference, RefKind
from paimon_core.reachability.stored_files import StoredFiles, StoredFilesBuilder
from paimon_core.scan.columns import entry_columns
from paimon_core.scan.manifests import read_together
from paimon_core.snapshot.snapshot import Snapshot

logger = logging.getLogger(__name__)
_NUMBERS: Final = ("file_size", "file_source")
_KEPT: Final = ("file_size",)
_TOGETHER_BYTES: Final = 8 * 1024**2
_CHANGELOG: Final = "changelog-"
_SLICE: Final = "$"
"""In the names of slices of joined changelog files only."""

Choose = Callable[[EntryColumns], Column]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Files that may be garbage, one for each name.

    `entries.manifest` is the number of a file's table and role in `origins`.
    """

    entries: EntryColumns
    origins: Sequence[tuple[FileStoreTable, Role]]

    def __len__(self) -> int:
        return len(self.entries)

    def size(self, chosen: Column) -> tuple[int, int]:
        """Return the number of the chosen files and their extra files, and their bytes."""
        extra = sum(len(r.extra_files) for i, r in self.entries.rare.items() if chosen[i])
        size = int(self.entries.numbers["file_size"][chosen].sum())
        return int(chosen.sum()) + extra, size

    def name_changelogs(self, chosen: Column) -> bool:
        """Return whether a chosen data file, or an extra file, has the name of a changelog file.

        Only damaged metadata takes changelog files for data.
        """
        options = [table.options for table, _ in self.origins]
        of_data = [o.value(DATA_FILE_PREFIX) for o in options]
        marks = {_CHANGELOG, *(o.value(CHANGELOG_FILE_PREFIX) for o in options)}
        marks = {m for m in marks if not any(m in prefix for prefix in of_data)}
        is_data = np.array([role is Role.DATA for _, role in self.origins], bool)
        data = chosen & is_data[self.entries.manifest]
        extra = [n for i, r in self.entries.rare.items() if chosen[i] for n in r.extra_files]
        return any(
            bool((data & as_flags(pc.match_substring(self.entries.names, mark))).any())
            or any(mark in name for name in extra)
            for mark in marks
        )

    def stored(self, chosen: Column, unneeded: NameSet) -> StoredFiles:
        """Return the chosen files with those of their extra files that are `unneeded`."""
        builder = StoredFilesBuilder()
        entries = self.entries if chosen.all() else self.entries.take(np.flatnonzero(chosen))
        special = as_flags(pc.match_substring(entries.names, _SLICE))
        special[list(entries.rare)] = True
        extra_names = [name for rare in entries.rare.values() for name in rare.extra_files]
        is_free = unneeded.left(name_array(extra_names))
        needed = {extra_names[i] for i in np.flatnonzero(~is_free).tolist()}
        for number, (table, role) in enumerate(self.origins):
            of_origin = entries.manifest == number
            plain = np.flatnonzero(of_origin & ~special)
            all_plain = len(plain) == len(entries)
            _add_plain(builder, table, role, entries if all_plain else entries.take(plain))
            for i in np.flatnonzero(of_origin & special).tolist():
                path, *extra = paths_of(table, entries, i)
                builder.add(StoredFile(path, role, int(entries.numbers["file_size"][i])))
                for other in extra:
                    if other.rsplit("/", 1)[-1] not in needed:
                        builder.add(StoredFile(other, role, None))
        return builder.finish()


def _add_plain(
    builder: StoredFilesBuilder, table: FileStoreTable, role: Role, entries: EntryColumns
) -> None:
    if not len(entries):
        return
    rows = entries.partitions.rows
    partition, bucket, place = entries.group()
    folders = (
        builder.folder(table.paths.bucket_dir(rows[p], b))
        for p, b in zip(partition.tolist(), bucket.tolist(), strict=True)
    )
    codes = np.fromiter(folders, np.int32, len(partition))
    builder.add_columns(codes[place], entries.names, entries.numbers["file_size"], role)


def find_candidates(
    going: Sequence[Reference], staying: Sequence[Reference], metadata: Metadata
) -> Candidates:
    """Return the files that the references `going` name (`garbage`, first point).

    Unreadable metadata is skipped.
    """
    metadata.prefetch((n for r in going for n, _ in listed_names(r)), missing=True)
    lines: dict[str, dict[int, Snapshot]] = defaultdict(dict)
    for reference in staying:
        if reference.kind is RefKind.SNAPSHOT:
            lines[reference.table.branch][reference.snapshot.id] = reference.snapshot
    lists_left = {s.changelog_manifest_list for line in lines.values() for s in line.values()}
    lists_left |= {
        r.snapshot.changelog_manifest_list for r in staying if r.kind is RefKind.CHANGELOG
    }
    found = _Collector(metadata)
    for run in _runs(going):
        table = run[0].table
        snapshots = [r.snapshot for r in run]
        line = lines[table.branch]
        before, after = line.get(snapshots[0].id - 1), line.get(snapshots[-1].id + 1)
        if before is not None:
            found.add(table, Role.DATA, _deltas(snapshots), _is_added)
        elif after is not None:
            found.add_deleted(table, _deltas([*snapshots[1:], after]))
        else:
            found.add_live(table, snapshots[0])
            found.add(table, Role.DATA, _deltas(snapshots), _is_added)
    for reference in going:
        table, snapshot = reference.table, reference.snapshot
        if reference.kind is RefKind.TAG:
            found.add_live(table, snapshot)
            found.add(table, Role.DATA, _deltas([snapshot]), _is_added)
            continue
        if reference.kind is RefKind.CHANGELOG and appended_is_changelog(reference):
            found.add(table, Role.DATA, _deltas([snapshot]), is_appended)
        name = snapshot.changelog_manifest_list
        if name is not None and name not in lists_left:
            found.add(table, Role.CHANGELOG, [name], _is_added)
    return found.candidates()


def _deltas(snapshots: Iterable[Snapshot]) -> list[str]:
    return [s.delta_manifest_list for s in snapshots]


def _is_added(entries: EntryColumns) -> Column:
    return entries.added


def is_appended(entries: EntryColumns) -> Column:
    """Return whether entries add appended rows; a missing source counts as APPEND."""
    appended: Column = entries.added & (entries.numbers["file_source"] != FileSource.COMPACT)
    return appended


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


class _Collector:
    """Collects candidates from manifest lists."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._partitions = Partitions()
        self._builder = ColumnsBuilder(self._partitions)
        self._origins: dict[tuple[str, Role], int] = {}
        self._tables: list[tuple[FileStoreTable, Role]] = []

    def candidates(self) -> Candidates:
        """Return one candidate for each name, as its last entry says."""
        entries = self._builder.columns()
        if not len(entries):
            return Candidates(replace(entries, numbers=dict.fromkeys(_KEPT, entries.kind)), ())
        last = _last_of_each(name_hashes(entries.names))
        self._builder.keep(last)
        return Candidates(self._builder.columns(), self._tables)

    def add(self, table: FileStoreTable, role: Role, lists: Iterable[str], choose: Choose) -> None:
        """Add the chosen entries of all manifests in these lists."""
        metas = [m for name in lists for m in self._metadata.manifests_if_readable(name)]
        for group in read_together(metas):
            for part in self._readable(table, group):
                self._keep(table, role, part.take(np.flatnonzero(choose(part))))

    def add_deleted(self, table: FileStoreTable, lists: Iterable[str]) -> None:
        """Add what these delta lists delete; an upgraded file is deleted and added by one list.

        Appends, as nearly all snapshots are, have no manifest with deletions.
        """
        wanted = []
        for name in lists:
            metas = self._metadata.manifests_if_readable(name)
            if any(m.num_deleted_files for m in metas):
                wanted.append(metas)
        for together in _whole_lists(wanted):
            metas = [meta for listed in together for meta in listed]
            list_of = np.repeat(np.arange(len(together)), [len(listed) for listed in together])
            builder = ColumnsBuilder(self._partitions)
            for part in self._readable(table, metas):
                builder.add(replace(part, manifest=list_of[part.manifest].astype(np.int32)))
            entries = builder.columns()
            if not len(entries):
                continue
            # The last entry of a list about a name says whether the list deletes the file.
            last = _last_of_each(name_hashes(entries.names, entries.manifest.astype(np.uint64)))
            deleted = last[entries.kind[last] == FileKind.DELETE]
            self._keep(table, Role.DATA, entries.take(deleted))

    def add_live(self, table: FileStoreTable, snapshot: Snapshot) -> None:
        """Add the files that were live before the snapshot."""
        builder = ColumnsBuilder(self._partitions)
        metas = self._metadata.manifests_if_readable(snapshot.base_manifest_list)
        for group in read_together(metas):
            for part in self._readable(table, group):
                builder.add(part)
        entries = builder.columns()
        try:
            live = merged_positions(entries, identity_hashes(entries))
        except CorruptTable:
            live = np.arange(len(entries))
        live = live[entries.added[live]]
        if len(live):
            self._keep(table, Role.DATA, entries.take(live))

    def _keep(self, table: FileStoreTable, role: Role, entries: EntryColumns) -> None:
        if not len(entries):
            return
        key = (table.branch, role)
        if key not in self._origins:
            self._origins[key] = len(self._tables)
            self._tables.append((table, role))
        origin = np.full(len(entries), self._origins[key], np.int32)
        numbers = {name: entries.numbers[name] for name in _KEPT}
        self._builder.add(replace(entries, manifest=origin, numbers=numbers))

    def _readable(
        self, table: FileStoreTable, metas: Sequence[ManifestFileMeta]
    ) -> list[EntryColumns]:
        """Return the entries of readable manifests; `manifest` is a position in `metas`."""
        try:
            return list(entry_columns(table, metas, self._partitions, _NUMBERS))
        except CorruptTable:
            found = []
            for number, meta in enumerate(metas):
                try:
                    parts = list(entry_columns(table, [meta], self._partitions, _NUMBERS))
                except CorruptTable as e:
                    logger.warning("table=%s left to the orphan job: %s", table.name, e)
                    continue
                found += [
                    replace(part, manifest=np.full(len(part), number, np.int32)) for part in parts
                ]
            return found


def _whole_lists(
    lists: Iterable[list[ManifestFileMeta]],
) -> Iterator[list[list[ManifestFileMeta]]]:
    """Group the lists so that each group has about `_TOGETHER_BYTES` of manifests."""
    group: list[list[ManifestFileMeta]] = []
    size = 0
    for metas in lists:
        group.append(metas)
        size += sum(m.file_size for m in metas)
        if size >= _TOGETHER_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _last_of_each(hashes: Column) -> Column:
    """Return the position of the last entry with each hash, ascending.

    Of two names with the same hash only one remains: the other file becomes an orphan.
    """
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    is_last = np.append(ordered[1:] != ordered[:-1], True)
    return np.sort(order[is_last])
