"""The location of a snapshot's deletion vectors (Java: `index/IndexFileHandler.scan`)."""

from __future__ import annotations

from collections import defaultdict

from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX
from paimon_core.manifest.data_file import IndexFileMeta
from paimon_core.snapshot.snapshot import Snapshot

VectorFiles = dict[tuple[bytes, int], tuple[IndexFileMeta, ...]]
"""Partition (stored row bytes) and bucket -> its index files with deletion vectors.

A bucket=-1 table has any number of them per partition, under bucket 0; other tables have one per
bucket.
"""


def vector_files(table: FileStoreTable, snapshot: Snapshot) -> VectorFiles:
    """Return the index files with deletion vectors by partition and bucket."""
    found: dict[tuple[bytes, int], list[IndexFileMeta]] = defaultdict(list)
    for entry in table.index_entries(snapshot):
        if entry.index_file.index_type == DELETION_VECTORS_INDEX:
            found[entry.partition, entry.bucket].append(entry.index_file)
    return {key: tuple(files) for key, files in found.items()}
