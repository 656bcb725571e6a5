"""Partitions that a table's catalog keeps for other engines (Java: `table/PartitionModification`).

Hive finds the partitions of a table in the metastore, so a client that adds or drops one in Paimon
does it there too: with `metastore.partitioned-table` each partition, with
`metastore.tag-to-partition` each tag as a partition of an unpartitioned table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class PartitionRegistry(Protocol):
    """The partitions of one table.  Picklable.  A spec maps partition keys, in order, to texts."""

    def add(self, specs: Sequence[Mapping[str, str]]) -> None:
        """Add the partitions that are missing."""

    def drop(self, specs: Sequence[Mapping[str, str]]) -> None:
        """Drop the partitions as far as they are there; files stay."""

    def specs(self) -> list[dict[str, str]]:
        """All partitions."""

    def mark_done(self, specs: Sequence[Mapping[str, str]]) -> None:
        """Mark the partitions as complete; NotFound if one is missing."""

    def is_entry(self, servers: Sequence[tuple[str, int]], database: str, table: str) -> bool:
        """Whether the catalog keeps this table under this name on one of these Hive metastores."""
