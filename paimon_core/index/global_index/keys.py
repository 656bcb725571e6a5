"""Keys of global indexes: how a column is sorted, and the bytes of its values.

Java: `globalindex/KeySerializer`.  Numbers are in little endian, texts as UTF-8, decimals of more
than 18 digits as big-endian numbers of as few bytes as possible.  Timestamps are milliseconds,
those of a precision above 3 also the nanoseconds beyond.  FLOAT and DOUBLE sort like Java's
`Double.compare`: -0.0 before 0.0, NaN after all numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import InvalidArgument
from paimon_core.index.file_index.keys import flipped, sortable
from paimon_core.index.file_index.values import NANOS, unscaled_numbers
from paimon_core.index.global_index.records import (
    Bytes,
    Ints,
    Records,
    fixed,
    joined,
    read_varint,
    varints,
)
from paimon_core.types.data_types import (
    CHARACTER_TYPES,
    FLOAT_TYPES,
    TIMESTAMP_TYPES,
    AtomicType,
    DataType,
    TypeRoot,
)
from paimon_core.types.decimals import COMPACT_PRECISION, from_unscaled, unscaled
from paimon_core.types.sql import type_to_sql

_WIDTHS: Final[dict[TypeRoot, Any]] = {
    TypeRoot.BOOLEAN: np.int8,
    TypeRoot.TINYINT: np.int8,
    TypeRoot.SMALLINT: np.int16,
    TypeRoot.INT: np.int32,
    TypeRoot.DATE: np.int32,
    TypeRoot.TIME: np.int32,
    TypeRoot.BIGINT: np.int64,
    TypeRoot.FLOAT: np.int32,
    TypeRoot.DOUBLE: np.int64,
}
"""How wide the stored numbers of a type are."""
_COMPACT_TIME: Final = 3
"""Up to this precision a timestamp is milliseconds alone (Java: `Timestamp.isCompact`)."""
_MILLI: Final = 10**6
_DECIMAL_BYTES: Final = 16
_SLICE: Final = 1 << 18
"""Values that are compared at a time."""


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """The rows of a column by key: rows with a value, sorted, and rows without one.

    `starts` are the places in `rows` where another key begins; rows of one key ascend.
    """

    rows: Ints
    starts: Ints
    nulls: Ints

    def split(self, parts: int) -> Iterator[KeyOrder]:
        """Yield the rows in parts of about the same size, the nulls with the first.

        No key is divided, so there may be fewer parts.
        """
        rows = len(self.rows)
        cuts = np.searchsorted(self.starts, np.arange(1, parts) * rows // parts)
        bounds = np.unique(np.concatenate([[0], cuts, [len(self.starts)]]))
        if len(bounds) <= 2:
            yield self
            return
        places = np.append(self.starts, rows)
        nulls = self.nulls
        for first, end in pairwise(bounds.tolist()):
            inside = slice(int(places[first]), int(places[end]))
            yield KeyOrder(self.rows[inside], self.starts[first:end] - inside.start, nulls)
            nulls = nulls[:0]


class KeyType:
    """Sorts, encodes and decodes the keys of one column."""

    def __init__(self, data_type: DataType, column: str) -> None:
        """Raise InvalidArgument for a type for which Java has no such index."""
        if not isinstance(data_type, AtomicType) or not (
            data_type.kind in _WIDTHS
            or data_type.kind in CHARACTER_TYPES
            or data_type.kind in TIMESTAMP_TYPES
            or data_type.kind is TypeRoot.DECIMAL
        ):
            raise InvalidArgument(
                f"column {column!r} of type {type_to_sql(data_type)} cannot have a global index"
            )
        self.type: AtomicType = data_type
        precision = data_type.precision or 0
        self._long_decimal = data_type.kind is TypeRoot.DECIMAL and precision > COMPACT_PRECISION
        self.is_text = data_type.kind in CHARACTER_TYPES
        self._has_nanos = data_type.kind in TIMESTAMP_TYPES and precision > _COMPACT_TIME

    def order(self, column: pa.Array) -> KeyOrder:
        """Return the rows of the column in the order of their keys."""
        valid = np.asarray(column.is_valid())
        rows = np.flatnonzero(valid)
        nulls = np.flatnonzero(~valid)
        if not len(rows):
            return KeyOrder(rows, rows, nulls)
        values = column.drop_null() if len(nulls) else column
        changes = np.ones(len(rows), bool)
        if self.is_text or self._long_decimal:
            # Both sorts are stable, so rows of one key ascend.
            order = np.asarray(pc.sort_indices(values)).view(np.int64)
            for at in range(1, len(order), _SLICE):
                some = values.take(pa.array(order[at - 1 : at + _SLICE]))
                changes[at : at + _SLICE] = np.asarray(pc.not_equal(some[1:], some[:-1]))
        else:
            numbers = self._numbers(values)
            order = np.argsort(numbers, kind="stable")
            changes[1:] = np.diff(numbers[order]) != 0
        return KeyOrder(rows[order], np.flatnonzero(changes), nulls)

    def encode(self, values: pa.Array) -> Records:
        """Return the bytes of these values, none of which is null."""
        kind = self.type.kind
        if self.is_text:
            return _texts(values)
        if self._long_decimal:
            return _long_decimals(values)
        numbers = self._numbers(values)
        if kind in FLOAT_TYPES:
            return fixed(_unsortable(numbers, _WIDTHS[kind]))
        if kind in TIMESTAMP_TYPES:
            nanos = NANOS[values.type.unit]
            millis = numbers // (_MILLI // nanos)
            stored = fixed(millis)
            if not self._has_nanos:
                return stored
            return joined((stored, varints((numbers - millis * (_MILLI // nanos)) * nanos)))
        return fixed(numbers.astype(_WIDTHS.get(kind, np.int64)))

    def decode(self, data: bytes) -> Any:
        """Return a value that compares like the key: a number, or the bytes of a text.

        IndexError for bytes that are no key of this type.
        """
        kind = self.type.kind
        if self.is_text:
            return data
        if self._long_decimal:
            return int.from_bytes(data, "big", signed=True)
        width = np.dtype(_WIDTHS.get(kind, np.int64)).itemsize
        if len(data) < width or (len(data) > width and not self._has_nanos):
            raise IndexError(len(data))
        number = int.from_bytes(data[:width], "little", signed=True)
        if kind in FLOAT_TYPES:
            return flipped(number, width)
        if kind in TIMESTAMP_TYPES:
            return number * _MILLI + (read_varint(data, width)[0] if self._has_nanos else 0)
        return number

    def bounds(self, value: Any) -> tuple[Any, Any] | None:
        """Return the least and greatest key that equal a literal, in the form of `decode`.

        Engines differ in whether -0.0 equals 0.0, so these are the bounds of both.  None if no key
        has exactly this value.
        """
        kind = self.type.kind
        if self.is_text:
            return value.encode(), value.encode()
        if kind is TypeRoot.DECIMAL:
            number, scale = Decimal(value), self.type.scale or 0
            exact = unscaled(number, scale)
            return (exact, exact) if from_unscaled(exact, scale) == number else None
        if kind in FLOAT_TYPES:
            single = kind is TypeRoot.FLOAT
            stored = np.array([value], np.float32) if single else np.array([value], np.float64)
            if stored[0] == 0:
                return -1, 0
            key = int(sortable(stored)[0])
            return (key, key) if stored[0] == value or np.isnan(value) else None
        return int(value), int(value)

    def _numbers(self, values: pa.Array) -> Ints:
        """Return values without nulls as numbers that sort like them."""
        kind = self.type.kind
        if kind is TypeRoot.DECIMAL:
            return unscaled_numbers(values)
        if kind in FLOAT_TYPES:
            return sortable(np.asarray(values))
        if kind in TIMESTAMP_TYPES:
            return np.asarray(values.view(pa.int64()))
        if kind in (TypeRoot.DATE, TypeRoot.TIME):
            values = values.view(pa.int32())
        return np.asarray(values).astype(np.int64)


def _unsortable(numbers: Ints, dtype: Any) -> npt.NDArray[np.generic]:
    mask = np.int64(np.iinfo(dtype).max)
    return np.where(numbers < 0, numbers ^ mask, numbers).astype(dtype)


def _texts(array: pa.Array) -> Records:
    array = array.cast(pa.large_string())
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    every = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return Records(every[ends[0] : ends[-1]], np.diff(ends))


def _long_decimals(array: pa.Array) -> Records:
    """Return the numbers in big endian, without leading bytes that only repeat the sign."""
    start = array.offset * _DECIMAL_BYTES
    stored = np.frombuffer(array.buffers()[1], np.uint8, len(array) * _DECIMAL_BYTES, start)
    digits: Bytes = stored.reshape(len(array), _DECIMAL_BYTES)[:, ::-1]
    sign = np.where(digits[:, 0] >= 0x80, 0xFF, 0)
    skipped = np.zeros(len(array), np.int64)
    leading = np.ones(len(array), bool)
    for i in range(_DECIMAL_BYTES - 1):
        leading &= (digits[:, i] == sign) & ((digits[:, i + 1] >= 0x80) == (sign == 0xFF))
        skipped += leading
    kept = np.arange(_DECIMAL_BYTES) >= skipped[:, None]
    return Records(digits[kept], _DECIMAL_BYTES - skipped)
