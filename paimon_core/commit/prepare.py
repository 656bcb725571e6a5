"""Writes the files of a new snapshot, except for the snapshot file itself.

These files are garbage until the snapshot names them.  They are deleted when preparing fails, and
never after that (java-rules A7).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from paimon_core.commit.index_changes import combine_index_files
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.manifest_merge import MergeThresholds, Write, merge_manifests
from paimon_core.commit.renumbering import Renumbering
from paimon_core.commit.request import CommitRequest
from paimon_core.commit.rewritten_schemas import check_not_replaced
from paimon_core.commit.row_tracking import by_partition, next_row_id_of, with_row_ids
from paimon_core.commit.snapshot_order import with_snapshot_numbers
from paimon_core.commit.unknown_metadata import next_extra
from paimon_core.environment import Environment
from paimon_core.errors import CorruptTable, TableGone
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.io.file_io import delete_abandoned, map_parallel
from paimon_core.io.json_text import parse_json_object
from paimon_core.io.read_retry import read_whole
from paimon_core.manifest.data_file import (
    FileKind,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
)
from paimon_core.manifest.index_manifest import write_index_manifest
from paimon_core.manifest.manifest_file import read_sized_manifest, write_manifests
from paimon_core.manifest.manifest_list import write_manifest_list
from paimon_core.options import (
    MANIFEST_FULL_COMPACTION_SIZE,
    MANIFEST_MERGE_MIN_COUNT,
    MANIFEST_TARGET_SIZE,
    ROW_IDS_BY_PARTITION,
    ROW_TRACKING_ENABLED,
    SNAPSHOT_ORDERING,
)
from paimon_core.scan.columns import MOST_OBJECTS
from paimon_core.scan.manifests import (
    check_as_listed,
    data_manifests,
    may_hold,
    missing_metadata,
    read_entries,
)
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.snapshot.snapshot_json import check_writable

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PreparedManifests:
    """Manifests of the changes, reused when the same changes are retried after a lost race."""

    changes: ManifestChanges | None = None
    delta: list[ManifestFileMeta] = field(default_factory=list)
    changelog: list[ManifestFileMeta] = field(default_factory=list)


class _Written:
    """Writes the files of an attempt, to be deleted if it fails before the snapshot."""

    def __init__(self, table: FileStoreTable, env: Environment) -> None:
        self._table = table
        self._new_uuid = env.new_uuid
        self._paths: list[str] = []

    def manifests(self, schema_id: int, entries: Iterable[ManifestEntry]) -> list[ManifestFileMeta]:
        metas = write_manifests(
            self._table.io,
            self._table.paths,
            entries,
            options=self._table.options,
            partition_type=self._table.schema.partition_type,
            schema_id=schema_id,
            new_uuid=self._new_uuid,
        )
        for meta in metas:
            self._add(meta.file_name)
        return metas

    def manifest_list(self, metas: Sequence[ManifestFileMeta]) -> tuple[str, int]:
        table = self._table
        name, size = write_manifest_list(
            table.io, table.paths, metas, options=table.options, new_uuid=self._new_uuid
        )
        self._add(name)
        return name, size

    def index_manifest(self, entries: Sequence[IndexManifestEntry]) -> str:
        table = self._table
        name = write_index_manifest(
            table.io, table.paths, entries, options=table.options, new_uuid=self._new_uuid
        )
        self._add(name)
        return name

    def undo(self) -> None:
        delete_abandoned(self._table.io, self._paths)

    def _add(self, name: str) -> None:
        self._paths.append(self._table.paths.manifest(name))


def prepare_snapshot(
    table: FileStoreTable,
    latest: Snapshot | None,
    changes: ManifestChanges,
    request: CommitRequest,
    prepared: PreparedManifests,
    *,
    env: Environment,
) -> Snapshot:
    """Write manifests and lists, and return the snapshot that follows `latest`.

    It has the newest schema id and total = previous + delta; its watermark never decreases;
    statistics are carried over only while the schema stays the same (java-rules A10).
    """
    written = _Written(table, env)
    try:
        snapshot = _prepare(table, latest, changes, request, prepared, env, written)
        check_writable(snapshot, table=table.name)
    except BaseException:
        prepared.changes = None
        written.undo()
        raise
    return snapshot


def _prepare(
    table: FileStoreTable,
    latest: Snapshot | None,
    changes: ManifestChanges,
    request: CommitRequest,
    prepared: PreparedManifests,
    env: Environment,
    written: _Written,
) -> Snapshot:
    schema = table.schemas.latest()
    if schema is None:
        raise TableGone(
            f"table {table.name} has no schema any more: it was dropped or renamed during the commit",
            table=table.name,
        )
    # The newest snapshot may be from before a replacement that goes on right now.
    check_not_replaced(table, schema, changes.files)
    extra = next_extra(latest, request, env=env, table=table.name)
    write = partial(written.manifests, schema.id)
    previous = [] if latest is None else data_manifests(table, latest, exact=True)
    base = _base(table, previous, write, changes.renumbering)
    snapshot_id = 1 if latest is None else latest.id + 1
    files: Sequence[ManifestEntry] = changes.files
    next_row_id = (latest.next_row_id or 0) if latest is not None else 0
    tracks_rows = table.options.value(ROW_TRACKING_ENABLED)
    if tracks_rows:
        next_row_id = next_row_id_of(latest, previous, table=table.name)
        if table.options.value(ROW_IDS_BY_PARTITION):
            files = by_partition(files)
        if changes.renumbering is not None:
            next_row_id = changes.renumbering.next_row_id
        files, next_row_id = with_row_ids(
            files, table=table.name, snapshot_id=snapshot_id, next_row_id=next_row_id
        )
    numbers = table.options.value(SNAPSHOT_ORDERING) and request.kind is not CommitKind.COMPACT
    if numbers:
        files = with_snapshot_numbers(files, snapshot_id)

    def write_delta() -> tuple[str, int]:
        # Row ids and such numbers depend on the snapshot that an attempt builds on.
        if prepared.changes is not changes or tracks_rows or numbers:
            prepared.delta = write(files)
            prepared.changelog = write(changes.changelog)
            prepared.changes = changes
        return written.manifest_list(prepared.delta)

    parts = (lambda: written.manifest_list(base), write_delta)
    base_list, delta_list = map_parallel(table.io, lambda part: part(), parts)
    changelog_list = (
        written.manifest_list(prepared.changelog) if changes.changelog else (None, None)
    )
    delta_rows = sum(
        e.file.row_count if e.kind is FileKind.ADD else -e.file.row_count for e in changes.files
    )
    total = (latest.total_record_count or 0) if latest is not None else 0
    watermarks = [
        w for w in (request.watermark, latest.watermark if latest else None) if w is not None
    ]
    return Snapshot(
        id=snapshot_id,
        schema_id=schema.id,
        base_manifest_list=base_list[0],
        base_manifest_list_size=base_list[1],
        delta_manifest_list=delta_list[0],
        delta_manifest_list_size=delta_list[1],
        changelog_manifest_list=changelog_list[0],
        changelog_manifest_list_size=changelog_list[1],
        index_manifest=_index_manifest(table, latest, changes, written),
        commit_user=request.user,
        commit_identifier=request.identifier,
        commit_kind=request.kind,
        time_millis=env.now_millis(),
        total_record_count=total + delta_rows,
        delta_record_count=delta_rows,
        changelog_record_count=(
            sum(e.file.row_count for e in changes.changelog) if changes.changelog else None
        ),
        watermark=max(watermarks) if watermarks else None,
        statistics=request.statistics or _carried_statistics(table, latest, schema.id),
        properties=dict(request.properties) if request.properties else None,
        next_row_id=next_row_id,
        extra=extra,
    )


def _base(
    table: FileStoreTable,
    previous: Sequence[ManifestFileMeta],
    write: Write,
    renumbering: Renumbering | None,
) -> list[ManifestFileMeta]:
    """The manifests of everything before this commit, in which small ones of `previous` are merged.

    If rows get new ids, manifests with their files are written again instead.
    """
    if renumbering is not None:
        return [m for meta in previous for m in _renumbered(table, meta, write, renumbering)]
    base, _ = merge_manifests(
        previous,
        MergeThresholds(
            target_size=table.options.value(MANIFEST_TARGET_SIZE),
            min_count=table.options.value(MANIFEST_MERGE_MIN_COUNT),
            full_size=table.options.value(MANIFEST_FULL_COMPACTION_SIZE),
        ),
        read=partial(_read_once, table),
        write=write,
        may_hold=partial(may_hold, table),
    )
    return base


def _renumbered(
    table: FileStoreTable, meta: ManifestFileMeta, write: Write, renumbering: Renumbering
) -> list[ManifestFileMeta]:
    entries = _read_once(table, meta)
    renumbered = [renumbering.entry(e) for e in entries]
    if all(new is old for new, old in zip(renumbered, entries, strict=True)):
        return [meta]
    return write(renumbered)


def _read_once(table: FileStoreTable, meta: ManifestFileMeta) -> Sequence[ManifestEntry]:
    """Return the entries of a manifest that is merged; large ones do not go into the cache."""
    if meta.num_added_files + meta.num_deleted_files <= MOST_OBJECTS:
        return read_entries(table, meta, exact=True)
    path = table.paths.manifest(meta.file_name)
    try:
        found = read_sized_manifest(table.io, path)
    except FileNotFoundError as e:
        raise missing_metadata(table, path, None) from e
    check_as_listed(table, meta, found)
    return found.entries


def _index_manifest(
    table: FileStoreTable,
    latest: Snapshot | None,
    changes: ManifestChanges,
    written: _Written,
) -> str | None:
    if not changes.index_files:
        return None if latest is None else latest.index_manifest
    previous = [] if latest is None else table.index_entries(latest)
    combined = combine_index_files(
        previous,
        changes.index_files,
        table=table.name,
        bucket_unaware=table.bucket_mode is BucketMode.UNAWARE,
    )
    return written.index_manifest(combined) if combined else None


def _carried_statistics(
    table: FileStoreTable, latest: Snapshot | None, schema_id: int
) -> str | None:
    if latest is None or latest.statistics is None:
        return None
    path = table.paths.statistics(latest.statistics)
    try:
        stats_schema = parse_json_object(read_whole(table.io, path, table=table.name))["schemaId"]
    except FileNotFoundError:
        # Statistics only guide planners: a missing file must not fail a commit, nor be named again.
        log.warning("table=%s file=%s is missing: statistics are not carried on", table.name, path)
        return None
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptTable(
            f"statistics file {latest.statistics} of table {table.name} cannot be read: {e}",
            table=table.name,
            file=path,
            snapshot=latest.id,
            next_step="analyze the table again (caretaker run analyze)",
        ) from e
    return latest.statistics if stats_schema == schema_id else None
