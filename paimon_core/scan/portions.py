"""The live files of buckets as objects, in portions, because all may not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.manifest.entries.columns import Column, EntryColumns, Partitions
from paimon_core.scan.columns import chosen_files
from paimon_core.snapshot.snapshot import Snapshot

MOST_FILES: Final = 200_000
"""Number of files in a portion of buckets; a bucket is never divided."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """Buckets with live files: numbers of partitions, of buckets, and of their files."""

    partition: Column
    number: Column
    files: Column


@dataclass(frozen=True, slots=True)
class Portion:
    """The live files of some buckets; those of later portions are the buckets from `end` on."""

    entries: list[ManifestEntry]
    end: int


def portions_of(
    table: FileStoreTable,
    snapshot: Snapshot,
    partitions: Partitions,
    buckets: Buckets,
    *,
    most: int | None = MOST_FILES,
) -> Iterator[Portion]:
    """Yield the live files of the buckets in their order, at least one portion.

    Each portion reads the manifests again.  Without `most`, one portion has all files.  Errors as
    `scan_columns`.
    """
    total = np.cumsum(buckets.files)
    start, count = 0, len(total)
    while True:
        before = int(total[start - 1]) if start else 0
        end = count
        if most is not None:
            end = int(np.searchsorted(total, before + most, side="right"))
            end = min(max(end, start + 1), count)
        partition, number = buckets.partition[start:end], buckets.number[start:end]
        yield Portion(_entries(table, snapshot, partitions, partition, number), end)
        if end == count:
            return
        start = end


def _entries(
    table: FileStoreTable,
    snapshot: Snapshot,
    partitions: Partitions,
    partition: Column,
    numbers: Column,
) -> list[ManifestEntry]:
    """Return the live files of the buckets with these partition and bucket numbers."""
    if not len(numbers):
        return []
    chosen = np.zeros(len(partitions.rows), bool)
    chosen[partition] = True
    places = set(zip(partition.tolist(), numbers.tolist(), strict=True))

    def choose(columns: EntryColumns) -> npt.NDArray[Any]:
        codes = columns.partition
        found = (codes < len(chosen)) & chosen[np.minimum(codes, len(chosen) - 1)]
        for i in np.flatnonzero(found).tolist():
            found[i] = (int(codes[i]), int(columns.bucket[i])) in places
        return found

    return chosen_files(table, snapshot, partitions, choose)
