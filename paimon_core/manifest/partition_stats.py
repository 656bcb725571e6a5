"""The range of partitions that a manifest covers (Java: `SimpleStatsCollector` in `ManifestFile`).

It has minimum, maximum and null count of each partition column over all entries.  Like Java,
strings compare by their UTF-8 bytes, and doubles with -0.0 below 0.0 and NaN on top; bytes have no
order, so they have neither minimum nor maximum.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from paimon_core.manifest.data_file import SimpleStats
from paimon_core.types.binary_row import decode_row, encode_row
from paimon_core.types.data_types import DataType, RowType, TypeRoot

_NOT_COMPARABLE = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_FLOATING = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})


def partition_stats(partitions: Iterable[bytes], partition_type: RowType) -> SimpleStats:
    """Return statistics over stored partition rows, one per entry (repeated ones count).

    `partitions` may also be the number of entries by partition.
    """
    counts = Counter(partitions)
    types = [t.with_nullable(True) for t in partition_type.types]
    rows = [(decode_row(row, types), n) for row, n in counts.items()] if types else []
    low: list[object] = []
    high: list[object] = []
    nulls: list[int] = []
    for i, data_type in enumerate(types):
        values: list[Any] = [row[i] for row, _ in rows if row[i] is not None]
        order = _order(data_type)
        if values and order is not None:
            low.append(min(values, key=order))
            high.append(max(values, key=order))
        else:
            low.append(None)
            high.append(None)
        nulls.append(sum(n for row, n in rows if row[i] is None))
    return SimpleStats(encode_row(low, types), encode_row(high, types), tuple(nulls))


def _order(data_type: DataType) -> Callable[[Any], Any] | None:
    """Return the sort key for Java's order of the type; None if Java cannot compare its values."""
    if data_type.root in _NOT_COMPARABLE:
        return None
    return _floating_order if data_type.root in _FLOATING else _natural_order


def _natural_order(value: Any) -> Any:
    return value  # text: the order of code points is the order of UTF-8 bytes


def _floating_order(value: float) -> tuple[bool, float, float]:
    if math.isnan(value):
        return (True, 0.0, 0.0)
    return (False, value, math.copysign(1.0, value))
