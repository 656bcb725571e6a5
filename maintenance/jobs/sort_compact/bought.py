"""What a typical range query reads, told from the statistics of files alone.

For each sorting column the values from the least to the greatest are cut into sixteen ranges (of equal
width where they are numbers; else where files begin and end), and each is asked for once: on average
so many files, and bytes, may hold such a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any, Final

from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta
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
    """For each column the ranges that are asked for; none where files tell nothing of it."""
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


def cost_of(
    table: FileStoreTable,
    files: Sequence[DataFileMeta],
    queries: Mapping[str, Sequence[tuple[Any, Any]]],
) -> dict[str, Cost]:
    """What the queries on each column read of these files, on average."""
    total = sum(f.file_size for f in files)
    costs: dict[str, Cost] = {}
    for column, ranges in _ranges(table, files, list(queries)).items():
        read_files = read_bytes = 0
        asked = queries[column]
        for low, high in asked:
            for file, known in zip(files, ranges, strict=True):
                if known is None or (known[0] < high and known[1] >= low) or known[0] == low:
                    read_files += 1
                    read_bytes += file.file_size
        if asked:
            number = len(asked)
            costs[column] = Cost(read_files / number, read_bytes / number, len(files), total)
    return costs


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
