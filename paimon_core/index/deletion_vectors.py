"""Deletion vectors: the deleted rows of a data file (Java: `deletionvectors/*`).

::

    index file      version (1 byte: 1), then one block per data file
    32-bit block    length of magic and bitmap (4) | magic (4) | bitmap | CRC-32 (4)    big endian
    64-bit block    the same, the magic in little endian; its `DeletionVectorRange.length`
                    counts length field and CRC too, that of a 32-bit block does not

Both bitmaps are portable Roaring bitmaps.  A position is the row number in the file, from 0.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap, BitMap64

from paimon_core.errors import UNREADABLE, CorruptTable, UnsupportedFeature, missing_file
from paimon_core.io.file_io import FileIO
from paimon_core.io.read_retry import read_whole
from paimon_core.manifest.data_file import DeletionVectorRange, IndexFileMeta

Positions = npt.NDArray[np.int64]
"""Sorted, distinct row positions."""
NOTHING_DELETED: Final[Positions] = np.empty(0, np.int64)

DELETION_VECTORS_INDEX: Final = "DELETION_VECTORS"
MOST_POSITIONS: Final = 1 << 25
_VERSION: Final = 1
_MAGIC_32: Final = 1581511376
_MAGIC_64: Final = 1681511377
_LAST_32: Final = 2**31 - 1
_FRAME: Final = 8
"""The bytes of the length field and the CRC."""


def read_deletion_vectors(io: FileIO, path: str, index_file: IndexFileMeta) -> dict[str, Positions]:
    """Return the deleted positions of every data file in the index file.

    Raises CorruptTable if the file is missing, damaged (by its checksums), or contradicts its
    metadata.
    """
    try:
        data = read_whole(io, path)
    except FileNotFoundError as e:
        raise missing_file("a deletion vector file", path) from e
    if not data or data[0] != _VERSION:
        raise CorruptTable(f"deletion vectors of unknown version {data[:1].hex()}", file=path)
    return {r.data_file: _decode(data, r, path) for r in index_file.dv_ranges or ()}


def _decode(data: bytes, where: DeletionVectorRange, path: str) -> Positions:
    try:
        if where.offset < 0:
            raise ValueError(f"it begins at {where.offset}")
        (length,) = struct.unpack_from(">i", data, where.offset)
        if length < 0:
            raise ValueError(f"it has {length} bytes")
        block = data[where.offset + 4 : where.offset + 4 + length]
        (checksum,) = struct.unpack_from(">I", data, where.offset + 4 + length)
        if len(block) != length or zlib.crc32(block) != checksum:
            raise CorruptTable(f"the deletion vector of {where.data_file} is damaged", file=path)
        if struct.unpack_from(">i", block)[0] == _MAGIC_32:
            expected = where.length
            bitmap: BitMap | BitMap64 = BitMap.deserialize(block[4:])
        elif struct.unpack_from("<i", block)[0] == _MAGIC_64:
            expected = where.length - _FRAME
            bitmap = BitMap64.deserialize(block[4:])
        else:
            raise CorruptTable(
                f"the deletion vector of {where.data_file} has an unknown magic number", file=path
            )
    except (struct.error, *UNREADABLE) as e:
        raise CorruptTable(
            f"the deletion vector of {where.data_file} cannot be decoded: {e}", file=path
        ) from e
    if length != expected or (where.cardinality is not None and len(bitmap) != where.cardinality):
        raise CorruptTable(
            f"the deletion vector of {where.data_file} contradicts its metadata", file=path
        )
    if len(bitmap) > MOST_POSITIONS:
        # A few bytes of runs can represent any number of rows.
        raise UnsupportedFeature(
            f"deletion vectors of more than {MOST_POSITIONS:,} rows",
            f"the deletion vector of {where.data_file} deletes {len(bitmap):,} rows, and at most "
            f"{MOST_POSITIONS:,} are held in memory",
            file=path,
        )
    return np.array(bitmap.to_array(), dtype=np.int64)


def write_deletion_vectors(
    io: FileIO, path: str, vectors: Mapping[str, Positions], *, bitmap64: bool
) -> IndexFileMeta:
    """Write one index file with the vectors of some data files; return its manifest metadata.

    An empty file is written too: it replaces an outdated one.
    """
    content = bytearray([_VERSION])
    ranges: list[DeletionVectorRange] = []
    for data_file, positions in vectors.items():
        block = _encode(positions, bitmap64=bitmap64)
        length = len(block) + _FRAME if bitmap64 else len(block)
        ranges.append(DeletionVectorRange(data_file, len(content), length, len(positions)))
        content += struct.pack(">i", len(block)) + block + struct.pack(">I", zlib.crc32(block))
    io.write_bytes(path, bytes(content))
    return IndexFileMeta(
        index_type=DELETION_VECTORS_INDEX,
        file_name=path.rsplit("/", 1)[-1],
        file_size=len(content),
        row_count=len(ranges),
        dv_ranges=tuple(ranges),
    )


def encoded_size(positions: Positions, *, bitmap64: bool) -> int:
    """Return the size of the vector in an index file in bytes."""
    return len(_encode(positions, bitmap64=bitmap64)) + _FRAME


def _encode(positions: Positions, *, bitmap64: bool) -> bytes:
    if bitmap64:
        return struct.pack("<i", _MAGIC_64) + packed(positions)
    if len(positions) and positions[-1] > _LAST_32:
        raise UnsupportedFeature(
            "deletion vectors of 32 bit for more than 2^31 rows",
            f"row {positions[-1]} cannot be in a deletion vector of 32 bit",
            next_step="set deletion-vectors.bitmap64=true",
        )
    # An array is used directly, other iterables number by number.
    narrow = BitMap(array("I", positions.astype(np.uint32).tobytes()))
    narrow.run_optimize()
    return struct.pack(">i", _MAGIC_32) + bytes(narrow.serialize())


def packed(positions: Positions) -> bytes:
    """Return the positions as a 64-bit Roaring bitmap, for `unpacked`."""
    wide = BitMap64(array("Q", positions.astype(np.uint64).tobytes()))
    wide.run_optimize()
    return bytes(wide.serialize())


def unpacked(data: bytes) -> Positions:
    """Return the positions of `packed`, sorted and distinct."""
    return np.array(BitMap64.deserialize(data).to_array(), dtype=np.int64)


def union(a: Positions, b: Positions) -> Positions:
    """Return the positions in either array, sorted and distinct."""
    return np.union1d(a, b)


def without_deleted(
    batches: Iterator[pa.RecordBatch], deleted: Positions | None, first: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that are not deleted; the input is the file from row `first` on."""
    if deleted is None:
        yield from batches
        return
    for batch, rows in with_deleted_rows(batches, deleted, first):
        if len(rows):
            keep = np.ones(batch.num_rows, np.bool_)
            keep[rows] = False
            yield batch.filter(pa.array(keep))
        else:
            yield batch


def with_deleted_rows(
    batches: Iterator[pa.RecordBatch], deleted: Positions, first: int = 0
) -> Iterator[tuple[pa.RecordBatch, Positions]]:
    """Yield each batch with the numbers of its deleted rows; input as in `without_deleted`."""
    for batch in batches:
        begin, end = np.searchsorted(deleted, (first, first + batch.num_rows))
        yield batch, deleted[begin:end] - first
        first += batch.num_rows
