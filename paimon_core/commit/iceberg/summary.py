"""The summary of a snapshot in Iceberg's metadata: what changed, and totals.

Java 2.0: `IcebergCommitCallback.computeSnapshotSummary`; 1.4.2 writes only the operation.  Totals
count the files that Iceberg sees.  Java also subtracts files of lower levels, which it never added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from paimon_core.iceberg.manifest import IcebergEntry
from paimon_core.iceberg.manifest_list import IcebergManifest


class Operation(StrEnum):
    APPEND = "append"
    OVERWRITE = "overwrite"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class FileTotals:
    """A number of files, their rows and bytes."""

    files: int = 0
    rows: int = 0
    size: int = 0

    @staticmethod
    def of(entries: Iterable[IcebergEntry]) -> FileTotals:
        found = list(entries)
        return FileTotals(len(found), sum(e.row_count for e in found), sum(e.size for e in found))

    def plus(self, other: FileTotals) -> FileTotals:
        return FileTotals(self.files + other.files, self.rows + other.rows, self.size + other.size)

    def minus(self, other: FileTotals) -> FileTotals:
        """The difference; never below zero, as totals of other writers may be too low."""
        return FileTotals(
            max(0, self.files - other.files),
            max(0, self.rows - other.rows),
            max(0, self.size - other.size),
        )


def totals_in(summary: Mapping[str, str]) -> FileTotals | None:
    """Return the totals of a summary; None if one is missing."""
    keys = ("total-data-files", "total-records", "total-files-size")
    values = [summary.get(key, "") for key in keys]
    if not all(v.isdecimal() for v in values):
        return None
    return FileTotals(*map(int, values))


def snapshot_summary(
    operation: Operation,
    *,
    added: FileTotals,
    removed: FileTotals,
    total: FileTotals,
    partitions: int,
    vectors: Sequence[IcebergManifest],
    properties: Mapping[str, str] | None,
) -> dict[str, str]:
    """Return the summary; `partitions` is the number of changed ones."""
    numbers = {
        "added-data-files": added.files,
        "added-records": added.rows,
        "added-files-size": added.size,
        "deleted-data-files": removed.files,
        "deleted-records": removed.rows,
        "removed-files-size": removed.size,
        "changed-partition-count": partitions,
        "total-records": total.rows,
        "total-data-files": total.files,
        "total-files-size": total.size,
        "total-delete-files": sum(m.live_files for m in vectors),
        "total-position-deletes": sum(m.live_rows for m in vectors),
        "total-equality-deletes": 0,
    }
    texts = {key: str(number) for key, number in numbers.items()}
    return {"operation": str(operation), **texts, **(properties or {})}
