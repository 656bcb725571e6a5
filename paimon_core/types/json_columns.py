"""Converts whole columns to JSON values, in the form of `json_values`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final, Literal, cast

import numpy as np
import pyarrow as pa

from paimon_core.errors import UnsupportedFeature
from paimon_core.types import datetimes
from paimon_core.types.arrow import list_ranges, map_types, strings_to_list
from paimon_core.types.buffers import fixed_values, valid_rows
from paimon_core.types.data_types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)
from paimon_core.types.json_values import json_float, short_float, sorted_pairs
from paimon_core.types.sql import type_to_sql
from paimon_core.types.variants.parts import METADATA, VALUE
from paimon_core.types.variants.variant import variant_json


def batch_to_json_rows(batch: pa.RecordBatch | pa.Table, row_type: RowType) -> Iterator[list[Any]]:
    """Return the rows of a batch as lists of JSON values in the order of `row_type`."""
    if not row_type.fields:
        return iter([[] for _ in range(batch.num_rows)])
    columns = [json_column(batch.column(f.name), f.type) for f in row_type.fields]
    return map(list, zip(*columns, strict=True))


def json_column(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> list[Any]:
    """Return the JSON values of a column."""
    if isinstance(column, pa.ChunkedArray):
        return list(chain.from_iterable(json_column(c, data_type) for c in column.iterchunks()))
    match data_type:
        case AtomicType():
            return _atomic_json_column(column, data_type)
        case ArrayType() | VectorType():
            elements = json_column(column.values, data_type.element)
            return [None if at is None else elements[at[0] : at[1]] for at in list_ranges(column)]
        case MapType() | MultisetType():
            key_type, value_type = map_types(data_type)
            keys = json_column(column.keys, key_type)
            items = json_column(column.items, value_type)
            order = _key_order(keys)
            return [
                None
                if at is None
                else [[keys[i], items[i]] for i in sorted(range(*at), key=order)]
                if order
                else sorted_pairs([[keys[i], items[i]] for i in range(*at)])
                for at in list_ranges(column)
            ]
        case RowType():
            names = data_type.names
            children = [json_column(column.field(i), f.type) for i, f in enumerate(data_type)]
            rows = zip(*children, strict=True) if children else ((),) * len(column)
            return [
                dict(zip(names, row, strict=True)) if ok else None
                for row, ok in zip(rows, column.is_valid().to_pylist(), strict=True)
            ]
    raise UnsupportedFeature(f"data type {type_to_sql(data_type)}")


# Characters that JSON does not escape and that sort the same in UTF-16 and by code point.
_PLAIN_TEXT: Final = re.compile(r"[ !#-\[\]-\ud7ff]*")


def _key_order(keys: list[Any]) -> Callable[[int], str] | None:
    """Sort pairs quickly by the text of their keys, for integers and plain strings."""
    kinds = set(map(type, keys))
    if kinds == {str} and all(map(_PLAIN_TEXT.fullmatch, keys)):
        texts = [key + '"' for key in keys]
    elif kinds == {int}:
        texts = [f"{key}," for key in keys]
    else:
        return None
    return texts.__getitem__


def _atomic_json_column(column: pa.Array, t: AtomicType) -> list[Any]:
    match t.kind:
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return _float_column(column, short=t.kind is TypeRoot.FLOAT)
        case TypeRoot.DECIMAL:
            texts = column.cast(pa.string())
            import pyarrow.compute as pc  # noqa: PLC0415 - fast start

            if pc.any(pc.match_substring(texts, "E")).as_py():  # small numbers: 1E-7
                return [None if v is None else f"{v:f}" for v in column.to_pylist()]
            return cast("list[Any]", texts.to_pylist())
        case TypeRoot.BINARY | TypeRoot.VARBINARY | TypeRoot.BLOB:
            return [None if v is None else v.hex() for v in column.to_pylist()]
        case TypeRoot.DATE:
            return _date_column(column)
        case TypeRoot.TIME:
            return _time_column(column)
        case TypeRoot.TIMESTAMP:
            return _timestamp_column(column, t.precision or 0, "")
        case TypeRoot.TIMESTAMP_LTZ:
            return _timestamp_column(column, t.precision or 0, "Z")
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return strings_to_list(column)
        case TypeRoot.VARIANT:
            return [
                None if v is None else variant_json(v[VALUE], v[METADATA])
                for v in column.to_pylist()
            ]
        case _:
            return cast("list[Any]", column.to_pylist())


def _with_nulls(values: list[Any], column: pa.Array) -> list[Any]:
    """Return the list with None where the column is null."""
    if column.null_count:
        for i in np.flatnonzero(~valid_rows(column)):
            values[i] = None
    return values


def _numbers(column: pa.Array, number: pa.DataType) -> np.ndarray[Any, Any]:
    """Return a column as numbers of this width, 0 for nulls."""
    numbers = fixed_values(column, number.to_pandas_dtype())
    return numbers if not column.null_count else np.where(valid_rows(column), numbers, 0)


def _float_column(column: pa.Array, *, short: bool) -> list[Any]:
    long_texts: list[int] = []
    singles = column
    if short:
        # By the shortest text: the double of the 32-bit float has other digits.
        column = column.cast(pa.string()).cast(pa.float64())
        bits = _numbers(singles, pa.float32()).view(np.uint32) & np.uint32(0x7FFF_FFFF)
        long_texts = np.flatnonzero(_longer_in_java(bits)).tolist()
    values = _numbers(column, pa.float64())
    listed: list[Any] = values.tolist()
    for i in long_texts:
        listed[i] = short_float(singles[i].as_py())
    for i in np.flatnonzero(~np.isfinite(values)).tolist():
        listed[i] = json_float(listed[i], float)
    return _with_nulls(listed, column)


def _longer_in_java(bits: np.ndarray[Any, np.dtype[np.uint32]]) -> np.ndarray[Any, Any]:
    """Return the positive 32-bit floats, by bits, that may have extra digits in Java.

    Before Java 19 these are large numbers (all digits before the dot are written), subnormal
    numbers, and powers of two.
    """
    large = (bits >= _TWO_TO_23) & (bits < _INFINITE)
    tiny = (bits > 0) & (bits < _SMALLEST_NORMAL)
    power = (bits > 0) & (bits < _TWO_TO_MINUS_26) & (bits & np.uint32(_SMALLEST_NORMAL - 1) == 0)
    found: np.ndarray[Any, Any] = large | tiny | power
    return found


_SMALLEST_NORMAL: Final = 0x0080_0000
_TWO_TO_MINUS_26: Final = 0x3280_0000
_TWO_TO_23: Final = 0x4B00_0000
_INFINITE: Final = 0x7F80_0000
"""The bits of some 32-bit floats."""

_FIRST_PLAIN_DAY: Final = datetimes.days_from_civil(0, 1, 1)
_PAST_PLAIN_DAYS: Final = datetimes.days_from_civil(10_000, 1, 1)
_UNITS_OF_DAY: Final = {
    "s": 86_400,
    "ms": 86_400_000,
    "us": 86_400_000_000,
    "ns": 86_400_000_000_000,
}


def _plain_years(numbers: np.ndarray[Any, Any], units_of_day: int) -> bool:
    """Return whether all are in the years 0 to 9999, which numpy prints like Java."""
    if not len(numbers):
        return True
    low, high = int(numbers.min()), int(numbers.max())
    return low >= _FIRST_PLAIN_DAY * units_of_day and high < _PAST_PLAIN_DAYS * units_of_day


def _date_column(column: pa.Array) -> list[Any]:
    days = _numbers(column, pa.int32())
    if not _plain_years(days, 1):
        return _with_nulls([datetimes.iso_date(d) for d in days.tolist()], column)
    listed: list[Any] = np.datetime_as_string(days.astype("datetime64[D]")).tolist()
    return _with_nulls(listed, column)


def _time_column(column: pa.Array) -> list[Any]:
    moments = _numbers(column, pa.int32()).astype("datetime64[ms]")
    text = np.datetime_as_string(moments, unit="ms").astype("U23")
    return _with_nulls([moment[11:] for moment in text.tolist()], column)


def _printed_unit(precision: int) -> Literal["s", "ms", "us", "ns"]:
    return "s" if precision == 0 else "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def _timestamp_column(column: pa.Array, precision: int, suffix: str) -> list[Any]:
    unit = column.type.unit
    numbers = _numbers(column, pa.int64())
    if not _plain_years(numbers, _UNITS_OF_DAY[unit]):
        nanos = 86_400 * 10**9 // _UNITS_OF_DAY[unit]
        return _with_nulls(
            [datetimes.iso_timestamp(n * nanos, precision) + suffix for n in numbers.tolist()],
            column,
        )
    moments = numbers.astype(f"datetime64[{unit}]")
    text = np.datetime_as_string(moments, unit=_printed_unit(precision)).astype(
        f"U{19 if precision == 0 else 20 + precision}"
    )
    if suffix:
        text = np.char.add(text, suffix)
    listed: list[Any] = text.tolist()
    return _with_nulls(listed, column)
