"""Where the deletion vectors of a snapshot are kept (Java: `index/IndexFileHandler.scan`)."""

from __future__ import annotations

from collections import defaultdict

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX
from paimon_core.manifest.data_file import IndexFileMeta, IndexManifestEntry
from paimon_core.manifest.index_manifest import read_index_manifest
from paimon_core.snapshot.snapshot import Snapshot

VectorFiles = dict[tuple[bytes, int], tuple[IndexFileMeta, ...]]
"""Partition (stored row bytes) and bucket -> its index files with deletion vectors.

A bucket=-1 table keeps any number of them for each partition, under bucket 0; every other table
one for each bucket.
"""


def index_entries(table: FileStoreTable, snapshot: Snapshot) -> list[IndexManifestEntry]:
    """All index files of the snapshot; CorruptTable if its index manifest is missing."""
    if snapshot.index_manifest is None:
        return []
    path = table.paths.manifest(snapshot.index_manifest)
    try:
        return read_index_manifest(table.io, path)
    except FileNotFoundError as e:
        raise CorruptTable(
            f"index manifest {path} of table {table.name} is missing",
            table=table.name,
            file=path,
            snapshot=snapshot.id,
            next_step="if the snapshot expired meanwhile, run again; "
            "otherwise run `caretaker verify` on the table",
        ) from e


def vector_files(table: FileStoreTable, snapshot: Snapshot) -> VectorFiles:
    """The index files with deletion vectors, by partition and bucket."""
    found: dict[tuple[bytes, int], list[IndexFileMeta]] = defaultdict(list)
    for entry in index_entries(table, snapshot):
        if entry.index_file.index_type == DELETION_VECTORS_INDEX:
            found[entry.partition, entry.bucket].append(entry.index_file)
    return {key: tuple(files) for key, files in found.items()}
