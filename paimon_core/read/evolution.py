"""Converts columns written with an older schema to the current one.

Fields are matched by id, at every depth: renamed and moved fields are found, added ones are null,
dropped ones are left out, and fields with a changed type are cast as in Java
(`schema/SchemaEvolutionUtil`, `casting/CastExecutors`).

Java reuses one nested row object for all rows of such a file, so merge functions that keep it (for
example first_value) see the value of a later row.  Here every row keeps its own value.
"""

from __future__ import annotations

import pyarrow as pa

from paimon_core.format.arrow_conversion import with_children
from paimon_core.types.arrow import arrow_type, map_types
from paimon_core.types.casts.cast import cast_column
from paimon_core.types.data_types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)


def same_values(source: DataType, target: DataType) -> bool:
    """Return whether both types have the same Arrow arrays, ignoring nullability."""
    match source, target:
        case RowType(), RowType():
            return len(source) == len(target) and all(
                s.id == t.id and s.name == t.name and same_values(s.type, t.type)
                for s, t in zip(source.fields, target.fields, strict=True)
            )
        case ArrayType(), ArrayType():
            return same_values(source.element, target.element)
        case (MapType() | MultisetType() as s, MapType() | MultisetType() as t):
            return type(s) is type(t) and all(map(same_values, map_types(s), map_types(t)))
    return source.with_nullable(True) == target.with_nullable(True)


def readable(source: DataType, target: DataType) -> bool:
    """Return whether data of `source` holds any part of `target`.

    A row without remaining fields is null as a whole, and so is the value that contains it (Java:
    `FormatReaderMapping.pruneDataType`).
    """
    match source, target:
        case RowType(), RowType():
            by_id = {f.id: f.type for f in source.fields}
            return any(f.id in by_id and readable(by_id[f.id], f.type) for f in target.fields)
        case ArrayType(), ArrayType():
            return readable(source.element, target.element)
        case MapType(), MapType():
            return readable(source.key, target.key) and readable(source.value, target.value)
    return True


def evolve(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """Convert the column to the current type; InvalidArgument if Java has no such cast."""
    arrow = arrow_type(target)
    if same_values(source, target):
        return array if array.type.equals(arrow) else _renamed(array, source, target, arrow)
    return _renamed(array, source, target, arrow)


def _renamed(array: pa.Array, source: DataType, target: DataType, arrow: pa.DataType) -> pa.Array:
    match source, target:
        case RowType(), RowType():
            position = {f.id: i for i, f in enumerate(source.fields)}
            children = [_child(array, position.get(f.id), source, f) for f in target.fields]
            return with_children(array, arrow, children)
        case ArrayType(), ArrayType():
            values = evolve(array.values, source.element, target.element)
            return with_children(array, arrow, [values])
        case (MapType() | MultisetType() as s, MapType() | MultisetType() as t) if type(s) is type(
            t
        ):
            (key, value), (target_key, target_value) = map_types(s), map_types(t)
            keys = evolve(array.keys, key, target_key)
            return with_children(array, arrow, [keys, evolve(array.items, value, target_value)])
    return cast_column(array, source, target)


def _child(array: pa.StructArray, at: int | None, source: RowType, field: DataField) -> pa.Array:
    if at is None or not readable(source.fields[at].type, field.type):
        return pa.nulls(len(array), arrow_type(field.type))
    return evolve(array.field(at), source.fields[at].type, field.type)
