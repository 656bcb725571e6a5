"""B-tree indexes: the ids of the rows of each key (Java: `globalindex/btree/*`).

::

    file      blocks of key -> number of rows, ids of rows (variable length)
              | rows without a value: Roaring bitmap, CRC-32 (4) | index of the blocks | footer
    footer    offset, size, entries of a Bloom filter (8 + 4 + 8, all 0)
              | offset and size of the index (8 + 4) | of the bitmap (8 + 4, 0 without one)
              | version (4) | magic number (4)
    metadata  length (4) and bytes of the first key, the same of the last one | nulls? (1)
              | version of the rest (1) | flags: no first key, no last key (1)

All numbers are in little endian.  Ids count from the first row of the range of the file.  Paimon
1.4 writes metadata without the last two bytes, and takes a key of no bytes for none.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from paimon_core.errors import UNREADABLE, CorruptTable, UnsupportedFeature
from paimon_core.index.deletion_vectors import MOST_POSITIONS, packed
from paimon_core.index.global_index.keys import KeyOrder, KeyType
from paimon_core.index.global_index.records import (
    Ints,
    Records,
    grouped,
    joined,
    read_varint,
    read_varints,
    varints,
)
from paimon_core.index.global_index.sorted_file import (
    TRAILER,
    Codec,
    Handle,
    SortedFileWriter,
    check_size,
    read_block,
    read_handle,
)
from paimon_core.io.file_io import FileIO, named_in_errors

_FOOTER: Final = struct.Struct("<qiqqiqiii")
_MAGIC: Final = 0x50425449
_VERSION: Final = 1
_META_VERSION: Final = 1
_NO_FIRST, _NO_LAST = 1, 2
_INT: Final = struct.Struct("<i")
_SLICE_ROWS: Final = 1 << 18
"""Rows that are encoded at a time."""
MOST_BLOCKS: Final = 64
"""Blocks that one condition may read; with more, reading the table is no slower."""


@dataclass(frozen=True, slots=True)
class IndexMeta:
    """The metadata of an index file in the index manifest; no keys if all values are null."""

    first_key: bytes | None
    last_key: bytes | None
    has_nulls: bool

    def encode(self) -> bytes:
        """Return its bytes, as Paimon 2.0 writes them."""
        flags = _NO_FIRST * (self.first_key is None) + _NO_LAST * (self.last_key is None)
        keys = (_INT.pack(len(k)) + k for k in (self.first_key or b"", self.last_key or b""))
        return b"".join(keys) + bytes([self.has_nulls, _META_VERSION, flags])

    @classmethod
    def decode(cls, data: bytes) -> IndexMeta:
        """Return the metadata; IndexError or struct.error for bytes that are none."""
        first, at = _sized(data, 0)
        last, at = _sized(data, at)
        has_nulls = data[at] == 1
        if len(data) >= at + 3 and data[at + 1] == _META_VERSION:
            flags = data[at + 2]
            no_first, no_last = bool(flags & _NO_FIRST), bool(flags & _NO_LAST)
        else:
            no_first = no_last = not first and not last and has_nulls
        return cls(None if no_first else first, None if no_last else last, has_nulls)


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    (size,) = _INT.unpack_from(data, at)
    end = at + _INT.size + size
    if size < 0 or end > len(data):
        raise IndexError(end)
    return data[at + _INT.size : end], end


@dataclass(frozen=True, slots=True)
class Written:
    """A new index file: bytes, rows, and its metadata."""

    size: int
    rows: int
    meta: IndexMeta


def write_btree(
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

    `column` and the ascending `ids` are those of all rows.
    """
    meta = meta_of(column, order.rows, keys, has_nulls=len(order.nulls) > 0)
    with named_in_errors(path), io.open_output(path) as sink:
        file = SortedFileWriter(sink.write, block_size, codec)
        for first, last in slices_of(order.starts):
            rows = order.rows[order.starts[first] : end_of(order, last)]
            starts = order.starts[first:last] - order.starts[first]
            distinct = column.take(pa.array(rows[starts]))
            file.add(keys.encode(distinct), _row_lists(ids[rows], starts))
        nulls = Handle(0, 0)
        if len(order.nulls):
            bitmap = packed(ids[order.nulls])
            at = file.write(bitmap + struct.pack("<I", zlib.crc32(bitmap)))
            nulls = Handle(at, len(bitmap))
        index = file.write_index()
        file.write(
            _FOOTER.pack(
                0, 0, 0, index.offset, index.size, nulls.offset, nulls.size, _VERSION, _MAGIC
            )
        )
    return Written(file.position, len(order.rows) + len(order.nulls), meta)


def meta_of(column: pa.Array, rows: Ints, keys: KeyType, *, has_nulls: bool) -> IndexMeta:
    """Return the metadata of an index of these rows, sorted by key, and perhaps of nulls."""
    if not len(rows):
        return IndexMeta(None, None, has_nulls)
    ends = (keys.encode(column.take(pa.array(rows[at : at + 1]))) for at in (0, len(rows) - 1))
    first, last = (e.data.tobytes() for e in ends)
    return IndexMeta(first, last, has_nulls)


