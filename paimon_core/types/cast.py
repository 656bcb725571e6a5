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
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import SchemaError
from paimon_core.types.arrow import (
    arrow_type,
)
from paimon_core.types.cast_arrays import (
    atomic,
    map_values,
)
from paimon_core.types.cast_numbers import (
    boolean_to_number,
    decimal_to_decimal,
    decimal_to_number,
    number_to_boolean,
    number_to_decimal,
    number_to_number,
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
from paimon_core.types.cast_times import (
    date_to_timestamp,
    number_to_timestamp,
    time_to_timestamp,
    timestamp_to_date,
    timestamp_to_number,
    timestamp_to_time,
    timestamp_to_timestamp,
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
from paimon_core.types.sql import type_to_sql

__all__ = ["can_cast", "can_evolve", "cast_column", "java_to_string", "parse_default"]


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


# --- text and bytes -----------------------------------------------------------------------------


def _to_string(column: pa.Array, source: DataType, target: DataType, zone: tzinfo) -> pa.Array:
    t = atomic(target)
    if pa.types.is_integer(column.type):
        text = column.cast(pa.string())
    else:
        text = map_values(column, source, STRING, lambda v: java_to_string(v, source, zone))
    if pa.types.is_nested(column.type):
        return text  # Java does not truncate these
    return _to_length(text, t)


def _string_to_string(column: pa.Array, _: DataType, target: DataType, __: tzinfo) -> pa.Array:
    return _to_length(column, atomic(target))


def _to_length(text: pa.Array, t: AtomicType) -> pa.Array:
    if t.length == MAX_LENGTH:
        return text
    return map_values(text, STRING, STRING, lambda v: character_string(v, t))


def _from_string(column: pa.Array, source: DataType, target: DataType, zone: tzinfo) -> pa.Array:
    return map_values(column, source, target, lambda v: parse_text(v, target, zone))


def _string_to_binary(column: pa.Array, _: DataType, target: DataType, __: tzinfo) -> pa.Array:
    return _binary_to_length(column.cast(pa.binary()), atomic(target))


def _binary_to_binary(column: pa.Array, _: DataType, target: DataType, __: tzinfo) -> pa.Array:
    return _binary_to_length(column, atomic(target))


def _binary_to_length(data: pa.Array, t: AtomicType) -> pa.Array:
    if t.kind is TypeRoot.VARBINARY and t.length == MAX_LENGTH:
        return data
    return map_values(data, t, t, lambda v: binary_string(v, t))


def _binary_to_string(column: pa.Array, *_: object) -> pa.Array:
    # The unchanged bytes, UTF-8 or not, as in Java's BinaryString.fromBytes.
    return column.cast(options=pc.CastOptions(target_type=pa.string(), allow_invalid_utf8=True))


_CASTS: Final[dict[Rule, Callable[[pa.Array, DataType, DataType, tzinfo], pa.Array]]] = {
    Rule.DECIMAL_TO_DECIMAL: decimal_to_decimal,
    Rule.NUMBER_TO_DECIMAL: number_to_decimal,
    Rule.DECIMAL_TO_NUMBER: decimal_to_number,
    Rule.NUMBER_TO_NUMBER: number_to_number,
    Rule.NUMBER_TO_TIMESTAMP: number_to_timestamp,
    Rule.BOOLEAN_TO_NUMBER: boolean_to_number,
    Rule.NUMBER_TO_BOOLEAN: number_to_boolean,
    Rule.TO_STRING: _to_string,
    Rule.STRING_TO_STRING: _string_to_string,
    Rule.FROM_STRING: _from_string,
    Rule.TIMESTAMP_TO_TIMESTAMP: timestamp_to_timestamp,
    Rule.TIMESTAMP_TO_DATE: timestamp_to_date,
    Rule.TIMESTAMP_TO_TIME: timestamp_to_time,
    Rule.DATE_TO_TIMESTAMP: date_to_timestamp,
    Rule.TIME_TO_TIMESTAMP: time_to_timestamp,
    Rule.TIMESTAMP_TO_NUMBER: timestamp_to_number,
    Rule.STRING_TO_BINARY: _string_to_binary,
    Rule.BINARY_TO_BINARY: _binary_to_binary,
    Rule.BINARY_TO_STRING: _binary_to_string,
}
