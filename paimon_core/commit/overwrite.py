"""Overwrites: replace what partitions hold *when the commit wins* (Java: `overwritePartition`).

An overwrite removes concurrent appends too, as in Java (java-rules A8), unless its rows were
computed from those of the table (`CommitRequest.rows_at`).  A commit that must replace exactly the
files that it read uses `CommitRequest.exact` instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges, append_changes
from paimon_core.commit.message import CommitMessage
from paimon_core.commit.request import CommitRequest, Origin
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict, InvalidArgument
from paimon_core.features import check_committable, check_droppable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.lsm.key_column import float_value
from paimon_core.lsm.key_order import stored_key
from paimon_core.manifest.data_file import FileKind, IndexManifestEntry, ManifestEntry
from paimon_core.options import (
    BUCKET,
    DYNAMIC_PARTITION_OVERWRITE,
    NUM_LEVELS,
    NUM_SORTED_RUN_TRIGGER,
    OVERWRITE_UPGRADE,
)
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.scan.key_bounds import is_clustered
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Identity, Snapshot
from paimon_core.types.binary_row import decode_row

PartitionTest = Callable[[bytes], bool]
Check = Callable[[ManifestChanges], None]
"""Raises an error if the changes must not be committed."""


def overwrite(
    table: FileStoreTable,
    messages: Sequence[CommitMessage],
    *,
    user: str,
    env: Environment,
    partition: Mapping[str, object] | None = None,
    identifier: int = BATCH_COMMIT_IDENTIFIER,
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
    check: Check | None = None,
    rows_at: Identity | None = None,
) -> Snapshot | None:
    """Return the OVERWRITE snapshot, or None when a dynamic overwrite has no rows.

    `partition` (column -> internal value, some or all partition columns) selects what is replaced;
    with `dynamic-partition-overwrite`, the default for partitioned tables, it is ignored and the
    partitions of the new rows are replaced.  No changelog is committed.  `check` as in
    `replace_partitions`, `rows_at` as in `CommitRequest`.
    """
    check_committable(table)
    changes = append_changes(messages)
    keys = table.schema.partition_keys
    test: PartitionTest | None
    dynamic = table.options.value(DYNAMIC_PARTITION_OVERWRITE)
    if keys and dynamic:
        if not changes.files:
            return None
        test = {e.partition for e in changes.files}.__contains__
    else:
        test = static_partition_test(table, partition or {})
        for entry in changes.files:
            if test is not None and not test(entry.partition):
                raise InvalidArgument(
                    f"rows for partition {table.paths.partition_path(entry.partition)} do not "
                    f"belong to the partition {dict(partition or {})} that is overwritten",
                    table=table.name,
                )
    if test is not None and changes.files and table.bucket_mode is BucketMode.CROSS_PARTITION:
        raise InvalidArgument(
            f"keys of the new rows of table {table.name} may lie in partitions that are not "
            "overwritten: only the whole table can be overwritten",
            table=table.name,
            next_step="overwrite the table without a partition, or delete and insert the rows",
        )
    files = moved_up(table, changes.files)
    return replace_partitions(
        table,
        test,
        user=user,
        env=env,
        files=files,
        index_files=changes.index_files,
        identifier=identifier,
        watermark=watermark,
        properties=properties,
        check=check,
        rows_at=rows_at,
    )


def static_partition_test(
    table: FileStoreTable, partition: Mapping[str, object]
) -> PartitionTest | None:
    """Return a test for partitions with the given values; None (all partitions) without values."""
    keys = table.schema.partition_keys
    unknown = sorted(set(partition) - set(keys))
    if unknown:
        raise InvalidArgument(
            f"table {table.name} is not partitioned by {', '.join(unknown)}", table=table.name
        )
    if not partition:
        return None
    types = table.schema.partition_type.types

    def test(row: bytes) -> bool:
        values = dict(zip(keys, decode_row(row, types), strict=True))
        return all(_is_same(values[k], v) for k, v in partition.items())

    return test


def _is_same(a: object, b: object) -> bool:
    """Return whether two values name the same partition: -0.0 differs from 0.0, NaN equals NaN."""
    if isinstance(a, float) and isinstance(b, float):
        return float_value(a, signed_zeros=True) == float_value(b, signed_zeros=True)
    return a == b


def replace_partitions(
    table: FileStoreTable,
    test: PartitionTest | None,
    *,
    user: str,
    env: Environment,
    files: Sequence[ManifestEntry] = (),
    index_files: Sequence[IndexManifestEntry] = (),
    identifier: int = BATCH_COMMIT_IDENTIFIER,
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
    check: Check | None = None,
    rows_at: Identity | None = None,
) -> Snapshot:
    """Commit an OVERWRITE that leaves only `files` in the partitions that pass `test`.

    `test` None means every partition.  Dropping partitions and truncating tables use this too; the
    commit is made even when there was nothing to replace (as in Java).  `check` sees the changes of
    each attempt.  Without it, raises UnsupportedFeature for the branches of a chain table, whose
    partitions need each other (`table.chain.overwrite`).
    """
    if check is None:
        check_droppable(table)
    only_real_buckets = table.options.value(BUCKET) != POSTPONE_BUCKET

    def provide(latest: Snapshot | None) -> ManifestChanges:
        deleted: list[ManifestEntry] = []
        dropped: list[IndexManifestEntry] = []
        if files and latest is not None and latest.schema_id != table.schema.id:
            _check_buckets(table)
        if latest is not None:
            deleted = [
                e.as_delete()
                for e in scan_files(table, latest, keep_partition=test)
                if e.bucket >= 0 or not only_real_buckets
            ]
            dropped = [
                IndexManifestEntry(FileKind.DELETE, e.partition, e.bucket, e.index_file)
                for e in table.index_entries(latest)
                if test is None or test(e.partition)
            ]
        changes = ManifestChanges((*deleted, *files), (), (*dropped, *index_files))
        if check is not None:
            check(changes)
        return changes

    return commit_changes(
        table,
        provide,
        CommitRequest(
            user=user,
            kind=CommitKind.OVERWRITE,
            identifier=identifier,
            watermark=watermark,
            properties=properties,
            origin=Origin.REPLACEMENT if files else Origin.MAINTENANCE,
            rows_at=rows_at,
        ),
        env=env,
    )


def _check_buckets(table: FileStoreTable) -> None:
    """Raise CommitConflict if the table was rescaled since the rows were put into buckets.

    The partitions would have the old number of buckets again, and writers would be refused there.
    """
    newest, before = table.schemas.latest(), table.options.value(BUCKET)
    now = before if newest is None else newest.options.value(BUCKET)
    if before > 0 and now > 0 and now != before:
        raise CommitConflict(
            f"cannot commit to table {table.name}: its rows were written for bucket={before}, and it "
            f"was rescaled to bucket={now} meanwhile",
            table=table.name,
            next_step="write the rows again",
        )


def moved_up(table: FileStoreTable, entries: Sequence[ManifestEntry]) -> tuple[ManifestEntry, ...]:
    """Move new files of a primary-key table to the top level where they do not overlap.

    Java: `FileStoreCommitImpl.tryUpgrade` (java-rules K3).
    """
    if (
        not table.has_primary_key
        or is_clustered(table)
        or not table.options.value(OVERWRITE_UPGRADE)
        or any(e.file.level > 0 or e.bucket < 0 for e in entries)
    ):
        return tuple(entries)
    order = partial(stored_key, key=table.schema.key_type)
    levels = table.options.value(NUM_LEVELS)
    top = (levels or table.options.value(NUM_SORTED_RUN_TRIGGER) + 1) - 1
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        buckets[entry.partition, entry.bucket].append(entry)
    result: list[ManifestEntry] = []
    for files in buckets.values():
        files.sort(key=lambda e: order(e.file.min_key))
        overlap = any(order(a.file.max_key) >= order(b.file.min_key) for a, b in pairwise(files))
        if overlap or top == 0:
            result += files
        else:
            result += [
                ManifestEntry(e.kind, e.partition, e.bucket, e.total_buckets, e.file.upgraded(top))
                for e in files
            ]
    return tuple(result)
