"""Puts shredded VARIANT columns of Parquet files together (Java: `PaimonShreddingUtils`).

A shredded column is a struct of `metadata`, `value` and `typed_value`.  `typed_value` holds the
parts of the values that fit a schema of the writer's choice: a scalar, a struct with such a struct
for each key, or a list of such structs.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from paimon_core.errors import UnsupportedFeature
from paimon_core.types.variants.building import Days, Float, assembled
from paimon_core.types.variants.parts import METADATA, TYPED_VALUE, VALUE

_PLAIN: Final = {METADATA, VALUE}
_PARTS: Final = {*_PLAIN, TYPED_VALUE}


def is_shredded(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a column of this type of a file is a shredded VARIANT that `target` wants."""
    return (
        pa.types.is_struct(source)
        and {f.name for f in target} == _PLAIN
        and {TYPED_VALUE, METADATA} <= {f.name for f in source} <= _PARTS
    )


def assembled_column(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return the column as plain VARIANT values.

    CorruptTable for values that do not fit together, UnsupportedFeature for a type that Java does
    not shred into.
    """
    rows = _rows(array)
    found = [None if row is None else assembled(row) for row in rows]
    children = {
        VALUE: pa.array([None if v is None else v[0] for v in found], pa.binary()),
        METADATA: pa.array([None if v is None else v[1] for v in found], pa.binary()),
    }
    mask = pa.array([v is None for v in found], pa.bool_())
    return pa.StructArray.from_arrays(
        [children[f.name] for f in target], fields=list(target), mask=mask
    )


def _rows(array: pa.Array) -> list[dict[str, Any] | None]:
    """Return structs of these parts as dicts, with typed values as `assembled` expects them."""
    valid = array.is_valid().to_pylist()
    columns = {f.name: _column(array.field(i), f.name) for i, f in enumerate(array.type)}
    return [
        {name: values[i] for name, values in columns.items()} if ok else None
        for i, ok in enumerate(valid)
    ]


def _column(array: pa.Array, name: str) -> list[Any]:
    return _typed(array) if name == TYPED_VALUE else array.to_pylist()


def _typed(array: pa.Array) -> list[Any]:
    t = array.type
    if pa.types.is_struct(t):
        valid = array.is_valid().to_pylist()
        parts = {f.name: _rows(array.field(i)) for i, f in enumerate(t)}
        return [{k: v[i] for k, v in parts.items()} if ok else None for i, ok in enumerate(valid)]
    if pa.types.is_list(t):
        elements = _rows(array.values)
        ends = array.offsets.to_pylist()
        valid = array.is_valid().to_pylist()
        return [
            elements[start:end] if ok else None
            for start, end, ok in zip(ends[:-1], ends[1:], valid, strict=True)
        ]
    values: list[Any] = array.to_pylist()
    if pa.types.is_float32(t):
        return [None if v is None else Float(v) for v in values]
    if pa.types.is_date32(t):
        return [None if v is None else Days(v) for v in array.cast(pa.int32()).to_pylist()]
    if (
        pa.types.is_boolean(t)
        or pa.types.is_signed_integer(t)
        or pa.types.is_float64(t)
        or pa.types.is_decimal(t)
        or pa.types.is_string(t)
        or pa.types.is_binary(t)
    ):
        return values
    raise UnsupportedFeature(f"VARIANT shredded into {t}")
