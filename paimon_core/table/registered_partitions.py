"""Drops partitions in the catalog that are about to be emptied (Java: `HiveCatalog.dropPartitions`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from paimon_core.commit.registered_partitions import registry_of
from paimon_core.errors import NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import MAIN_BRANCH
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table_at

_DONE: Final = ".done"


def done_spec(spec: Mapping[str, str]) -> dict[str, str]:
    """The partition that marks another as complete (Java: `AddDonePartitionAction`)."""
    last = list(spec)[-1]
    return {**spec, last: spec[last] + _DONE}


def unregister_partitions(table: FileStoreTable, rows: Collection[bytes]) -> None:
    """Drop these partitions and their marks in the catalog, if it keeps the table's partitions.

    A partition that another branch has stays.  To be called before the commit: a run that is
    interrupted between the two finds the partition again.
    """
    registry = registry_of(table)
    if registry is None or not rows:
        return
    elsewhere = set(_of_other_branches(table, rows))
    going = [table.paths.partition_values(row) for row in rows if row not in elsewhere]
    registry.drop([*going, *map(done_spec, going)])


def _of_other_branches(table: FileStoreTable, rows: Collection[bytes]) -> Iterator[bytes]:
    wanted = frozenset(rows)
    for branch in {MAIN_BRANCH, *table.branches.names()} - {table.branch}:
        try:
            other = open_table_at(table.io, table.root, table.name, branch=branch)
        except NotFound:
            continue
        latest = other.snapshots.latest()
        if latest is not None:
            found = scan_files(other, latest, keep_partition=wanted.__contains__)
            yield from {entry.partition for entry in found}
