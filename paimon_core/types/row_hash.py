"""Row hashes and the buckets derived from them (Java: `MurmurHashUtils`, `bucket/*`).

The default bucket of a row is `abs(h % n)` with Java's truncating `%`, `h` being the Murmur3 hash
(32 bit, by words, seed 42) of the whole BinaryRow of the bucket keys: kind, null bits, slots and
variable part, without the arity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.types.binary_rows import (
    RowWords,
    byte_slices,
    encode_columns,
    fixed_words,
    nulls_of,
    one_array,
)
from paimon_core.types.data_types import AtomicType, DataType, TypeRoot
from paimon_core.types.sql import type_to_sql

Hashes = np.ndarray[Any, np.dtype[np.int32]]
WideHashes = np.ndarray[Any, np.dtype[np.uint64]]
_SEED: Final = 42
_OTHER_SEED: Final = 0x9E3779B9
_C1: Final = 0xCC9E2D51
_C2: Final = 0x1B873593
_ROWS_AT_ONCE: Final = 1 << 13
"""The number of rows whose words fit into the processor's cache."""


def murmur_hash(data: bytes) -> int:
    """Return the signed 32-bit hash of bytes whose length is a multiple of four."""
    h = _SEED
    for at in range(0, len(data), 4):
        k = int.from_bytes(data[at : at + 4], "little") * _C1 & 0xFFFFFFFF
        k = (k << 15 | k >> 17) * _C2 & 0xFFFFFFFF
        h ^= k
        h = ((h << 13 | h >> 19) & 0xFFFFFFFF) * 5 + 0xE6546B64 & 0xFFFFFFFF
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


def hash_rows(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> Hashes:
    """Return the hash of each row of these columns, like Java's `BinaryRow.hashCode`."""
    rows = len(columns[0]) if columns else 0
    hashes: Hashes = np.empty(rows, np.int32)
    for start, words in _encoded(columns, types):
        hashes[start : start + _ROWS_AT_ONCE] = _hash_words(words)
    return hashes


def wide_hash_rows(
    columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]
) -> WideHashes:
    """Return a 64-bit hash of each row; 10^8 rows have a collision with 0.03 % probability.

    The upper half is `hash_rows`.  Nothing stored depends on it.
    """
    rows = len(columns[0]) if columns else 0
    hashes: WideHashes = np.empty(rows, np.uint64)
    for start, words in _encoded(columns, types):
        high = _hash_words(words).view(np.uint32).astype(np.uint64)
        low = _hash_words(words, _OTHER_SEED).view(np.uint32).astype(np.uint64)
        hashes[start : start + _ROWS_AT_ONCE] = high << np.uint64(32) | low
    return hashes


def _encoded(
    columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]
) -> Iterator[tuple[int, RowWords]]:
    """Yield the rows in binary form, in chunks, each with the number of its first row."""
    arrays = [one_array(c) for c in columns]
    for start in range(0, len(arrays[0]) if arrays else 0, _ROWS_AT_ONCE):
        part = [a.slice(start, _ROWS_AT_ONCE) for a in arrays]
        yield start, encode_columns(part, types)


def assign_buckets(
    columns: Sequence[pa.Array | pa.ChunkedArray],
    types: Sequence[DataType],
    num_buckets: int,
    function: str = "default",
) -> Hashes:
    """Return the bucket of each row, 0 to `num_buckets - 1`; the columns are the bucket keys."""
    if num_buckets < 1:
        raise InvalidArgument(f"the number of buckets must be positive, not {num_buckets}")
    match function:
        case "default":
            # fmod truncates like Java's %.
            truncated: Hashes = np.fmod(hash_rows(columns, types), np.int32(num_buckets))
            return np.abs(truncated)
        case "mod":
            return _mod_buckets(columns, types, num_buckets)
        case "hive":
            positive = _hive_hash(columns, types) & np.uint32(0x7FFFFFFF)
            return (positive % np.uint32(num_buckets)).astype(np.int32)
    raise UnsupportedFeature(f"bucket-function.type={function}")


# --- Murmur over many rows ----------------------------------------------------------------------


def _hash_words(rows: RowWords, seed: int = _SEED) -> Hashes:
    halves = rows.words.view(np.uint32)
    starts, sizes = rows.starts[:-1] * 2, np.diff(rows.starts) * 2
    h = np.full(len(sizes), seed, np.uint32)
    if not len(sizes):
        return h.view(np.int32)
    width = int(sizes[0])
    if (sizes == width).all():
        # All rows have the same size: their i-th words are a column of a matrix.
        matrix = np.ascontiguousarray(halves.reshape(-1, width).T)
        for words in matrix:
            _mix(h, words)
        return _finish(h, sizes)
    # Longest first: the rows that still have an i-th word are then a prefix.
    order = np.argsort(-sizes, kind="stable")
    sorted_starts = starts[order]
    still = len(sizes) - np.searchsorted(np.sort(sizes), np.arange(int(sizes.max())), side="right")
    for i, count in enumerate(still.tolist()):
        _mix(h[:count], halves[sorted_starts[:count] + i])
    result: Hashes = np.empty(len(sizes), np.int32)
    result[order] = _finish(h, sizes[order])
    return result


