"""Converts column values and literals to the form that indexes store.

Times become one number: milliseconds up to precision 3, else microseconds, so TIMESTAMP(7) to
TIMESTAMP(9) lose their last digits, and an index can only rule out equality for them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.errors import InvalidArgument
from paimon_core.types.data_types import (
    CHARACTER_TYPES,
    TIMESTAMP_TYPES,
    AtomicType,
    DataType,
    TypeRoot,
)
from paimon_core.types.decimals import from_unscaled, unscaled
from paimon_core.types.sql import type_to_sql

Ints = npt.NDArray[np.int64]

SMALL_INTEGERS: Final = {
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
    TypeRoot.BIGINT: 8,
}
"""Types whose values are integers, and their sizes in bytes."""
NANOS: Final = {"ms": 10**6, "us": 10**3, "ns": 1}
"""The nanoseconds per unit of Arrow's timestamps."""
_MILLIS, _MICROS = 3, 6


def atomic(data_type: DataType, kind: str) -> AtomicType:
    """Return the type if it is atomic; InvalidArgument otherwise, as in Java."""
    if not isinstance(data_type, AtomicType):
        raise refused(data_type, kind)
    return data_type


def refused(data_type: DataType, kind: str) -> InvalidArgument:
    """Return the error for a type without such an index in Java."""
    return InvalidArgument(
        f"a {kind} index on a column of type {type_to_sql(data_type)}",
        next_step=f"take the column out of the table option file-index.{kind}.columns",
    )


def unit_nanos(t: AtomicType) -> int:
    """Return the nanoseconds per unit of a type's times in indexes."""
    return 10**6 if (t.precision or 0) <= _MILLIS else 10**3


def is_exact(t: AtomicType) -> bool:
    """Return whether an index stores values of the type without loss."""
    return t.kind not in TIMESTAMP_TYPES or (t.precision or 0) <= _MICROS


def numbers(array: pa.Array, t: AtomicType) -> Ints:
    """Return integers, dates, times and timestamps as numbers; nulls have any value."""
    if t.kind in TIMESTAMP_TYPES:
        stored, wanted = NANOS[array.type.unit], unit_nanos(t)
        values = np.asarray(array.view(pa.int64()).fill_null(0))
        return values // (wanted // stored) if wanted >= stored else values * (stored // wanted)
    if t.kind in (TypeRoot.DATE, TypeRoot.TIME):
        array = array.view(pa.int32())
    return np.asarray(array.fill_null(0)).astype(np.int64)


def unscaled_numbers(array: pa.Array) -> Ints:
    """Return decimals of up to 18 digits as unscaled numbers; nulls have any value."""
    words = np.frombuffer(array.buffers()[1], np.int64)
    return np.ascontiguousarray(words[2 * array.offset : 2 * (array.offset + len(array)) : 2])


def literal(value: Any, t: AtomicType) -> Any:
    """Return a literal in index form; None if it has no exact form."""
    if t.kind in TIMESTAMP_TYPES:
        number, rest = divmod(value, unit_nanos(t))
        return None if rest else number
    if t.kind is TypeRoot.DECIMAL:
        number = unscaled(value, t.scale or 0)
        exact = from_unscaled(number, t.scale or 0) == value
        return number if exact and -(2**63) <= number < 2**63 else None
    if t.kind in CHARACTER_TYPES:
        return value.encode()
    return value
