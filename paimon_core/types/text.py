"""Converts values to and from JSON, and partition values to and from folder names.

JSON: integers, booleans and strings are plain; DECIMAL is a string with all its digits; bytes are
hex; DATE `2024-01-31`; TIME `12:34:56.789`; TIMESTAMP `2024-01-31T12:34:56.123` with as many digits
as its precision, LTZ in UTC with `Z`; NaN and infinities are strings; ARRAY is a list; MAP and
MULTISET are lists of pairs sorted by their JSON text; ROW is an object.  FLOAT has the digits of a
32-bit float.

Partition names (Java: `InternalRowPartitionComputer`): legacy names are the internal value (a DATE
is its day number), others the cast to STRING.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import chain
from typing import Any, Final, Literal, cast

import numpy as np
import pyarrow as pa

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.types import datetimes
from paimon_core.types.arrow import list_ranges, map_types, strings_to_list
from paimon_core.types.buffers import fixed_values, valid_rows
from paimon_core.types.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from paimon_core.types.decimals import fit
from paimon_core.types.java_numbers import (
    double_text,
    float_text,
    parse_decimal,
    parse_exact_float,
    parse_float,
    parse_integer,
)
from paimon_core.types.sql import type_to_sql
from paimon_core.types.variant import variant_json
from paimon_core.types.variant_parts import METADATA, VALUE

_INTEGERS: Final = {
    TypeRoot.TINYINT: 2**7,
    TypeRoot.SMALLINT: 2**15,
    TypeRoot.INT: 2**31,
    TypeRoot.BIGINT: 2**63,
}
_STRINGS: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BINARIES: Final = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_TIMESTAMPS: Final = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


# --- single values to JSON ----------------------------------------------------------------------


def json_value(value: Any, data_type: DataType) -> Any:
    """Return an internal value as a JSON value for Python's `json`."""
    if value is None:
        return None
    match data_type:
        case AtomicType():
            return _atomic_json(value, data_type)
        case ArrayType():
            return [json_value(v, data_type.element) for v in value]
        case MapType() | MultisetType():
            key_type, value_type = map_types(data_type)
            return _sorted_pairs(
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
            return _json_float(value, _short_float)
        case TypeRoot.DOUBLE:
            return _json_float(value, float)
        case TypeRoot.DECIMAL:
            return f"{value:f}"
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
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
        case TypeRoot.BLOB:
            raise UnsupportedFeature(f"data type {type_to_sql(t)}")
        case _:
            return value


def _short_float(value: float) -> float:
    return float(float_text(value))


def _json_float(value: float, finite: Callable[[float], float]) -> float | str:
    if math.isfinite(value):
        return finite(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _sorted_pairs(pairs: Iterator[list[Any]] | Sequence[list[Any]]) -> list[list[Any]]:
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


# --- JSON to single values ----------------------------------------------------------------------


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
        case ArrayType():
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
    raise UnsupportedFeature(f"data type {type_to_sql(t)}")


def _checked_integer(value: int, t: AtomicType) -> int:
    bound = _INTEGERS[t.kind]
    if not -bound <= value < bound:
        raise InvalidArgument(f"{value} is out of range for {type_to_sql(t)}")
    return value


# --- columns to JSON ----------------------------------------------------------------------------


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
        case ArrayType():
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
                else _sorted_pairs([[keys[i], items[i]] for i in range(*at)])
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
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
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
        case TypeRoot.BLOB:
            raise UnsupportedFeature(f"data type {type_to_sql(t)}")
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
        listed[i] = _short_float(singles[i].as_py())
    for i in np.flatnonzero(~np.isfinite(values)).tolist():
        listed[i] = _json_float(listed[i], float)
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


# --- partition names ----------------------------------------------------------------------------


def partition_text(value: Any, data_type: DataType, *, legacy_name: bool) -> str | None:
    """Return the text of a partition value; None if the table's default name replaces it.

    This applies to nulls and to empty or blank strings.
    """
    if value is None:
        return None
    text = _legacy_text(value, data_type) if legacy_name else sql_text(value, data_type)
    return text if text.strip(_JAVA_BLANKS) else None


_JAVA_BLANKS: Final = " \t\n\x0b\x0c\r\x1c\x1d\x1e\x1f" + "".join(
    chr(c)
    for c in (
        0x1680,
        *range(0x2000, 0x2007),
        *range(0x2008, 0x200B),
        0x2028,
        0x2029,
        0x205F,
        0x3000,
    )
)
"""The characters that `Character.isWhitespace` accepts (without no-break spaces)."""


def _legacy_text(value: Any, data_type: DataType) -> str:
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return "true" if value else "false"
        case TypeRoot.FLOAT:
            return float_text(value)
        case TypeRoot.DOUBLE:
            return double_text(value)
        case TypeRoot.DECIMAL:
            return f"{value:f}"
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return datetimes.local_date_time_text(value)
        case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.DATE | TypeRoot.TIME:
            return str(value)
        case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INT | TypeRoot.BIGINT:
            return str(value)
    # Java prints the array's address: a different folder in every process.
    raise UnsupportedFeature(
        f"partition columns of type {type_to_sql(data_type)} with legacy names"
    )


def sql_text(value: Any, data_type: DataType) -> str:
    """Cast a non-null atomic value to STRING, with LTZ in UTC."""
    if not isinstance(data_type, AtomicType):
        raise UnsupportedFeature(f"partition columns of type {type_to_sql(data_type)}")
    match data_type.kind:
        case TypeRoot.DATE:
            return datetimes.sql_date(value)
        case TypeRoot.TIME:
            return datetimes.sql_time(value, data_type.precision or 0)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return datetimes.sql_timestamp(value, data_type.precision or 0)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return cast("str", value.decode(errors="replace"))
    return _legacy_text(value, data_type)


def parse_partition_text(text: str, data_type: DataType) -> Any:
    """Return the internal value of a partition's text, in either kind of name.

    Java: `TypeUtils.castFromString`.  Two differences: the ISO text of legacy names is accepted
    too, and a DECIMAL with too many digits is refused, while Java returns null.  The caller handles
    the default name, which means null.  Raises InvalidArgument if the text is invalid for the type.
    """
    if not isinstance(data_type, AtomicType):
        raise UnsupportedFeature(f"partition columns of type {type_to_sql(data_type)}")
    cause: Exception | None = None
    value = None
    try:
        value = _parse_atomic(text, data_type)
    except (ValueError, InvalidOperation, OverflowError) as e:
        cause = e
    if value is None:
        raise InvalidArgument(
            f"the text {text!r} is not a value of the type {type_to_sql(data_type)}"
        ) from cause
    return value


def _parse_atomic(text: str, t: AtomicType) -> Any:
    match t.kind:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return None if t.length != MAX_LENGTH and len(text) > (t.length or 0) else text
        case TypeRoot.BOOLEAN:
            return parse_boolean(text)
        case TypeRoot.BINARY:
            return text.encode()
        case TypeRoot.VARBINARY:
            encoded = text.encode()
            return None if len(encoded) > (t.length or 0) else encoded
        case TypeRoot.DECIMAL:
            number = parse_decimal(text)
            return None if number is None else fit(number, t.precision or 0, t.scale or 0)
        case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INT | TypeRoot.BIGINT:
            return _bounded(text, t.kind)
        case TypeRoot.FLOAT:
            return parse_exact_float(text)
        case TypeRoot.DOUBLE:
            return parse_float(text, single=False)
        case TypeRoot.DATE if is_numeric(text):
            return _bounded(text, TypeRoot.INT)
        case TypeRoot.DATE:
            return datetimes.parse_sql_date(text)
        case TypeRoot.TIME if is_numeric(text):
            return _bounded(text, TypeRoot.INT)
        case TypeRoot.TIME:
            return datetimes.parse_sql_time(text)
        case TypeRoot.TIMESTAMP if is_numeric(text):
            epoch = _bounded(text, TypeRoot.BIGINT)
            return None if epoch is None else epoch_to_nanos(epoch, t.precision or 0)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            # Legacy names hold ISO text, whose seconds may be missing.
            if "T" in text:
                return datetimes.parse_iso_timestamp(text)
            return datetimes.parse_sql_timestamp(text, t.precision or 0)
    raise UnsupportedFeature(f"partition columns of type {type_to_sql(t)}")


def _bounded(text: str, root: TypeRoot) -> int | None:
    number = parse_integer(text)
    return number if number is not None and -_INTEGERS[root] <= number < _INTEGERS[root] else None


def is_numeric(text: str) -> bool:
    """Return whether Java's casts parse the text as a plain number for a date or time."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit()


_TRUE: Final = ("t", "true", "y", "yes", "1")
_FALSE: Final = ("f", "false", "n", "no", "0")


def parse_boolean(text: str) -> bool | None:
    """Parse Java's words for True and False in any case; None for other words."""
    lowered = text.lower()
    return True if lowered in _TRUE else False if lowered in _FALSE else None


def epoch_to_nanos(epoch: int, precision: int) -> int:
    """Convert epoch digits in the unit of the precision (0, 3, 6 or 9) to nanoseconds."""
    if precision not in (0, 3, 6, 9):
        raise InvalidArgument(f"a number cannot be read as TIMESTAMP({precision})")
    if precision == 0:
        # Java converts seconds to milliseconds in 64 bits, which wrap around.
        return ((epoch * 1000 + 2**63) % 2**64 - 2**63) * 1_000_000
    nanos: int = epoch * 10 ** (9 - precision)
    return nanos
