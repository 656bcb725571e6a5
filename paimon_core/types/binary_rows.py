"""Encodes many rows in Paimon's binary form at once, column by column with numpy.

`paimon_core.types.binary_row` describes the format.  All parts of a row are multiples of eight
bytes, so the rows are laid out in one array of 64-bit words: slots first, then, column by column,
the variable part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.types.arrow import UNIT_NANOS, column_to_internal
from paimon_core.types.binary_row import (
    INLINE_LIMIT,
    NANOS_OF_MILLI,
    is_compact_timestamp,
    null_bits_width,
    row_codec,
)
from paimon_core.types.buffers import bool_values, fixed_values, valid_rows
from paimon_core.types.data_types import AtomicType, DataType, TypeRoot
from paimon_core.types.decimals import COMPACT_PRECISION
from paimon_core.types.sql import type_to_sql

Words = np.ndarray[Any, np.dtype[np.uint64]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]

# The Arrow type to view a column as, and the unsigned integers of its width.
_FIXED: Final[dict[TypeRoot, tuple[pa.DataType, str]]] = {
    TypeRoot.TINYINT: (pa.int8(), "u1"),
    TypeRoot.SMALLINT: (pa.int16(), "u2"),
    TypeRoot.INT: (pa.int32(), "u4"),
    TypeRoot.DATE: (pa.int32(), "u4"),
    TypeRoot.TIME: (pa.int32(), "u4"),
    TypeRoot.BIGINT: (pa.int64(), "u8"),
    TypeRoot.FLOAT: (pa.float32(), "u4"),
    TypeRoot.DOUBLE: (pa.float64(), "u8"),
}


@dataclass(frozen=True, slots=True)
class RowWords:
    """Rows without their arity: row i is `words[starts[i]:starts[i + 1]]`."""

    words: Words
    starts: Numbers
    arity: int

    def stored(self) -> list[bytes]:
        """Return each row with its arity in front."""
        header = self.arity.to_bytes(4, "big")
        data = self.words.tobytes()
        ends = (self.starts * 8).tolist()
        return [header + data[s:e] for s, e in pairwise(ends)]


def encode_rows(
    columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]
) -> list[bytes]:
    """Return the stored bytes of each row of these columns."""
    return encode_columns(columns, types).stored()


def encode_columns(
    columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]
) -> RowWords:
    """Return the rows of these columns, which all have the same length."""
    if len(columns) != len(types):
        raise InvalidArgument(f"{len(columns)} columns for {len(types)} fields")
    if not columns:
        raise InvalidArgument("rows without columns have no row count")
    builder = _Builder(len(columns[0]), len(columns))
    for i, (column, data_type) in enumerate(zip(columns, types, strict=True)):
        builder.add(i, one_array(column), data_type)
    return builder.build()


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the column as one array, with decoded dictionaries."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # too long for 32-bit offsets
            column = column.cast(pa.large_binary()).combine_chunks()
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    return column


@dataclass(frozen=True, slots=True)
class Slices:
    """The byte strings of a column: the start of each in `data` and its size, 0 for nulls.

    `data` has at least eight spare bytes at the end.
    """

    data: np.ndarray[Any, np.dtype[np.uint8]]
    starts: Numbers
    sizes: Numbers

    def words_at(self, positions: Numbers) -> Words:
        """Return the eight bytes at each position as little-endian numbers."""
        shape = (len(self.data) - 7,)
        overlapping: Words = np.ndarray(shape, "<u8", self.data, strides=(1,))
        return overlapping[positions]


def byte_slices(column: pa.Array) -> Slices:
    """Return the bytes of a string or binary column."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        offset_type: np.dtype[Any] = np.dtype(np.int32)
    else:
        column = column.cast(pa.large_binary())
        offset_type = np.dtype(np.int64)
    _, offsets, data = column.buffers()
    if offsets is None or not offsets.size:
        ends: Numbers = np.zeros(len(column) + 1, np.int64)
    else:
        ends = np.frombuffer(
            offsets, offset_type, len(column) + 1, column.offset * offset_type.itemsize
        )
    first, last = int(ends[0]), int(ends[-1])
    padded = np.zeros(last - first + 8, np.uint8)
    if data is not None and last > first:
        padded[: last - first] = np.frombuffer(data, np.uint8, last - first, first)
    starts = ends[:-1].astype(np.int64) - first
    sizes = np.diff(ends).astype(np.int64)
    if column.null_count:
        sizes[nulls_of(column)] = 0
    return Slices(padded, starts, sizes)


