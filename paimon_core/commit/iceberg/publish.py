"""Writes the Iceberg metadata of a snapshot after its commit (Java: `IcebergCommitCallback`).

The metadata of snapshot N builds on that of N - 1: the commit's files are added and removed.  If
that of N - 1 is missing, for example after an interrupted commit, or is unusable, the metadata of N
is written from scratch.  So the next commit repairs every failure.  A failure here is logged and
not raised, because the commit already exists.

With `hive-catalog` and `rest-catalog`, the version is then registered in the external catalog.
Java deletes old files before.  Here they are deleted afterwards, and stay if the catalog may still
need them: a later commit finds the versions that name them.  Where a slower commit may set the
catalog back to an older version, what that needs stays for a minute.

Of primary-key tables, only files whose rows need no merging are in the metadata: those of the top
level, or above level 0 with deletion vectors in format version 3.

Java trusts whatever it finds.  Here, metadata of snapshots that a rollback has removed is deleted,
and metadata with paths of another folder, as after a renaming, is not built on.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from paimon_core.commit.iceberg.changes import Content, content_from_scratch, content_on_base
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.environment import Environment
from paimon_core.errors import CorruptTable, NotFound, PaimonError, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.iceberg.external_catalog import Shown
from paimon_core.iceberg.metadata import IcebergMetadata, IcebergSnapshot
from paimon_core.iceberg.schema import (
    highest_field_id,
    iceberg_schema,
    last_partition_id,
    partition_spec,
)
from paimon_core.iceberg.settings import has_external_catalog
from paimon_core.iceberg.store import IcebergStore, NewManifests, iceberg_store
from paimon_core.names import location
from paimon_core.options import (
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
)
from paimon_core.snapshot.snapshot import Snapshot

log = logging.getLogger(__name__)

_FIRST_SNAPSHOT = 1
SETTLED_MILLIS = 60_000
"""From this age on, no commit in progress builds on a version of the metadata."""


def publish_commit(
    table: FileStoreTable, snapshot: Snapshot, changes: ManifestChanges, env: Environment
) -> None:
    """Write the metadata of a snapshot that this process has committed, if the table has any."""
    store = iceberg_store(table, env.new_uuid)
    if store is None:
        return
    try:
        _publish(_Work(table, store, snapshot, env), changes)
    except Exception as e:  # noqa: BLE001 - whatever it was, the commit exists
        log.warning(
            "table=%s snapshot=%d cannot write the Iceberg metadata, the next commit retries: %s",
            table.name,
            snapshot.id,
            e,
        )


def republish(table: FileStoreTable, env: Environment) -> None:
    """Write the metadata of the newest snapshot from scratch, after a change without a commit.

    Java does not update the metadata in this case: it keeps snapshots whose files are deleted.  A
    failure is logged.
    """
    store = iceberg_store(table, env.new_uuid)
    if store is None:
        return
    try:
        latest = table.snapshots.latest()
        if latest is None and has_external_catalog(table.options):
            log.warning(
                "table=%s has no snapshot left, but its external catalog still shows the last one",
                table.name,
            )
        elif latest is None:
            store.delete_all()
        else:
            _publish(_Work(table, store, latest, env), None)
    except Exception as e:  # noqa: BLE001 - whatever it was, the commit exists
        log.warning(
            "table=%s cannot write the Iceberg metadata, the next commit retries: %s", table.name, e
        )


@dataclass(frozen=True, slots=True)
class _Work:
    """The snapshot whose metadata is written, and the store that it is written to."""

    table: FileStoreTable
    store: IcebergStore
    snapshot: Snapshot
    env: Environment


@dataclass(frozen=True, slots=True)
class _Draft:
    """Metadata to write, and the snapshots of the base that it no longer has, oldest first."""

    metadata: IcebergMetadata
    expired: tuple[IcebergSnapshot, ...] = ()
    built_on_base: bool = False


def _publish(work: _Work, changes: ManifestChanges | None) -> None:
    table, store, snapshot = work.table, work.store, work.snapshot
    if snapshot.id == _FIRST_SNAPSHOT and not has_external_catalog(table.options):
        store.delete_all()  # metadata outside of the table outlives a dropped table
    versions = store.versions()
    base = _base(work) if changes is not None and snapshot.id - 1 in versions else None
    like = base or (_readable(store, versions[-1]) if versions else None)
    if like is not None and location(like.location) == location(table.root):
        store = store.spelled_like(like.location)
        work = replace(work, store=store)
    draft = None
    if base is not None and changes is not None:
        draft = _on_base(work, base, changes)
    if draft is None:
        draft = _from_scratch(work)
    later = [v for v in versions if v > snapshot.id]
    newest = table.snapshots.latest() if later else None
    stale = [v for v in later if newest is None or v > newest.id]
    older = [v for v in versions if v < snapshot.id]
    same = [v for v in versions if v == snapshot.id]
    replaced = [m for v in (*stale, *same) if (m := _readable(store, v)) is not None]
    unused, kept = _unused(work, draft, older)
    store.write_metadata(draft.metadata)
    if later == stale:
        store.write_hint(snapshot.id)
    shown = _register(work, draft) if has_external_catalog(table.options) else None
    if shown is Shown.LATER:
        return
    if shown is None or store.settings.previous_versions is None:
        older = [v for v in older if v not in kept]
        _clean(work, draft, [*replaced, *unused], older=older, stale=stale)
    else:
        stay = {v for v in older if v >= snapshot.id - store.settings.previous_versions} | kept
        age = SETTLED_MILLIS if shown is Shown.UNGUARDED else 0
        _clean_registered(work, draft, replaced, older=older, stay=stay, stale=stale, least_age=age)


def _register(work: _Work, draft: _Draft) -> Shown:
    """Register the version; return what the external catalog shows.

    A failure is logged, and returns LATER: the next commit registers and deletes.
    """
    from paimon_core.iceberg.register import register  # noqa: PLC0415 - clients of catalogs

    try:
        return register(work.table, work.store, draft.metadata)
    except Exception as e:  # noqa: BLE001 - whatever it was, the commit exists
        log.warning(
            "table=%s snapshot=%d cannot register in the external catalog, the next commit retries: %s",
            work.table.name,
            work.snapshot.id,
            e,
        )
        return Shown.LATER


# --- what the new version says --------------------------------------------------------------------


def _base(work: _Work) -> IcebergMetadata | None:
    """Return the version before, None if nothing can be built on it."""
    table, snapshot = work.table, work.snapshot
    try:
        base = work.store.metadata(snapshot.id - 1)
        if base is None:
            return None
        current = base.current
    except (CorruptTable, UnsupportedFeature, KeyError) as e:
        log.warning("table=%s Iceberg metadata is written from scratch: %s", table.name, e)
        return None
    settings = work.store.settings
    if base.format_version > settings.format_version:
        raise UnsupportedFeature(
            f"metadata.iceberg.format-version={settings.format_version} after version "
            f"{base.format_version}",
            table=table.name,
        )
    if base.format_version < settings.format_version or location(base.location) != location(
        table.root
    ):
        return None
    try:
        before = table.snapshots.get(snapshot.id - 1)
    except NotFound:
        return base
    # It was written after its snapshot, unless that replaced another one of the same id.
    return base if current.time_millis >= before.time_millis else None


def _on_base(work: _Work, base: IcebergMetadata, changes: ManifestChanges) -> _Draft | None:
    """Return the base with the changes of the snapshot; None if its files are unreadable."""
    table, snapshot = work.table, work.snapshot
    new = NewManifests(work.store, snapshot.id)
    try:
        content = content_on_base(table, snapshot, changes, base, new)
    except (CorruptTable, UnsupportedFeature) as e:
        log.warning("table=%s Iceberg metadata is written from scratch: %s", table.name, e)
        new.abandon()
        return None
    schema_id = _newest_schema(table)
    if schema_id < base.schema_id:
        new.abandon()
        return None
    later = (iceberg_schema(table.schema_of(i)) for i in range(base.schema_id + 1, schema_id + 1))
    made = _snapshot(work, content, schema_id)
    history = [*base.snapshots, made]
    expired = _expired(work, history)
    return _Draft(
        replace(
            base,
            updated_millis=made.time_millis,
            last_column_id=highest_field_id(table.schema_of(schema_id)),
            schemas=(*base.schemas, *later),
            schema_id=schema_id,
            snapshots=tuple(history[len(expired) :]),
            snapshot_id=snapshot.id,
            tags=_tags(table, history[len(expired) :]),
        ),
        tuple(expired),
        built_on_base=True,
    )


def _from_scratch(work: _Work) -> _Draft:
    table, snapshot = work.table, work.snapshot
    content = content_from_scratch(table, snapshot, NewManifests(work.store, snapshot.id))
    schema_id = _newest_schema(table)
    spec = partition_spec(table.schema)
    made = _snapshot(work, content, schema_id)
    return _Draft(
        IcebergMetadata(
            format_version=work.store.settings.format_version,
            table_uuid=work.env.new_uuid(),
            location=work.store.spelled(table.root),
            updated_millis=made.time_millis,
            last_column_id=highest_field_id(table.schema_of(schema_id)),
            schemas=tuple(iceberg_schema(table.schema_of(i)) for i in range(schema_id + 1)),
            schema_id=schema_id,
            partition_specs=(spec,),
            last_partition_id=last_partition_id(spec["fields"]),
            snapshots=(made,),
            snapshot_id=snapshot.id,
            tags=_tags(table, [made]),
        )
    )


def _snapshot(work: _Work, content: Content, schema_id: int) -> IcebergSnapshot:
    number = work.snapshot.id
    return IcebergSnapshot(
        id=number,
        parent_id=None if number == _FIRST_SNAPSHOT else number - 1,
        time_millis=work.env.now_millis(),
        summary=content.summary,
        manifest_list=work.store.write_list(1, content.manifests),
        schema_id=schema_id,
    )


def _newest_schema(table: FileStoreTable) -> int:
    latest = table.schemas.latest()
    return table.schema.id if latest is None else latest.id


def _tags(table: FileStoreTable, snapshots: Sequence[IcebergSnapshot]) -> dict[str, int]:
    """Return the tags of these snapshots: readers refuse a tag whose snapshot is missing."""
    known = {s.id for s in snapshots}
    return {t.name: t.snapshot.id for t in table.tags.all() if t.snapshot.id in known}


# --- deleting old versions ------------------------------------------------------------------------


def _expired(work: _Work, history: Sequence[IcebergSnapshot]) -> list[IcebergSnapshot]:
    """Return the oldest snapshots, which exceed the retention of the table; never the newest."""
    options, newest = work.table.options, work.snapshot.id
    least = newest - options.value(SNAPSHOT_NUM_RETAINED_MIN)
    most = newest - options.value(SNAPSHOT_NUM_RETAINED_MAX)
    since = work.env.now_millis() - options.value(SNAPSHOT_TIME_RETAINED)
    going: list[IcebergSnapshot] = []
    for s in history[:-1]:
        if s.id > least or (s.id > most and s.time_millis >= since):
            break
        going.append(s)
    return going


def _unused(
    work: _Work, draft: _Draft, older: Sequence[int]
) -> tuple[list[IcebergMetadata], set[int]]:
    """Return the older versions that the new one does not need: metadata to delete, ids to keep.

    They belong to slower commits, or precede a gap.  A version younger than `SETTLED_MILLIS` is
    kept, except the last one, because a slower commit may still build on it: Java fails if it
    cannot read its base.
    """
    line = {s.id for s in (*draft.expired, *draft.metadata.snapshots)}
    settled = work.env.now_millis() - SETTLED_MILLIS
    found: list[IcebergMetadata] = []
    kept: set[int] = set()
    for version in older:
        if draft.built_on_base and version in line:
            continue
        metadata = _readable(work.store, version)
        last = version == work.snapshot.id - 1
        if metadata is not None and metadata.updated_millis > settled and not last:
            kept.add(version)
        elif metadata is not None:
            found.append(metadata)
    return found, kept


def _clean(
    work: _Work,
    draft: _Draft,
    replaced: Sequence[IcebergMetadata],
    *,
    older: Sequence[int],
    stale: Sequence[int],
) -> None:
    """Delete old versions, and the files that no kept snapshot needs.  Failures are logged.

    `stale` are versions of snapshots that a rollback has removed.  A crash leaves files behind that
    nothing reads.
    """
    store = work.store
    try:
        if draft.built_on_base:
            _delete_expired(store, [*draft.expired, *draft.metadata.snapshots[:1]])
        if replaced:
            _delete_replaced(store, replaced, draft.metadata)
        keep = store.settings.previous_versions
        old = [] if keep is None else [v for v in older if v < work.snapshot.id - keep]
        store.delete_versions([*old, *stale])
    except (PaimonError, OSError) as e:
        log.warning("table=%s cannot delete old Iceberg metadata: %s", work.table.name, e)


def _clean_registered(
    work: _Work,
    draft: _Draft,
    replaced: Sequence[IcebergMetadata],
    *,
    older: Sequence[int],
    stay: Collection[int],
    stale: Sequence[int],
    least_age: int,
) -> None:
    """Delete old versions of a table in an external catalog, and the files that only they need.

    Deletes the versions before the first one that is in `stay` or younger than `least_age`
    milliseconds.  These versions name the expired snapshots, also after commits that could not be
    registered.  A manifest that is dropped never returns in a later version.  So if the oldest
    snapshot of the first kept version does not need it, no later snapshot does.
    """
    store = work.store
    settled = work.env.now_millis() - least_age
    going: dict[int, IcebergMetadata | None] = {}
    rest = [draft.metadata]
    try:
        for version in older:
            metadata = _readable(store, version)
            if metadata is not None and (version in stay or metadata.updated_millis > settled):
                rest.append(metadata)
                break
            going[version] = metadata
        named = {s.list_name for m in rest for s in m.snapshots}
        lists = {s.list_name for m in going.values() if m is not None for s in m.snapshots} - named
        if lists:
            needed = {n for m in rest for n in _files_of(store, m.snapshots[0].list_name)}
            for name in sorted(lists):
                store.delete([n for n in _files_of(store, name) if n not in needed])
        if replaced:
            _delete_replaced(store, replaced, draft.metadata)
        store.delete_versions([*going, *stale])
    except (PaimonError, OSError) as e:
        log.warning("table=%s cannot delete old Iceberg metadata: %s", work.table.name, e)


def _delete_expired(store: IcebergStore, line: Sequence[IcebergSnapshot]) -> None:
    """Delete what only the snapshots before the last one of the line need."""
    for going, following in pairwise(line):
        try:
            kept = {m.name for m in store.manifests(following.list_name)}
            names = [m.name for m in store.manifests(going.list_name) if m.name not in kept]
        except CorruptTable:
            continue  # Java deletes lists that its metadata still names
        store.delete([*names, going.list_name])


def _delete_replaced(
    store: IcebergStore, replaced: Sequence[IcebergMetadata], kept: IcebergMetadata
) -> None:
    """Delete the manifests of other versions that the kept one does not need."""
    needed = {name for s in kept.snapshots for name in _files_of(store, s.list_name)}
    lists = {s.list_name for metadata in replaced for s in metadata.snapshots}
    for list_name in sorted(lists - needed):
        store.delete([n for n in _files_of(store, list_name) if n not in needed])


def _files_of(store: IcebergStore, list_name: str) -> list[str]:
    """Return the names of the manifests in a manifest list, and of the list itself."""
    try:
        return [*(m.name for m in store.manifests(list_name)), list_name]
    except (CorruptTable, UnsupportedFeature):
        return [list_name]


def _readable(store: IcebergStore, version: int) -> IcebergMetadata | None:
    try:
        return store.metadata(version)
    except (CorruptTable, UnsupportedFeature):
        return None
