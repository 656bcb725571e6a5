"""Byte codes for clustering rows: by columns in order, or along a Z-curve or Hilbert curve.

Java: `sort/zorder/ZIndexer`, `sort/zorder/ZOrderByteUtils`, `sort/hilbert/HilbertIndexer`.  The
codes of both curves equal Java's bit by bit, including its oddities (a Z-curve orders FLOAT and
DOUBLE only by their upper half, DECIMAL by the bytes of its unscaled number; a Hilbert curve treats
TINYINT and the first eight bytes of a string as unsigned numbers), so both implementations cluster
rows in the same order.  Codes compare as unsigned bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.types.binary_rows import (
    byte_slices,
    decimal_words,
    fixed_words,
    nulls_of,
    one_array,
)
from paimon_core.types.data_types import AtomicType, DataType, TypeRoot
from paimon_core.types.sql import type_to_sql

Codes = npt.NDArray[np.uint8]
"""A matrix with one row per table row and one column per byte."""
Longs = npt.NDArray[np.int64]

TEXT_BYTES: Final = 8
"""The bytes of a string or binary value in a Z-curve (Java: `zorder.var-length-contribution`)."""
PREFIX_BYTES: Final = 24
"""The bytes of a string that `order_codes` uses."""
HILBERT_BITS: Final = 63
MOST_HILBERT_COLUMNS: Final = 7
"""With more, Java truncates its codes at 63 bytes."""
_FIXED_BYTES: Final = 8
_SIGN: Final = np.uint64(1 << 63)
_WHOLE_NUMBERS: Final = frozenset(
    {
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.DATE,
        TypeRoot.TIME,
    }
)
_TEXTS: Final = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})
_TIMES: Final = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_PER_MILLI: Final = {"ms": 1, "us": 1000, "ns": 1_000_000}


def z_codes(
    columns: Sequence[pa.Array | pa.ChunkedArray],
    types: Sequence[DataType],
    *,
    text_bytes: int = TEXT_BYTES,
) -> Codes:
    """Return each row's position on the Z-curve of these columns: their interleaved bits."""
    parts = [
        _z_bytes(one_array(c), _atomic(t, "zorder"), text_bytes)
        for c, t in zip(columns, types, strict=True)
    ]
    bits = np.concatenate([np.unpackbits(p, axis=1) for p in parts], axis=1)
    # Bit by bit over all columns; a column without bits left is skipped.
    places: list[tuple[int, int, int]] = []
    first = 0
    for column, part in enumerate(parts):
        width = 8 * part.shape[1]
        places += [(bit, column, first + bit) for bit in range(width)]
        first += width
    return np.packbits(bits[:, [place for _, _, place in sorted(places)]], axis=1)


def hilbert_codes(
    columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]
) -> Codes:
    """Return each row's position on the Hilbert curve (J. Skilling's algorithm)."""
    if not 2 <= len(columns) <= MOST_HILBERT_COLUMNS:
        raise InvalidArgument(
            f"a Hilbert curve goes through 2 to {MOST_HILBERT_COLUMNS} columns, not {len(columns)}"
        )
    x = [
        _hilbert_long(one_array(c), _atomic(t, "hilbert")).view(np.uint64)
        for c, t in zip(columns, types, strict=True)
    ]
    _transpose(x)
    bits = [np.unpackbits(v.astype(">u8").view(np.uint8).reshape(-1, 8), axis=1) for v in x]
    turns = np.stack([b[:, 64 - HILBERT_BITS :] for b in bits], axis=2)
    index = turns.reshape(len(x[0]), -1)
    spare = -index.shape[1] % 8
    return np.packbits(np.pad(index, ((0, 0), (spare, 0))), axis=1)


