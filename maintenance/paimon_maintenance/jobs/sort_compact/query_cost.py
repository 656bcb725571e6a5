"""What a typical range query reads, estimated from the statistics of files alone.

For each sorting column, the values from the least to the greatest are cut into sixteen ranges: of
equal width where they are numbers, else where files begin and end.  One query asks for each range,
and the cost is the average number of files and bytes that may hold such a value.  In a primary-key
table a query reads all files of a bucket that has several sorted runs, unless it asks for a key
(java-rules G2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from math import isfinite
from typing import Any, Final

from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import DELETION_VECTORS_ENABLED
from paimon_core.scan.prune import column_stats

QUERIES: Final = 16

Range = tuple[Any, Any] | None
"""Least and greatest value of a column in a file; None if they are unknown."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Files and bytes that one query reads on average, and all there are."""

    files: float
    bytes: float
    total_files: int
    total_bytes: int

    def to_json(self) -> dict[str, object]:
        """The cost as reports print it."""
        return {
            "files": round(self.files, 1),
            "bytes": round(self.bytes),
            "total_files": self.total_files,
            "total_bytes": self.total_bytes,
        }


def query_ranges(
    table: FileStoreTable, files: Sequence[DataFileMeta], columns: Sequence[str]
) -> dict[str, list[tuple[Any, Any]]]:
    """For each column the ranges that queries ask for; empty where no file has statistics of it."""
    found: dict[str, list[tuple[Any, Any]]] = {}
    for column, ranges in _ranges(table, files, columns).items():
        values = sorted({v for r in ranges if r is not None for v in r})
        if len(values) < 2:
            found[column] = [(values[0], values[0])] if values else []
            continue
        least, greatest = values[0], values[-1]
        if isinstance(least, int | float) and isfinite(greatest - least):
            width = (greatest - least) / QUERIES
            borders = [least + i * width for i in range(QUERIES)] + [greatest]
        else:
            places = [i * (len(values) - 1) // QUERIES for i in range(QUERIES + 1)]
            borders = sorted({values[p] for p in places})
        found[column] = list(pairwise(borders))
    return found


def merged_groups(
    table: FileStoreTable, buckets: Iterable[Sequence[DataFileMeta]]
) -> list[Sequence[DataFileMeta]]:
    """Files that a query on a value reads all together or not at all, from the files by bucket."""
    merges = table.has_primary_key and not table.options.value(DELETION_VECTORS_ENABLED)
    groups: list[Sequence[DataFileMeta]] = []
    for files in buckets:
        runs = sum(f.level == 0 for f in files) + len({f.level for f in files} - {0})
        groups += [files] if merges and runs > 1 else [(f,) for f in files]
    return groups


def cost_of(
    table: FileStoreTable,
    groups: Sequence[Sequence[DataFileMeta]],
    queries: Mapping[str, Sequence[tuple[Any, Any]]],
) -> dict[str, Cost]:
    """What the queries on each column read of these files, on average.

    `merged_groups` made them.
    """
    files = [f for group in groups for f in group]
    total = sum(f.file_size for f in files)
    costs: dict[str, Cost] = {}
    for column, ranges in _ranges(table, files, list(queries)).items():
        known = iter(ranges)
        ranges_of = [list(islice(known, len(group))) for group in groups]
        by_key = column in table.schema.primary_keys
        read_files = read_bytes = 0
        asked = queries[column]
        for low, high in asked:
            for group, found in zip(groups, ranges_of, strict=True):
                hit = [f for f, r in zip(group, found, strict=True) if _may_hold(r, low, high)]
                taken = hit if by_key or not hit else group
                read_files += len(taken)
                read_bytes += sum(f.file_size for f in taken)
        if asked:
            number = len(asked)
            costs[column] = Cost(read_files / number, read_bytes / number, len(files), total)
    return costs


def compare_queries(
    table: FileStoreTable,
    columns: Sequence[str],
    before: Sequence[Sequence[DataFileMeta]],
    after: Sequence[Sequence[DataFileMeta]],
) -> dict[str, object]:
    """What a range query on each column reads before and after sorting: the details of a report.

    Both are files by bucket, and the same queries are put to both.
    """
    every = [f for buckets in (before, after) for files in buckets for f in files]
    queries = query_ranges(table, every, columns)
    old = cost_of(table, merged_groups(table, before), queries)
    new = cost_of(table, merged_groups(table, after), queries)
    return {
        f"range_query_on_{c}": {"before": old[c].to_json(), "after": new[c].to_json()}
        for c in columns
        if c in old and c in new
    }


def _may_hold(known: Range, low: Any, high: Any) -> bool:
    return known is None or (known[0] < high and known[1] >= low) or bool(known[0] == low)


def _ranges(
    table: FileStoreTable, files: Sequence[DataFileMeta], columns: Sequence[str]
) -> dict[str, list[Range]]:
    found: dict[str, list[Range]] = {c: [] for c in columns}
    current = {f.name: f for f in table.schema.fields}
    for file in files:
        schema = table.schema_of(file.schema_id)
        by_id = {f.id: f for f in schema.fields}
        stats = column_stats(file, schema)
        for column in columns:
            field = current[column]
            old = by_id.get(field.id)
            known = stats.get(old.name) if old is not None and old.type == field.type else None
            if known is None or known[0] is None or known[1] is None:
                found[column].append(None)
            else:
                found[column].append((known[0], known[1]))
    return found
