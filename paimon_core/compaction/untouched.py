"""The rows between those that a deletion vector names, from page to page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from paimon_core.index.deletion_vectors import Positions


def untouched(
    borders: Sequence[int], deleted: Positions, *, least: int, most: int
) -> Iterator[range]:
    """Yield ranges of rows that begin and end at `borders` and hold no deleted row.

    `borders` are ascending, the first and the last row included.  Ranges of fewer than `least` rows
    are left out; longer ones than `most` are divided, as far as there are borders.
    """
    begin, end = borders[0], borders[-1]
    inside = deleted[np.searchsorted(deleted, begin) : np.searchsorted(deleted, end)].tolist()
    for left, right in pairwise((begin - 1, *inside, end)):
        start = next((b for b in borders if b > left), end)
        last = max((b for b in borders if b <= right), default=begin)
        while start < last:
            aim = start + -(-(last - start) // -(-(last - start) // most))
            stop = next(b for b in borders if b >= aim)
            if stop - start >= least:
                yield range(start, stop)
            start = stop
