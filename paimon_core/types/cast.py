"""Casts columns from one type to another with Java's results.

Java: `CastExecutors` and `casting/*`; nested fields `SchemaEvolutionUtil`.  Reads of files written
before `ALTER TABLE` changed a column's type use these casts.  Notable rules:

- integers wrap around when narrowed; floats saturate to INT or BIGINT first, NaN is 0;
- a number with too many digits for a DECIMAL becomes null, excess fraction is rounded half up;
- text that cannot be parsed fails the read, as in Java;
- a timestamp before 1970 becomes the *next* day when cast to DATE, or the next whole second, since
  Java's division truncates.  TIMESTAMP to TIME follows 2.0.0 (1.4.2 gives negative times there);
- LTZ is converted with the clock of `zone`, Java's default time zone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import InvalidArgument, SchemaError
from paimon_core.types import datetimes
from paimon_core.types.arrow import (
    UNIT_NANOS,
    arrow_type,
    column_from_internal,
    column_to_internal,
    time_unit,
)
from paimon_core.types.cast_rules import (
    STRING,
    Rule,
    can_cast,
    can_evolve,
    rule_for,
    same_but_nullable,
)
from paimon_core.types.cast_text import (
    binary_string,
    character_string,
    java_to_string,
    parse_text,
)
from paimon_core.types.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from paimon_core.types.decimals import COMPACT_PRECISION, fit, unscaled
from paimon_core.types.java_numbers import double_text
from paimon_core.types.sql import type_to_sql

__all__ = ["can_cast", "can_evolve", "cast_column", "java_to_string", "parse_default"]

Ints = np.ndarray[Any, np.dtype[np.int64]]
_MILLI: Final = 1_000_000


def cast_column(
    column: pa.Array | pa.ChunkedArray,
    source: DataType,
    target: DataType,
    zone: tzinfo = UTC,
) -> pa.Array:
    """Cast the column from the source type to the target type.

    Raises SchemaError if Java has no such cast, or if a value cannot be cast.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
    if same_but_nullable(source, target):
        return column
    match source, target:
        case RowType(), RowType():
            return _cast_row(column, source, target, zone)
        case ArrayType(), ArrayType():
            return _cast_array(column, source, target, zone)
        case MapType(), MapType():
            return _cast_map(column, source, target, zone)
    rule = rule_for(source, target)
    if rule is None:
        raise SchemaError(f"no cast from {type_to_sql(source)} to {type_to_sql(target)}")
    if len(column) == column.null_count:
        return pa.nulls(len(column), arrow_type(target))
    return _CASTS[rule](column, source, target, zone)


def parse_default(text: str, data_type: DataType) -> Any:
    """Return the internal value of a column's default, which a schema stores as text.

    Enclosing quotes are removed (Java: `DefaultValueUtils`).  Raises SchemaError if it is not a
    value of the type.
    """
    if text.startswith("'") and text.endswith("'") and len(text) > 1:
        text = text[1:-1]
    if rule_for(STRING, data_type) is None:
        raise SchemaError(f"columns of type {type_to_sql(data_type)} have no default values")
    try:
        return parse_text(text, data_type)
    except (ValueError, ArithmeticError) as e:
        raise SchemaError(
            f"the default value {text!r} does not fit the type {type_to_sql(data_type)}"
        ) from e


# --- nested types -------------------------------------------------------------------------------


def _cast_row(column: pa.Array, source: RowType, target: RowType, zone: tzinfo) -> pa.Array:
    """Match fields by id; fields that the source lacks are null."""
    # flatten() applies the nulls of the rows to the fields: values below them are not cast.
    children = dict(zip((f.id for f in source.fields), column.flatten(), strict=True))
    types = {f.id: f.type for f in source.fields}
    arrow = arrow_type(target)
    cast = [
        cast_column(children[f.id], types[f.id], f.type, zone)
        if f.id in children
        else pa.nulls(len(column), arrow.field(i).type)
        for i, f in enumerate(target.fields)
    ]
    if not cast:
        return pa.array([{} if ok else None for ok in column.is_valid().to_pylist()], arrow)
    fields = [arrow.field(i).with_type(c.type) for i, c in enumerate(cast)]
    return pa.StructArray.from_arrays(cast, fields=fields, mask=column.is_null())


