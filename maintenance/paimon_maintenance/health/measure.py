"""Measures a table: reads its metadata once, and no data file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from paimon_core.environment import Environment
from paimon_core.errors import NotFound, UnsupportedFeature
from paimon_core.features import uncompactable_features
from paimon_core.file_store_table import FileStoreTable
from paimon_core.known_options import unknown_options, unreadable_options
from paimon_core.options import (
    CLUSTERING_COLUMNS,
    CLUSTERING_INCREMENTAL,
    COMPACTION_MIN_FILE_NUM,
    CONSUMER_EXPIRATION_TIME,
    MERGE_ENGINE,
    NUM_SORTED_RUN_TRIGGER,
    TAG_AUTOMATIC_CREATION,
    TAG_TIME_EXPIRE_ENABLED,
    WRITE_ONLY,
)
from paimon_core.refs.tags import Tag
from paimon_core.retention.partitions import partition_rule, plan_partitions
from paimon_core.retention.tags import periodic_tags
from paimon_core.scan.columns import scan_columns
from paimon_core.scan.global_index import covered_shares
from paimon_core.scan.manifests import data_manifests
from paimon_core.scan.row_ranges import check_row_ids
from paimon_core.scan.splits import skips_level_0
from paimon_core.scan.vectors import vector_files
from paimon_core.snapshot.line import gaps_in
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.chain.expiry import plan_chain_expiry
from paimon_core.table.chain.read import chain_of
from paimon_core.write.file_layout import target_file_size
from paimon_maintenance.health.groups import COLUMNS, check_files, check_possible
from paimon_maintenance.health.held import deletions_of, retention_of
from paimon_maintenance.health.holders import consumer_holders, lags_of, reference_holders
from paimon_maintenance.health.layout import outline_of, partitions_measured
from paimon_maintenance.health.measurement import (
    OWNER_OPTION,
    Holder,
    Measurement,
    Orphans,
    PartitionMeasurement,
)
from paimon_maintenance.storage.options import secret_keys

_COLUMNS: Final = (*COLUMNS, "first_row_id")


def measure_table(
    table: FileStoreTable, env: Environment, *, orphans: Orphans | None = None
) -> Measurement:
    """The measurement of the table at its newest snapshot.

    `orphans`: what the last search found, from the history.  Raises the errors of unreadable
    metadata; changes nothing.
    """
    now = env.now_millis()
    ids = sorted(table.snapshots.ids())
    latest = table.snapshots.latest()
    refused = tuple(sorted(set(uncompactable_features(table))))
    options = table.options
    beyond_number = retention_of(table, ids, now)["unexpired"]
    assert isinstance(beyond_number, int)
    beyond = ids[:beyond_number]
    deletions = deletions_of(table, ids[: beyond_number + 1])
    holders, blocked, blocked_bytes = consumer_holders(table, beyond, deletions)
    files = _Files()
    if latest is not None:
        files = _files_of(table, latest, ids[beyond_number:], env, compactable=not refused)
    partitions = files.partitions
    size, rows = sum(p.bytes for p in partitions), sum(p.rows for p in partitions)
    manifests = [] if latest is None else data_manifests(table, latest)
    tags = table.tags.all()
    clustered = bool(options.value(CLUSTERING_COLUMNS))
    incremental = options.value(CLUSTERING_INCREMENTAL)
    due, stuck = _expired_partitions(table, latest, env)
    found = Measurement(
        table=table.name,
        branch=table.branch,
        at_millis=now,
        snapshot=None if latest is None else latest.id,
        snapshot_millis=None if latest is None else latest.time_millis,
        schema_id=table.schema.id,
        primary_key=table.has_primary_key,
        bucket_mode=table.bucket_mode.value,
        merge_engine=options.value(MERGE_ENGINE),
        columns=len(table.schema.fields),
        needs_merge=table.has_primary_key and not skips_level_0(table),
        write_only=options.value(WRITE_ONLY),
        clustering="none" if not clustered else "incremental" if incremental else "manual",
        run_trigger=options.value(NUM_SORTED_RUN_TRIGGER),
        min_files=options.value(COMPACTION_MIN_FILE_NUM),
        target_bytes=target_file_size(options, primary_key=table.has_primary_key),
        partition_keys=tuple(table.schema.partition_keys),
        partitions=tuple(partitions),
        snapshots=len(ids),
        beyond_snapshots=len(beyond),
        beyond_bytes=deletions.bytes(),
        blocked_bytes=blocked_bytes,
        blocked_snapshots=blocked,
        holders=(*holders, *files.holders),
        consumers=tuple(lags_of(table, latest, ids, row_bytes=size / rows if rows else 0.0)),
        consumer_expiration=options.value(CONSUMER_EXPIRATION_TIME),
        tags_due=_due_tags(table, tags, env),
        tags_over=_outlived_tags(table, tags, env),
        partitions_due=due,
        stuck=stuck,
        unindexed=files.unindexed,
        manifests=len(manifests),
        manifest_bytes=sum(m.file_size for m in manifests),
        unknown_options=tuple(unknown_options(table.schema.options)),
        invalid_options=tuple(key for key, _ in unreadable_options(table.schema.options)),
        gaps=len(gaps_in(ids)),
        refused=refused,
        orphans=orphans,
        owner=options.get(OWNER_OPTION),
        comment=table.schema.comment,
        options=_open_options(table),
    )
    _refuse_impossible(found)
    return found


def _refuse_impossible(found: Measurement) -> None:
    """CorruptTable for impossible sizes: one forged table must not stop the round of a lake."""
    claims = [found.beyond_bytes, found.blocked_bytes, found.manifest_bytes]
    for partition in found.partitions:
        claims += [partition.bytes, partition.rows, partition.delete_rows, partition.vector_rows]
    claims += [found.bytes, found.rows, *(h.bytes for h in found.holders)]
    check_possible(found.table, claims)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """What the live files say."""

    partitions: Sequence[PartitionMeasurement] = ()
    holders: Sequence[Holder] = ()
    unindexed: Mapping[str, float] = field(default_factory=dict)


def _files_of(
    table: FileStoreTable,
    latest: Snapshot,
    retained: Sequence[int],
    env: Environment,
    *,
    compactable: bool,
) -> _Files:
    """Read the live files; `retained` are the snapshots within the retention."""
    live = scan_columns(table, latest, _COLUMNS)
    check_files(table.name, live)
    check_row_ids(table, live)
    holders = reference_holders(table, live, retained)
    shares = covered_shares(table, latest, live)
    vectors = vector_files(table, latest)
    outline = outline_of(table, live, vectors, env)
    del live  # the objects of some files take its place in memory
    return _Files(
        partitions=partitions_measured(
            table, latest, outline, vectors, env, compactable=compactable
        ),
        holders=holders,
        unindexed={column: 1 - share for column, share in shares.items() if share < 1},
    )


def _open_options(table: FileStoreTable) -> dict[str, str]:
    """The table's own options, which rules of a policy match, without secret ones."""
    options = table.schema.options
    left_out = {*secret_keys(options), *table.dynamic_options}
    return {key: value for key, value in options.items() if key not in left_out}


