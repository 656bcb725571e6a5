"""The files that Iceberg's metadata names, and their records (Java: `IcebergCommitCallback`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.iceberg.manifest import data_record, partition_record, vector_record
from paimon_core.iceberg.settings import ICEBERG_FORMAT_VERSION
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX
from paimon_core.lsm.tree.universal_compaction import number_of_levels
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.options import DELETION_VECTOR_BITMAP64, DELETION_VECTORS_ENABLED
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.read.table_read import least_level
from paimon_core.scan.scan import scan_files
from paimon_core.scan.splits import batch_splits
from paimon_core.snapshot.snapshot import Snapshot

_WITH_VECTORS = 3
"""The format version of Iceberg that has deletion vectors."""


def has_iceberg_vectors(table: FileStoreTable) -> bool:
    """Return whether deletion vectors are in the metadata: 64-bit ones, in format version 3."""
    options = table.options
    return (
        options.value(DELETION_VECTORS_ENABLED)
        and options.value(DELETION_VECTOR_BITMAP64)
        and options.value(ICEBERG_FORMAT_VERSION) == _WITH_VECTORS
    )


def is_published(table: FileStoreTable, entry: ManifestEntry) -> bool:
    """Return whether a file that a commit adds is in the metadata."""
    if not table.has_primary_key:
        return True
    if has_iceberg_vectors(table):
        return entry.file.level > 0
    return entry.file.level == number_of_levels(table.options) - 1


@dataclass(frozen=True, slots=True)
class FileRecords:
    """Makes the records of a table's files; `spelled` gives their paths as in the metadata."""

    table: FileStoreTable
    spelled: Callable[[str], str]
    _partitions: dict[bytes, dict[str, Any]] = field(default_factory=dict)

    def data(self, entry: ManifestEntry) -> dict[str, Any]:
        """Return the record of a data file."""
        file = entry.file
        return data_record(
            self.spelled(self.table.paths.data_file(entry.partition, entry.bucket, file)),
            self._partition(entry.partition),
            row_count=file.row_count,
            size=file.file_size,
            schema=self.table.schema_of(file.schema_id),
            stats=file.value_stats,
            stats_columns=file.value_stats_cols,
        )

    def vectors(self, snapshot: Snapshot, files: Iterable[ManifestEntry]) -> list[dict[str, Any]]:
        """Return the records of the deletion vectors of these files.

        CorruptTable if a vector's number of rows is unknown, which Iceberg checks.
        """
        paths = {
            (e.partition, e.bucket, e.file.file_name): self.spelled(
                self.table.paths.data_file(e.partition, e.bucket, e.file)
            )
            for e in files
        }
        found = []
        for entry in self.table.index_entries(snapshot):
            index = entry.index_file
            if index.index_type != DELETION_VECTORS_INDEX:
                continue
            for vector in index.dv_ranges or ():
                target = paths.get((entry.partition, entry.bucket, vector.data_file))
                if target is None:
                    continue
                if vector.cardinality is None:
                    raise CorruptTable(
                        f"the deletion vector of {vector.data_file} has no number of rows, which "
                        "Iceberg's metadata needs",
                        table=self.table.name,
                        snapshot=snapshot.id,
                        next_step="compact the table, or rewrite the vector with a newer Paimon",
                    )
                path = self.table.paths.index_file(entry.partition, entry.bucket, index)
                found.append(
                    vector_record(
                        self.spelled(path),
                        self._partition(entry.partition),
                        size=index.file_size,
                        data_file=target,
                        offset=vector.offset,
                        length=vector.length,
                        cardinality=vector.cardinality,
                    )
                )
        return found

    def _partition(self, partition: bytes) -> dict[str, Any]:
        record = self._partitions.get(partition)
        if record is None:
            record = partition_record(partition, self.table.schema.partition_type)
            self._partitions[partition] = record
        return record


def published_files(table: FileStoreTable, snapshot: Snapshot) -> list[ManifestEntry]:
    """Return the files of a whole snapshot whose rows need no merging with others."""
    lowest = least_level(table)
    entries = [
        e
        for e in scan_files(table, snapshot)
        if e.bucket != POSTPONE_BUCKET and e.file.level >= lowest
    ]
    return list(_raw(table, entries)) if table.has_primary_key else entries


def _raw(table: FileStoreTable, entries: Iterable[ManifestEntry]) -> Iterator[ManifestEntry]:
    buckets: dict[tuple[bytes, int], dict[str, ManifestEntry]] = defaultdict(dict)
    for e in entries:
        buckets[e.partition, e.bucket][e.file.file_name] = e
    for of_file in buckets.values():
        files = [e.file for e in of_file.values()]
        for split in batch_splits(table, files):
            if split.raw:
                yield from (of_file[f.file_name] for f in split.files)
