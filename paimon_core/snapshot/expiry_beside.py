"""Reads beside writers that let snapshots expire: what was named a moment ago is missing then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from paimon_core.snapshot.store import SnapshotStore

_MOST_READS: Final = 5


@dataclass(slots=True)
class ExpiryBeside:
    """Tells whether a read that found the table corrupt is worth another try."""

    _reads: int = field(default=0, init=False)
    _oldest: list[int] | None = field(default=None, init=False)

    def may_explain(self, snapshots: SnapshotStore) -> bool:
        """Whether snapshots have expired since the last failure; true for the first one.

        False after five reads.
        """
        self._reads += 1
        before, self._oldest = self._oldest, snapshots.ids()[:1]
        return self._reads < _MOST_READS and self._oldest != before