def _list_offsets(column: pa.ListArray) -> pa.Array:
    """Return offsets into `column.flatten()`, null where the list is null."""
    lengths = np.array(pc.fill_null(pc.list_value_length(column), 0), np.int64)
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    if not column.null_count:
        return pa.array(offsets)
    nulls = np.append(column.is_null().to_numpy(zero_copy_only=False), False)
    return pa.array(offsets, mask=nulls)


def _cast_array(column: pa.Array, source: ArrayType, target: ArrayType, zone: tzinfo) -> pa.Array:
    elements = cast_column(column.flatten(), source.element, target.element, zone)
    field = arrow_type(target).value_field.with_type(elements.type)
    return pa.ListArray.from_arrays(_list_offsets(column), elements, type=pa.list_(field))


def _cast_map(column: pa.Array, source: MapType, target: MapType, zone: tzinfo) -> pa.Array:
    if source.key != target.key:
        raise SchemaError(
            f"no cast from {type_to_sql(source)} to {type_to_sql(target)}: the keys differ"
        )
    entries = column.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field])))
    keys, items = entries.flatten().flatten()
    items = cast_column(items, source.value, target.value, zone)
    arrow = arrow_type(target)
    arrow = pa.map_(arrow.key_field.with_type(keys.type), arrow.item_field.with_type(items.type))
    return pa.MapArray.from_arrays(_list_offsets(entries), keys, items, type=arrow)


# --- helpers ------------------------------------------------------------------------------------


def _ints(column: pa.Array, storage: pa.DataType) -> Ints:
    """Return the column's integers, 0 for nulls."""
    return np.array(pc.fill_null(column.view(storage), 0), np.int64)


def _numbers(column: pa.Array) -> np.ndarray[Any, Any]:
    """Return the column's integers or floats in their own width, 0 for nulls."""
    numbers: np.ndarray[Any, Any] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return numbers


def _array(
    values: np.ndarray[Any, Any],
    like: pa.Array,
    arrow: pa.DataType,
    more_nulls: np.ndarray[Any, np.dtype[np.bool_]] | None = None,
) -> pa.Array:
    """Return the numbers as an Arrow array, null where `like` or the mask is null."""
    nulls = like.is_null().to_numpy(zero_copy_only=False) if like.null_count else None
    if more_nulls is not None and more_nulls.any():
        nulls = more_nulls if nulls is None else nulls | more_nulls
    return pa.array(values, mask=nulls).view(arrow)


