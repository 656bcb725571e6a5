"""Bit-sliced indexes of numbers (Java: `fileindex/bsi/*`, `utils/BitSliceIndexRoaringBitmap`).

::

    1 | rows (4) | positive? (1) [slices] | negative? (1) [slices]
    slices   1 | least (8) | greatest (8) | rows that have a value | slices (4) | bitmap ...

Slice i holds the rows whose distance from the least value has bit i set; negative numbers are
stored by absolute value.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.index.file_index.keys import bitmap_at, serialized
from paimon_core.index.file_index.values import (
    SMALL_INTEGERS,
    atomic,
    numbers,
    refused,
    unscaled_numbers,
)
from paimon_core.types.data_types import (
    TIMESTAMP_TYPES,
    AtomicType,
    DataType,
    TypeRoot,
)

KIND: Final = "bsi"
VERSION: Final = 1
_MOST_SLICES: Final = 64
_HEAD: Final = struct.Struct(">bi")
_BOUNDS: Final = struct.Struct(">bqq")


class BsiWriter:
    """Builds the index of one column; it needs 8 bytes per row until it is finished."""

    def __init__(self, data_type: DataType, options: Mapping[str, str]) -> None:
        self._type = _checked(data_type)
        self._values: list[npt.NDArray[np.int64]] = []
        self._valid: list[npt.NDArray[np.bool_]] = []
        del options  # there are none

    def write(self, array: pa.Array) -> None:
        decimal = self._type.kind is TypeRoot.DECIMAL
        self._values.append(unscaled_numbers(array) if decimal else numbers(array, self._type))
        self._valid.append(np.asarray(array.is_valid()))

    def finish(self) -> bytes:
        values = np.concatenate([*self._values, np.empty(0, np.int64)])
        valid = np.concatenate([*self._valid, np.empty(0, np.bool_)])
        if (values[valid] == -(2**63)).any():
            raise InvalidArgument("a bsi index cannot hold the least BIGINT, nor can Java's")
        out = _HEAD.pack(VERSION, len(values))
        for rows, numbers_ in (
            (np.flatnonzero(valid & (values >= 0)), values),
            (np.flatnonzero(valid & (values < 0)), -values),
        ):
            out += struct.pack(">?", bool(len(rows)))
            if len(rows):
                out += _slices(rows, numbers_[rows])
        return out


def _slices(rows: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> bytes:
    greatest = int(values.max())
    # Java starts its search for the least value at 0, and finds nothing smaller.
    out = _BOUNDS.pack(VERSION, 0, greatest) + serialized(BitMap(rows.astype(np.uint32)))
    count = greatest.bit_length()
    out += struct.pack(">i", count)
    for i in range(count):
        out += serialized(BitMap(rows[(values >> i & 1).astype(np.bool_)].astype(np.uint32)))
    return out


class Slices:
    """Finds rows by comparison with a number; every result is a new bitmap."""

    def __init__(self, least: int, greatest: int, present: BitMap, slices: list[BitMap]) -> None:
        self.least, self.greatest = least, greatest
        self.present = present
        self._slices = slices

    def equal(self, value: int) -> BitMap:
        return self._compared(value)[1]

    def less(self, value: int) -> BitMap:
        return self._compared(value)[0]

    def greater(self, value: int) -> BitMap:
        less, equal = self._compared(value)
        return self.present - less - equal

    def _compared(self, value: int) -> tuple[BitMap, BitMap]:
        """Return the rows below the value, and those equal to it."""
        if value < self.least:
            return BitMap(), BitMap()
        if value > self.greatest:
            return self.present.copy(), BitMap()
        value -= self.least
        less, equal = BitMap(), self.present.copy()
        for i in range(len(self._slices) - 1, -1, -1):
            if value >> i & 1:
                less |= equal - self._slices[i]
                equal &= self._slices[i]
            else:
                equal -= self._slices[i]
        return less, equal


class BsiReader:
    """Reads one index."""

    def __init__(self, data: bytes, data_type: DataType) -> None:
        self.type = _checked(data_type)
        version, self.rows = _HEAD.unpack_from(data)
        if version != VERSION:
            raise UnsupportedFeature(f"bsi index of version {version}")
        self._positive, at = _read(data, _HEAD.size)
        self._negative, _ = _read(data, at)

    def present(self) -> BitMap:
        """Return the rows that are not null."""
        return self._positive.present | self._negative.present

    def equal(self, values: list[int]) -> BitMap:
        """Return the rows that have one of the values."""
        parts = [self._negative.equal(-v) if v < 0 else self._positive.equal(v) for v in values]
        return reduce(or_, parts, BitMap())

    def less(self, value: int) -> BitMap:
        """Return the rows below the value."""
        if value < 0:
            return self._negative.greater(-value)
        return self._positive.less(value) | self._negative.present

    def greater(self, value: int) -> BitMap:
        """Return the rows above the value."""
        if value < 0:
            return self._negative.less(-value) | self._positive.present
        return self._positive.greater(value)


def _read(data: bytes, at: int) -> tuple[Slices, int]:
    if not data[at]:
        return Slices(0, 0, BitMap(), []), at + 1
    version, least, greatest = _BOUNDS.unpack_from(data, at + 1)
    if version != VERSION:
        raise UnsupportedFeature(f"bsi index of version {version}")
    present, at = bitmap_at(data, at + 1 + _BOUNDS.size)
    (count,) = struct.unpack_from(">i", data, at)
    if not 0 <= count <= _MOST_SLICES:
        raise ValueError(f"a bsi index of {count} slices")
    at += 4
    slices = []
    for _ in range(count):
        one, at = bitmap_at(data, at)
        slices.append(one)
    return Slices(least, greatest, present, slices), at


def _checked(data_type: DataType) -> AtomicType:
    t = atomic(data_type, KIND)
    decimal = t.kind is TypeRoot.DECIMAL and (t.precision or 0) <= 18
    if t.kind in SMALL_INTEGERS or t.kind in TIMESTAMP_TYPES or decimal:
        return t
    raise refused(t, KIND)
