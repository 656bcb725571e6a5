"""Splits the buckets of primary-key tables.

Java: `table/source/MergeTreeSplitGenerator`.  A *raw* split needs no merge: its rows are read
unchanged, all as +I. So the choice of raw splits affects the row kinds of a read, and follows
Java's rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import OPEN_FILE_COST, Option, Options, parse_memory_size
from paimon_core.types.data_types import RowType

T = TypeVar("T")

SPLIT_TARGET_SIZE: Final = Option("source.split.target-size", parse_memory_size, 128 * 1024**2)


@dataclass(frozen=True, slots=True)
class Split:
    """Files that are read together; `raw` if none of their rows hides another."""

    files: tuple[DataFileMeta, ...]
    raw: bool


def batch_splits(
    files: Sequence[DataFileMeta], key: RowType, options: Options, *, never_merged: bool
) -> list[Split]:
    """Return the splits of one bucket for a batch read.

    `never_merged`: whether files above level 0 never hide each other's rows (first-row, deletion
    vectors).
    """
    target = options.value(SPLIT_TARGET_SIZE)
    cost = options.value(OPEN_FILE_COST)
    if never_merges(files, never_merged=never_merged):
        return [
            _split(bin_, raw=True)
            for bin_ in pack_ordered(files, lambda f: max(f.file_size, cost), target)
        ]
    sections = [
        [file for run in section for file in run.files]
        for section in interval_partition(files, key)
    ]
    bins = pack_ordered(sections, lambda s: max(sum(f.file_size for f in s), cost), target)
    packed = [[file for section in bin_ for file in section] for bin_ in bins]
    return [_split(b, raw=len(b) == 1 and not b[0].delete_row_count) for b in packed]


def never_merges(files: Sequence[DataFileMeta], *, never_merged: bool) -> bool:
    """Return whether the levels alone show that no row of these files hides another."""
    above = all(f.level != 0 and not f.delete_row_count for f in files)
    return above and (never_merged or len({f.level for f in files}) == 1)


def _split(files: Sequence[DataFileMeta], *, raw: bool) -> Split:
    # Files of old writers have no delete count, so they are merged in any case.
    return Split(tuple(files), raw and all(f.delete_row_count is not None for f in files))


def pack_ordered(items: Iterable[T], weight: Callable[[T], int], target: int) -> list[list[T]]:
    """Pack items in order in bins of at most `target`, heavier items alone (Java: `BinPacking`)."""
    bins: list[list[T]] = []
    current: list[T] = []
    held = 0
    for item in items:
        w = weight(item)
        if current and held + w > target:
            bins.append(current)
            current, held = [], 0
        current.append(item)
        held += w
    if current:
        bins.append(current)
    return bins
