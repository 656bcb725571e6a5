"""A set of file names from which names are removed, for tables of any size.

Names are compared by 64-bit hashes.  Removing a name also removes other names with the same hash,
so a removed name never remains.  In a set of a million names, the probability of losing any other
name is one in ten million.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_core.manifest.entries.columns import Column, distinct, name_array
from paimon_core.manifest.merge_columns import name_hashes
from paimon_core.types.buffers import binary_array, fixed_values

_WINDOWS: Final = 20_000
"""The number of texts inside a content that are looked up together."""


class NameSet:
    """The names of many files, less those that were removed from the set."""

    __slots__ = ("_hashes", "_left", "_sizes")

    def __init__(self, names: pa.Array | pa.ChunkedArray) -> None:
        """`names` are UTF-8 in large binary values; the same name may occur several times."""
        self._hashes = distinct(name_hashes(names))
        self._left = np.ones(len(self._hashes), bool)
        chunks = names.chunks if isinstance(names, pa.ChunkedArray) else [names]
        sizes = [distinct(np.diff(fixed_values(chunk, np.int64, extra=1))) for chunk in chunks]
        self._sizes = distinct(np.concatenate([np.zeros(0, np.int64), *sizes]))

    @staticmethod
    def of(names: Iterable[str]) -> NameSet:
        """Return the set of these names."""
        return NameSet(name_array(names))

    def __contains__(self, name: str) -> bool:
        """Return whether the name is in the set."""
        return bool(self.left(name_array([name]))[0])

    @property
    def is_empty(self) -> bool:
        """Return whether all names were removed."""
        return not self._left.any()

    def left(self, names: pa.Array | pa.ChunkedArray) -> Column:
        """Return whether each of these names is in the set."""
        at, is_known = self._find(names)
        is_known[is_known] = self._left[at[is_known]]
        return is_known

    def remove(self, names: Iterable[str]) -> None:
        """Remove names; those that are not in the set are ignored."""
        self.remove_array(name_array(names))

    def remove_array(self, names: pa.Array | pa.ChunkedArray) -> Column:
        """Remove names in UTF-8, as `remove`.

        Return where those are that the set lost, each once.
        """
        at, is_known = self._find(names)
        lost = np.flatnonzero(is_known)
        lost = lost[self._left[at[lost]]]
        lost = lost[np.unique(at[lost], return_index=True)[1]]
        self._left[at[lost]] = False
        return lost

    def remove_inside(self, content: bytes) -> None:
        """Remove each name that occurs anywhere in the content."""
        octets = np.frombuffer(content, np.uint8)
        for size in self._sizes.tolist():
            if not 0 < size <= len(octets):
                continue
            windows: Any = np.lib.stride_tricks.sliding_window_view(octets, size)
            for start in range(0, len(windows), _WINDOWS):
                here = np.ascontiguousarray(windows[start : start + _WINDOWS])
                self.remove_array(binary_array(np.full(len(here), size, np.int64), here))

    def _find(self, names: pa.Array | pa.ChunkedArray) -> tuple[Column, Column]:
        """Return where the hash of each name is, and whether it is there."""
        if not len(self._hashes):
            return np.zeros(len(names), np.int64), np.zeros(len(names), bool)
        wanted = name_hashes(names)
        at = np.searchsorted(self._hashes, wanted)
        at[at == len(self._hashes)] = 0
        return at, self._hashes[at] == wanted
