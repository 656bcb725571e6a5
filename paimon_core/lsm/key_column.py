"""Arrow columns as *digits*: integer columns that sort rows as Java sorts the values.

A column's values compare as the tuples of their digits do, most significant digit first.  Numbers
have one digit; strings have two words of eight bytes and then a dense rank, each computed only for
the rows that the previous digits do not decide.  So sorting by any type is sorting by integers,
which numpy does fast on runs that are already sorted.

The order is that of Java's generated comparators (`codegen/GenerateUtils.generateCompare`): strings
and binaries by unsigned bytes, false before true, null before everything, in ascending and
descending order alike.  Up to 1.4, Java compares floats with `<` and `>`: -0.0 and 0.0 are the same
key, as here without `signed_zeros`; NaN equals *every* number, so Java loses rows with a NaN key.
Here NaN is one value, after all others.  From 2.0 on, Java compares with `Double.compare`: NaN as
here, and -0.0 before 0.0 (`signed_zeros`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import UnsupportedFeature
from paimon_core.types.buffers import bool_values, fixed_values, index_array, valid_rows

Rows = npt.NDArray[np.int64]
"""Row numbers of a batch."""
IntArray = npt.NDArray[np.int64] | npt.NDArray[np.uint64]
BoolArray = npt.NDArray[np.bool_]
Digit = Callable[[Rows | None], IntArray]
"""Returns the digit values of these rows; None means all rows."""
Value = int | bytes
"""A column value in a form that Python compares as Java compares the value."""

_WORD: Final = 8
_KEPT_BITS: Final = np.array(
    [0] + [(2**64 - 1) ^ (2 ** (64 - 8 * n) - 1) for n in range(1, _WORD + 1)], dtype=np.uint64
)
"""Mask that keeps the first n bytes of a big-endian word."""
_SIGNED_DTYPES: Final[dict[int, Any]] = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


class KeyColumn(Protocol):
    """One column of keys or sequence values, without nulls."""

    def digits(self, *, skip: int = 0) -> Sequence[Digit]:
        """Return the digits, most significant first; the first `skip` bytes are all equal."""
        ...

    def value(self, row: int) -> Value:
        """Return the value of one row."""
        ...

    def equals_previous(self) -> BoolArray:
        """Return, for each row but the first, whether it equals the row before."""
        ...


class NumberColumn:
    """Values that fit into one or two integers: numbers, booleans, dates, times, decimals."""

    __slots__ = ("_digits",)

    def __init__(self, digits: Sequence[IntArray]) -> None:
        self._digits = tuple(digits)

    def digits(self, *, skip: int = 0) -> Sequence[Digit]:  # noqa: ARG002 - of strings only
        return [_picked(d) for d in self._digits]

    def value(self, row: int) -> int:
        value = int(self._digits[0][row])
        for low in self._digits[1:]:
            value = (value << 64) | int(low[row])
        return value

    def equals_previous(self) -> BoolArray:
        equal: BoolArray = self._digits[0][1:] == self._digits[0][:-1]
        for digit in self._digits[1:]:
            equal &= digit[1:] == digit[:-1]
        return equal

    @property
    def single(self) -> IntArray | None:
        """Return the only digit; None if there are two."""
        return self._digits[0] if len(self._digits) == 1 else None


class BytesColumn:
    """Strings and binaries."""

    __slots__ = ("_array", "_begin", "_data", "_end", "_size", "_words")

    def __init__(self, array: pa.Array) -> None:
        self._array = array
        large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
        offsets = fixed_values(array, np.int64 if large else np.int32, extra=1)
        self._begin = offsets[:-1].astype(np.int64)
        self._end = offsets[1:].astype(np.int64)
        self._data: Any = array.buffers()[2] or b""
        size = len(self._data)
        if size < _WORD:  # a word is read as a whole, so there must be one
            self._data = bytes(self._data) + bytes(_WORD - size)
            size = _WORD
        self._size = size
        # A big-endian word starts at every byte.
        self._words: Any = np.ndarray(
            (size - _WORD + 1,), dtype=">u8", buffer=self._data, strides=(1,)
        )

    def digits(self, *, skip: int = 0) -> Sequence[Digit]:
        longest = int((self._end - self._begin).max(initial=0)) - skip
        words: list[Digit] = [self._word(skip)]
        if longest > _WORD:
            words.append(self._word(skip + _WORD))
        return [*words, self._lengths if longest <= 2 * _WORD else self.ranks]

    def value(self, row: int) -> bytes:
        return bytes(memoryview(self._data)[int(self._begin[row]) : int(self._end[row])])

    def equals_previous(self) -> BoolArray:
        count = len(self._array)
        equal = pc.equal(self._array.slice(1), self._array.slice(0, max(count - 1, 0)))
        return bool_values(equal)

    def _word(self, skip: int) -> Digit:
        def word(rows: Rows | None) -> IntArray:
            begin = (self._begin if rows is None else self._begin[rows]) + skip
            end = self._end if rows is None else self._end[rows]
            length = np.clip(end - begin, 0, _WORD)
            position = np.minimum(begin, self._size - _WORD)
            values = self._words[position].astype(np.uint64)
            shift = np.minimum(begin - position, _WORD - 1).astype(np.uint64) * np.uint64(8)
            masked: IntArray = (values << shift) & _KEPT_BITS[length]
            return masked

        return word

    def _lengths(self, rows: Rows | None) -> IntArray:
        lengths: IntArray = self._end - self._begin
        return lengths if rows is None else lengths[rows]

    def ranks(self, rows: Rows | None) -> IntArray:
        """Return dense ranks among these rows, comparable only within one call."""
        array = self._array if rows is None else self._array.take(index_array(rows))
        ranks = pc.rank(array, sort_keys="ascending", tiebreaker="dense")
        return fixed_values(ranks, np.uint64)


def _picked(values: IntArray) -> Digit:
    return lambda rows: values if rows is None else values[rows]


def key_column(array: pa.Array, *, signed_zeros: bool = False) -> KeyColumn:
    """Return the column as digits; null values are zero or empty, see `null_flags`.

    Raises UnsupportedFeature for types without an order here: arrays, maps, rows, variants.
    """
    t = array.type
    if (
        pa.types.is_string(t)
        or pa.types.is_binary(t)
        or pa.types.is_large_string(t)
        or pa.types.is_large_binary(t)
    ):
        if array.null_count:
            array = pc.fill_null(array, "" if _is_text(t) else b"")
        return BytesColumn(array)
    if pa.types.is_fixed_size_binary(t) and not pa.types.is_decimal(t):
        return key_column(array.cast(pa.binary()))
    digits = number_digits(array, signed_zeros=signed_zeros)
    if array.null_count:
        valid = valid_rows(array)
        for i, digit in enumerate(digits):
            digits[i] = np.where(valid, digit, digit.dtype.type(0))
    return NumberColumn(digits)


def _is_text(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t))


def number_digits(array: pa.Array, *, signed_zeros: bool = False) -> list[IntArray]:
    """Return the digits of a column of numbers; the digits of nulls are undefined."""
    t = array.type
    if pa.types.is_integer(t) and not pa.types.is_unsigned_integer(t):
        return [fixed_values(array, _SIGNED_DTYPES[t.bit_width]).astype(np.int64, copy=False)]
    if pa.types.is_timestamp(t) or pa.types.is_time64(t):
        return [fixed_values(array, np.int64)]
    if pa.types.is_date32(t) or pa.types.is_time32(t):
        return [fixed_values(array, np.int32).astype(np.int64)]
    if pa.types.is_boolean(t):
        return [bool_values(array).astype(np.int64)]
    if pa.types.is_float32(t):
        wide = fixed_values(array, np.float32).astype(np.float64)
        return [_float_digit(wide, signed_zeros=signed_zeros)]
    if pa.types.is_float64(t):
        return [_float_digit(fixed_values(array, np.float64), signed_zeros=signed_zeros)]
    if pa.types.is_decimal128(t):
        pairs = _decimal_words(array)
        low = np.ascontiguousarray(pairs[:, 0])
        if t.precision <= 18:
            return [low]
        return [np.ascontiguousarray(pairs[:, 1]), low.view(np.uint64)]
    raise UnsupportedFeature(f"ordering rows by a column of Arrow type {t}")


def float_value(value: float, *, signed_zeros: bool = False) -> int:
    """Return the digit of one FLOAT or DOUBLE value."""
    return int(_float_digit(np.array([value], np.float64), signed_zeros=signed_zeros)[0])


def _float_digit(values: npt.NDArray[np.float64], *, signed_zeros: bool) -> npt.NDArray[np.int64]:
    # Adding zero turns -0.0 into 0.0, and all NaNs become one; then IEEE bits sort as integers,
    # once the magnitude bits of negative numbers are inverted.
    numbers = values if signed_zeros else values + 0.0
    bits = np.where(np.isnan(values), np.nan, numbers).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def _decimal_words(array: pa.Array) -> npt.NDArray[np.int64]:
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros((len(array), 2), dtype=np.int64)
    whole = np.frombuffer(buffer, dtype=np.int64, count=2 * (array.offset + len(array)))
    return whole.reshape(-1, 2)[array.offset :]


def int_values(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return a column of integers without nulls as int64."""
    values: npt.NDArray[np.int64] = number_digits(array)[0].astype(np.int64, copy=False)
    return values


def kind_values(array: pa.Array) -> npt.NDArray[np.int8]:
    """Return a `_VALUE_KIND` column without a copy."""
    return fixed_values(array, np.int8)
