"""Sequence numbers of new rows (java-rules D2)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from paimon_core.errors import CorruptTable

_MOST: Final = 2**63 - 1


def sequence_numbers(first: int, count: int, *, table: str) -> npt.NDArray[Any]:
    """Return the numbers of so many rows, from `first` on.

    Raises CorruptTable if they do not fit into 64 bits.  In Java, the rows would be older than all
    others.
    """
    if first + count - 1 > _MOST:
        raise CorruptTable(
            f"the files of table {table} have sequence numbers up to {first - 1}, so that none are "
            "left for new rows",
            table=table,
        )
    return np.arange(first, first + count, dtype=np.int64)
