"""Files of sorted keys and values in blocks (Java: `sst/SstFileWriter`, `sst/BlockWriter`).

::

    block     key length, key, value length, value ...   lengths of variable length
              | same size for all: the size of an entry (4) | 0
              | else: place of each entry (4 each), number of entries (4) | 1
    on disk   block, perhaps compressed | codec (1) | CRC-32 of both (4)
    index     a block: the last key of each block, and where that is

All numbers are in little endian.  A compressed block begins with its length before.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import zstandard

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.format.bounded import inflate
from paimon_core.format.orc.protobuf import varint
from paimon_core.index.global_index.records import (
    Ints,
    Records,
    fixed,
    joined,
    read_varint,
    varints,
)

_NONE, _ZSTD = 0, 1
_ALIGNED, _UNALIGNED = 0, 1
TRAILER: Final = struct.Struct("<BI")
_INT: Final = struct.Struct("<i")
_PLACE_BYTES: Final = 4
MOST_BYTES: Final = 1 << 25
_MOST_ENTRIES: Final = 1 << 20
"""What is read of one block; a hostile one must not take all memory."""


@dataclass(frozen=True, slots=True)
class Handle:
    """Where a block is in its file; the trailer after it does not count."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Codec:
    """How blocks are compressed."""

    name: str = "none"
    level: int = 1

    def __post_init__(self) -> None:
        """Raise InvalidArgument for a codec that is not supported."""
        if self.name not in ("none", "zstd"):
            raise InvalidArgument(
                f"the compression {self.name} of indexes is not supported",
                next_step="use none or zstd",
            )


class SortedFileWriter:
    """Writes sorted entries, slice by slice, and the index of their blocks at the end."""

    def __init__(self, write: Callable[[bytes], object], block_size: int, codec: Codec) -> None:
        self._write = write
        self._block_size = block_size
        self._codec = codec
        self._last_keys: list[bytes] = []
        self._handles: list[Handle] = []
        self.position = 0

    def add(self, keys: Records, values: Records) -> None:
        """Write entries that follow all earlier ones."""
        if not len(keys.lengths):
            return
        entries = joined((varints(keys.lengths), keys, varints(values.lengths), values))
        ends = np.cumsum(entries.lengths)
        key_starts = keys.starts()
        for first, last in self._blocks(ends):
            begin = int(ends[first] - entries.lengths[first])
            block = entries.data[begin : int(ends[last])].tobytes()
            handle = self._add_block(block, entries.lengths[first : last + 1])
            at = int(key_starts[last])
            self._last_keys.append(keys.data[at : at + int(keys.lengths[last])].tobytes())
            self._handles.append(handle)

    def _blocks(self, ends: Ints) -> Iterator[tuple[int, int]]:
        """Yield the first and last entry of each block."""
        sizes = ends + _PLACE_BYTES * np.arange(1, len(ends) + 1)
        first, before = 0, 0
        while first < len(ends):
            last = int(np.searchsorted(sizes, before + self._block_size))
            last = min(last, len(ends) - 1)
            yield first, last
            first, before = last + 1, int(sizes[last])

    def write_index(self) -> Handle:
        """Write the index of the blocks and return where it is."""
        handles = [varint(h.offset) + varint(h.size) for h in self._handles]
        entries = [
            varint(len(key)) + key + varint(len(handle)) + handle
            for key, handle in zip(self._last_keys, handles, strict=True)
        ]
        return self._add_block(b"".join(entries), np.array([len(e) for e in entries], np.int64))

    def write(self, data: bytes) -> int:
        """Write bytes that are no block, and return where they begin."""
        at = self.position
        self._write(data)
        self.position += len(data)
        return at

    def _add_block(self, entries: bytes, lengths: Ints) -> Handle:
        if len(lengths) and (lengths == lengths[0]).all():
            block = entries + _INT.pack(int(lengths[0])) + bytes([_ALIGNED])
        else:
            places = fixed((np.cumsum(lengths) - lengths).astype(np.int32)).data.tobytes()
            block = entries + places + _INT.pack(len(lengths)) + bytes([_UNALIGNED])
        block, trailer = stored_block(block, self._codec)
        at = self.write(block)
        self.write(trailer)
        return Handle(at, len(block))


def stored_block(block: bytes, codec: Codec) -> tuple[bytes, bytes]:
    """Return a block as it is stored, compressed if that saves an eighth, and its trailer."""
    kind = _NONE
    if codec.name == "zstd":
        packed = zstandard.ZstdCompressor(level=codec.level).compress(block)
        packed = varint(len(block)) + packed
        if len(packed) < len(block) - len(block) // 8:
            kind, block = _ZSTD, packed
    return block, TRAILER.pack(kind, zlib.crc32(bytes([kind]), zlib.crc32(block)))


def check_size(size: int, path: str | None = None) -> None:
    """Raise UnsupportedFeature for a block that is too large to be read."""
    if size > MOST_BYTES:
        raise UnsupportedFeature(f"index blocks of more than {MOST_BYTES:,} bytes", file=path)


def read_block(stored: bytes) -> list[tuple[bytes, bytes]]:
    """Return the keys and values of a block with its trailer.

    Raises CorruptTable, ValueError, IndexError or struct.error if it is damaged, UnsupportedFeature
    for an unknown codec, or more than `MOST_BYTES`.
    """
    block, trailer = stored[: -TRAILER.size], stored[-TRAILER.size :]
    kind, checksum = TRAILER.unpack(trailer)
    if zlib.crc32(bytes([kind]), zlib.crc32(block)) != checksum:
        raise ValueError("a block has another checksum than stored")
    if kind == _ZSTD:
        size, at = read_varint(block, 0)
        check_size(size)
        block = inflate("zstandard", block[at:], size)
    elif kind != _NONE:
        raise UnsupportedFeature(f"index blocks with codec {kind}")
    return list(_entries(block))


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    (number,) = _INT.unpack_from(block, len(block) - 1 - _INT.size)
    end = len(block) - 1 - _INT.size
    if block[-1] == _ALIGNED:
        if number <= 0 or end % number:
            raise ValueError(f"a block of {end} bytes with entries of {number}")
        number = end // number
    elif block[-1] == _UNALIGNED:
        end -= _PLACE_BYTES * number
        if number < 0 or end < 0:
            raise ValueError(f"a block with {number} entries")
    else:
        raise ValueError(f"a block of kind {block[-1]}")
    if number > _MOST_ENTRIES:
        raise UnsupportedFeature(f"index blocks of more than {_MOST_ENTRIES:,} keys")
    at = 0
    for _ in range(number):
        key, at = _sized(block, at, end)
        value, at = _sized(block, at, end)
        yield key, value
    if at != end:
        raise ValueError(f"a block whose entries end at {at} instead of {end}")


def _sized(block: bytes, at: int, end: int) -> tuple[bytes, int]:
    size, at = read_varint(block, at)
    if at + size > end:
        raise IndexError(at + size)
    return block[at : at + size], at + size


def read_handle(data: bytes) -> Handle:
    """Return the place that the index has for a block."""
    offset, at = read_varint(data, 0)
    size, _ = read_varint(data, at)
    return Handle(offset, size)
