"""Finds buckets in which no compaction can be due, from a few columns of the live files.

In a large table these are nearly all buckets.  Only the others need their files as objects, for the
rules in `pick` and `append_coordinator`.  A bucket that is not idle here may still have nothing
due.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from paimon_core.compaction.evolution import least_files
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.lsm.tree.universal_compaction import PickRules, number_of_levels
from paimon_core.manifest.entries.columns import Column, EntryColumns, distinct, sums
from paimon_core.options import (
    BLOB_COMPACTION_ENABLED,
    COMPACTION_FORCE_REWRITE_ALL_FILES,
    COMPACTION_MIN_FILE_NUM,
    OPEN_FILE_COST,
    RECORD_LEVEL_EXPIRE_TIME,
)
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.read.data_evolution import has_data_evolution
from paimon_core.scan.key_bounds import is_clustered
from paimon_core.scan.row_ranges import ordered_rows
from paimon_core.write.file_layout import small_file_size, target_file_size

_LEVELS: Final = 1 << 32
_LEAST_WITH_BLOBS: Final = 3  # a data file and two files of its BLOBs
_MOST: Final = 2**62
"""Sums of two such numbers fit into 64 bits."""


def columns_needed(table: FileStoreTable) -> tuple[str, ...]:
    """Return the columns of live files that `idle_buckets` needs."""
    rows = ("first_row_id", "row_count") if has_data_evolution(table) else ()
    return ("file_size", *rows)


def idle_buckets(
    table: FileStoreTable, live: EntryColumns, bucket_of: Column, numbers: Column, *, full: bool
) -> npt.NDArray[Any]:
    """Return for each bucket whether certainly no compaction is due in it.

    `live` has the columns `columns_needed`; `bucket_of` is the position of each live file's bucket,
    `numbers` are the bucket numbers.
    Buckets with deletion vectors are not known here: the caller must not take them as idle.
    """
    if (
        table.bucket_mode is BucketMode.POSTPONE
        or table.options.value(COMPACTION_FORCE_REWRITE_ALL_FILES)
        or is_clustered(table)
    ):
        return np.zeros(len(numbers), bool)
    if table.has_primary_key:
        idle = _idle_trees(table, live, bucket_of, len(numbers), full=full)
    elif has_data_evolution(table):
        idle = _idle_ranges(table, live, bucket_of, len(numbers))
    elif table.bucket_mode is BucketMode.UNAWARE:
        idle = _idle_heaps(table, live, bucket_of, len(numbers))
    else:
        idle = np.bincount(bucket_of, minlength=len(numbers)) <= 1
    found: npt.NDArray[Any] = idle & (numbers != POSTPONE_BUCKET)
    return found


def _idle_trees(
    table: FileStoreTable, live: EntryColumns, bucket_of: Column, count: int, *, full: bool
) -> npt.NDArray[Any]:
    """Idle buckets of a primary-key table: few sorted runs, or one at the top level if `full`."""
    options = table.options
    level_0 = np.bincount(bucket_of[live.level == 0], minlength=count)
    upper = live.level != 0
    levels = distinct(bucket_of[upper].astype(np.int64) * _LEVELS + live.level[upper])
    runs = level_0 + np.bincount(levels // _LEVELS, minlength=count)
    if full:
        if options.value(RECORD_LEVEL_EXPIRE_TIME) is not None:
            return np.zeros(count, bool)
        below = np.bincount(bucket_of[live.level < number_of_levels(options) - 1], minlength=count)
        is_compacted: npt.NDArray[Any] = (runs == 1) & (below == 0)
        return is_compacted
    rules = PickRules.of(options)
    idle = runs < rules.run_trigger
    if rules.force_level_0:
        idle &= level_0 == 0
    early = (rules.interval, rules.total_size_threshold, rules.incremental_size_threshold)
    if any(threshold is not None for threshold in early):
        idle &= runs == 1
    return idle


def _idle_heaps(
    table: FileStoreTable, live: EntryColumns, bucket_of: Column, count: int
) -> npt.NDArray[Any]:
    """Idle partitions of a bucket=-1 table: few small files, which do not fill two files."""
    options = table.options
    sizes = live.numbers["file_size"]
    small = sizes < small_file_size(options, primary_key=False)
    files = np.bincount(bucket_of[small], minlength=count)
    together = sums(bucket_of[small], sizes[small], count) + files * options.value(OPEN_FILE_COST)
    fills_a_bin = (files > 1) & (together >= 2 * target_file_size(options, primary_key=False))
    return (files < options.value(COMPACTION_MIN_FILE_NUM)) & ~fills_a_bin


def _idle_ranges(
    table: FileStoreTable, live: EntryColumns, bucket_of: Column, count: int
) -> npt.NDArray[Any]:
    """Idle partitions under data evolution: few files, or no neighbours that fit into one file.

    `evolution.pick_evolving` closes a new file as soon as it is larger than the target.  So the
    files of a unit follow each other without a gap, and all but the last fit into the target.
    Files that share row ids, as those of BLOBs do, are left to it.
    """
    options, least = table.options, least_files(table)
    fewest = min(least, _LEAST_WITH_BLOBS) if options.value(BLOB_COMPACTION_ENABLED) else least
    is_small: npt.NDArray[Any] = np.bincount(bucket_of, minlength=count) < fewest
    target = target_file_size(options, primary_key=False)
    if (target + 1) * max(1, len(live)) > _MOST:
        return is_small
    rows = ordered_rows(live, bucket_of, count)
    weights = np.maximum(live.numbers["file_size"], options.value(OPEN_FILE_COST))[rows.order]
    weights = np.minimum(weights, target + 1)
    fits = weights <= target
    joined = rows.follows & fits[1:] & fits[:-1]
    due = np.zeros(count, bool)
    windows = len(live) - least + 1
    if windows > 0:
        breaks = np.concatenate([[0], np.cumsum(~joined)])
        before = np.concatenate([[0], np.cumsum(weights)])
        together = breaks[least - 1 :] == breaks[:windows]
        held = before[least - 1 :][:windows] - before[:windows]
        due[rows.bucket[:windows][together & (held <= target)]] = True
    return is_small | ~(rows.unclear | due)
