"""BLOB files (Java: `format/blob/BlobFileMeta`, `BlobFormatReader`).

One column, one element for each row, in the order of the rows::

    element    magic number (4 bytes), value, its whole length (8 bytes), CRC-32 (4 bytes)
    ...
    index      the lengths of the elements as delta varints; -1: null, -2: a placeholder
    footer     size of the index (4 bytes), version 1

Null and placeholder have no element.  A placeholder stands where an update leaves a value as it is:
the value is in an older file of these rows.  All numbers are little endian.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.blob.delta_varints import decode_delta_varints

NULL: Final = -1
PLACEHOLDER: Final = -2
OVERHEAD: Final = 16
"""The bytes of an element beside its value."""
MAGIC: Final = struct.pack("<i", 1_481_511_375)
FOOTER: Final = struct.Struct("<iB")
TAIL: Final = struct.Struct("<qI")
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class BlobIndex:
    """The elements of a file: `lengths` with NULL and PLACEHOLDER, and where each begins."""

    lengths: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]


def read_index(source: pa.NativeFile) -> BlobIndex:
    """Return the index of an open BLOB file.

    Raises CorruptTable if it does not fit the file, UnsupportedFeature for an unknown version.
    """
    size = source.size()
    if size < FOOTER.size:
        raise CorruptTable(f"a BLOB file has only {size} bytes")
    index_size, version = FOOTER.unpack(source.read_at(FOOTER.size, size - FOOTER.size))
    if version != VERSION:
        raise UnsupportedFeature(f"version {version} of BLOB files")
    end = size - FOOTER.size - index_size
    if index_size < 0 or end < 0:
        raise CorruptTable(f"the index of a BLOB file takes {index_size} bytes of {size}")
    lengths = decode_delta_varints(source.read_at(index_size, end))
    stored = np.maximum(lengths, 0)
    wrong = (lengths < PLACEHOLDER) | ((lengths >= 0) & (lengths < OVERHEAD)) | (lengths > end)
    if wrong.any() or int(stored.sum()) != end:
        raise CorruptTable("the lengths in a BLOB file do not add up to its size")
    return BlobIndex(lengths, np.cumsum(stored) - stored)


def read_elements(
    source: pa.NativeFile, index: BlobIndex, first: int, last: int
) -> list[bytes | None]:
    """Return the values of the rows from `first` to before `last` by one read.

    None for nulls and placeholders.  Raises CorruptTable if an element is damaged.
    """
    lengths = index.lengths[first:last]
    size = int(np.maximum(lengths, 0).sum())
    data = memoryview(source.read_at(size, int(index.offsets[first])) if size else b"")
    if len(data) != size:
        raise CorruptTable("a BLOB file ends within an element")
    values: list[bytes | None] = []
    at = 0
    for length in lengths.tolist():
        values.append(None if length < 0 else _value(data[at : at + length]))
        at += max(length, 0)
    return values


def check_elements(source: pa.NativeFile) -> int:
    """Read all elements, one at a time, and return their number; errors as in `read_elements`."""
    index = read_index(source)
    for row in range(len(index.lengths)):
        read_elements(source, index, row, row + 1)
    return len(index.lengths)


def _value(element: memoryview) -> bytes:
    end = len(element) - TAIL.size
    length, checksum = TAIL.unpack(element[end:])
    if length != len(element) or element[:4] != MAGIC:
        raise CorruptTable("an element of a BLOB file has a wrong header or length")
    # The checksum covers the length too.
    if zlib.crc32(element[: len(element) - 4]) != checksum:
        raise CorruptTable("an element of a BLOB file does not match its checksum")
    return bytes(element[4:end])
