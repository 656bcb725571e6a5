"""The live files of a table, counted by partition and by bucket."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.entries.columns import NULL, EntryColumns, distinct, sums
from paimon_core.write.file_layout import small_file_size

Counts = npt.NDArray[Any]
COLUMNS: Final = ("file_size", "row_count", "delete_row_count", "creation_time")
"""The columns of live files that `grouped` needs."""
_MOST: Final = 2**60
"""More bytes or rows than any table has.  Sums of larger numbers do not fit into the history."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The files of each partition, of each bucket, or of the whole table: one number for each.

    `newest` is the creation time of the newest file (milliseconds of local wall clock), `NULL` if
    no file has one.  `sorted_runs` is only meaningful for buckets of primary-key tables.
    """

    files: Counts
    bytes: Counts
    rows: Counts
    delete_rows: Counts
    small_files: Counts
    level_0_files: Counts
    sorted_runs: Counts
    newest: Counts

    def __len__(self) -> int:
        return len(self.files)

    def to_json(self, position: int) -> dict[str, object]:
        """The counts of one group."""
        return {
            "files": int(self.files[position]),
            "bytes": int(self.bytes[position]),
            "rows": int(self.rows[position]),
            "delete_rows": int(self.delete_rows[position]),
            "small_files": int(self.small_files[position]),
            "level_0_files": int(self.level_0_files[position]),
        }

    def newest_millis(self, position: int) -> int | None:
        """The creation time of the newest file of one group."""
        newest = int(self.newest[position])
        return None if newest == NULL else newest


def check_possible(table: str, claims: Iterable[int]) -> None:
    """CorruptTable for bytes or rows that no table has."""
    wrong = next((claim for claim in claims if not 0 <= claim <= _MOST), None)
    if wrong is not None:
        raise CorruptTable(
            f"the manifests claim sizes that no table has, for example {wrong:,}", table=table
        )


def check_files(table: str, live: EntryColumns) -> None:
    """CorruptTable for live files of impossible sizes."""
    for name in ("file_size", "row_count", "delete_row_count"):
        column = live.numbers[name]
        check_sizes(table, column[column != NULL])


def check_sizes(table: str, sizes: Counts) -> None:
    """CorruptTable for impossible sizes; their sum need not fit into 64 bits."""
    if len(sizes):
        check_possible(table, (int(sizes.min()), int(sizes.sum(dtype=np.float64))))


def small_bytes(table: FileStoreTable) -> int:
    """The size below which a file is small."""
    return small_file_size(table.options, primary_key=table.has_primary_key)


def grouped(
    live: EntryColumns, groups: Counts, count: int, *, small: int, by_row_id: bool = False
) -> Groups:
    """Count the live files, each in its group (a number below `count`).

    `small` is the size below which a file is small.  With `by_row_id`, each row is counted once,
    however many files hold columns of it.
    """
    numbers = live.numbers
    deleted = numbers["delete_row_count"]
    created = numbers["creation_time"]
    newest = np.full(count, NULL, np.int64)
    np.maximum.at(newest, groups, np.where(created == NULL, NULL, np.maximum(created, 0)))
    upper = live.level != 0
    levels = distinct(groups[upper].astype(np.int64) * (1 << 32) + live.level[upper])
    level_0 = np.bincount(groups[~upper], minlength=count)
    return Groups(
        files=np.bincount(groups, minlength=count),
        bytes=sums(groups, numbers["file_size"], count),
        rows=sums(groups, _new_rows(live, groups) if by_row_id else numbers["row_count"], count),
        delete_rows=sums(groups, np.where(deleted == NULL, 0, deleted), count),
        small_files=np.bincount(groups[numbers["file_size"] < small], minlength=count),
        level_0_files=level_0,
        sorted_runs=level_0 + np.bincount(levels >> 32, minlength=count),
        newest=newest,
    )


def _new_rows(live: EntryColumns, groups: Counts) -> Counts:
    """The rows of each file that no file of its group before it has, in the order of row ids."""
    first, rows = live.numbers["first_row_id"], live.numbers["row_count"]
    new = rows.copy()
    known = np.flatnonzero(first != NULL)
    order = known[np.lexsort((first[known], groups[known]))]
    group, covered = -1, 0
    for i in order.tolist():
        if groups[i] != group:
            group, covered = groups[i], 0
        end = int(first[i]) + int(rows[i])
        new[i] = max(0, end - max(covered, int(first[i])))
        covered = max(covered, end)
    return new
