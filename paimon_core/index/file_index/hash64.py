"""64-bit hashes of whole columns, equal to Java's (`fileindex/bloomfilter/FastHash`).

Numbers use Thomas Wang's integer hash, strings and bytes use xxHash64 with seed 0.  Strings of
equal length are hashed together, so that each step works on a column of words.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.index.file_index.values import (
    atomic,
    numbers,
    refused,
)
from paimon_core.types.data_types import (
    FLOAT_TYPES,
    DataType,
    TypeRoot,
)

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

KIND: Final = "bloom-filter"
_P1: Final = np.uint64(11400714785074694791)
_P2: Final = np.uint64(14029467366897019727)
_P3: Final = np.uint64(1609587929392839161)
_P4: Final = np.uint64(9650029242287828579)
_P5: Final = np.uint64(2870177450012600261)
_STRIPE: Final = 32
_CHUNK: Final = 4 * 1024 * 1024
"""The bytes of strings that are collected at a time."""


def hash_column(array: pa.Array, data_type: DataType) -> Words:
    """Return the hashes of all non-null values."""
    t = atomic(data_type, KIND)
    array = array.drop_null()
    kind = t.kind
    if kind in (TypeRoot.BOOLEAN, TypeRoot.DECIMAL, TypeRoot.VARIANT, TypeRoot.BLOB):
        raise refused(t, KIND)
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        return _hash_texts(array)
    if kind in FLOAT_TYPES:
        return hash_numbers(float_bits(np.asarray(array)))
    return hash_numbers(numbers(array, t))


def hash_numbers(values: npt.NDArray[np.int64]) -> Words:
    """Return Thomas Wang's hash with the arithmetic shifts of Java's long."""
    with np.errstate(over="ignore"):
        key = ~values + (values << 21)
        key ^= key >> 24
        key = key + (key << 3) + (key << 8)
        key ^= key >> 14
        key = key + (key << 2) + (key << 4)
        key ^= key >> 28
        key += key << 31
    hashed: Words = key.view(np.uint64)
    return hashed


def float_bits(values: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]:
    """Java's `floatToIntBits` or `doubleToLongBits`: one bit pattern for every NaN."""
    single = values.dtype == np.float32
    values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    bits = values.view(np.int32 if single else np.int64).copy()
    bits[np.isnan(values)] = 0x7FC00000 if single else 0x7FF8000000000000
    return bits.astype(np.int64)


def _hash_texts(array: pa.Array) -> Words:
    size = len(array)
    result = np.empty(size, np.uint64)
    if size == 0:
        return result
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, size + 1, 4 * array.offset).astype(np.int64)
    data = np.frombuffer(data_buffer or b"", np.uint8)
    lengths = np.diff(offsets)
    order = np.argsort(lengths, kind="stable")
    borders = np.flatnonzero(np.diff(lengths[order])) + 1
    for group in np.split(order, borders):
        length = int(lengths[group[0]])
        rows = max(1, _CHUNK // max(length, 1))
        for start in range(0, len(group), rows):
            part = group[start : start + rows]
            block = data[offsets[part][:, None] + np.arange(length)]
            result[part] = xxhash64(block)
    return result


def xxhash64(block: Bytes) -> Words:
    """Return xxHash64, seed 0, of each row of a byte matrix."""
    rows, length = block.shape
    at = 0
    with np.errstate(over="ignore"):
        if length >= _STRIPE:
            lanes = [_P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1]
            sums = [np.full(rows, lane) for lane in lanes]
            while at + _STRIPE <= length:
                words = _words(block, at, 4)
                sums = [_round(s, words[:, i]) for i, s in enumerate(sums)]
                at += _STRIPE
            total = sum(
                (_rotate(s, by) for s, by in zip(sums, (1, 7, 12, 18), strict=True)),
                start=np.zeros(rows, np.uint64),
            )
            for lane in sums:
                total = (total ^ _round(np.zeros(rows, np.uint64), lane)) * _P1 + _P4
        else:
            total = np.full(rows, _P5)
        total = total + np.uint64(length)
        while at + 8 <= length:
            word = _words(block, at, 1)[:, 0]
            total ^= _round(np.zeros(rows, np.uint64), word)
            total = _rotate(total, 27) * _P1 + _P4
            at += 8
        if at + 4 <= length:
            half = np.ascontiguousarray(block[:, at : at + 4]).view("<u4")[:, 0].astype(np.uint64)
            total = _rotate(total ^ half * _P1, 23) * _P2 + _P3
            at += 4
        for i in range(at, length):
            total = _rotate(total ^ block[:, i].astype(np.uint64) * _P5, 11) * _P1
        total ^= total >> np.uint64(33)
        total *= _P2
        total ^= total >> np.uint64(29)
        total *= _P3
        total ^= total >> np.uint64(32)
    return total


def _words(block: Bytes, at: int, count: int) -> Words:
    return np.ascontiguousarray(block[:, at : at + 8 * count]).view("<u8").astype(np.uint64)


def _round(lane: Words, word: Words) -> Words:
    return _rotate(lane + word * _P2, 31) * _P1


def _rotate(words: Words, by: int) -> Words:
    return words << np.uint64(by) | words >> np.uint64(64 - by)
