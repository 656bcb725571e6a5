"""Hash indexes: the keys of a bucket of a dynamic-bucket table (Java: `index/HashIndexFile`).

::

    index file      the Murmur hash of each key (4 bytes, big endian), each hash once, in any order

A partition's hash indexes together define the bucket of every key: all keys with the same hash are
in one bucket.  Only writers change them; compaction does not.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from paimon_core.errors import CorruptTable, missing_file
from paimon_core.io.file_io import FileIO
from paimon_core.io.read_retry import read_whole
from paimon_core.manifest.data_file import IndexFileMeta

HASH_INDEX: Final = "HASH"
_BIG_ENDIAN: Final = np.dtype(">i4")

Hashes = npt.NDArray[np.int32]


def read_hash_index(io: FileIO, path: str, index_file: IndexFileMeta) -> Hashes:
    """Return the hashes of a bucket's keys in file order.

    Raises CorruptTable if the file is missing or contradicts the row count of its metadata.
    """
    try:
        data = read_whole(io, path)
    except FileNotFoundError as e:
        raise missing_file("a hash index file", path) from e
    if len(data) != index_file.row_count * _BIG_ENDIAN.itemsize:
        raise CorruptTable(
            f"a hash index of {index_file.row_count:,} hashes has {len(data):,} bytes",
            file=path,
            next_step="put the file back from a backup, or overwrite its partition: without "
            "it, a writer could put one key into two buckets",
        )
    return np.frombuffer(data, _BIG_ENDIAN).astype(np.int32)


def write_hash_index(io: FileIO, path: str, hashes: Hashes) -> IndexFileMeta:
    """Write one bucket's hashes and return the file's manifest metadata."""
    data = hashes.astype(_BIG_ENDIAN).tobytes()
    io.write_bytes(path, data)
    return IndexFileMeta(
        index_type=HASH_INDEX,
        file_name=path.rsplit("/", 1)[-1],
        file_size=len(data),
        row_count=len(hashes),
    )
