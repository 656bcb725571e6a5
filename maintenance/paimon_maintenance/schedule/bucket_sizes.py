"""Which partitions have buckets of a wrong size, and which number of buckets they need.  Pure.

A bucket that is too large stays so.  One that is too small may still grow: a partition counts when
it has received no file for a day, or when its buckets were too small for three days.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress
from operator import not_
from typing import Final

from paimon_maintenance.health.measurement import Measurement, PartitionMeasurement
from paimon_maintenance.health.reasons import GB, MB
from paimon_maintenance.health.thresholds import HOUR

BUCKET_BYTES: Final = 512 * MB
"""What a bucket holds after a rescale."""
_LARGEST: Final = 4 * GB
_SMALLEST: Final = 20 * MB
_MANY_BUCKETS: Final = 16
_IDLE_HOURS: Final = 24.0
_SMALL_HOURS: Final = 72.0
_MOST_REMEMBERED: Final = 200


@dataclass(frozen=True, slots=True)
class Rescaled:
    """Partitions that need about the same number of buckets, the largest first."""

    buckets: int
    partitions: tuple[PartitionMeasurement, ...]


def small_since(known: Mapping[str, int], table: Measurement, now: int) -> dict[str, int]:
    """Since when the buckets of partitions that receive files are too small, after a measurement.

    A partition that is too small now was so ever since its oldest file: what commits add stays.
    """
    if table.bucket_mode != "fixed":
        return {}
    found = {
        p.name: min(known.get(p.name, now), p.oldest_file or now)
        for p in table.partitions
        if _is_too_small(p, p.total_buckets) and not is_idle(p, now)
    }
    return dict(sorted(found.items(), key=lambda one: one[1])[:_MOST_REMEMBERED])


def rescaled(
    table: Measurement, small: Mapping[str, int], now: int, *, only_idle: bool
) -> list[Rescaled]:
    """What a rescale would help, those with the most bytes first; `small` is from `small_since`."""
    left = [
        p
        for p in table.partitions
        if _is_wrong(p, small, now) and (is_idle(p, now) or not only_idle)
    ]
    left.sort(key=lambda p: (-p.bytes, p.name))
    found = []
    while left:
        first, number = left[0], _needed(left[0])
        together = [p is first or _fits(p, number) for p in left]
        found.append(Rescaled(number, tuple(compress(left, together))))
        left = list(compress(left, map(not_, together)))
    return found


def writers_stopped(table: Measurement, buckets: int, now: int) -> tuple[str, ...]:
    """The partitions to which writers could not write on after a rescale of others to this number.

    It sets the option of the table, and Paimon refuses writers whose number is
    not that of the partition.
    """
    if table.options.get("bucket") == str(buckets):
        return ()
    others = (p for p in table.partitions if p.total_buckets != buckets)
    return tuple(p.name for p in others if not is_idle(p, now))


def is_idle(partition: PartitionMeasurement, now: int) -> bool:
    """Whether the partition has received no file for a day."""
    newest = partition.newest_file
    return newest is not None and now - newest >= _IDLE_HOURS * HOUR


def _is_wrong(p: PartitionMeasurement, small: Mapping[str, int], now: int) -> bool:
    if p.largest_bucket > _LARGEST:
        # Otherwise few keys have most rows, and no number of buckets parts them.
        return _needed(p) > p.total_buckets
    since = small.get(p.name)
    is_small = is_idle(p, now) or (since is not None and now - since >= _SMALL_HOURS * HOUR)
    return is_small and _is_too_small(p, p.total_buckets)


def _needed(p: PartitionMeasurement) -> int:
    return max(1, -(-p.bytes // BUCKET_BYTES))


def _fits(p: PartitionMeasurement, buckets: int) -> bool:
    return p.bytes / buckets <= _LARGEST and not _is_too_small(p, buckets)


def _is_too_small(p: PartitionMeasurement, buckets: int) -> bool:
    return buckets >= _MANY_BUCKETS and p.bytes / buckets < _SMALLEST
