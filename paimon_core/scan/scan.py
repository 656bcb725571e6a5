"""The live files of a snapshot (Java: `operation/AbstractFileStoreScan`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Any

from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind, ManifestEntry
from paimon_core.manifest.merge_entries import live_entries
from paimon_core.options import SCAN_PLAN_SORT_PARTITION
from paimon_core.predicate import Predicate, conjunction, fields_of, matches_row, split_conjuncts
from paimon_core.scan.manifests import (
    changelog_manifests,
    data_manifests,
    delta_manifests,
    merging,
    selected_entries,
)
from paimon_core.scan.prune import prune_by_statistics
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.binary_row import decode_row

PartitionFilter = Callable[[bytes], bool]


def partition_condition(table: FileStoreTable, predicate: Predicate | None) -> Predicate | None:
    """Return the predicate's conditions on partition keys only; None if there are none."""
    keys = frozenset(table.schema.partition_keys)
    conditions = [] if predicate is None else split_conjuncts(predicate)
    conditions = [c for c in conditions if fields_of(c) <= keys]
    return conjunction(conditions) if keys and conditions else None


def partition_filter(table: FileStoreTable, predicate: Predicate | None) -> PartitionFilter | None:
    """Return a test for partitions that may hold matching rows, from conditions on partition keys.

    None if there is no such condition.  Results are cached, because many files share a partition.
    """
    condition = partition_condition(table, predicate)
    if condition is None:
        return None
    keys = table.schema.partition_keys
    types = table.schema.partition_type.types

    @cache
    def passes(partition: bytes) -> bool:
        return matches_row(condition, dict(zip(keys, decode_row(partition, types), strict=True)))

    return passes


def scan_files(
    table: FileStoreTable,
    snapshot: Snapshot,
    *,
    partitions: Collection[bytes] | None = None,
    predicate: Predicate | None = None,
    keep_partition: PartitionFilter | None = None,
    exact: bool = False,
) -> list[ManifestEntry]:
    """Return the ADD entries of the snapshot's live files that may hold matching rows.

    `partitions` are stored row bytes, `keep_partition` is a test for such.  `predicate` prunes by
    partition, and by key and column statistics where that is safe; callers must still filter the
    rows.  Raises CorruptTable if a manifest is missing or contradicts another; with `exact`, also
    if one is not the one of its list.
    """
    in_partition = partition_filter(table, predicate)
    wanted = None if partitions is None else frozenset(partitions)

    def keep(entry: ManifestEntry) -> bool:
        return (in_partition is None or in_partition(entry.partition)) and (
            keep_partition is None or keep_partition(entry.partition)
        )

    selected = selected_entries(
        table,
        data_manifests(table, snapshot),
        partitions=wanted,
        condition=partition_condition(table, predicate),
        keep=keep,
        exact=exact,
    )
    with merging(table, snapshot):
        entries = live_entries(selected)
    if predicate is not None:
        entries = prune_by_statistics(table, entries, predicate)
    return entries


def in_plan_order(table: FileStoreTable, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the entries in plan order: sorted by partition if the table asks for it, nulls first.

    Java: `SnapshotReaderImpl.read` with `scan.plan-sort-partition`.  Within a partition, and
    without the option, the order does not change.
    """
    found = list(entries)
    if not table.options.value(SCAN_PLAN_SORT_PARTITION):
        return found
    order = partition_order(table)
    places = {row: order(row) for row in {e.partition for e in found}}
    return sorted(found, key=lambda e: places[e.partition])


def partition_order(table: FileStoreTable) -> Callable[[bytes], tuple[Any, ...]]:
    """Return a sort key function for stored partitions: by their values, nulls first."""
    types = [f.type for f in table.schema.partition_type.fields]

    def key(row: bytes) -> tuple[Any, ...]:
        values = decode_row(row, types)
        # Java sorts NaN after all numbers, and does not compare nulls.
        return tuple((v is not None, v != v, 0 if v is None or v != v else v) for v in values)  # noqa: PLR0124

    return key


def scan_delta(table: FileStoreTable, snapshot: Snapshot) -> list[ManifestEntry]:
    """Return what the snapshot itself added and deleted, in order."""
    return list(selected_entries(table, delta_manifests(table, snapshot)))


def scan_changelog(table: FileStoreTable, snapshot: Snapshot) -> list[ManifestEntry]:
    """Return the changelog files of the snapshot."""
    entries = selected_entries(table, changelog_manifests(table, snapshot))
    return [e for e in entries if e.kind is FileKind.ADD]
