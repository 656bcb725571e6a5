"""Splits the buckets of primary-key tables.

Java: `table/source/MergeTreeSplitGenerator`.  A *raw* split needs no merge: its rows are read
unchanged, all as +I. So the choice of raw splits affects the row kinds of a read, and follows
Java's rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from paimon_core.errors import UnsupportedFeature
from paimon_core.features import PK_CLUSTERING
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.engines.traits import traits_of
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import (
    DELETION_VECTORS_ENABLED,
    OPEN_FILE_COST,
    Option,
    parse_memory_size,
)
from paimon_core.scan.key_bounds import is_clustered

T = TypeVar("T")

SPLIT_TARGET_SIZE: Final = Option("source.split.target-size", parse_memory_size, 128 * 1024**2)


@dataclass(frozen=True, slots=True)
class Split:
    """Files that are read together; `raw` if none of their rows hides another."""

    files: tuple[DataFileMeta, ...]
    raw: bool


def batch_splits(table: FileStoreTable, files: Sequence[DataFileMeta]) -> list[Split]:
    """Return the splits of one bucket for a batch read.

    UnsupportedFeature if files that are not sorted by key must be merged with new ones.
    """
    target = table.options.value(SPLIT_TARGET_SIZE)
    cost = table.options.value(OPEN_FILE_COST)
    if never_merges(table, files):
        return [
            _split(bin_, raw=True)
            for bin_ in pack_ordered(files, lambda f: max(f.file_size, cost), target)
        ]
    if not are_sorted_by_key(table, files):
        return [_split((f,), raw=not f.delete_row_count) for f in files]
    sections = [
        [file for run in section for file in run.files]
        for section in interval_partition(files, table.schema.key_type)
    ]
    bins = pack_ordered(sections, lambda s: max(sum(f.file_size for f in s), cost), target)
    packed = [[file for section in bin_ for file in section] for bin_ in bins]
    return [_split(b, raw=len(b) == 1 and not b[0].delete_row_count) for b in packed]


def never_merges(table: FileStoreTable, files: Sequence[DataFileMeta]) -> bool:
    """Return whether the levels alone show that no row of these files hides another."""
    above = all(f.level != 0 and not f.delete_row_count for f in files)
    return above and (skips_level_0(table) or len({f.level for f in files}) == 1)


def skips_level_0(table: FileStoreTable) -> bool:
    """Return whether batch reads skip new files until they are compacted (java-rules G1).

    They do not under `deletion-vectors.merge-on-read`; files above level 0 need no merge in any
    case.  Append tables have no levels: all of their files have level 0, also with deletion
    vectors.
    """
    options = table.options
    return table.has_primary_key and (
        options.value(DELETION_VECTORS_ENABLED) or traits_of(options).skips_level_0
    )


def are_sorted_by_key(table: FileStoreTable, files: Sequence[DataFileMeta]) -> bool:
    """Return whether the files can be merged.

    Otherwise each of their keys has one live row.  UnsupportedFeature for files of both kinds
    (java-rules G8).
    """
    if not is_clustered(table) or all(f.level == 0 for f in files):
        return True
    if any(f.level == 0 for f in files):
        raise cannot_merge(table, next_step="compact the table fully first")
    return False


def cannot_merge(table: FileStoreTable, *, next_step: str) -> UnsupportedFeature:
    """Return the error for a merge of files that are not sorted by key."""
    return UnsupportedFeature(
        f"{PK_CLUSTERING} with rows that must be merged", table=table.name, next_step=next_step
    )


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
