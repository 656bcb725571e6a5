"""Keys of bitmap indexes: sortable values with a byte form.

Java: `KeyFactory`, `BitmapTypeVisitor`.  A key is an int or the bytes of a string.  FLOAT and
DOUBLE become integers that sort like Java's `Double.compare`: -0.0 before 0.0, NaN after all
numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_core.index.file_index.hash64 import float_bits
from paimon_core.index.file_index.values import (
    SMALL_INTEGERS,
    atomic,
    numbers,
    refused,
    unscaled_numbers,
)
from paimon_core.types.data_types import (
    CHARACTER_TYPES,
    FLOAT_TYPES,
    TIMESTAMP_TYPES,
    AtomicType,
    DataType,
    TypeRoot,
)

Key = int | bytes
_LENGTH: Final = struct.Struct(">i")
_COMPACT_DECIMAL: Final = 18
_MOST_CONTAINERS: Final = 1 << 16


class KeyCodec:
    """Converts the keys of one column from arrays, to bytes and back."""

    def __init__(self, data_type: DataType, kind: str) -> None:
        """Raise InvalidArgument for a type for which Java has no index of this kind."""
        t = atomic(data_type, kind)
        decimal = t.kind is TypeRoot.DECIMAL and (t.precision or 0) <= _COMPACT_DECIMAL
        if t.kind in CHARACTER_TYPES:
            self.width = 0
        elif t.kind in SMALL_INTEGERS:
            self.width = SMALL_INTEGERS[t.kind]
        elif t.kind is TypeRoot.BOOLEAN:
            self.width = 1
        elif t.kind in FLOAT_TYPES:
            self.width = 4 if t.kind is TypeRoot.FLOAT else 8
        elif t.kind in TIMESTAMP_TYPES or (decimal and kind != "bitmap"):
            self.width = 8
        else:
            raise refused(t, kind)
        self.type: AtomicType = t

    def grouped(self, array: pa.Array, first_row: int) -> Iterator[tuple[Key, BitMap]]:
        """Yield each value of the array with its rows; nulls are left out."""
        valid = np.asarray(array.is_valid())
        rows = np.flatnonzero(valid) + first_row
        if len(rows) == 0:
            return
        if self.width == 0:
            encoded = array.drop_null().dictionary_encode()
            codes = np.asarray(encoded.indices)
            keys: list[Key] = encoded.dictionary.cast(pa.binary()).to_pylist()
        else:
            distinct, codes = np.unique(self._numbers(array)[valid], return_inverse=True)
            keys = distinct.tolist()
        order = np.argsort(codes, kind="stable")
        borders = np.flatnonzero(np.diff(codes[order])) + 1
        for group in np.split(order, borders):
            yield keys[codes[group[0]]], BitMap(rows[group].astype(np.uint32))

    def key(self, value: object) -> Key:
        """Return the key of a literal in index form (`values.literal`)."""
        if isinstance(value, bytes):
            return value
        if self.type.kind in FLOAT_TYPES:
            dtype = np.float32 if self.width == 4 else np.float64
            return int(sortable(np.array([value], dtype))[0])
        return int(value)  # type: ignore[call-overload, no-any-return]

    def encode(self, key: Key) -> bytes:
        """Return the bytes of a key, big-endian."""
        if isinstance(key, bytes):
            return _LENGTH.pack(len(key)) + key
        if self.type.kind in FLOAT_TYPES:
            key = flipped(key, self.width)
        return key.to_bytes(self.width, "big", signed=True)

    def decode(self, data: bytes, at: int) -> tuple[Key, int]:
        """Decode the key at `at`; return it and its end; IndexError beyond the data."""
        if self.width == 0:
            (length,) = _LENGTH.unpack_from(data, at)
            end = at + 4 + length
            if not at + 4 <= end <= len(data):
                raise IndexError(end)
            return data[at + 4 : end], end
        end = at + self.width
        if not 0 <= at < end <= len(data):
            raise IndexError(end)
        key = int.from_bytes(data[at:end], "big", signed=True)
        return (flipped(key, self.width) if self.type.kind in FLOAT_TYPES else key), end

    def _numbers(self, array: pa.Array) -> npt.NDArray[np.int64]:
        match self.type.kind:
            case TypeRoot.BOOLEAN:
                return np.asarray(array.fill_null(False)).astype(np.int64)
            case TypeRoot.DECIMAL:
                return unscaled_numbers(array)
            case TypeRoot.FLOAT | TypeRoot.DOUBLE:
                return sortable(np.asarray(array.fill_null(0)))
        return numbers(array, self.type)


def sortable(values: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]:
    """Return floats as numbers that sort like Java's `Double.compare`."""
    bits = float_bits(values)
    mask = np.int64(0x7FFFFFFF if values.dtype == np.float32 else 0x7FFFFFFFFFFFFFFF)
    return np.where(bits < 0, bits ^ mask, bits)


def flipped(bits: int, width: int) -> int:
    """Convert the bits of a float to a sortable number, or the reverse."""
    return bits ^ (2 ** (8 * width - 1) - 1) if bits < 0 else bits


def serialized(rows: BitMap) -> bytes:
    """Return the portable bytes of a bitmap, with runs compressed as in Java."""
    rows = rows.copy()
    rows.run_optimize()
    return bytes(rows.serialize())


def bitmap_at(data: bytes, at: int) -> tuple[BitMap, int]:
    """Decode the bitmap at `at` (portable Roaring format); return it and its end."""
    end = at + _bitmap_size(data, at)
    if not 0 <= at < end <= len(data):
        raise IndexError(end)
    return BitMap.deserialize(data[at:end]), end


def _bitmap_size(data: bytes, start: int) -> int:
    count: int
    cookie: int
    (cookie,) = struct.unpack_from("<I", data, start)
    at = start + 4
    runs = b""
    if cookie & 0xFFFF == 12347:
        count = (cookie >> 16) + 1
        runs = data[at : at + (count + 7) // 8]
        at += len(runs)
        has_offsets = count >= 4
    else:
        (count,) = struct.unpack_from("<I", data, at)
        if count > _MOST_CONTAINERS:
            raise IndexError(count)
        at += 4
        has_offsets = True
    sizes = struct.unpack_from(f"<{2 * count}H", data, at)[1::2]
    at += 4 * count + (4 * count if has_offsets else 0)
    for i, cardinality in enumerate(sizes):
        if runs and runs[i >> 3] >> (i & 7) & 1:
            (number,) = struct.unpack_from("<H", data, at)
            at += 2 + 4 * number
        else:
            at += 2 * (cardinality + 1) if cardinality < 4096 else 8192
    return at - start