def nulls_of(column: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return a mask of the column's nulls."""
    return ~valid_rows(column)


def _low_bytes(sizes: Numbers) -> Words:
    """Return masks that keep the first `size` (0 to 8) bytes of a word."""
    bits = (8 * sizes).astype(np.uint64)
    full: Words = np.where(
        sizes >= 8, np.uint64(2**64 - 1), (np.uint64(1) << (bits & np.uint64(63))) - np.uint64(1)
    )
    return full


class _Builder:
    def __init__(self, rows: int, arity: int) -> None:
        self.rows = rows
        self.arity = arity
        self.first = null_bits_width(arity) // 8
        self.fixed = self.first + arity
        self.slots: Words = np.zeros((rows, self.fixed), np.uint64)
        # Size of each row so far, in words; None while no row has a variable part.
        self.sizes: Numbers | None = None
        # Words of the variable part: their rows, their positions in the rows, the words.
        self.variable: list[tuple[Numbers, Numbers, Words]] = []

    def build(self) -> RowWords:
        if self.sizes is None:
            starts = np.arange(self.rows + 1, dtype=np.int64) * self.fixed
            return RowWords(self.slots.reshape(-1), starts, self.arity)
        starts = np.zeros(self.rows + 1, np.int64)
        np.cumsum(self.sizes, out=starts[1:])
        words: Words = np.zeros(int(starts[-1]), np.uint64)
        for i in range(self.fixed):
            words[starts[:-1] + i] = self.slots[:, i]
        for rows, places, content in self.variable:
            words[starts[rows] + places] = content
        return RowWords(words, starts, self.arity)

    # columns

    def add(self, index: int, column: pa.Array, data_type: DataType) -> None:
        if len(column) != self.rows:
            raise InvalidArgument(f"a column has {len(column)} rows where {self.rows} belong")
        nulls = nulls_of(column) if column.null_count else None
        if nulls is not None:
            word, bit = divmod(index + 8, 64)
            self.slots[nulls, word] |= np.uint64(1 << bit)
        slot = self.slots[:, self.first + index]
        if not isinstance(data_type, AtomicType):
            self._add_nested(slot, column, data_type)
        else:
            self._add_atomic(slot, column, data_type, nulls)

    def _add_atomic(
        self,
        slot: Words,
        column: pa.Array,
        t: AtomicType,
        nulls: np.ndarray[Any, np.dtype[np.bool_]] | None,
    ) -> None:
        match t.kind:
            case kind if kind in _FIXED:
                slot[:] = fixed_words(column, t)
            case TypeRoot.BOOLEAN:
                slot[:] = _zero(bool_values(column), nulls)
            case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
                self._add_bytes(slot, byte_slices(column), nulls)
            case TypeRoot.DECIMAL if (t.precision or 0) <= COMPACT_PRECISION:
                slot[:] = _zero(decimal_words(column, t)[:, 0], nulls)
            case TypeRoot.DECIMAL:
                self._add_wide_decimal(slot, column, t, nulls)
            case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
                millis, nanos = _millis_and_nanos(column)
                if is_compact_timestamp(t):
                    slot[:] = millis.view(np.uint64)
                else:
                    places = self._reserve(1)
                    slot[:] = (places * 8 << 32 | nanos).view(np.uint64)
                    self._write(np.arange(self.rows), places, millis.view(np.uint64))
            case _:
                raise UnsupportedFeature(f"{type_to_sql(t)} values in metadata rows")

    def _add_bytes(
        self, slot: Words, slices: Slices, nulls: np.ndarray[Any, np.dtype[np.bool_]] | None
    ) -> None:
        sizes = slices.sizes
        inline = slices.words_at(slices.starts) & _low_bytes(np.minimum(sizes, INLINE_LIMIT))
        inline |= (sizes | 0x80).astype(np.uint64) << np.uint64(56)
        slot[:] = _zero(inline, nulls)
        long = np.flatnonzero(sizes > INLINE_LIMIT)
        if not len(long):
            return
        long_sizes = sizes[long]
        counts = (long_sizes + 7) // 8
        places = self._reserve_some(long, counts)
        slot[long] = (places * 8 << 32 | long_sizes).view(np.uint64)
        # One word at a time: word j of a value holds its bytes from 8 j on.
        owner = np.repeat(np.arange(len(long)), counts)
        word = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        content = slices.words_at(slices.starts[long][owner] + 8 * word)
        content &= _low_bytes(np.minimum(long_sizes[owner] - 8 * word, 8))
        self._write(long[owner], places[owner] + word, content)

    def _add_wide_decimal(
        self,
        slot: Words,
        column: pa.Array,
        t: AtomicType,
        nulls: np.ndarray[Any, np.dtype[np.bool_]] | None,
    ) -> None:
        numbers = decimal_words(column, t)
        big_endian, sizes = _shortest_big_endian(numbers)
        if nulls is not None:
            big_endian[nulls] = 0
            sizes[nulls] = 0
        places = self._reserve(2)
        slot[:] = (places * 8 << 32 | sizes).view(np.uint64)
        content = np.ascontiguousarray(big_endian).view(np.uint64)
        rows = np.arange(self.rows)
        self._write(rows, places, content[:, 0])
        self._write(rows, places + 1, content[:, 1])

    def _add_nested(self, slot: Words, column: pa.Array, data_type: DataType) -> None:
        # A row of this one field has it in its variable part, after 8 bytes of bits and the slot.
        codec = row_codec((data_type,))
        values = column_to_internal(column, data_type)
        bodies = [b"" if v is None else codec.encode_body((v,)) for v in values]
        filled = np.flatnonzero([bool(b) for b in bodies])
        if not len(filled):
            return
        counts = np.array([len(bodies[i]) // 8 - 2 for i in filled], np.int64)
        places = self._reserve_some(filled, counts)
        content = np.frombuffer(b"".join(bodies[i][16:] for i in filled), np.uint64)
        sizes = np.array([int.from_bytes(bodies[i][8:12], "little") for i in filled], np.int64)
        slot[filled] = (places * 8 << 32 | sizes).view(np.uint64)
        owner = np.repeat(np.arange(len(filled)), counts)
        word = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        self._write(filled[owner], places[owner] + word, content)

    # the variable part

    def _cursor(self) -> Numbers:
        if self.sizes is None:
            self.sizes = np.full(self.rows, self.fixed, np.int64)
        return self.sizes

    def _reserve(self, words: int) -> Numbers:
        """Reserve this number of words in every row; return their start in each row."""
        cursor = self._cursor()
        places = cursor.copy()
        cursor += words
        return places

    def _reserve_some(self, rows: Numbers, words: Numbers) -> Numbers:
        cursor = self._cursor()
        places: Numbers = cursor[rows]
        cursor[rows] += words
        return places

    def _write(self, rows: Numbers, places: Numbers, content: Words) -> None:
        self.variable.append((rows, places, content))


def _zero(
    words: np.ndarray[Any, Any], nulls: np.ndarray[Any, np.dtype[np.bool_]] | None
) -> np.ndarray[Any, Any]:
    if nulls is not None:
        words = words.copy()
        words[nulls] = 0
    return words


def _zero_nulls(words: np.ndarray[Any, Any], column: pa.Array) -> np.ndarray[Any, Any]:
    return _zero(words, nulls_of(column) if column.null_count else None)


def fixed_words(column: pa.Array, data_type: AtomicType) -> np.ndarray[Any, Any]:
    """Return a fixed-width column as unsigned integers of that width, 0 for nulls."""
    arrow, unsigned = _FIXED[data_type.kind]
    if data_type.kind is TypeRoot.TIME:
        column = column.cast(pa.time32("ms"))
    return _zero_nulls(fixed_values(column.view(arrow), unsigned), column)


def decimal_words(column: pa.Array, data_type: AtomicType) -> Words:
    """Return low and high word of each unscaled number; undefined for nulls."""
    column = column.cast(pa.decimal128(data_type.precision or 0, data_type.scale or 0))
    data = column.buffers()[1]
    if data is None or not len(column):
        return np.zeros((len(column), 2), np.uint64)
    return np.frombuffer(data, "<u8", 2 * len(column), 16 * column.offset).reshape(-1, 2)


def _shortest_big_endian(
    numbers: Words,
) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], Numbers]:
    """Return Java's `BigInteger.toByteArray` left-aligned in 16 bytes, and the lengths."""
    big_endian = np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, 16)[:, ::-1]
    sign = np.where(big_endian[:, :1] >= 0x80, np.uint8(0xFF), np.uint8(0))
    magnitude = big_endian ^ sign
    used = magnitude != 0
    first = np.where(used.any(axis=1), used.argmax(axis=1), 16)
    top = np.take_along_axis(magnitude, np.minimum(first, 15)[:, None], axis=1)[:, 0]
    sizes: Numbers = np.where(first == 16, 1, 16 - first + (top >= 0x80)).astype(np.int64)
    padded = np.concatenate([big_endian, np.zeros_like(big_endian)], axis=1)
    shifted = np.take_along_axis(padded, (16 - sizes)[:, None] + np.arange(16), axis=1)
    return shifted, sizes


def _millis_and_nanos(column: pa.Array) -> tuple[Numbers, Numbers]:
    """Return milliseconds, and nanoseconds within the millisecond, 0 and 0 for nulls."""
    numbers: Numbers = _zero_nulls(fixed_values(column, np.int64), column)
    nanos = UNIT_NANOS[column.type.unit]
    if nanos >= NANOS_OF_MILLI:
        return numbers * (nanos // NANOS_OF_MILLI), np.zeros_like(numbers)
    per_milli = NANOS_OF_MILLI // nanos
    millis, rest = np.divmod(numbers, per_milli)
    return millis, rest * nanos
