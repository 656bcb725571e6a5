"""Casts between dates, times, timestamps and numbers; one function for each `rules.Rule`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.errors import SchemaError
from paimon_core.types import datetimes
from paimon_core.types.arrow import (
    UNIT_NANOS,
    arrow_type,
    time_unit,
)
from paimon_core.types.casts.arrays import (
    Ints,
    array_of,
    atomic,
    ints,
    numbers_of,
    truncating_divide,
)
from paimon_core.types.data_types import (
    DataType,
    TypeRoot,
)
from paimon_core.types.sql import type_to_sql

_MILLI: Final = 1_000_000


def _scaled(numbers: Ints, factor: int, target: DataType) -> Ints:
    limit = (2**63 - 1) // factor
    if len(numbers) and max(int(numbers.max()), -int(numbers.min())) > limit:
        raise SchemaError(f"a timestamp is out of range for {type_to_sql(target)}")
    return numbers * factor


def _unit_nanos(t: DataType) -> int:
    return UNIT_NANOS[time_unit(atomic(t))]


def _on_clock(nanos: Ints, unit: int, convert: Callable[[int, tzinfo], int], zone: tzinfo) -> Ints:
    """Convert between wall clock and instant in the column's unit."""
    if zone is UTC:
        return nanos
    distinct, inverse = np.unique(nanos, return_inverse=True)
    moved = [convert(int(v) * unit, zone) // unit for v in distinct]
    return np.array(moved, np.int64)[inverse]


def timestamp_to_timestamp(
    column: pa.Array, source: DataType, target: DataType, zone: tzinfo
) -> pa.Array:
    s, t = atomic(source), atomic(target)
    old, new = _unit_nanos(s), _unit_nanos(t)
    numbers = ints(column, pa.int64())
    if s.kind is not t.kind:
        to_utc = t.kind is TypeRoot.TIMESTAMP_LTZ
        convert = datetimes.local_to_utc if to_utc else datetimes.utc_to_local
        numbers = _on_clock(numbers, old, convert, zone)
    precision = t.precision or 0
    if (s.precision or 0) > precision:
        if precision > 3:
            step = 10 ** (9 - precision) // old
            numbers = numbers // step * step if step else numbers
        else:
            # Java truncates to milliseconds first, then drops their digits towards zero.
            millis = numbers * old // _MILLI if old > _MILLI else numbers // (_MILLI // old)
            step = 10 ** (3 - precision)
            numbers, old = truncating_divide(millis, step) * step, _MILLI
    moved = _scaled(numbers, old // new, target) if new <= old else numbers // (new // old)
    return array_of(moved, column, arrow_type(target))


def _millis(column: pa.Array, source: DataType) -> Ints:
    unit = _unit_nanos(source)
    return ints(column, pa.int64()) // (_MILLI // unit)


def timestamp_to_date(
    column: pa.Array, source: DataType, target: DataType, zone: tzinfo
) -> pa.Array:
    millis = _millis(column, source)
    if source.root is TypeRoot.TIMESTAMP:
        days = truncating_divide(millis, datetimes.MILLIS_OF_DAY)
    else:
        local = _on_clock(millis, _MILLI, datetimes.utc_to_local, zone)
        days = local // datetimes.MILLIS_OF_DAY
    return array_of(days.astype(np.int32), column, arrow_type(target))


def timestamp_to_time(
    column: pa.Array, source: DataType, target: DataType, zone: tzinfo
) -> pa.Array:
    millis = _millis(column, source)
    if source.root is TypeRoot.TIMESTAMP_LTZ:
        millis = _on_clock(millis, _MILLI, datetimes.utc_to_local, zone)
    return array_of((millis % datetimes.MILLIS_OF_DAY).astype(np.int32), column, arrow_type(target))


def date_to_timestamp(column: pa.Array, _: DataType, target: DataType, zone: tzinfo) -> pa.Array:
    unit = _unit_nanos(target)
    numbers = _scaled(ints(column, pa.int32()), datetimes.NANOS_OF_DAY // unit, target)
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        numbers = _on_clock(numbers, unit, datetimes.local_to_utc, zone)
    return array_of(numbers, column, arrow_type(target))


def time_to_timestamp(column: pa.Array, _: DataType, target: DataType, __: tzinfo) -> pa.Array:
    numbers = _scaled(ints(column, pa.int32()), _MILLI // _unit_nanos(target), target)
    return array_of(numbers, column, arrow_type(target))


def number_to_timestamp(column: pa.Array, _: DataType, target: DataType, zone: tzinfo) -> pa.Array:
    unit = _unit_nanos(target)
    millis = numbers_of(column).astype(np.int64) * 1000  # in 64 bits, which wrap around
    numbers = _scaled(millis, _MILLI // unit, target)
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        # Java stores the wall clock of its zone as if it were UTC.
        numbers = _on_clock(numbers, unit, datetimes.utc_to_local, zone)
    return array_of(numbers, column, arrow_type(target))


def timestamp_to_number(
    column: pa.Array, source: DataType, target: DataType, _: tzinfo
) -> pa.Array:
    seconds = truncating_divide(_millis(column, source), 1000)
    arrow = arrow_type(target)
    return array_of(seconds.astype(arrow.to_pandas_dtype()), column, arrow)
