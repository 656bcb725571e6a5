"""Ranges of row ids of many files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.entries.columns import NULL, Column, EntryColumns

_MOST: Final = 2**62
"""More rows than any table has; sums of two such numbers fit into 64 bits."""


def check_row_ids(table: FileStoreTable, live: EntryColumns) -> None:
    """Raise CorruptTable for files whose row ids no table has; columns as `rows_of_columns`."""
    first, count = live.numbers["first_row_id"], live.numbers["row_count"]
    possible = (first >= 0) & (first <= _MOST) & (count >= 0) & (count <= _MOST - first)
    wrong = np.flatnonzero((first != NULL) & ~possible)
    if len(wrong):
        raise impossible_row_ids(table, live.name(int(wrong[0])))


def impossible_row_ids(table: FileStoreTable, name: str) -> CorruptTable:
    """Return the error for a file whose row ids no table has."""
    return CorruptTable(
        f"file {name} of table {table.name} claims impossible row ids", table=table.name, file=name
    )


def joined_ranges(starts: Column, stops: Column) -> list[range]:
    """Return ranges, ordered by their starts, as one where they overlap or follow each other."""
    if not len(starts):
        return []
    reached = np.maximum.accumulate(stops)
    last = np.append(starts[1:] > reached[:-1], True)
    begins = np.concatenate([[0], np.flatnonzero(last)[:-1] + 1])
    return list(map(range, starts[begins].tolist(), reached[last].tolist()))


def rows_of_columns(live: EntryColumns) -> list[range]:
    """Return the row ids of all files; `live` has the columns `first_row_id` and `row_count`."""
    known = np.flatnonzero(live.numbers["first_row_id"] != NULL)
    first = live.numbers["first_row_id"][known]
    order = np.argsort(first, kind="stable")
    starts = first[order]
    return joined_ranges(starts, starts + live.numbers["row_count"][known][order])


@dataclass(frozen=True, slots=True, eq=False)
class OrderedRows:
    """Files by their bucket, and in it by their row ids.

    `order` sorts the files, and `bucket` has the bucket of each in this order.  `follows` says of
    all files but the first whether their rows follow those of the file before in the same bucket.
    `unclear` says of each bucket whether files share row ids there, or have none.
    """

    order: Column
    bucket: Column
    follows: npt.NDArray[Any]
    unclear: npt.NDArray[Any]


def ordered_rows(live: EntryColumns, bucket_of: Column, count: int) -> OrderedRows:
    """Order files by row ids; `bucket_of` is the bucket of each, a number below `count`.

    `live` has the columns `first_row_id` and `row_count`.
    """
    first, rows = live.numbers["first_row_id"], live.numbers["row_count"]
    known = (first >= 0) & (first < _MOST) & (rows > 0) & (rows < _MOST)
    order = np.lexsort((first, bucket_of))
    bucket, begin = bucket_of[order], first[order]
    end = begin + np.where(known, rows, 0)[order]
    together = bucket[1:] == bucket[:-1]
    unclear = np.bincount(bucket_of[~known], minlength=count) > 0
    unclear[bucket[1:][together & (begin[1:] < end[:-1])]] = True
    return OrderedRows(order, bucket, together & (begin[1:] == end[:-1]), unclear)


def are_dedicated(entries: EntryColumns) -> Column:
    """Return for each entry whether it is of a file of BLOBs or vectors, as `is_dedicated`."""
    names = entries.names
    found = pc.or_(pc.ends_with(names, b".blob"), pc.match_substring(names, b".vector."))
    flags: Column = found.to_numpy(zero_copy_only=False)
    return flags
