"""The manifests of a snapshot in Iceberg's metadata: built on the last ones, or from scratch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from paimon_core.commit.iceberg.records import (
    FileRecords,
    has_iceberg_vectors,
    is_published,
    published_files,
)
from paimon_core.commit.iceberg.summary import (
    FileTotals,
    Operation,
    snapshot_summary,
    totals_in,
)
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.file_store_table import FileStoreTable
from paimon_core.iceberg.manifest import IcebergEntry, Status, added
from paimon_core.iceberg.manifest_list import IcebergManifest, ManifestContent, may_hold
from paimon_core.iceberg.metadata import IcebergMetadata
from paimon_core.iceberg.store import IcebergStore, NewManifests
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX
from paimon_core.manifest.data_file import FileKind, ManifestEntry
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.types.binary_row import decode_row


@dataclass(frozen=True, slots=True)
class Content:
    """The manifests of a snapshot and its summary."""

    manifests: tuple[IcebergManifest, ...]
    summary: Mapping[str, str]


def content_from_scratch(table: FileStoreTable, snapshot: Snapshot, new: NewManifests) -> Content:
    """Write manifests of all files of the snapshot."""
    records = FileRecords(table, new.store.spelled)
    files = published_files(table, snapshot)
    data = new.write(added(snapshot.id, records.data(e)) for e in files)
    vectors = _vector_manifests(table, snapshot, files, new) if has_iceberg_vectors(table) else []
    total = _totals(files)
    return Content(
        (*data, *vectors),
        snapshot_summary(
            Operation.APPEND,
            added=total,
            removed=FileTotals(),
            total=total,
            partitions=len({e.partition for e in files}),
            vectors=vectors,
            properties=snapshot.properties,
        ),
    )


def content_on_base(
    table: FileStoreTable,
    snapshot: Snapshot,
    changes: ManifestChanges,
    base: IcebergMetadata,
    new: NewManifests,
) -> Content:
    """Add the changes of the snapshot to the manifests of `base`, the snapshot before it.

    Errors as in `IcebergStore.manifests`.
    """
    store = new.store
    known = store.manifests(base.current.list_name)
    data = [m for m in known if m.content is ManifestContent.DATA]
    vectors = [m for m in known if m.content is ManifestContent.DELETES]
    changed = _FileChanges.of(table, changes.files)
    touched = _rewrite(store, data, changed, snapshot.id, new) if changed.removes else _Kept(data)
    records = FileRecords(table, store.spelled)
    coming = [e for name, e in changed.added.items() if name not in touched.present]
    made = new.write(added(snapshot.id, records.data(e)) for e in coming)
    data = _compacted(store, [*touched.manifests, *made], snapshot.id, new)
    if not has_iceberg_vectors(table):
        vectors = []
    elif any(e.index_file.index_type == DELETION_VECTORS_INDEX for e in changes.index_files):
        vectors = _vector_manifests(table, snapshot, _with_vectors(table, snapshot), new)
    gained, lost = _totals(coming), FileTotals.of(touched.removed)
    before = totals_in(base.current.summary) or _totals_of(store, known)
    operation = Operation.APPEND
    if touched.removed:
        compacts = snapshot.commit_kind is CommitKind.COMPACT
        operation = Operation.REPLACE if compacts else Operation.OVERWRITE
    return Content(
        (*data, *vectors),
        snapshot_summary(
            operation,
            added=gained,
            removed=lost,
            total=before.plus(gained).minus(lost),
            partitions=len(changed.partitions),
            vectors=vectors,
            properties=snapshot.properties,
        ),
    )


# --- data files ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _FileChanges:
    """The files that a commit adds and removes, by name: their paths may be written differently."""

    added: Mapping[str, ManifestEntry]
    removed: frozenset[str]
    removes: bool
    partitions: tuple[bytes, ...]
    rows: tuple[tuple[object, ...], ...]

    @staticmethod
    def of(table: FileStoreTable, entries: Iterable[ManifestEntry]) -> _FileChanges:
        coming: dict[str, ManifestEntry] = {}
        going: dict[str, ManifestEntry] = {}
        removes = False
        for e in entries:
            name = e.file.file_name
            if e.kind is FileKind.DELETE:
                removes = True
                coming.pop(name, None)
                going[name] = e
            elif is_published(table, e):
                going.pop(name, None)
                coming[name] = e
        partitions = tuple({e.partition for e in (*going.values(), *coming.values())})
        types = [t.with_nullable(True) for t in table.schema.partition_type.types]
        rows = tuple(decode_row(p, types) for p in partitions) if types else ((),)
        return _FileChanges(coming, frozenset(going), removes, partitions, rows)


@dataclass(frozen=True, slots=True)
class _Kept:
    """Manifests without the removed files, and which of the added files they hold already."""

    manifests: list[IcebergManifest]
    present: frozenset[str] = frozenset()
    removed: tuple[IcebergEntry, ...] = ()


def _rewrite(
    store: IcebergStore,
    manifests: Sequence[IcebergManifest],
    changed: _FileChanges,
    snapshot_id: int,
    new: NewManifests,
) -> _Kept:
    """Mark the removed files in the manifests that hold some; others stay as they are.

    A file whose level changes is removed and added: it may be there already.
    """
    kept: list[IcebergManifest] = []
    present: set[str] = set()
    removed: list[IcebergEntry] = []
    for manifest in manifests:
        if not may_hold(manifest, changed.rows, store.partition_type):
            kept.append(manifest)
            continue
        live = [e for e in store.entries(manifest) if e.is_live]
        present |= {e.name for e in live} & changed.added.keys()
        if not any(e.name in changed.removed for e in live):
            kept.append(manifest)
            continue
        rewritten = [
            replace(e, status=Status.DELETED, snapshot_id=snapshot_id)
            if e.name in changed.removed
            else replace(e, status=Status.EXISTING)
            for e in live
        ]
        removed += [e for e in rewritten if not e.is_live]
        kept += new.write(rewritten)
    return _Kept(kept, frozenset(present), tuple(removed))


def _compacted(
    store: IcebergStore, manifests: list[IcebergManifest], snapshot_id: int, new: NewManifests
) -> list[IcebergManifest]:
    """Merge small manifests if there are enough of them (Java: `compactMetadataIfNeeded`)."""
    settings, target = store.settings, store.target_size
    small = [m for m in manifests if m.length < target * 2 // 3]
    if len(small) < settings.compact_min_files or (
        len(small) < settings.compact_max_files and sum(m.length for m in small) < target
    ):
        return manifests
    entries = (e for m in small for e in store.entries(m))
    merged = new.write(m for e in entries if (m := _in_merged(e, snapshot_id)) is not None)
    # Manifests of this commit are in no list yet.
    store.delete([m.name for m in small if m.snapshot_id == snapshot_id])
    return [*(m for m in manifests if m not in small), *merged]


def _in_merged(entry: IcebergEntry, snapshot_id: int) -> IcebergEntry | None:
    """Return the entry as a later snapshot sees it: deletions of earlier snapshots are dropped."""
    if snapshot_id in (entry.snapshot_id, entry.file_sequence_number):
        return entry
    return replace(entry, status=Status.EXISTING) if entry.is_live else None


def _totals(files: Sequence[ManifestEntry]) -> FileTotals:
    return FileTotals(
        len(files), sum(e.file.row_count for e in files), sum(e.file.file_size for e in files)
    )


def _totals_of(store: IcebergStore, manifests: Iterable[IcebergManifest]) -> FileTotals:
    data = [m for m in manifests if m.content is ManifestContent.DATA]
    return FileTotals.of(e for m in data for e in store.entries(m) if e.is_live)


# --- deletion vectors ---------------------------------------------------------------------------


def _vector_manifests(
    table: FileStoreTable, snapshot: Snapshot, files: Iterable[ManifestEntry], new: NewManifests
) -> list[IcebergManifest]:
    records = FileRecords(table, new.store.spelled).vectors(snapshot, files)
    return new.write((added(snapshot.id, r) for r in records), ManifestContent.DELETES)


def _with_vectors(table: FileStoreTable, snapshot: Snapshot) -> list[ManifestEntry]:
    """Return the files of the partitions that have deletion vectors."""
    partitions = {partition for partition, _ in vector_files(table, snapshot)}
    return scan_files(table, snapshot, partitions=partitions)
