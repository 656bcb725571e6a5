"""The keys that a cross-partition table holds, read before it is written to (Java: `IndexBootstrap`)."""

from __future__ import annotations

from collections import defaultdict

from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.read.table_read import deletion_vectors, read_bucket
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.write.key_places import KeyPlaces


def load_key_places(table: FileStoreTable, snapshot: Snapshot | None) -> KeyPlaces | None:
    """Where each key of the snapshot is; None if the table needs no such index.

    Reads the key columns of the whole table, level 0 of every bucket as well.
    """
    if table.bucket_mode is not BucketMode.CROSS_PARTITION:
        return None
    places = KeyPlaces(table)
    if snapshot is None:
        return places
    vectors = deletion_vectors(table, snapshot)
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in scan_files(table, snapshot):
        buckets[entry.partition, entry.bucket].append(entry)
    for (partition, bucket), entries in buckets.items():
        for batch in read_bucket(table, entries, table.schema.primary_keys, vectors):
            places.add(partition, bucket, places.keys_of(batch))
    return places
