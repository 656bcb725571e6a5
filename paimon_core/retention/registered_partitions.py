"""Keeps the catalog's partitions consistent when files go (Java: `HiveCatalog.dropPartitions`).

Java leaves them as they are when a table is rolled back; its `repairTable`
adds what is missing then.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from paimon_core.commit.registered_partitions import registry_of
from paimon_core.errors import PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import TAG_TO_PARTITION
from paimon_core.paths import MAIN_BRANCH
from paimon_core.reachability.references import on_branch
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.partition_registry import PartitionRegistry

log = logging.getLogger(__name__)

_DONE: Final = ".done"


def done_spec(spec: Mapping[str, str]) -> dict[str, str]:
    """The partition that marks another as complete (Java: `AddDonePartitionAction`)."""
    last = list(spec)[-1]
    return {**spec, last: spec[last] + _DONE}


@contextmanager
def unregistered(table: FileStoreTable, rows: Collection[bytes]) -> Iterator[None]:
    """Drop these partitions in the catalog before the block, which commits that they are gone.

    If the commit fails, whatever the reason, or the catalog's reply gets lost, the catalog gets
    those back that are still there.  A run that is killed between the two finds the partition
    again.
    """
    try:
        _unregister(table, rows)
        yield
    except BaseException:
        synchronise_partitions(table)
        raise


def _unregister(table: FileStoreTable, rows: Collection[bytes]) -> None:
    """Drop these partitions and their marks in the catalog, if it keeps the table's partitions.

    A partition that another branch has stays.
    """
    registry = registry_of(table)
    if registry is None or not rows:
        return
    elsewhere = set(_of_branches(table, _branches(table) - {table.branch}, rows))
    going = [table.paths.partition_values(row) for row in rows if row not in elsewhere]
    registry.drop([*going, *map(done_spec, going)])


def synchronise_partitions(table: FileStoreTable) -> None:
    """Add and drop partitions in the catalog until they are those of all branches, or of the tags.

    For jobs that replace the newest snapshot by another one, or remove tags or branches.  A failure
    is logged and not raised, because their change is made.
    """
    if table.partition_registry is None:
        return
    try:
        _synchronise(table, table.partition_registry)
    except (PaimonError, OSError) as e:
        log.warning(
            "table=%s the partitions in the catalog may differ from the table's; Java's repairTable "
            "adds missing ones: %s",
            table.name,
            e,
        )


def _synchronise(table: FileStoreTable, registry: PartitionRegistry) -> None:
    tag_field = table.options.value(TAG_TO_PARTITION)
    if tag_field is not None:
        names = set(table.tags.names())
        registry.drop([s for s in registry.specs() if s[tag_field] not in names])
    if registry_of(table) is None:
        return
    rows = set(_of_branches(table, _branches(table), None))
    wanted = [table.paths.partition_values(row) for row in rows]
    known = {tuple(spec.values()): spec for spec in registry.specs()}
    kept = {tuple(s.values()) for spec in wanted for s in (spec, done_spec(spec))}
    registry.drop([spec for values, spec in known.items() if values not in kept])
    registry.add([spec for spec in wanted if tuple(spec.values()) not in known])


def _branches(table: FileStoreTable) -> set[str]:
    return {MAIN_BRANCH, *table.branches.names()}


def _of_branches(
    table: FileStoreTable, branches: Collection[str], rows: Collection[bytes] | None
) -> Iterator[bytes]:
    """The partitions with files in the newest snapshots of the branches, of `rows` if given."""
    test = None if rows is None else frozenset(rows).__contains__
    for branch in branches:
        other = on_branch(table, branch)
        latest = other.snapshots.latest()
        if latest is not None:
            found = scan_files(other, latest, keep_partition=test)
            yield from {entry.partition for entry in found}
