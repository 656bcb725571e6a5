"""Casts between numbers: integers, floats, DECIMAL and BOOLEAN.

One function for each `rules.Rule`.
"""

from __future__ import annotations

from datetime import tzinfo
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.types.arrow import (
    arrow_type,
)
from paimon_core.types.casts.arrays import (
    Ints,
    array_of,
    atomic,
    map_values,
    numbers_of,
    truncating_divide,
)
from paimon_core.types.data_types import (
    AtomicType,
    DataType,
    TypeRoot,
)
from paimon_core.types.decimals import COMPACT_PRECISION, fit, unscaled
from paimon_core.types.java_numbers import double_text


def number_to_number(column: pa.Array, _: DataType, target: DataType, __: tzinfo) -> pa.Array:
    arrow = arrow_type(target)
    wanted = np.dtype(arrow.to_pandas_dtype())
    numbers = numbers_of(column)
    if numbers.dtype.kind == "f" and wanted.kind == "i":
        # Java casts a double to byte or short through int.
        numbers = _saturate(numbers, np.dtype(np.int64 if wanted.itemsize == 8 else np.int32))
    with np.errstate(over="ignore"):
        return array_of(numbers.astype(wanted), column, arrow)


def _saturate(numbers: np.ndarray[Any, Any], wanted: np.dtype[Any]) -> np.ndarray[Any, Any]:
    limits = np.iinfo(wanted)
    floats = np.trunc(
        np.nan_to_num(numbers.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    )
    over, under = floats >= float(limits.max), floats <= float(limits.min)
    result = np.where(over | under, 0.0, floats).astype(wanted)
    result[over] = limits.max
    result[under] = limits.min
    return result


def number_to_boolean(column: pa.Array, *_: object) -> pa.Array:
    return pc.not_equal(column, pa.scalar(0, column.type))


def boolean_to_number(column: pa.Array, source: DataType, target: DataType, _: tzinfo) -> pa.Array:
    if target.root is TypeRoot.DECIMAL:
        t = atomic(target)
        return map_values(
            column, source, target, lambda v: fit(Decimal(int(v)), t.precision or 0, t.scale or 0)
        )
    return column.cast(pa.int8()).cast(arrow_type(target))


def _wide(column: pa.Array, scale: int) -> pa.Array:
    return column.cast(pa.decimal256(76, scale))


def _fit_decimal(wide: pa.Array, target: AtomicType) -> pa.Array:
    """Round wide decimals half up to the target; null if they are too large."""
    precision, scale = target.precision or 0, target.scale or 0
    if wide.type.scale > scale:
        wide = pc.round(wide, ndigits=scale, round_mode="half_towards_infinity")
    limit = pa.scalar(Decimal(10) ** (precision - scale), pa.decimal256(76, wide.type.scale))
    fits = pc.less(pc.abs(wide), limit)
    wide = pc.if_else(fits, wide, pa.scalar(None, wide.type))
    return wide.cast(pa.decimal128(precision, scale))


def decimal_to_decimal(column: pa.Array, source: DataType, target: DataType, _: tzinfo) -> pa.Array:
    return _fit_decimal(_wide(column, atomic(source).scale or 0), atomic(target))


def number_to_decimal(column: pa.Array, source: DataType, target: DataType, _: tzinfo) -> pa.Array:
    t = atomic(target)
    if pa.types.is_floating(column.type):
        return map_values(
            column,
            source,
            target,
            lambda v: fit(Decimal(double_text(v)), t.precision or 0, t.scale or 0),
        )
    return _fit_decimal(_wide(column.cast(pa.int64()).cast(pa.decimal128(19, 0)), 0), t)


def decimal_to_number(column: pa.Array, source: DataType, target: DataType, _: tzinfo) -> pa.Array:
    s = atomic(source)
    scale = s.scale or 0
    arrow = arrow_type(target)
    wanted = np.dtype(arrow.to_pandas_dtype())
    compact = (s.precision or 0) <= COMPACT_PRECISION
    if wanted.kind == "i":
        longs = _low_longs(column) if compact else None
        if longs is None:
            numbers = [
                0 if v is None else _wrap_long(_truncated(v, scale)) for v in column.to_pylist()
            ]
            longs = np.array(numbers, np.int64)
        else:
            longs = truncating_divide(longs, 10**scale)
        return array_of(longs.astype(wanted), column, arrow)
    if compact:
        doubles = _low_longs(column).astype(np.float64) / float(10**scale)
    else:
        doubles = np.array([0.0 if v is None else float(v) for v in column.to_pylist()])
    with np.errstate(over="ignore"):
        return array_of(doubles.astype(wanted), column, arrow)


def _low_longs(column: pa.Array) -> Ints:
    """Return 64-bit unscaled numbers of a decimal column; undefined for nulls."""
    data = column.buffers()[1]
    words: Ints = np.frombuffer(data, "<i8", 2 * len(column), 16 * column.offset)
    return words[::2].copy()


def _truncated(value: Decimal, scale: int) -> int:
    number = unscaled(value, scale)
    whole: int = abs(number) // 10**scale
    return whole if number >= 0 else -whole


def _wrap_long(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63
