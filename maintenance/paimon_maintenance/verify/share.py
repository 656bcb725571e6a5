"""A share of a table's partitions, for tables whose entries are too many to be objects at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np

from paimon_core.manifest.entries.columns import Column, EntryColumns

MOST_ENTRIES: Final = 100_000
"""Number of entries that are objects at a time."""


@dataclass(frozen=True, slots=True)
class Share:
    """The partitions whose hash has this remainder."""

    number: int
    of: int

    def chooses(self, entries: EntryColumns) -> Column:
        """Whether each entry belongs to the share."""
        mine = [crc32(row) % self.of == self.number for row in entries.partitions.rows]
        chosen: Column = np.array(mine, bool)[entries.partition]
        return chosen


def shares_of(entries: int) -> tuple[Share | None, ...]:
    """The shares in which so many entries are read; None stands for all partitions."""
    count = -(-entries // MOST_ENTRIES)
    return tuple(Share(i, count) for i in range(count)) if count > 1 else (None,)
