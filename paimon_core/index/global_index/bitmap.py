"""Writes bitmap indexes: the ids of the rows of each key as a bitmap.

Java 2.0: `globalindex/bitmap/BitmapGlobalIndexWriter`, `BitmapGlobalIndexFormat`.

::

    file      bitmap of each key, in the order of the keys; after those of a block of keys, that
              | bitmap of the rows without a value | bitmap of all others | index | footer
    block     number of keys | for each: length, key, place and length of its bitmap
    index     number of blocks | for each: length, first key, place and length of the block
    footer    place (8) and length (4) of both bitmaps and of the index
              | number of keys (4) | version (4) | magic number (4)

Bitmaps are 64-bit Roaring bitmaps.  Other numbers have variable length, those of the footer are in
big endian.  Blocks and index are stored as in `sorted_file`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from paimon_core.format.orc.protobuf import varint
from paimon_core.index.deletion_vectors import packed
from paimon_core.index.global_index.btree import Written, end_of, meta_of, slices_of
from paimon_core.index.global_index.keys import KeyOrder, KeyType
from paimon_core.index.global_index.records import Ints
from paimon_core.index.global_index.sorted_file import Codec, Handle, stored_block
from paimon_core.io.file_io import FileIO, named_in_errors

_FOOTER: Final = struct.Struct(">qiqiqiiii")
_VERSION: Final = 1
_MAGIC: Final = 0x42474958


def write_bitmap(
    io: FileIO,
    path: str,
    column: pa.Array,
    ids: Ints,
    keys: KeyType,
    order: KeyOrder,
    *,
    block_size: int,
    codec: Codec,
) -> Written:
    """Write the index of the rows in `order`, of which there is one at least.

    Arguments as in `write_btree`.
    """
    meta = meta_of(column, order.rows, keys, has_nulls=len(order.nulls) > 0)
    with named_in_errors(path), io.open_output(path) as sink:
        file = _File(sink, block_size, codec)
        for first, last in slices_of(order.starts):
            starts = order.starts[first:last]
            encoded = keys.encode(column.take(pa.array(order.rows[starts])))
            data, at = encoded.data.tobytes(), 0
            for number, size in enumerate(encoded.lengths.tolist(), first):
                rows = order.rows[order.starts[number] : end_of(order, number + 1)]
                file.add(data[at : at + size], packed(ids[rows]))
                at += size
        file.close(packed(ids[order.nulls]), packed(ids[order.rows]))
    return Written(file.position, len(order.rows) + len(order.nulls), meta)


@dataclass(slots=True)
class _File:
    """The bitmaps written so far, and the keys of the block that is not full."""

    sink: pa.NativeFile
    block_size: int
    codec: Codec
    position: int = 0
    _keys: int = 0
    _block: list[bytes] = field(default_factory=list)
    _block_bytes: int = 0
    _first_key: bytes = b""
    _index: list[bytes] = field(default_factory=list)

    def add(self, key: bytes, bitmap: bytes) -> None:
        entry = _entry(key, self._write(bitmap))
        size = len(varint(len(self._block) + 1)) + self._block_bytes + len(entry)
        if self._block and size > self.block_size:
            self._end_block()
        if not self._block:
            self._first_key = key
        self._block.append(entry)
        self._block_bytes += len(entry)
        self._keys += 1

    def close(self, nulls: bytes, others: bytes) -> None:
        if self._block:
            self._end_block()
        places = [self._write(nulls), self._write(others), self._write_block(self._index)]
        numbers = [n for place in places for n in (place.offset, place.size)]
        self._write(_FOOTER.pack(*numbers, self._keys, _VERSION, _MAGIC))

    def _end_block(self) -> None:
        self._index.append(_entry(self._first_key, self._write_block(self._block)))
        self._block, self._block_bytes = [], 0

    def _write_block(self, entries: list[bytes]) -> Handle:
        block, trailer = stored_block(varint(len(entries)) + b"".join(entries), self.codec)
        place = self._write(block)
        self._write(trailer)
        return place

    def _write(self, data: bytes) -> Handle:
        place = Handle(self.position, len(data))
        self.sink.write(data)
        self.position += len(data)
        return place


def _entry(key: bytes, place: Handle) -> bytes:
    return varint(len(key)) + key + varint(place.offset) + varint(place.size)