def _map_values(
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


def _atomic(t: DataType) -> AtomicType:
    if not isinstance(t, AtomicType):
        raise SchemaError(f"{type_to_sql(t)} is not an atomic type")
    return t


# --- numbers ------------------------------------------------------------------------------------


def _number_to_number(column: pa.Array, _: DataType, target: DataType, __: tzinfo) -> pa.Array:
    arrow = arrow_type(target)
    wanted = np.dtype(arrow.to_pandas_dtype())
    numbers = _numbers(column)
    if numbers.dtype.kind == "f" and wanted.kind == "i":
        # Java casts a double to byte or short through int.
        numbers = _saturate(numbers, np.dtype(np.int64 if wanted.itemsize == 8 else np.int32))
    with np.errstate(over="ignore"):
        return _array(numbers.astype(wanted), column, arrow)


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


def _number_to_boolean(column: pa.Array, *_: object) -> pa.Array:
    return pc.not_equal(column, pa.scalar(0, column.type))


def _boolean_to_number(column: pa.Array, source: DataType, target: DataType, _: tzinfo) -> pa.Array:
    if target.root is TypeRoot.DECIMAL:
        t = _atomic(target)
        return _map_values(
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


def _decimal_to_decimal(
    column: pa.Array, source: DataType, target: DataType, _: tzinfo
) -> pa.Array:
    return _fit_decimal(_wide(column, _atomic(source).scale or 0), _atomic(target))


def _number_to_decimal(column: pa.Array, source: DataType, target: DataType, _: tzinfo) -> pa.Array:
    t = _atomic(target)
    if pa.types.is_floating(column.type):
        return _map_values(
            column,
            source,
            target,
            lambda v: fit(Decimal(double_text(v)), t.precision or 0, t.scale or 0),
        )
    return _fit_decimal(_wide(column.cast(pa.int64()).cast(pa.decimal128(19, 0)), 0), t)


def _decimal_to_number(column: pa.Array, source: DataType, target: DataType, _: tzinfo) -> pa.Array:
    s = _atomic(source)
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
            longs = _truncating_divide(longs, 10**scale)
        return _array(longs.astype(wanted), column, arrow)
    if compact:
        doubles = _low_longs(column).astype(np.float64) / float(10**scale)
    else:
        doubles = np.array([0.0 if v is None else float(v) for v in column.to_pylist()])
    with np.errstate(over="ignore"):
        return _array(doubles.astype(wanted), column, arrow)


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


def _truncating_divide(numbers: Ints, divisor: int) -> Ints:
    """Divide like Java, towards zero."""
    quotient = numbers // divisor
    quotient[(numbers < 0) & (quotient * divisor != numbers)] += 1
    return quotient


# --- text and bytes -----------------------------------------------------------------------------


def _to_string(column: pa.Array, source: DataType, target: DataType, zone: tzinfo) -> pa.Array:
    t = _atomic(target)
    if pa.types.is_integer(column.type):
        text = column.cast(pa.string())
    else:
        text = _map_values(column, source, STRING, lambda v: java_to_string(v, source, zone))
    if pa.types.is_nested(column.type):
        return text  # Java does not truncate these
    return _to_length(text, t)


def _string_to_string(column: pa.Array, _: DataType, target: DataType, __: tzinfo) -> pa.Array:
    return _to_length(column, _atomic(target))


def _to_length(text: pa.Array, t: AtomicType) -> pa.Array:
    if t.length == MAX_LENGTH:
        return text
    return _map_values(text, STRING, STRING, lambda v: character_string(v, t))


def _from_string(column: pa.Array, source: DataType, target: DataType, zone: tzinfo) -> pa.Array:
    return _map_values(column, source, target, lambda v: parse_text(v, target, zone))


def _string_to_binary(column: pa.Array, _: DataType, target: DataType, __: tzinfo) -> pa.Array:
    return _binary_to_length(column.cast(pa.binary()), _atomic(target))


def _binary_to_binary(column: pa.Array, _: DataType, target: DataType, __: tzinfo) -> pa.Array:
    return _binary_to_length(column, _atomic(target))


def _binary_to_length(data: pa.Array, t: AtomicType) -> pa.Array:
    if t.kind is TypeRoot.VARBINARY and t.length == MAX_LENGTH:
        return data
    return _map_values(data, t, t, lambda v: binary_string(v, t))


def _binary_to_string(column: pa.Array, *_: object) -> pa.Array:
    # The unchanged bytes, UTF-8 or not, as in Java's BinaryString.fromBytes.
    return column.cast(options=pc.CastOptions(target_type=pa.string(), allow_invalid_utf8=True))


# --- dates and times ----------------------------------------------------------------------------


def _scaled(numbers: Ints, factor: int, target: DataType) -> Ints:
    limit = (2**63 - 1) // factor
    if len(numbers) and max(int(numbers.max()), -int(numbers.min())) > limit:
        raise SchemaError(f"a timestamp is out of range for {type_to_sql(target)}")
    return numbers * factor


def _unit_nanos(t: DataType) -> int:
    return UNIT_NANOS[time_unit(_atomic(t))]


def _on_clock(nanos: Ints, unit: int, convert: Callable[[int, tzinfo], int], zone: tzinfo) -> Ints:
    """Convert between wall clock and instant in the column's unit."""
    if zone is UTC:
        return nanos
    distinct, inverse = np.unique(nanos, return_inverse=True)
    moved = [convert(int(v) * unit, zone) // unit for v in distinct]
    return np.array(moved, np.int64)[inverse]


def _timestamp_to_timestamp(
    column: pa.Array, source: DataType, target: DataType, zone: tzinfo
) -> pa.Array:
    s, t = _atomic(source), _atomic(target)
    old, new = _unit_nanos(s), _unit_nanos(t)
    numbers = _ints(column, pa.int64())
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
            numbers, old = _truncating_divide(millis, step) * step, _MILLI
    moved = _scaled(numbers, old // new, target) if new <= old else numbers // (new // old)
    return _array(moved, column, arrow_type(target))


def _millis(column: pa.Array, source: DataType) -> Ints:
    unit = _unit_nanos(source)
    return _ints(column, pa.int64()) // (_MILLI // unit)


def _timestamp_to_date(
    column: pa.Array, source: DataType, target: DataType, zone: tzinfo
) -> pa.Array:
    millis = _millis(column, source)
    if source.root is TypeRoot.TIMESTAMP:
        days = _truncating_divide(millis, datetimes.MILLIS_OF_DAY)
    else:
        local = _on_clock(millis, _MILLI, datetimes.utc_to_local, zone)
        days = local // datetimes.MILLIS_OF_DAY
    return _array(days.astype(np.int32), column, arrow_type(target))


def _timestamp_to_time(
    column: pa.Array, source: DataType, target: DataType, zone: tzinfo
) -> pa.Array:
    millis = _millis(column, source)
    if source.root is TypeRoot.TIMESTAMP_LTZ:
        millis = _on_clock(millis, _MILLI, datetimes.utc_to_local, zone)
    return _array((millis % datetimes.MILLIS_OF_DAY).astype(np.int32), column, arrow_type(target))


def _date_to_timestamp(column: pa.Array, _: DataType, target: DataType, zone: tzinfo) -> pa.Array:
    unit = _unit_nanos(target)
    numbers = _scaled(_ints(column, pa.int32()), datetimes.NANOS_OF_DAY // unit, target)
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        numbers = _on_clock(numbers, unit, datetimes.local_to_utc, zone)
    return _array(numbers, column, arrow_type(target))


def _time_to_timestamp(column: pa.Array, _: DataType, target: DataType, __: tzinfo) -> pa.Array:
    numbers = _scaled(_ints(column, pa.int32()), _MILLI // _unit_nanos(target), target)
    return _array(numbers, column, arrow_type(target))


def _number_to_timestamp(column: pa.Array, _: DataType, target: DataType, zone: tzinfo) -> pa.Array:
    unit = _unit_nanos(target)
    millis = _numbers(column).astype(np.int64) * 1000  # in 64 bits, which wrap around
    numbers = _scaled(millis, _MILLI // unit, target)
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        # Java stores the wall clock of its zone as if it were UTC.
        numbers = _on_clock(numbers, unit, datetimes.utc_to_local, zone)
    return _array(numbers, column, arrow_type(target))


def _timestamp_to_number(
    column: pa.Array, source: DataType, target: DataType, _: tzinfo
) -> pa.Array:
    seconds = _truncating_divide(_millis(column, source), 1000)
    arrow = arrow_type(target)
    return _array(seconds.astype(arrow.to_pandas_dtype()), column, arrow)


_CASTS: Final[dict[Rule, Callable[[pa.Array, DataType, DataType, tzinfo], pa.Array]]] = {
    Rule.DECIMAL_TO_DECIMAL: _decimal_to_decimal,
    Rule.NUMBER_TO_DECIMAL: _number_to_decimal,
    Rule.DECIMAL_TO_NUMBER: _decimal_to_number,
    Rule.NUMBER_TO_NUMBER: _number_to_number,
    Rule.NUMBER_TO_TIMESTAMP: _number_to_timestamp,
    Rule.BOOLEAN_TO_NUMBER: _boolean_to_number,
    Rule.NUMBER_TO_BOOLEAN: _number_to_boolean,
    Rule.TO_STRING: _to_string,
    Rule.STRING_TO_STRING: _string_to_string,
    Rule.FROM_STRING: _from_string,
    Rule.TIMESTAMP_TO_TIMESTAMP: _timestamp_to_timestamp,
    Rule.TIMESTAMP_TO_DATE: _timestamp_to_date,
    Rule.TIMESTAMP_TO_TIME: _timestamp_to_time,
    Rule.DATE_TO_TIMESTAMP: _date_to_timestamp,
    Rule.TIME_TO_TIMESTAMP: _time_to_timestamp,
    Rule.TIMESTAMP_TO_NUMBER: _timestamp_to_number,
    Rule.STRING_TO_BINARY: _string_to_binary,
    Rule.BINARY_TO_BINARY: _binary_to_binary,
    Rule.BINARY_TO_STRING: _binary_to_string,
}
