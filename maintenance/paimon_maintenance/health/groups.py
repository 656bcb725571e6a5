"""The live files of a table, counted by partition and by bucket."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.write.file_layout import small_file_size


@dataclass(slots=True)
class Group:
    """The files of a partition, of a bucket, or of the table."""

    files: int = 0
    bytes: int = 0
    rows: int = 0
    delete_rows: int = 0
    small_files: int = 0
    level_0_files: int = 0
    levels: set[int] = field(default_factory=set)
    newest: int | None = None

    def add(self, entry: ManifestEntry, small_bytes: int) -> None:
        """Count one live file."""
        f = entry.file
        self.files += 1
        self.bytes += f.file_size
        self.rows += f.row_count
        self.delete_rows += f.delete_row_count or 0
        self.small_files += f.file_size < small_bytes
        if f.level == 0:
            self.level_0_files += 1
        else:
            self.levels.add(f.level)
        if f.creation_time is not None:
            self.newest = max(self.newest or 0, f.creation_time)

    @property
    def sorted_runs(self) -> int:
        """The number of sorted runs, for one bucket of a primary-key table."""
        return self.level_0_files + len(self.levels)

    def to_json(self) -> dict[str, object]:
        """The counts."""
        return {
            "files": self.files,
            "bytes": self.bytes,
            "rows": self.rows,
            "delete_rows": self.delete_rows,
            "small_files": self.small_files,
            "level_0_files": self.level_0_files,
        }


def small_bytes(table: FileStoreTable) -> int:
    return small_file_size(table.options, primary_key=table.has_primary_key)


Groups = dict[bytes, Group]
Buckets = dict[tuple[bytes, int], Group]


def grouped(
    table: FileStoreTable, entries: Sequence[ManifestEntry]
) -> tuple[Group, Groups, Buckets]:
    small = small_bytes(table)
    whole = Group()
    partitions: Groups = defaultdict(Group)
    buckets: Buckets = defaultdict(Group)
    for entry in entries:
        whole.add(entry, small)
        partitions[entry.partition].add(entry, small)
        buckets[entry.partition, entry.bucket].add(entry, small)
    return whole, dict(partitions), dict(buckets)
