"""Converts values to and from JSON.

Integers, booleans and strings are plain; DECIMAL is a string with all its digits; bytes are hex;
DATE `2024-01-31`; TIME `12:34:56.789`; TIMESTAMP `2024-01-31T12:34:56.123` with as many digits as
its precision, LTZ in UTC with `Z`; NaN and infinities are strings; ARRAY is a list; MAP and
MULTISET are lists of pairs sorted by their JSON text; ROW is an object.  FLOAT has the digits of a
32-bit float.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.types import datetimes
from paimon_core.types.arrow import map_types
from paimon_core.types.data_types import (
    INTEGER_BOUNDS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)
from paimon_core.types.decimals import fit
from paimon_core.types.java_numbers import (
    double_text,
    float_text,
)
from paimon_core.types.sql import type_to_sql
from paimon_core.types.variants.building import variant_of_json
from paimon_core.types.variants.variant import variant_json


def json_value(value: Any, data_type: DataType) -> Any:
    """Return an internal value as a JSON value for Python's `json`."""
    if value is None:
        return None
    match data_type:
        case AtomicType():
            return _atomic_json(value, data_type)
        case ArrayType() | VectorType():
            return [json_value(v, data_type.element) for v in value]
        case MapType() | MultisetType():
            key_type, value_type = map_types(data_type)
            return sorted_pairs(
                [json_value(k, key_type), json_value(v, value_type)] for k, v in value
            )
        case RowType():
            return {
                f.name: json_value(v, f.type) for f, v in zip(data_type.fields, value, strict=True)
            }
    raise UnsupportedFeature(f"data type {type_to_sql(data_type)}")


def _atomic_json(value: Any, t: AtomicType) -> Any:
    match t.kind:
        case TypeRoot.FLOAT:
            return json_float(value, short_float)
        case TypeRoot.DOUBLE:
            return json_float(value, float)
        case TypeRoot.DECIMAL:
            return f"{value:f}"
        case TypeRoot.BINARY | TypeRoot.VARBINARY | TypeRoot.BLOB:
            return value.hex()
        case TypeRoot.DATE:
            return datetimes.iso_date(value)
        case TypeRoot.TIME:
            return datetimes.iso_time(value)
        case TypeRoot.TIMESTAMP:
            return datetimes.iso_timestamp(value, t.precision or 0)
        case TypeRoot.TIMESTAMP_LTZ:
            return datetimes.iso_timestamp(value, t.precision or 0) + "Z"
        case TypeRoot.VARIANT:
            return variant_json(*value)
        case _:
            return value


def short_float(value: float) -> float:
    """Return the 64-bit float with the digits of this 32-bit float."""
    return float(float_text(value))


def json_float(value: float, finite: Callable[[float], float]) -> float | str:
    """Return `finite` of the value; a string for NaN and infinities."""
    if math.isfinite(value):
        return finite(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def sorted_pairs(pairs: Iterator[list[Any]] | Sequence[list[Any]]) -> list[list[Any]]:
    """Sort pairs by their JSON text, compared in UTF-16 like Java's strings."""
    listed = list(pairs)
    if len(listed) < 2:
        return listed
    return sorted(listed, key=lambda pair: _json_text(pair).encode("utf-16-be", "surrogatepass"))


def _json_text(value: Any) -> str:
    if any(isinstance(part, float) for part in value):
        # Sorting numbers by text uses Java's text: 1.0E10, not 10000000000.0.
        return "[" + ",".join(
            double_text(v) if isinstance(v, float) else _json_text_of(v) for v in value
        )
    return _json_text_of(value)


def _json_text_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def from_json_value(value: Any, data_type: DataType) -> Any:
    """Return the internal value of a JSON value; scalars may also be strings.

    Raises InvalidArgument if the value does not fit the type.
    """
    if value is None:
        return None
    try:
        return _from_json(value, data_type)
    except InvalidArgument:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, InvalidOperation) as e:
        raise InvalidArgument(
            f"the value {value!r} does not fit the type {type_to_sql(data_type)}"
        ) from e


def _from_json(value: Any, t: DataType) -> Any:
    match t:
        case AtomicType():
            return _atomic_from_json(value, t)
        case ArrayType() | VectorType():
            return [from_json_value(v, t.element) for v in value]
        case MapType() | MultisetType():
            key_type, value_type = map_types(t)
            pairs = value.items() if isinstance(value, Mapping) else value
            # As in a Java map, the last value of a key wins, at the position of the first.
            entries = {
                _hashable(key): (key, from_json_value(v, value_type))
                for key, v in ((from_json_value(k, key_type), v) for k, v in pairs)
            }
            return list(entries.values())
        case RowType():
            if isinstance(value, Mapping):
                return tuple(from_json_value(value.get(f.name), f.type) for f in t.fields)
            if len(value) != len(t.fields):
                raise InvalidArgument(f"{len(value)} values for {len(t.fields)} fields: {value!r}")
            return tuple(from_json_value(v, f.type) for v, f in zip(value, t.fields, strict=True))
    raise UnsupportedFeature(f"data type {type_to_sql(t)}")


def _hashable(value: Any) -> Any:
    # As text, the zeros differ and NaN equals itself, like Java's boxed floats.
    return repr(value) if isinstance(value, list | tuple | float) else value


def _atomic_from_json(value: Any, t: AtomicType) -> Any:
    match t.kind:
        case TypeRoot.BOOLEAN:
            return value if isinstance(value, bool) else str(value).strip().lower() == "true"
        case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INT | TypeRoot.BIGINT:
            return _checked_integer(int(value), t)
        case TypeRoot.FLOAT:
            return float(np.float32(float(value)))
        case TypeRoot.DOUBLE:
            return float(value)
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return value if isinstance(value, str) else _json_text_of(value)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return bytes.fromhex(value)
        case TypeRoot.DECIMAL:
            number = fit(Decimal(str(value)), t.precision or 0, t.scale or 0)
            if number is None:
                raise InvalidArgument(f"{value} has too many digits for {type_to_sql(t)}")
            return number
        case TypeRoot.DATE:
            return value if isinstance(value, int) else datetimes.parse_iso_date(value)
        case TypeRoot.TIME:
            if isinstance(value, int):
                return value
            return datetimes.parse_iso_time_nanos(value) // 1_000_000
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return datetimes.parse_iso_timestamp(str(value))
        case TypeRoot.VARIANT:
            return variant_of_json(value if isinstance(value, str) else json.dumps(value))
    raise UnsupportedFeature(f"data type {type_to_sql(t)}")


def _checked_integer(value: int, t: AtomicType) -> int:
    bound = INTEGER_BOUNDS[t.kind]
    if not -bound <= value < bound:
        raise InvalidArgument(f"{value} is out of range for {type_to_sql(t)}")
    return value
