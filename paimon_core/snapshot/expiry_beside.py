"""Reads beside writers that let snapshots expire: what was named a moment ago is missing then."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from paimon_core.errors import CorruptTable
from paimon_core.snapshot.store import SnapshotStore

log = logging.getLogger(__name__)

_MOST_READS: Final = 5
_Read = TypeVar("_Read")


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


def read_beside_expiry(read: Callable[[], _Read], snapshots: Callable[[], SnapshotStore]) -> _Read:
    """What `read` returns; it is called again as long as an expiry may explain what is missing.

    `read` must commit nothing.  `snapshots` gives the store of the table after a failure.
    CorruptTable if no expiry explains it.
    """
    expiry = ExpiryBeside()
    while True:
        try:
            return read()
        except CorruptTable as e:
            if not expiry.may_explain(snapshots()):
                raise
            log.info("snapshots may have expired meanwhile, reading again: %s", e)
