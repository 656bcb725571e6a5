"""Compares the content of index files with index manifests and data files."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_core.errors import CorruptTable
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX, read_deletion_vectors
from paimon_core.index.hash_index import HASH_INDEX, read_hash_index
from paimon_core.io.file_io import FileIO
from paimon_core.manifest.data_file import IndexFileMeta


def wrong_index(
    io: FileIO, path: str, file: IndexFileMeta, rows: Mapping[str, int | None]
) -> str | None:
    """The problem of an index file, or None.

    `rows` are the row counts of the data files in its bucket, as far as known.  Decodes every
    vector to check checksum, cardinality and row positions.  CorruptTable if the file is
    unreadable, FileNotFoundError if it does not exist.
    """
    if file.index_type == HASH_INDEX:
        read_hash_index(io, path, file)
        return None
    if file.index_type != DELETION_VECTORS_INDEX:
        return None
    ranges = file.dv_ranges or ()
    if file.row_count != len(ranges):
        return f"it lists {len(ranges):,} deletion vectors, but its row count is {file.row_count:,}"
    try:
        vectors = read_deletion_vectors(io, path, file)
    except CorruptTable as e:
        if isinstance(e.__cause__, FileNotFoundError):
            raise e.__cause__ from e
        raise
    for name, positions in vectors.items():
        known = rows.get(name)
        if known is not None and len(positions) and positions[-1] >= known:
            return f"it deletes row {positions[-1]:,} of {name}, which has {known:,} rows"
    return None
