"""A share of a table's partitions, for tables whose entries are too many to be in memory at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_core.manifest.entries.columns import Column, EntryColumns

MOST_ENTRIES: Final = 150_000
"""Number of entries that are columns at a time."""
MOST_OBJECTS: Final = 100_000
"""Number of entries that are objects at a time."""


@dataclass(frozen=True, slots=True)
class Share:
    """The partitions whose number has this remainder, among entries with the same `Partitions`."""

    number: int
    of: int

    def chooses(self, entries: EntryColumns) -> Column:
        """Whether each entry belongs to the share."""
        chosen: Column = entries.partition % self.of == self.number
        return chosen


def shares_of(entries: int, most: int) -> tuple[Share, ...]:
    """The shares in which so many entries are read, about `most` at a time."""
    count = max(1, -(-entries // most))
    return tuple(Share(i, count) for i in range(count))
