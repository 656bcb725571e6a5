"""Numbers from and to Arrow arrays, for the casts of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import InvalidArgument, SchemaError
from paimon_core.types.arrow import (
    column_from_internal,
    column_to_internal,
)
from paimon_core.types.data_types import (
    AtomicType,
    DataType,
)
from paimon_core.types.sql import type_to_sql

Ints = np.ndarray[Any, np.dtype[np.int64]]


def ints(column: pa.Array, storage: pa.DataType) -> Ints:
    """Return the column's integers, 0 for nulls."""
    return np.array(pc.fill_null(column.view(storage), 0), np.int64)


def numbers_of(column: pa.Array) -> np.ndarray[Any, Any]:
    """Return the column's integers or floats in their own width, 0 for nulls."""
    numbers: np.ndarray[Any, Any] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return numbers


def array_of(
    values: np.ndarray[Any, Any],
    like: pa.Array,
    arrow: pa.DataType,
) -> pa.Array:
    """Return the numbers as an Arrow array, null where `like` is null."""
    nulls = like.is_null().to_numpy(zero_copy_only=False) if like.null_count else None
    return pa.array(values, mask=nulls).view(arrow)


def map_values(
    column: pa.Array,
    source: DataType,
    target: DataType,
    convert: Callable[[Any], Any],
) -> pa.Array:
    """Convert values one by one in internal form, each distinct one once if that is cheap."""
    indices = None
    if not pa.types.is_nested(column.type):
        encoded = column.dictionary_encode()
        column, indices = encoded.dictionary, encoded.indices
    converted = []
    for value in column_to_internal(column, source):
        try:
            converted.append(None if value is None else convert(value))
        except (ValueError, ArithmeticError) as e:
            raise SchemaError(
                f"the value {value!r}, written as {type_to_sql(source)}, "
                f"cannot be read as {type_to_sql(target)}"
            ) from e
    try:
        result = column_from_internal(converted, target)
    except InvalidArgument as e:
        raise SchemaError(f"{type_to_sql(source)} cannot be read: {e.message}") from e
    return result if indices is None else result.take(indices)


def atomic(t: DataType) -> AtomicType:
    """Return the type; SchemaError if it is nested."""
    if not isinstance(t, AtomicType):
        raise SchemaError(f"{type_to_sql(t)} is not an atomic type")
    return t


def truncating_divide(numbers: Ints, divisor: int) -> Ints:
    """Divide like Java, towards zero."""
    quotient = numbers // divisor
    quotient[(numbers < 0) & (quotient * divisor != numbers)] += 1
    return quotient
