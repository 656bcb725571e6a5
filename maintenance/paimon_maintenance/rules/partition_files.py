"""The files of the newest snapshot by partition, for jobs that rewrite whole partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from paimon_core.features import check_snapshot_rewritable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta, IndexManifestEntry, ManifestEntry
from paimon_core.scan.scan import partition_filter, scan_files
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.rules.partition_choice import chosen_partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """One partition: its stored row, its path, its live data files and its index files."""

    row: bytes
    name: str
    entries: tuple[ManifestEntry, ...]
    index: tuple[IndexManifestEntry, ...] = ()

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return tuple(e.file for e in self.entries)

    @property
    def bytes(self) -> int:
        return sum(e.file.file_size for e in self.entries)

    @property
    def rows(self) -> int:
        return sum(e.file.row_count for e in self.entries)

    @property
    def label(self) -> str:
        """The partition as text."""
        return self.name or "the table"


P = TypeVar("P", bound=PartitionFiles)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionScan(Generic[P]):
    """The partitions of one snapshot by name.

    `chosen` are rows, `others`: whether some are not chosen.
    """

    snapshot: Snapshot | None
    partitions: tuple[P, ...]
    chosen: frozenset[bytes]
    others: bool


def read_partitions(
    table: FileStoreTable,
    arguments: Mapping[str, object],
    make: Callable[..., P],
) -> PartitionScan[P]:
    """The partitions of the newest snapshot, each created by `make`, and the chosen ones.

    `arguments` hold `partitions` and `where`.  UnsupportedFeature for a snapshot that this version
    cannot read.
    """
    predicate = chosen_partitions(table, arguments)
    snapshot = table.snapshots.latest()
    entries: dict[bytes, list[ManifestEntry]] = defaultdict(list)
    index: dict[bytes, list[IndexManifestEntry]] = defaultdict(list)
    if snapshot is not None:
        check_snapshot_rewritable(table, snapshot)
        for entry in scan_files(table, snapshot):
            entries[entry.partition].append(entry)
        for found in table.index_entries(snapshot):
            index[found.partition].append(found)
    partitions = (
        make(
            row=row,
            name=table.paths.partition_path(row),
            entries=tuple(found),
            index=tuple(index[row]),
        )
        for row, found in entries.items()
    )
    passes = partition_filter(table, predicate)
    return PartitionScan(
        snapshot=snapshot,
        partitions=tuple(sorted(partitions, key=lambda p: p.name)),
        chosen=frozenset(row for row in entries if passes is None or passes(row)),
        others=predicate is not None,
    )
