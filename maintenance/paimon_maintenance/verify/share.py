"""A share of a table's partitions, for tables with too many entries to be in memory at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from paimon_core.manifest.entries.columns import Column, EntryColumns

MOST_ENTRIES: Final = 100_000
"""Number of entries that are in memory at a time."""


@dataclass(frozen=True, slots=True)
class Share:
    """The partitions with these numbers, among entries with the same `Partitions`."""

    partitions: range

    def chooses(self, entries: EntryColumns) -> Column:
        """Whether each entry belongs to the share."""
        codes = entries.partition
        chosen: Column = (codes >= self.partitions.start) & (codes < self.partitions.stop)
        return chosen


@dataclass(slots=True)
class PartitionCounts:
    """The number of entries of each partition, and the numbers of partitions in each manifest."""

    manifests: dict[str, range] = field(default_factory=dict)
    _entries: Column = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, manifest: str, entries: EntryColumns) -> None:
        """Count the entries of a manifest."""
        codes = entries.partition
        if not len(codes):
            self.manifests[manifest] = range(0)
            return
        self.manifests[manifest] = range(int(codes.min()), int(codes.max()) + 1)
        found = np.bincount(codes, minlength=len(self._entries))
        found[: len(self._entries)] += self._entries
        self._entries = found

    def shares(self) -> list[Share]:
        """The shares, of about `MOST_ENTRIES`; a partition is never divided."""
        total = np.cumsum(self._entries)
        starts, count = [0], len(total)
        while True:
            before = int(total[starts[-1] - 1]) if starts[-1] else 0
            end = int(np.searchsorted(total, before + MOST_ENTRIES, side="right"))
            if max(end, starts[-1] + 1) >= count:
                break
            starts.append(max(end, starts[-1] + 1))
        return [Share(range(a, b)) for a, b in zip(starts, [*starts[1:], count], strict=True)]


def concerns(share: Share, manifest: str, manifests: Mapping[str, range]) -> bool:
    """Whether a manifest may hold entries of the share."""
    found = manifests.get(manifest)
    return found is None or (
        found.start < share.partitions.stop and share.partitions.start < found.stop
    )
