"""The existing state that a writer continues from (Java: `FileSystemWriteRestore`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from paimon_core.errors import BucketCountChanged
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.index.hash_index import HASH_INDEX
from paimon_core.manifest.data_file import IndexFileMeta, IndexManifestEntry
from paimon_core.options import BUCKET
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ExistingPartition:
    """The greatest sequence number and the hash index by bucket."""

    newest: Mapping[int, int] = field(default_factory=dict)
    hash_indexes: Mapping[int, IndexFileMeta] = field(default_factory=dict)


class ExistingBuckets:
    """The partitions of one snapshot, read on demand.

    `snapshot` None: everything starts empty, as in an empty table or an overwritten partition.
    """

    def __init__(self, table: FileStoreTable, snapshot: Snapshot | None) -> None:
        self._table = table
        self._snapshot = snapshot
        self._known: dict[bytes, ExistingPartition] = {}
        self._indexes: dict[bytes, dict[int, IndexFileMeta]] | None = None

    def load(self, partitions: Iterable[bytes]) -> None:
        """Read those of these partitions that are not loaded yet, in one scan.

        Raises BucketCountChanged if one has another number of buckets than the table's option.
        """
        wanted = set(partitions) - self._known.keys()
        if not wanted:
            return
        newest: dict[bytes, dict[int, int]] = {p: {} for p in wanted}
        if self._snapshot is not None:
            buckets = self._table.options.value(BUCKET)
            for entry in scan_files(self._table, self._snapshot, partitions=wanted):
                if entry.total_buckets > 0 and entry.total_buckets != buckets and buckets > 0:
                    raise self._rescaled(entry.partition, entry.total_buckets, buckets)
                known = newest[entry.partition]
                known[entry.bucket] = max(
                    known.get(entry.bucket, -1), entry.file.max_sequence_number
                )
        indexes = self._hash_indexes()
        for partition in wanted:
            self._known[partition] = ExistingPartition(
                newest[partition], indexes.get(partition, {})
            )

    def partition(self, partition: bytes) -> ExistingPartition:
        """Return the state of the partition."""
        self.load([partition])
        return self._known[partition]

    def next_sequence(self, partition: bytes, bucket: int) -> int:
        """Return the greatest sequence number in the bucket plus one (java-rules D2)."""
        return self.partition(partition).newest.get(bucket, -1) + 1

    def _hash_indexes(self) -> dict[bytes, dict[int, IndexFileMeta]]:
        if self._indexes is None:
            self._indexes = {}
            for entry in self._index_entries():
                if entry.index_file.index_type == HASH_INDEX:
                    of_partition = self._indexes.setdefault(entry.partition, {})
                    of_partition[entry.bucket] = entry.index_file
        return self._indexes

    def _index_entries(self) -> Iterable[IndexManifestEntry]:
        table, snapshot = self._table, self._snapshot
        if table.bucket_mode is not BucketMode.DYNAMIC or snapshot is None:
            return ()
        return table.index_entries(snapshot)

    def _rescaled(self, partition: bytes, found: int, asked: int) -> BucketCountChanged:
        table = self._table
        path = table.paths.partition_path(partition)
        what = f"partition {path}" if path else "table"
        return BucketCountChanged(
            f"Try to write {what} with a new bucket num {asked}, but the previous bucket num is "
            f"{found}",
            table=table.name,
        )