def end_of(order: KeyOrder, key: int) -> int:
    """Return where the rows of the keys before this number end."""
    return int(order.starts[key]) if key < len(order.starts) else len(order.rows)


def slices_of(starts: Ints) -> Iterator[tuple[int, int]]:
    """Yield ranges of keys with about `_SLICE_ROWS` rows each."""
    first = 0
    while first < len(starts):
        last = int(np.searchsorted(starts, starts[first] + _SLICE_ROWS))
        last = max(last, first + 1)
        yield first, last
        first = last


def _row_lists(ids: Ints, starts: Ints) -> Records:
    """Return the number and the ids of the rows of each key."""
    counts = np.diff(np.append(starts, len(ids)))
    return joined((varints(counts), grouped(varints(ids), starts)))


class BtreeReader:
    """Looks up keys in an index file; reads only the blocks that may hold them."""

    def __init__(self, io: FileIO, path: str, keys: KeyType) -> None:
        """Raise FileNotFoundError, CorruptTable for a file that is no such index, or as below."""
        self._path = path
        self._keys = keys
        self._file = io.open_input(path)
        try:
            self._size = self._file.size()
            footer = _FOOTER.unpack(self._read(self._size - _FOOTER.size, _FOOTER.size))
            *_, offset, length, null_offset, null_length, version, magic = footer
            if magic != _MAGIC or version != _VERSION:
                raise CorruptTable("not a B-tree index of version 1", file=path)
            self._nulls = Handle(null_offset, null_length)
            index = self._block(Handle(offset, length))
            try:
                self._last_keys = [keys.decode(key) for key, _ in index]
                self._handles = [read_handle(value) for _, value in index]
            except IndexError as e:
                raise self._damaged(e) from e
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def null_rows(self) -> Ints:
        """Return the ids of the rows without a value; UnsupportedFeature for too many."""
        if not self._nulls.size:
            return np.empty(0, np.int64)
        data = self._read(self._nulls.offset, self._nulls.size + 4)
        bitmap = data[:-4]
        if struct.pack("<I", zlib.crc32(bitmap)) != data[-4:]:
            raise CorruptTable("the rows without a value have another checksum", file=self._path)
        try:
            rows = BitMap64.deserialize(bitmap)
        except UNREADABLE as e:
            raise self._damaged(e) from e
        if len(rows) > MOST_POSITIONS:  # a few bytes of runs can stand for any number of rows
            raise UnsupportedFeature(
                f"index files with more than {MOST_POSITIONS:,} nulls", file=self._path
            )
        return np.array(rows.to_array(), np.int64)

    def rows_between(self, low: Any, high: Any) -> Ints | None:
        """Return the ids of rows with keys from `low` to `high`, both included; None: no limit.

        Keys are in the form of `KeyType.bounds`.  None for more than `MOST_BLOCKS` blocks.
        Raises UnsupportedFeature for blocks that are too large.
        """
        first = 0 if low is None else bisect_left(self._last_keys, low)
        last = len(self._handles) if high is None else bisect_left(self._last_keys, high) + 1
        wanted = self._handles[first:last]
        if len(wanted) > MOST_BLOCKS:
            return None
        found = [np.empty(0, np.int64)]
        for handle in wanted:
            entries = self._block(handle)
            try:
                decoded = [self._keys.decode(key) for key, _ in entries]
                begin = 0 if low is None else bisect_left(decoded, low)
                end = len(decoded) if high is None else bisect_right(decoded, high)
                found += (_row_ids(value) for _, value in entries[begin:end])
            except IndexError as e:
                raise self._damaged(e) from e
        return np.concatenate(found)

    def _block(self, handle: Handle) -> list[tuple[bytes, bytes]]:
        stored = self._read(handle.offset, handle.size + TRAILER.size)
        try:
            return read_block(stored)
        except UnsupportedFeature as e:
            e.file = self._path
            raise
        except (CorruptTable, struct.error, *UNREADABLE) as e:
            raise self._damaged(e) from e

    def _read(self, offset: int, size: int) -> bytes:
        if offset < 0 or size < 0 or offset + size > self._size:
            raise CorruptTable(
                f"an index file without bytes {offset} to {offset + size}", file=self._path
            )
        check_size(size, self._path)
        self._file.seek(offset)
        data: bytes = self._file.read(size)
        if len(data) != size:
            raise CorruptTable(f"an index file that ends before {offset + size}", file=self._path)
        return data

    def _damaged(self, error: BaseException) -> CorruptTable:
        return CorruptTable(f"the index file cannot be decoded: {error}", file=self._path)


def _row_ids(value: bytes) -> Ints:
    count, at = read_varint(value, 0)
    ids = read_varints(value[at:])
    if len(ids) != count:
        raise IndexError(count)
    return ids