def _mix(h: np.ndarray[Any, np.dtype[np.uint32]], words: np.ndarray[Any, Any]) -> None:
    k = words * np.uint32(_C1)
    k = (k << np.uint32(15)) | (k >> np.uint32(17))
    k *= np.uint32(_C2)
    h ^= k
    k = h << np.uint32(13)
    h >>= np.uint32(19)
    h |= k
    h *= np.uint32(5)
    h += np.uint32(0xE6546B64)


def _finish(h: np.ndarray[Any, np.dtype[np.uint32]], sizes: np.ndarray[Any, Any]) -> Hashes:
    h ^= (sizes * 4).astype(np.uint32)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return h.view(np.int32)


# --- bucket-function.type = mod, hive -----------------------------------------------------------


def _mod_buckets(
    columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType], num_buckets: int
) -> Hashes:
    if len(types) != 1 or types[0].root not in (TypeRoot.INT, TypeRoot.BIGINT):
        raise InvalidArgument(
            "bucket-function.type=mod needs one bucket key of type INT or BIGINT, not "
            f"({', '.join(map(type_to_sql, types))})"
        )
    numbers = np.array(pc.fill_null(one_array(columns[0]), 0), np.int64)
    return np.mod(numbers, num_buckets).astype(np.int32)


def _hive_hash(
    columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]
) -> np.ndarray[Any, np.dtype[np.uint32]]:
    total = np.zeros(len(columns[0]) if columns else 0, np.uint32)
    for column, data_type in zip(columns, types, strict=True):
        array = one_array(column)
        one = _hive_hash_column(array, data_type)
        if array.null_count:
            one[nulls_of(array)] = 0
        total = total * np.uint32(31) + one
    return total


def _hive_hash_column(
    column: pa.Array, data_type: DataType
) -> np.ndarray[Any, np.dtype[np.uint32]]:
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return np.array(pc.fill_null(column, False).cast(pa.uint32()), np.uint32)
        case TypeRoot.TINYINT | TypeRoot.SMALLINT:
            return np.array(pc.fill_null(column, 0), np.int32).view(np.uint32)
        case TypeRoot.INT | TypeRoot.DATE | TypeRoot.TIME:
            return _bits(column, data_type).astype(np.uint32)
        case TypeRoot.BIGINT:
            return _fold(_bits(column, data_type))
        case TypeRoot.FLOAT:
            bits = _bits(column, data_type).astype(np.uint32)
            bits[bits == 0x80000000] = 0
            bits[(bits & np.uint32(0x7FFFFFFF)) > 0x7F800000] = 0x7FC00000
            return bits
        case TypeRoot.DOUBLE:
            wide = _bits(column, data_type).astype(np.uint64)
            wide[wide == np.uint64(1 << 63)] = 0
            wide[(wide & np.uint64(2**63 - 1)) > np.uint64(0x7FF << 52)] = 0x7FF8 << 48
            return _fold(wide)
        case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
            return _hive_hash_bytes(column)
        case TypeRoot.DECIMAL:
            return _hive_hash_decimals(column)
    raise UnsupportedFeature(
        f"bucket-function.type=hive with a bucket key of type {type_to_sql(data_type)}"
    )


def _bits(column: pa.Array, data_type: DataType) -> np.ndarray[Any, Any]:
    assert isinstance(data_type, AtomicType)
    return fixed_words(column, data_type)


def _fold(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return Java's `Long.hashCode`."""
    folded: np.ndarray[Any, np.dtype[np.uint64]] = numbers ^ numbers >> np.uint64(32)
    return folded.astype(np.uint32)


def _hive_hash_bytes(column: pa.Array) -> np.ndarray[Any, np.dtype[np.uint32]]:
    slices = byte_slices(column)
    signed = slices.data.view(np.int8)
    order = np.argsort(-slices.sizes, kind="stable")
    starts = slices.starts[order]
    longest = int(slices.sizes.max(initial=0))
    still = len(starts) - np.searchsorted(np.sort(slices.sizes), np.arange(longest), side="right")
    h = np.zeros(len(starts), np.uint32)
    for i, count in enumerate(still.tolist()):
        h[:count] *= np.uint32(31)
        h[:count] += signed[starts[:count] + i].astype(np.int32).view(np.uint32)
    result = np.empty_like(h)
    result[order] = h
    return result


def _hive_hash_decimals(column: pa.Array) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return Java's `BigDecimal.hashCode` of numbers without trailing zeros."""
    encoded = column.dictionary_encode()
    distinct = [0 if v is None else _big_decimal_hash(v) for v in encoded.dictionary.to_pylist()]
    indices = np.array(pc.fill_null(encoded.indices, 0), np.int64)
    if not distinct:
        return np.zeros(len(column), np.uint32)
    return np.array(distinct, np.uint32)[indices]


def _big_decimal_hash(value: Decimal) -> int:
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits)) or "0")
    scale = -int(exponent)
    while number and scale > 0 and number % 10 == 0:
        number, scale = number // 10, scale - 1
    if not number:
        scale = 0
    h = 0
    for word in range((number.bit_length() + 31) // 32 - 1, -1, -1):
        h = (31 * h + (number >> 32 * word & 0xFFFFFFFF)) & 0xFFFFFFFF
    return (31 * (-h if sign else h) + scale) & 0xFFFFFFFF
