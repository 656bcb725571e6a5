"""The order of single keys, of stored key bytes, and of the rows of a batch.

A key outside a batch is a plain tuple that Python compares as Java compares the key (strings as
their UTF-8 bytes, decimals as unscaled integers, timestamps in the unit of their Arrow column).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.lsm.key_column import (
    BoolArray,
    Digit,
    IntArray,
    KeyColumn,
    NumberColumn,
    Rows,
    Value,
    float_value,
    key_column,
)
from paimon_core.schema.table_schema import KeyType
from paimon_core.types.arrow import time_unit
from paimon_core.types.binary_row import decode_row
from paimon_core.types.buffers import valid_rows
from paimon_core.types.data_types import AtomicType, DataType, RowType, TypeRoot
from paimon_core.types.sql import type_to_sql

Key = tuple[Value | tuple[Value, ...], ...]
"""A key; the value of a nullable column is in its own tuple, which is empty for null."""

_UNIT_NANOS = {"ms": 1_000_000, "us": 1_000, "ns": 1}


def has_signed_zeros(key: RowType) -> bool:
    """Return whether -0.0 sorts before 0.0 in keys of this type, see `KeyType`."""
    return isinstance(key, KeyType) and key.signed_zeros


def stored_key(row: bytes, key: RowType) -> Key:
    """Decode the key in stored row bytes (`DataFileMeta.min_key`)."""
    signed = has_signed_zeros(key)
    return tuple(
        comparable(value, f.type, signed_zeros=signed)
        for value, f in zip(decode_row(row, key.types), key.fields, strict=True)
    )


def stored_key_order(key: RowType) -> Callable[[bytes], Key]:
    """Return a sort key function for stored row bytes of this key type."""
    return lambda row: stored_key(row, key)


def comparable(
    value: object, data_type: DataType, *, signed_zeros: bool = False
) -> Value | tuple[Value, ...]:
    """Return an internal value as an element of a `Key`."""
    if value is None:
        if not data_type.nullable:
            raise CorruptTable(f"null in a key column of type {type_to_sql(data_type)}")
        return ()
    element = _comparable(value, data_type, signed_zeros=signed_zeros)
    return (element,) if data_type.nullable else element


def _comparable(value: object, data_type: DataType, *, signed_zeros: bool) -> Value:
    match value:
        case bytes():
            return value
        case str():
            return value.encode()
        case Decimal():
            # Not scaleb: it rounds to the context's 28 digits.
            sign, digits, _ = value.as_tuple()
            unscaled = int("".join(map(str, digits)))
            return -unscaled if sign else unscaled
        case float():
            return float_value(value, signed_zeros=signed_zeros)
        case int():
            is_timestamp = data_type.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
            if is_timestamp and isinstance(data_type, AtomicType):
                return value // _UNIT_NANOS[time_unit(data_type)]
            return int(value)
    raise UnsupportedFeature(f"key column of type {type_to_sql(data_type)}")


class KeyView:
    """The keys of a batch that is sorted by key."""

    __slots__ = ("_columns", "_names", "_nullable", "_valid", "batch")

    def __init__(self, batch: pa.RecordBatch, key: RowType) -> None:
        self.batch = batch
        arrays = [batch.column(f.name) for f in key.fields]
        self._names = key.names
        self._nullable = tuple(f.type.nullable for f in key.fields)
        signed = has_signed_zeros(key)
        self._columns = [key_column(a, signed_zeros=signed) for a in arrays]
        self._valid = [valid_rows(a) if a.null_count else None for a in arrays]

    def at(self, row: int) -> Key:
        """Return the key of a row."""
        return tuple(self._element(i, row) for i in range(len(self._columns)))

    def _element(self, column: int, row: int) -> Value | tuple[Value, ...]:
        valid = self._valid[column]
        if valid is not None and not valid[row]:
            if not self._nullable[column]:
                raise CorruptTable(f"null in key column {self._names[column]}")
            return ()
        value = self._columns[column].value(row)
        return (value,) if self._nullable[column] else value

    def lower_bound(self, key: Key, begin: int = 0) -> int:
        """Return the first row from `begin` on with a key >= `key`; the row count if none."""
        if len(self._columns) == 1 and not self._nullable[0]:
            column = self._columns[0]
            values = column.single if isinstance(column, NumberColumn) else None
            if values is not None:
                return begin + int(np.searchsorted(values[begin:], key[0]))
        return bisect_left(range(self.batch.num_rows), key, lo=begin, key=self.at)


def key_digits(
    arrays: Sequence[pa.Array], *, skip: int = 0, signed_zeros: bool = False
) -> list[Digit]:
    """Return the digits of a multi-column key.

    `skip` as in `KeyColumn.digits`, for the first column.
    """
    digits: list[Digit] = []
    for position, array in enumerate(arrays):
        if array.null_count:
            digits.append(_null_flags(array))
            skip = 0
        column = key_column(array, signed_zeros=signed_zeros)
        digits += column.digits(skip=0 if position else skip)
    return digits


def _null_flags(array: pa.Array) -> Digit:
    flags = valid_rows(array).astype(np.int64)  # null is smallest
    return lambda rows: flags if rows is None else flags[rows]


def sort_rows(digits: Sequence[Digit], first: IntArray | None = None) -> tuple[Rows, BoolArray]:
    """Return (order, borders): the rows in stable key order, and where a key begins.

    Sorts by the first digit (passed as `first` if known), then, digit by digit, only the rows that
    are still equal.  Fast if the rows are a few concatenated sorted runs.
    """
    leading = digits[0](None) if first is None else first
    order: Rows = np.argsort(leading, kind="stable")
    ordered = leading[order]
    borders = np.empty(len(order), dtype=np.bool_)
    borders[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=borders[1:])
    for digit in digits[1:]:
        places = tied_places(borders)
        if len(places) == 0:
            break
        rows = order[places]
        values = digit(rows)
        begins = borders[places]
        if bool(np.any((values[1:] < values[:-1]) & ~begins[1:])):
            within = np.lexsort((values, np.cumsum(begins)))
            order[places] = rows[within]
            values = values[within]
        begins[1:] |= values[1:] != values[:-1]
        borders[places] = begins
    return order, borders


def tied_places(borders: BoolArray) -> Rows:
    """Return the places in groups of more than one row."""
    tied = ~borders
    tied[:-1] |= tied[1:]
    return np.flatnonzero(tied)


def repeats_key(columns: Sequence[KeyColumn], arrays: Sequence[pa.Array]) -> bool:
    """Return whether any row has the key of the row before it."""
    equal: BoolArray | None = None
    for column, array in zip(columns, arrays, strict=True):
        same = column.equals_previous()
        if array.null_count:
            valid = valid_rows(array)
            same = np.where(valid[1:] & valid[:-1], same, valid[1:] == valid[:-1])
        equal = same if equal is None else equal & same
        if not equal.any():
            return False
    return True
