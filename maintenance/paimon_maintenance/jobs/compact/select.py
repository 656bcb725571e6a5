"""Which buckets a compaction looks at: all but those in which certainly nothing is due."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_core.compaction.idle import idle_buckets
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.manifest.entries.columns import Column, EntryColumns, Partitions
from paimon_core.predicate import Predicate
from paimon_core.scan.columns import chosen_files, scan_columns
from paimon_core.scan.scan import partition_filter
from paimon_core.snapshot.snapshot import Snapshot

Flags = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The live files of the buckets to look at, and what is known of all chosen partitions.

    `idle` are number and bytes of the buckets in which nothing is due, `busy` of those in partitions
    that received files since the limit.  `newest_file` maps partitions to the time at which their
    newest file was made (milliseconds of local wall clock; 0 if no file says so); it is empty without
    a limit.
    """

    entries: Sequence[ManifestEntry]
    idle: tuple[int, int]
    busy: tuple[int, int]
    newest_file: Mapping[bytes, int]
    total_files: int
    total_bytes: int


def candidates(
    table: FileStoreTable,
    snapshot: Snapshot,
    predicate: Predicate | None,
    *,
    full: bool,
    with_vectors: Collection[tuple[bytes, int]],
    idle_before: int | None,
) -> Candidates:
    """Return the buckets of the partitions that `predicate` selects in which something may be due.

    `predicate` uses only partition keys; `with_vectors` are the buckets with deletion vectors;
    partitions with files newer than `idle_before` count as busy.
    """
    live = scan_columns(table, snapshot, ("file_size", "creation_time"))
    rows = live.partitions.rows
    passes = partition_filter(table, predicate)
    if passes is not None:
        chosen = np.array([passes(row) for row in rows], bool)
        live = live.take(np.flatnonzero(chosen[live.partition]))
    partition, numbers, bucket_of = live.group()
    sizes = np.zeros(len(numbers), np.int64)
    np.add.at(sizes, bucket_of, live.numbers["file_size"])
    quiet = idle_buckets(table, live, bucket_of, numbers, full=full)
    if with_vectors:
        places = zip(partition.tolist(), numbers.tolist(), strict=True)
        quiet &= np.array([(rows[p], n) not in with_vectors for p, n in places], bool)
    if live.unknown:
        quiet[:] = False  # whether these files may be rewritten is decided from the objects
    newest = np.zeros(len(rows), np.int64)
    busy = np.zeros(len(numbers), bool)
    if idle_before is not None:
        np.maximum.at(newest, live.partition, live.numbers["creation_time"])
        busy = quiet & (newest[partition] > idle_before)
    idle = quiet & ~busy
    there = np.bincount(live.partition, minlength=len(rows)) > 0
    partitions, files, size = live.partitions, len(live), int(live.numbers["file_size"].sum())
    del live  # the objects of the others take its place in memory
    return Candidates(
        entries=_entries(table, snapshot, partitions, partition[~quiet], numbers[~quiet]),
        idle=(int(idle.sum()), int(sizes[idle].sum())),
        busy=(int(busy.sum()), int(sizes[busy].sum())),
        newest_file={
            rows[code]: int(newest[code])
            for code in (np.flatnonzero(there).tolist() if idle_before is not None else ())
        },
        total_files=files,
        total_bytes=size,
    )


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

    def choose(columns: EntryColumns) -> Flags:
        codes = columns.partition
        found = (codes < len(chosen)) & chosen[np.minimum(codes, len(chosen) - 1)]
        for i in np.flatnonzero(found).tolist():
            found[i] = (int(codes[i]), int(columns.bucket[i])) in places
        return found

    return chosen_files(table, snapshot, partitions, choose)
