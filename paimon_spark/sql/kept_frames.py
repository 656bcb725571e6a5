"""DataFrames of tables that a session keeps for its next queries.

Files and snapshots never change, so a DataFrame of the same ones is still right.  To make it again,
Spark would list and analyze the same files; that takes longer than many a query.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEPT_FRAMES: Final = 64
KEPT_BYTES: Final = 64 * 1024**2
"""The rows and bitmaps in these DataFrames, which Spark's driver holds."""


@dataclass(slots=True)
class KeptFrames:
    """The DataFrames used last, and the bytes that Spark's driver holds for each."""

    size: int = 0
    _found: OrderedDict[Hashable, tuple[DataFrame, int]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def frame(self, key: Hashable, make: Callable[[], tuple[DataFrame, int]]) -> DataFrame:
        """The DataFrame of this key, else what `make` returns: a DataFrame and its bytes."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key][0]
        made, size = make()
        if size <= KEPT_BYTES:
            self._keep(key, made, size)
        return made

    def _keep(self, key: Hashable, made: DataFrame, size: int) -> None:
        with self._lock:
            if key in self._found:
                return
            self._found[key] = (made, size)
            self.size += size
            while self.size > KEPT_BYTES or len(self._found) > KEPT_FRAMES:
                self.size -= self._found.popitem(last=False)[1][1]
