"""Expresses the content of another snapshot as changes to the newest one.

For jobs that restore the content of an older or lost snapshot.
"""

from __future__ import annotations

from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind, IndexManifestEntry, ManifestEntry
from paimon_core.scan.global_index import RowRange, index_range
from paimon_core.scan.manifests import data_manifests, delta_manifests, read_entries
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import Snapshot


def changes_between(
    table: FileStoreTable, latest: Snapshot | None, target: Snapshot
) -> ManifestChanges:
    """Return the changes from the newest snapshot to the content of the target.

    Files that stay keep their row ids.  Where rows got new ids in between, global indexes go: they
    may be of ids that other files of the partition do not have.
    """
    now = {} if latest is None else {e.identity: e for e in scan_files(table, latest)}
    then = {e.identity: e for e in scan_files(table, target)}
    files: list[ManifestEntry] = [e.as_delete() for i, e in now.items() if i not in then]
    files += [e for i, e in then.items() if i not in now]
    old, new = _indexes(table, latest), _indexes(table, target)
    renumbered = {
        e.partition for i, e in now.items() if i in then and _row_id(e) != _row_id(then[i])
    } | {e.partition for name, e in old.items() if name in new and _covers(e) != _covers(new[name])}
    new = {
        name: e
        for name, e in new.items()
        if e.index_file.global_index is None or e.partition not in renumbered
    }
    index = [
        IndexManifestEntry(FileKind.DELETE, e.partition, e.bucket, e.index_file)
        for name, e in old.items()
        if name not in new
    ]
    index += [e for name, e in new.items() if name not in old]
    return ManifestChanges(tuple(files), (), tuple(index))


def _row_id(entry: ManifestEntry) -> int | None:
    return entry.file.first_row_id


def _covers(entry: IndexManifestEntry) -> RowRange | None:
    return None if entry.index_file.global_index is None else index_range(entry.index_file)


def _indexes(table: FileStoreTable, snapshot: Snapshot | None) -> dict[str, IndexManifestEntry]:
    entries = [] if snapshot is None else table.index_entries(snapshot)
    return {e.index_file.file_name: e for e in entries}


def names_file_twice(table: FileStoreTable, snapshot: Snapshot) -> bool:
    """Return whether a manifest deletes a file that was moved back from that level."""
    live = {e.file.file_name: e.file.level for e in scan_files(table, snapshot)}
    return any(
        entry.kind is FileKind.DELETE
        and entry.file.level > live.get(entry.file.file_name, entry.file.level)
        for meta in data_manifests(table, snapshot)
        if meta.num_deleted_files
        for entry in read_entries(table, meta)
    )


def moves_files(table: FileStoreTable, snapshot: Snapshot) -> bool:
    """Return whether the snapshot deletes a file at one level and adds it at another."""
    names: dict[FileKind, set[str]] = {FileKind.ADD: set(), FileKind.DELETE: set()}
    for meta in delta_manifests(table, snapshot):
        for entry in read_entries(table, meta):
            names[entry.kind].add(entry.file.file_name)
    return not names[FileKind.ADD].isdisjoint(names[FileKind.DELETE])
