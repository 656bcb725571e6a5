"""Which buckets a compaction looks at: all but those in which certainly nothing is due.

A plan holds the files of its buckets as objects, so the buckets come in portions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from paimon_core.compaction.idle import columns_needed, idle_buckets
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.manifest.entries.columns import Column, Partitions
from paimon_core.predicate import Predicate
from paimon_core.scan.columns import scan_columns
from paimon_core.scan.portions import MOST_FILES, Buckets, portions_of
from paimon_core.scan.scan import partition_filter
from paimon_core.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """The live files of some buckets; number, files and bytes of the buckets of later portions."""

    entries: list[ManifestEntry]
    later: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The buckets to look at, and what is known of all chosen partitions.

    `portions` reads them.  `idle` are number and bytes of the buckets in which nothing is due,
    `busy` of those in partitions that received files since the limit, `skipped` of those in
    partitions that are not to be compacted.  `newest_file` maps partitions to the time at which
    their newest file was made (milliseconds of local wall clock; 0 if no file says so); it is empty
    without a limit.
    """

    portions: Iterator[Portion]
    idle: tuple[int, int]
    busy: tuple[int, int]
    skipped: tuple[int, int]
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
    compacts: Callable[[bytes], bool] | None,
    divided: bool,
) -> Candidates:
    """Return the buckets of the partitions that `predicate` selects in which something may be due.

    `predicate` uses only partition keys; `with_vectors` are the buckets with deletion vectors;
    partitions with files newer than `idle_before` count as busy; those that `compacts` rejects, by
    their stored row, are skipped.  Only `divided` buckets come in portions.
    """
    live = scan_columns(table, snapshot, (*columns_needed(table), "creation_time"))
    rows = live.partitions.rows
    passes = partition_filter(table, predicate)
    if passes is not None:
        chosen = np.array([passes(row) for row in rows], bool)
        live = live.take(np.flatnonzero(chosen[live.partition]))
    partition, numbers, bucket_of = live.group()
    sizes = np.zeros(len(numbers), np.int64)
    np.add.at(sizes, bucket_of, live.numbers["file_size"])
    skipped = np.zeros(len(numbers), bool)
    if compacts is not None:
        refused = [code for code in np.unique(partition).tolist() if not compacts(rows[code])]
        skipped = np.isin(partition, refused)
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
        busy = quiet & ~skipped & (newest[partition] > idle_before)
    idle = quiet & ~skipped & ~busy
    files_of = np.bincount(bucket_of, minlength=len(numbers))
    there = np.bincount(live.partition, minlength=len(rows)) > 0
    partitions, files, size = live.partitions, len(live), int(live.numbers["file_size"].sum())
    del live  # the objects of the others take its place in memory
    due = np.flatnonzero(~quiet & ~skipped)
    buckets = Buckets(partition[due], numbers[due], files_of[due])
    return Candidates(
        portions=_portions(table, snapshot, partitions, buckets, sizes[due], divided=divided),
        idle=(int(idle.sum()), int(sizes[idle].sum())),
        busy=(int(busy.sum()), int(sizes[busy].sum())),
        skipped=(int(skipped.sum()), int(sizes[skipped].sum())),
        newest_file={
            rows[code]: int(newest[code])
            for code in (np.flatnonzero(there).tolist() if idle_before is not None else ())
        },
        total_files=files,
        total_bytes=size,
    )


def _portions(
    table: FileStoreTable,
    snapshot: Snapshot,
    partitions: Partitions,
    buckets: Buckets,
    sizes: Column,
    *,
    divided: bool,
) -> Iterator[Portion]:
    most = MOST_FILES if divided else None
    for portion in portions_of(table, snapshot, partitions, buckets, most=most):
        rest = slice(portion.end, None)
        files = buckets.files[rest]
        later = (len(files), int(files.sum()), int(sizes[rest].sum()))
        found = Portion(entries=portion.entries, later=later)
        del portion  # so that only one portion is in memory
        yield found
        del found
