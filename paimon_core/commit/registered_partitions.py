"""Adds the partitions of a commit to the catalog (Java: `metastore/AddPartitionCommitCallback`).

A partition is added to the catalog after the commit that fills it, and dropped from it before the
commit that empties it (`retention/registered_partitions`).  So repeating an interrupted operation
completes it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from paimon_core.errors import PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind, ManifestEntry
from paimon_core.options import PARTITIONED_TABLE
from paimon_core.snapshot.partition_registry import PartitionRegistry

log = logging.getLogger(__name__)


def registry_of(table: FileStoreTable) -> PartitionRegistry | None:
    """The registry with this table's partitions in the catalog; None if the catalog has none."""
    if not table.schema.partition_keys or not table.options.value(PARTITIONED_TABLE):
        return None
    return table.partition_registry


def add_partitions(table: FileStoreTable, committed: Sequence[ManifestEntry]) -> None:
    """Add the partitions of the files that a commit added.

    A failure is logged and not raised, because the commit already exists.  The next commit to the
    partition adds it.
    """
    registry = registry_of(table)
    rows = {e.partition for e in committed if e.kind is FileKind.ADD}
    if registry is None or not rows:
        return
    specs = sorted((table.paths.partition_values(row) for row in rows), key=lambda s: [*s.values()])
    try:
        registry.add(specs)
    except PaimonError as e:
        log.warning(
            "table=%s cannot add %d partitions to the catalog, the next commit to them retries: %s",
            table.name,
            len(specs),
            e,
        )
