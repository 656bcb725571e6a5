"""The partitions of a table as they are laid out in buckets.

A plan holds their files as columns.  They become objects when a batch of partitions is rewritten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from paimon_core.features import check_snapshot_rewritable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import IndexManifestEntry, ManifestEntry
from paimon_core.manifest.entries.columns import Column, EntryColumns, no_columns, sums
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.scan.columns import chosen_files, scan_columns
from paimon_core.scan.scan import partition_filter
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.rules.partition_choice import chosen_partitions
from paimon_maintenance.rules.partition_files import PartitionFiles

MOST_FILES: Final = 200_000
"""Number of files that are objects at the same time; a partition is never divided."""
_BITS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLayout:
    """One partition: its stored row, its path, the number, bytes and rows of its files.

    `totals` are the numbers of buckets that its files were written for: one, in a sound table.
    `index` are its index files.
    """

    row: bytes
    name: str
    totals: tuple[int, ...]
    files: int
    bytes: int
    rows: int
    index: tuple[IndexManifestEntry, ...] = ()

    @property
    def label(self) -> str:
        """The partition as text."""
        return self.name or "the table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """The partitions of a snapshot by name, and their files; `chosen` are rows of partitions."""

    snapshot: Snapshot | None
    partitions: tuple[PartitionLayout, ...]
    chosen: frozenset[bytes]
    files: EntryColumns


def read_layouts(table: FileStoreTable, arguments: Mapping[str, object]) -> Layouts:
    """The partitions of the newest snapshot without its postponed files, and the chosen ones.

    `arguments` hold `partitions` and `where`.  UnsupportedFeature for a snapshot that this version
    cannot read.
    """
    predicate = chosen_partitions(table, arguments)
    snapshot = table.snapshots.latest()
    if snapshot is None:
        return Layouts(snapshot=None, partitions=(), chosen=frozenset(), files=no_columns(()))
    check_snapshot_rewritable(table, snapshot)
    live = bucketed(scan_columns(table, snapshot, ("file_size", "row_count", "schema_id")))
    index: dict[bytes, list[IndexManifestEntry]] = defaultdict(list)
    for entry in table.index_entries(snapshot):
        index[entry.partition].append(entry)
    partitions = sorted(_layouts(table, live, index), key=lambda p: p.name)
    passes = partition_filter(table, predicate)
    return Layouts(
        snapshot=snapshot,
        partitions=tuple(partitions),
        chosen=frozenset(p.row for p in partitions if passes is None or passes(p.row)),
        files=live,
    )


def bucketed(files: EntryColumns) -> EntryColumns:
    """The files without those that wait to be put into buckets."""
    chosen = files.bucket != POSTPONE_BUCKET
    return files if chosen.all() else files.take(np.flatnonzero(chosen))


def _layouts(
    table: FileStoreTable, live: EntryColumns, index: Mapping[bytes, list[IndexManifestEntry]]
) -> list[PartitionLayout]:
    rows = live.partitions.rows
    files = np.bincount(live.partition, minlength=len(rows)).tolist()
    size = sums(live.partition, live.numbers["file_size"], len(rows)).tolist()
    count = sums(live.partition, live.numbers["row_count"], len(rows)).tolist()
    totals: dict[int, tuple[int, ...]] = {}
    pairs = np.unique(_pairs(live.partition, live.total_buckets))
    for code, total in zip((pairs >> _BITS).tolist(), _second(pairs).tolist(), strict=True):
        totals[code] = (*totals.get(code, ()), total)
    return [
        PartitionLayout(
            row=rows[code],
            name=table.paths.partition_path(rows[code]),
            totals=own,
            files=files[code],
            bytes=size[code],
            rows=count[code],
            index=tuple(index.get(rows[code], ())),
        )
        for code, own in totals.items()
    ]


def _pairs(first: Column, second: Column) -> Column:
    """One number for each pair of a non-negative number and a 32-bit one, in their order."""
    pairs: Column = (first.astype(np.int64) << _BITS) + (second.astype(np.int64) + 2 ** (_BITS - 1))
    return pairs


def _second(pairs: Column) -> Column:
    second: Column = (pairs & (2**_BITS - 1)) - 2 ** (_BITS - 1)
    return second


def codes_of(files: EntryColumns, partitions: Sequence[PartitionLayout]) -> Column:
    """The numbers of the partitions in `files.partitions`."""
    found = (files.partitions.find(p.row) for p in partitions)
    return np.array([code for code in found if code is not None], np.int64)


def files_of(files: EntryColumns, partitions: Sequence[PartitionLayout]) -> EntryColumns:
    """The files of these partitions."""
    chosen = _flags(files, partitions)[files.partition]
    return files if chosen.all() else files.take(np.flatnonzero(chosen))


def levels_of(
    files: EntryColumns, partitions: Sequence[PartitionLayout]
) -> Iterator[tuple[PartitionLayout, list[int]]]:
    """Each of these partitions with the levels of its files."""
    levels = files.level[np.argsort(files.partition, kind="stable")].tolist()
    ends = np.cumsum(np.bincount(files.partition, minlength=len(files.partitions.rows))).tolist()
    for code, partition in zip(codes_of(files, partitions).tolist(), partitions, strict=True):
        yield partition, levels[ends[code] - partition.files : ends[code]]


def unit_counts(
    files: EntryColumns, partitions: Sequence[PartitionLayout], buckets: int
) -> dict[bytes, int]:
    """How many units of work (`rescale_units`) each of these partitions is, by its row."""
    steps = np.ones(len(files.partitions.rows), np.int64)
    for code, partition in zip(codes_of(files, partitions).tolist(), partitions, strict=True):
        if len(partition.totals) == 1:
            steps[code] = np.gcd(partition.totals[0], buckets)
    groups = np.unique(_pairs(files.partition, files.bucket % steps[files.partition]))
    counts = np.bincount(groups >> _BITS, minlength=len(steps)).tolist()
    return {p.row: counts[c] for c, p in zip(codes_of(files, partitions), partitions, strict=True)}


def entries_of(
    table: FileStoreTable,
    snapshot: Snapshot,
    files: EntryColumns,
    partitions: Sequence[PartitionLayout],
) -> list[PartitionFiles]:
    """The partitions with their live files in this snapshot as objects.

    Those without files are left out.  `files` are those of the plan.
    """
    wanted = _flags(files, partitions)

    def choose(columns: EntryColumns) -> Column:
        codes = columns.partition
        chosen = (codes < len(wanted)) & wanted[np.minimum(codes, len(wanted) - 1)]
        found: Column = chosen & (columns.bucket != POSTPONE_BUCKET)
        return found

    entries: dict[bytes, list[ManifestEntry]] = defaultdict(list)
    for entry in chosen_files(table, snapshot, files.partitions, choose):
        entries[entry.partition].append(entry)
    index: dict[bytes, list[IndexManifestEntry]] = defaultdict(list)
    for found in table.index_entries(snapshot):
        index[found.partition].append(found)
    return [
        PartitionFiles(
            row=p.row, name=p.name, entries=tuple(entries[p.row]), index=tuple(index[p.row])
        )
        for p in partitions
        if p.row in entries
    ]


def _flags(files: EntryColumns, partitions: Sequence[PartitionLayout]) -> Column:
    """Whether each partition of `files.partitions` is one of these."""
    flags = np.zeros(max(1, len(files.partitions.rows)), bool)
    flags[codes_of(files, partitions)] = True
    return flags