def order_codes(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> Codes:
    """Return codes that never contradict the order of these columns, nulls first.

    Strings that agree in their first PREFIX_BYTES bytes have equal codes.
    """
    parts: list[Codes] = []
    for column, t in zip(columns, types, strict=True):
        array = one_array(column)
        nulls = nulls_of(array)
        code = _ordered_bytes(array, _atomic(t, "order"))
        code[nulls] = 0
        parts += [(~nulls).astype(np.uint8).reshape(-1, 1), code]
    return np.concatenate(parts, axis=1)


def _atomic(data_type: DataType, strategy: str) -> AtomicType:
    known = (*_WHOLE_NUMBERS, *_TEXTS, *_TIMES)
    more = (TypeRoot.BOOLEAN, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL)
    if not isinstance(data_type, AtomicType) or data_type.root not in (*known, *more):
        raise UnsupportedFeature(
            f"order_strategy {strategy} by a column of type {type_to_sql(data_type)}"
        )
    return data_type


# --- columns as bytes and numbers -----------------------------------------------------------------


def _signed(column: pa.Array, t: AtomicType) -> Longs:
    """Return integers, days, or milliseconds of the day; 0 for nulls."""
    words = fixed_words(column, t)
    return words.view(f"i{words.itemsize}").astype(np.int64)


def _doubles(column: pa.Array) -> Longs:
    """Return the bits of Java's `doubleToLongBits`; a FLOAT is widened."""
    values = pc.fill_null(column, 0.0).cast(pa.float64()).to_numpy(zero_copy_only=False)
    bits = np.array(values).view(np.int64)
    bits[np.isnan(values)] = 0x7FF8 << 48
    return bits


def _millis(column: pa.Array) -> Longs:
    numbers = pc.fill_null(column.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return cast("Longs", numbers // _PER_MILLI[column.type.unit])


def _big_endian(words: npt.NDArray[Any]) -> Codes:
    return words.astype(">u8").view(np.uint8).reshape(-1, _FIXED_BYTES)


def _text_bytes(column: pa.Array, width: int) -> Codes:
    """Return the first bytes of each string, padded with zeros."""
    slices = byte_slices(column)
    code = np.zeros((len(column), width), np.uint8)
    sizes = np.minimum(slices.sizes, width)
    for place in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > place)
        code[rows, place] = slices.data[slices.starts[rows] + place]
    return code


def _unscaled(column: pa.Array, t: AtomicType) -> Codes:
    """Return each unscaled number as 16 bytes, big-endian two's complement."""
    words = decimal_words(column, t)
    return np.concatenate([_big_endian(words[:, 1]), _big_endian(words[:, 0])], axis=1)


# --- one column on the Z-curve --------------------------------------------------------------------


def _z_bytes(column: pa.Array, t: AtomicType, text_bytes: int) -> Codes:
    root = t.root
    if root in _TEXTS:
        code = _text_bytes(column, text_bytes)
    elif root is TypeRoot.BOOLEAN:
        code = np.zeros((len(column), _FIXED_BYTES), np.uint8)
        truth = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
        code[truth, 0] = 0x81
    elif root is TypeRoot.DECIMAL:
        code = _shortest(_unscaled(column, t))
    elif root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        bits = _doubles(column)
        # Java shifts by 31 instead of 63: only the upper half is in order.
        code = _big_endian((bits ^ ((bits >> 31) | np.int64(-(2**63)))).view(np.uint64))
    else:
        numbers = _millis(column) if root in _TIMES else _signed(column, t)
        code = _big_endian(numbers.view(np.uint64) ^ _SIGN)
    if column.null_count:
        code[nulls_of(column)] = 0
    return code


def _shortest(wide: Codes) -> Codes:
    """Return the first eight bytes of each number's shortest form, padded with zeros."""
    sign = np.where(wide[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    same = wide[:, :-1] == sign
    # A byte is redundant if it is only sign and the next one starts with the sign.
    goes = same & ((wide[:, 1:] >= 0x80) == (sign == 0xFF))
    skipped = np.cumprod(goes, axis=1).sum(axis=1)
    places = skipped[:, None] + np.arange(_FIXED_BYTES)[None, :]
    padded = np.pad(wide, ((0, 0), (0, _FIXED_BYTES)))
    return cast("Codes", np.take_along_axis(padded, places, axis=1))


# --- one column, and all of them, on the Hilbert curve --------------------------------------------


def _hilbert_long(column: pa.Array, t: AtomicType) -> Longs:
    root = t.root
    if root in _TEXTS:
        numbers = _right_aligned(column)
    elif root is TypeRoot.BOOLEAN:
        truth = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
        numbers = np.where(truth, np.int64(2**63 - 1), np.int64(0))
    elif root is TypeRoot.DECIMAL:
        numbers = _whole_part(column, t)
    elif root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        numbers = _doubles(column)
    elif root is TypeRoot.TINYINT:
        numbers = _signed(column, t) & 0xFF
    else:
        numbers = _millis(column) if root in _TIMES else _signed(column, t)
    if column.null_count:
        numbers = np.where(nulls_of(column), np.int64(2**63 - 1), numbers)
    return np.ascontiguousarray(numbers)


def _right_aligned(column: pa.Array) -> Longs:
    """Return the first eight bytes of a string as a number; shorter ones have leading zeros."""
    left = _text_bytes(column, _FIXED_BYTES)
    sizes = np.minimum(byte_slices(column).sizes, _FIXED_BYTES)
    words = left.view(">u8").ravel().astype(np.uint64)
    # A shift by 64 bits is undefined.
    shifted = words >> (8 * np.minimum(_FIXED_BYTES - sizes, 7)).astype(np.uint64)
    return cast("Longs", np.where(sizes == 0, np.uint64(0), shifted).view(np.int64))


def _whole_part(column: pa.Array, t: AtomicType) -> Longs:
    """Return Java's `BigDecimal.longValue`: the lowest 64 bits, without the fraction."""
    scale = t.scale or 0
    if (t.precision or 0) <= 18:
        unscaled = decimal_words(column, t)[:, 0].view(np.int64)
        whole = np.abs(unscaled) // np.int64(10**scale)
        return np.where(unscaled < 0, -whole, whole)
    values = (0 if v is None else int(v) for v in column.to_pylist())
    return np.array([(v + 2**63) % 2**64 - 2**63 for v in values], np.int64)


def _transpose(x: list[npt.NDArray[np.uint64]]) -> None:
    """Convert coordinates to the transposed index, in place, without their highest bit."""
    one = np.uint64(1)
    highest = np.uint64(1 << (HILBERT_BITS - 1))
    q = highest
    while q != one:
        p = q - one
        x[0] = np.where((x[0] & q) != 0, x[0] ^ p, x[0])
        for i in range(1, len(x)):
            swap = (x[0] ^ x[i]) & p
            inverts = (x[i] & q) != 0
            x[0] = x[0] ^ np.where(inverts, p, swap)
            x[i] = np.where(inverts, x[i], x[i] ^ swap)
        q >>= one
    for i in range(1, len(x)):
        x[i] = x[i] ^ x[i - 1]
    t = np.zeros_like(x[0])
    q = highest
    while q != one:
        t = np.where((x[-1] & q) != 0, t ^ (q - one), t)
        q >>= one
    for i in range(len(x)):
        x[i] = x[i] ^ t


# --- one column in order --------------------------------------------------------------------------


def _ordered_bytes(column: pa.Array, t: AtomicType) -> Codes:
    root = t.root
    if root in _TEXTS:
        return _text_bytes(column, PREFIX_BYTES)
    if root is TypeRoot.BOOLEAN:
        truth: npt.NDArray[np.bool_] = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
        return truth.astype(np.uint8).reshape(-1, 1)
    if root is TypeRoot.DECIMAL:
        code = _unscaled(column, t)
        code[:, 0] ^= 0x80
        return code
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        bits = _doubles(column)
        bits[bits == np.int64(-(2**63))] = 0  # -0.0 is 0.0
        return _big_endian((bits ^ ((bits >> 63) | np.int64(-(2**63)))).view(np.uint64))
    if root in _TIMES:
        numbers: Longs = pc.fill_null(column.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
    else:
        numbers = _signed(column, t)
    return _big_endian(numbers.view(np.uint64) ^ _SIGN)