def _due_tags(table: FileStoreTable, tags: Sequence[Tag], env: Environment) -> tuple[str, ...]:
    """The automatic tags that the commits so far make due; none of mode batch."""
    mode = table.options.value(TAG_AUTOMATIC_CREATION)
    if mode not in ("process-time", "watermark"):
        return ()
    due = periodic_tags(table, mode, tags, env)
    return tuple(name for name, _ in due.create)


def _outlived_tags(table: FileStoreTable, tags: Sequence[Tag], env: Environment) -> tuple[str, ...]:
    if not table.options.value(TAG_TIME_EXPIRE_ENABLED):
        return ()
    now = env.local_millis()
    ends = ((t.name, t.expires_at_millis) for t in tags)
    return tuple(name for name, end in ends if end is not None and end < now)


def _expired_partitions(
    table: FileStoreTable, latest: Snapshot | None, env: Environment
) -> tuple[int, dict[str, str]]:
    """How many partitions have expired, and the partitions that never will, with reasons."""
    rule = partition_rule(table.options)
    if rule is None or not table.schema.partition_keys:
        return 0, {}
    try:
        chain = chain_of(table)
    except (NotFound, UnsupportedFeature):
        return 0, {}  # the job for it says why
    if chain is not None:
        expiry = plan_chain_expiry(chain, rule, local_millis=env.local_millis())
        return len(expiry.going), {p.path: "its values are not a time" for p in expiry.unclear}
    found = plan_partitions(table, latest, rule, local_millis=env.local_millis())
    return len(found.work.going) + found.beyond, {p.path: why for p, why in found.unclear}
