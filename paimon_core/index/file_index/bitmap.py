"""Bitmap indexes: the rows of each value (Java: `fileindex/bitmap/*`).

::

    version 1  1 | rows (4) | values (4) | nulls? (1) | [offset of null rows (4)]
               | value, offset (4) ... | bitmaps
    version 2  2 | rows (4) | values (4) | nulls? (1) | [offset, length of null rows (4 + 4)]
               | blocks (4) | first value, offset (4) of each block ... | length of all blocks (4)
               | blocks: values (4) | value, offset, length (4 + 4) ... | bitmaps

Values are sorted in version 2.  A negative offset is a single row: -1 - row.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.index.file_index.keys import Key, KeyCodec, bitmap_at, serialized
from paimon_core.options import parse_memory_size
from paimon_core.types.data_types import DataType

KIND: Final = "bitmap"
_INT: Final = struct.Struct(">i")
_PAIR: Final = struct.Struct(">ii")
_HEAD: Final = struct.Struct(">bii?")


class BitmapWriter:
    """Builds the index of one column; memory grows with the number of distinct values."""

    def __init__(self, data_type: DataType, options: Mapping[str, str]) -> None:
        """Options: `version` (1 or 2) and `index-block-size`."""
        self._codec = KeyCodec(data_type, KIND)
        self._version = int(options.get("version", 2))
        if self._version not in (1, 2):
            raise InvalidArgument(f"a bitmap index of version {self._version}")
        self._block_size = parse_memory_size(options.get("index-block-size", "16kb"))
        self._rows = 0
        self._nulls = BitMap()
        self._by_key: dict[Key, BitMap] = {}

    def write(self, array: pa.Array) -> None:
        for key, rows in self._codec.grouped(array, self._rows):
            self._by_key.setdefault(key, BitMap()).update(rows)
        if array.null_count:
            nulls = np.flatnonzero(np.asarray(array.is_null())) + self._rows
            self._nulls |= BitMap(nulls.astype(np.uint32))
        self._rows += len(array)

    def finish(self) -> bytes:
        head = bytearray(
            _HEAD.pack(self._version, self._rows, len(self._by_key), bool(self._nulls))
        )
        null_bytes = serialized(self._nulls)
        body = bytearray(null_bytes if len(self._nulls) > 1 else b"")
        if self._nulls:
            head += _INT.pack(-1 - self._nulls.min() if len(self._nulls) == 1 else 0)
            if self._version == 2:
                head += _INT.pack(len(null_bytes))
        entries: list[tuple[Key, int, int]] = []
        for key, rows in sorted(self._by_key.items()):
            if len(rows) == 1:
                entries.append((key, -1 - rows.min(), -1))
            else:
                data = serialized(rows)
                entries.append((key, len(body), len(data)))
                body += data
        if self._version == 1:
            for key, offset, _ in entries:
                head += self._codec.encode(key) + _INT.pack(offset)
        else:
            head += self._blocks(entries)
        return bytes(head + body)

    def _blocks(self, entries: list[tuple[Key, int, int]]) -> bytes:
        blocks: list[tuple[bytes, int, bytearray]] = []
        for key, offset, length in entries:
            encoded = self._codec.encode(key)
            entry = encoded + _PAIR.pack(offset, length)
            if not blocks or 4 + len(blocks[-1][2]) + len(entry) > self._block_size:
                blocks.append((encoded, 0, bytearray()))
            first, count, data = blocks[-1]
            blocks[-1] = (first, count + 1, data + entry)
        head, stored = bytearray(_INT.pack(len(blocks))), bytearray()
        for first, count, data in blocks:
            head += first + _INT.pack(len(stored))
            stored += _INT.pack(count) + data
        return bytes(head + _INT.pack(len(stored)) + stored)


class BitmapReader:
    """Reads one index."""

    def __init__(self, data: bytes, data_type: DataType) -> None:
        self._data = data
        self.codec = KeyCodec(data_type, KIND)
        version, self.rows, values, self._has_nulls = _HEAD.unpack_from(data)
        if version not in (1, 2):
            raise UnsupportedFeature(f"bitmap index of version {version}")
        at = _HEAD.size
        self._null_offset = 0
        if self._has_nulls:
            (self._null_offset,) = _INT.unpack_from(data, at)
            at += 4 if version == 1 else 8
        self._offsets: dict[Key, int] | None = None
        self._firsts: list[Key] = []
        self._starts: list[int] = []
        if version == 1:
            self._offsets = {}
            for _ in range(values):
                key, at = self.codec.decode(data, at)
                self._offsets[key] = _INT.unpack_from(data, at)[0]
                at += 4
            self._body = at
            return
        (blocks,) = _INT.unpack_from(data, at)
        at += 4
        for _ in range(blocks):
            key, at = self.codec.decode(data, at)
            self._firsts.append(key)
            self._starts.append(_INT.unpack_from(data, at)[0])
            at += 4
        self._blocks = at + 4
        self._body = self._blocks + _INT.unpack_from(data, at)[0]

    def rows_with(self, key: Key) -> BitMap:
        """Return the rows that have the value."""
        offset = self._offset(key)
        return BitMap() if offset is None else self._bitmap(offset)

    def null_rows(self) -> BitMap:
        """Return the rows that are null."""
        return self._bitmap(self._null_offset) if self._has_nulls else BitMap()

    def _bitmap(self, offset: int) -> BitMap:
        if offset < 0:
            return BitMap([-1 - offset])
        return bitmap_at(self._data, self._body + offset)[0]

    def _offset(self, key: Key) -> int | None:
        if self._offsets is not None:
            return self._offsets.get(key)
        block = bisect_right(self._firsts, key) - 1
        if block < 0:
            return None
        at = self._blocks + self._starts[block]
        (count,) = _INT.unpack_from(self._data, at)
        at += 4
        for _ in range(count):
            found, at = self.codec.decode(self._data, at)
            if found == key:
                offset: int = _INT.unpack_from(self._data, at)[0]
                return offset
            at += _PAIR.size
        return None
