"""Range bitmaps: a sorted dictionary, and a bit-sliced index of its codes.

Java: `fileindex/rangebitmap/*`, `dictionary/chunked/*`.  All numbers are big-endian::

    header length (4) | 1 | rows (4) | values (4) | [least, greatest value] | dictionary length (4)
    dictionary   header length (4) | 1 | chunks (4) | bytes of offsets (4) | bytes of chunks (4)
                 | offset of each chunk (4) ... | chunks | keys
    chunk        1 | first key | its code (4) | offset of its keys (4) | further keys (4)
                 | [texts: bytes of offsets (4)] | bytes of keys (4) | [others: width (4)]
    codes        header length (4) | 1 | slices (1) | bytes of present rows (4)
                 | bytes of places (4) | offset, length (4 + 4) of each slice ... | bitmaps
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyroaring import BitMap

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.index.file_index.bsi import Slices
from paimon_core.index.file_index.keys import Key, KeyCodec, serialized
from paimon_core.options import parse_memory_size
from paimon_core.types.data_types import (
    TIMESTAMP_TYPES,
    DataType,
    TypeRoot,
)

KIND: Final = "range-bitmap"
VERSION: Final = 1
_UNCHUNKED: Final = (TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT)
_MICROS: Final = 6
_INT: Final = struct.Struct(">i")


class RangeBitmapWriter:
    """Builds the index of one column; memory grows with the number of distinct values."""

    def __init__(self, data_type: DataType, options: Mapping[str, str]) -> None:
        """Option `chunk-size`: the bytes of keys in a chunk of the dictionary."""
        self._codec = _codec(data_type)
        default = "0b" if self._codec.type.kind in _UNCHUNKED else "16kb"
        self._chunk_size = parse_memory_size(options.get("chunk-size", default))
        self._rows = 0
        self._by_key: dict[Key, BitMap] = {}

    def write(self, array: pa.Array) -> None:
        for key, rows in self._codec.grouped(array, self._rows):
            self._by_key.setdefault(key, BitMap()).update(rows)
        self._rows += len(array)

    def finish(self) -> bytes:
        keys: list[Key] = sorted(self._by_key)
        dictionary = self._dictionary(keys)
        bounds = self._codec.encode(keys[0]) + self._codec.encode(keys[-1]) if keys else b""
        head = struct.pack(">bii", VERSION, self._rows, len(keys)) + bounds
        head += _INT.pack(len(dictionary))
        codes = _codes([self._by_key[k] for k in keys])
        return _INT.pack(len(head)) + head + dictionary + codes

    def _dictionary(self, keys: list[Key]) -> bytes:
        offsets, chunks, stored = bytearray(), bytearray(), bytearray()
        code = count = 0
        while code < len(keys):
            places, further = bytearray(), bytearray()
            first = code
            code += 1
            while code < len(keys):
                encoded = self._codec.encode(keys[code])
                room = self._chunk_size - len(further)
                if len(encoded) > room or (
                    self._codec.width == 0 and self._chunk_size - len(places) < 4
                ):
                    break
                places += _INT.pack(len(further))
                further += encoded
                code += 1
            encoded = self._codec.encode(keys[first])
            offsets += _INT.pack(len(chunks))
            chunks += bytes([VERSION]) + encoded
            chunks += struct.pack(">iii", first, len(stored), code - first - 1)
            if self._codec.width == 0:
                chunks += struct.pack(">ii", len(places), len(further))
                stored += places
            else:
                chunks += struct.pack(">ii", len(further), self._codec.width)
            stored += further
            count += 1
        head = struct.pack(">biii", VERSION, count, len(offsets), len(chunks))
        return _INT.pack(len(head)) + head + bytes(offsets + chunks + stored)


def _codes(rows_of: list[BitMap]) -> bytes:
    # Java uses -1 as the greatest code if there is none, which gives 64 slices.
    slices = [BitMap() for _ in range(max((len(rows_of) - 1).bit_length(), 1) if rows_of else 64)]
    present = BitMap()
    for code, rows in enumerate(rows_of):
        present |= rows
        for i in range(code.bit_length()):
            if code >> i & 1:
                slices[i] |= rows
    body = [serialized(s) for s in slices]
    places, offset = b"", 0
    for data in body:
        places += struct.pack(">ii", offset, len(data))
        offset += len(data)
    present_bytes = serialized(present)
    head = struct.pack(">bbii", VERSION, len(slices), len(present_bytes), len(places)) + places
    return _INT.pack(len(head)) + head + present_bytes + b"".join(body)


class RangeBitmapReader:
    """Reads one index."""

    def __init__(self, data: bytes, data_type: DataType) -> None:
        self.codec = _codec(data_type)
        (length,) = _INT.unpack_from(data)
        version, self.rows, self._values = struct.unpack_from(">bii", data, 4)
        _check(version)
        at = 13
        if self._values > 0:
            _, at = self.codec.decode(data, at)
            _, at = self.codec.decode(data, at)
        (dictionary_length,) = _INT.unpack_from(data, at)
        start = 4 + length
        self._keys = self._read_dictionary(data, start)
        self._slices = self._read_codes(data, start + dictionary_length)

    def present(self) -> BitMap:
        """Return the rows that are not null."""
        return self._slices.present.copy()

    def equal(self, key: Key) -> BitMap:
        """Return the rows that have the value."""
        code = bisect_left(self._keys, key)
        if code == len(self._keys) or self._keys[code] != key:
            return BitMap()
        return self._slices.equal(code)

    def less(self, key: Key) -> BitMap:
        """Return the rows below the value."""
        return self._slices.less(bisect_left(self._keys, key))

    def _read_dictionary(self, data: bytes, start: int) -> list[Key]:
        (length,) = _INT.unpack_from(data, start)
        version, count, offset_bytes, chunk_bytes = struct.unpack_from(">biii", data, start + 4)
        _check(version)
        at = start + 4 + length + offset_bytes
        stored = at + chunk_bytes
        if count < 0:
            raise ValueError(f"a dictionary of {count} chunks")
        keys: list[Key] = []
        left = len(data)
        for _ in range(count):
            _check(data[at])
            key, at = self.codec.decode(data, at + 1)
            _, offset, further, first, _ = struct.unpack_from(">iiiii", data, at)
            at += 20
            keys.append(key)
            # Every key has different bytes.
            if further < 0 or len(keys) + further > len(data):
                raise ValueError(f"a dictionary of more than {len(data):,} keys")
            first_byte = where = stored + offset + (first if self.codec.width == 0 else 0)
            for _ in range(further):
                key, where = self.codec.decode(data, where)
                # Chunks that share their bytes would take far more memory than the index.
                if where - first_byte > left:
                    raise ValueError(f"a dictionary of more than {len(data):,} bytes")
                keys.append(key)
            left -= where - first_byte
        return keys

    def _read_codes(self, data: bytes, start: int) -> Slices:
        if self._values <= 0:
            return Slices(0, -1, BitMap(), [])
        (length,) = _INT.unpack_from(data, start)
        version, count, present_bytes, _ = struct.unpack_from(">bbii", data, start + 4)
        _check(version)
        if start < 0 or length < 0 or present_bytes < 0 or count < 0:
            raise ValueError("a negative length")
        at = start + 4 + length
        present = BitMap.deserialize(data[at : at + present_bytes])
        at += present_bytes
        slices = []
        left = len(data)
        for i in range(count):
            offset, size = struct.unpack_from(">ii", data, start + 14 + 8 * i)
            left -= size
            if size < 0 or left < 0:
                raise ValueError(f"bitmaps of more than {len(data):,} bytes")
            slices.append(BitMap.deserialize(data[at + offset : at + offset + size]))
        return Slices(0, self._values - 1, present, slices)


def _check(version: int) -> None:
    if version != VERSION:
        raise UnsupportedFeature(f"range-bitmap index of version {version}")


def _codec(data_type: DataType) -> KeyCodec:
    codec = KeyCodec(data_type, KIND)
    if codec.type.kind in TIMESTAMP_TYPES and (codec.type.precision or 0) > _MICROS:
        raise InvalidArgument(
            "a range-bitmap index on a TIMESTAMP beyond microseconds",
            next_step=f"take the column out of the table option file-index.{KIND}.columns",
        )
    return codec
