"""Reads the keys of a cross-partition table before a write (Java: `IndexBootstrap`)."""

from __future__ import annotations

from collections import defaultdict

from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.read.table_read import deletion_vectors, read_bucket
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.write.global_index import GlobalIndex


def load_global_index(table: FileStoreTable, snapshot: Snapshot | None) -> GlobalIndex | None:
    """Return the location of each key of the snapshot; None if the table needs no such index.

    Reads the key columns of the whole table, including level 0 of every bucket.
    """
    if table.bucket_mode is not BucketMode.CROSS_PARTITION:
        return None
    index = GlobalIndex(table, snapshot)
    if snapshot is None:
        return index
    vectors = deletion_vectors(table, snapshot)
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in scan_files(table, snapshot):
        buckets[entry.partition, entry.bucket].append(entry)
    for (partition, bucket), entries in buckets.items():
        for batch in read_bucket(table, entries, table.schema.primary_keys, vectors):
            index.add(partition, bucket, index.keys_of(batch))
    return index
