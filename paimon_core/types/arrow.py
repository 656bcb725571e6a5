"""Converts Paimon types to Arrow types, and internal values to Arrow arrays and back.

=====================  ==================================================================
CHAR, VARCHAR          string               DATE      date32
BINARY, VARBINARY      binary               TIME      time32[ms], whatever the precision
DECIMAL(p, s)          decimal128(p, s)     ARRAY     list
TIMESTAMP(p)           timestamp of ms      MAP       map
                       (p <= 3), us         MULTISET  map to int32
                       (p <= 6) or ns       ROW       struct
TIMESTAMP(p) LTZ       the same, zone UTC   VARIANT   struct of two binaries
                                            VECTOR    list
=====================  ==================================================================

Field ids are stored in the metadata as `PARQUET:field_id`.  Those of list elements and map entries
are computed like in Java's `ParquetSchemaConverter`, so that Parquet files written with such a
schema have Java's ids.

In memory, the parts of nested types are nullable, whatever the type says (except map keys, as Arrow
requires): below a null row Arrow has null fields, which do not violate NOT NULL. `stored_schema`
has the nullability that a file declares; `paimon_core.types.not_null` finds the nulls that violate
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any, Final

import pyarrow as pa

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.types.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)
from paimon_core.types.sql import type_to_sql
from paimon_core.types.variants.parts import METADATA, VALUE

FIELD_ID: Final = b"PARQUET:field_id"
COUNT_TYPE: Final = AtomicType(kind=TypeRoot.INT, nullable=False)
"""The type of a MULTISET's counts."""
_STRUCTURED_ID_BASE: Final = (2**31 - 1) // 4
_STRUCTURED_DEPTH_LIMIT: Final = 1 << 10

_SIMPLE: Final[dict[TypeRoot, pa.DataType]] = {
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.BLOB: pa.binary(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time32("ms"),
}
UNIT_NANOS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def _variant(*, nullable: bool) -> pa.DataType:
    names = ((VALUE, b"0"), (METADATA, b"1"))
    return pa.struct(
        [pa.field(n, pa.binary(), nullable=nullable, metadata={FIELD_ID: i}) for n, i in names]
    )


_VARIANT: Final = _variant(nullable=True)
_STORED_VARIANT: Final = _variant(nullable=False)


# --- types --------------------------------------------------------------------------------------


def arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of a type; UnsupportedFeature if there is none."""
    return _arrow_type(data_type, None, 0, stored=False)


def arrow_field(field: DataField) -> pa.Field:
    """Return the Arrow field of this name, type, nullability and field id."""
    return _column_field(field, stored=False)


@lru_cache(maxsize=256)
def arrow_schema(row_type: RowType) -> pa.Schema:
    """Return the Arrow schema of these fields; cached, because many files share one."""
    return pa.schema([arrow_field(f) for f in row_type.fields])


@lru_cache(maxsize=256)
def stored_schema(row_type: RowType) -> pa.Schema:
    """Return `arrow_schema` with NOT NULL on the parts of nested types that have it."""
    return pa.schema([_column_field(f, stored=True) for f in row_type.fields])


def time_unit(data_type: AtomicType) -> str:
    """Return the Arrow unit of a TIMESTAMP or LTZ of this precision: ms, us or ns."""
    precision = data_type.precision or 0
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def _column_field(field: DataField, *, stored: bool) -> pa.Field:
    arrow = _arrow_type(field.type, field.id, 0, stored=stored)
    return _field(field.name, arrow, field.id, nullable=field.type.nullable)


def _arrow_type(t: DataType, field_id: int | None, depth: int, *, stored: bool) -> pa.DataType:
    def part(name: str, p: DataType, *, sign: int = 1) -> pa.Field:
        return _field(
            name,
            _arrow_type(p, field_id, depth + 1, stored=stored),
            _child_id(field_id, depth + 1, sign=sign),
            nullable=sign > 0 and (p.nullable or not stored),
        )

    match t:
        case AtomicType(kind=TypeRoot.VARIANT):
            return _STORED_VARIANT if stored else _VARIANT
        case AtomicType():
            return _atomic_arrow_type(t)
        case ArrayType() | VectorType():
            return pa.list_(part("element", t.element))
        case MapType() | MultisetType():
            key, value = map_types(t)
            return pa.map_(part("key", key, sign=-1), part("value", value))
        case RowType():
            return pa.struct(
                [
                    _field(
                        f.name,
                        _arrow_type(f.type, f.id, 0, stored=stored),
                        f.id,
                        nullable=f.type.nullable or not stored,
                    )
                    for f in t.fields
                ]
            )
    raise UnsupportedFeature(f"data type {type_to_sql(t)}")


def _atomic_arrow_type(t: AtomicType) -> pa.DataType:
    simple = _SIMPLE.get(t.kind)
    if simple is not None:
        return simple
    match t.kind:
        case TypeRoot.DECIMAL:
            return pa.decimal128(t.precision or 0, t.scale or 0)
        case TypeRoot.TIMESTAMP:
            return pa.timestamp(time_unit(t))
        case TypeRoot.TIMESTAMP_LTZ:
            return pa.timestamp(time_unit(t), tz="UTC")
    raise UnsupportedFeature(f"data type {type_to_sql(t)}")


def map_types(t: MapType | MultisetType) -> tuple[DataType, DataType]:
    """Return key and value type of a MAP; a MULTISET maps its elements to counts."""
    return (t.key, t.value) if isinstance(t, MapType) else (t.element, COUNT_TYPE)


def _field(name: str, arrow: pa.DataType, field_id: int | None, *, nullable: bool) -> pa.Field:
    metadata = None if field_id is None else {FIELD_ID: str(field_id).encode()}
    return pa.field(name, arrow, nullable=nullable, metadata=metadata)


def _child_id(field_id: int | None, depth: int, *, sign: int) -> int | None:
    """Return the id of a list element or map entry, in Java's wrapping 32-bit arithmetic."""
    if field_id is None:
        return None
    child = _STRUCTURED_ID_BASE + sign * (field_id * _STRUCTURED_DEPTH_LIMIT + depth)
    return (child + 2**31) % 2**32 - 2**31


# --- columns to internal values -----------------------------------------------------------------


def column_to_internal(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> list[Any]:
    """Return the column's values in internal form, None for nulls."""
    if isinstance(column, pa.ChunkedArray):
        return list(
            chain.from_iterable(column_to_internal(c, data_type) for c in column.iterchunks())
        )
    match data_type:
        case AtomicType():
            return _atomic_to_internal(column, data_type)
        case ArrayType() | VectorType():
            elements = column_to_internal(column.values, data_type.element)
            return [None if at is None else elements[at[0] : at[1]] for at in list_ranges(column)]
        case MapType() | MultisetType():
            key_type, value_type = map_types(data_type)
            keys = column_to_internal(column.keys, key_type)
            items = column_to_internal(column.items, value_type)
            return [
                None
                if at is None
                else list(zip(keys[at[0] : at[1]], items[at[0] : at[1]], strict=True))
                for at in list_ranges(column)
            ]
        case RowType():
            children = [
                column_to_internal(column.field(i), f.type) for i, f in enumerate(data_type.fields)
            ]
            rows = zip(*children, strict=True) if children else ((),) * len(column)
            valid = column.is_valid().to_pylist()
            return [row if ok else None for row, ok in zip(rows, valid, strict=True)]
    raise UnsupportedFeature(f"data type {type_to_sql(data_type)}")


def list_ranges(column: pa.ListArray) -> list[tuple[int, int] | None]:
    """Return the start and end offset of each list's children, None for a null."""
    offsets = column.offsets.to_pylist()
    valid = column.is_valid().to_pylist()
    return [
        (start, end) if ok else None
        for start, end, ok in zip(offsets[:-1], offsets[1:], valid, strict=True)
    ]


def _atomic_to_internal(column: pa.Array, t: AtomicType) -> list[Any]:
    match t.kind:
        case TypeRoot.DATE:
            return column.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
        case TypeRoot.TIME:
            return column.cast(pa.time32("ms")).cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            nanos = UNIT_NANOS[column.type.unit]
            numbers = column.view(pa.int64()).to_pylist()
            # Beyond the year 2262, nanoseconds exceed 64 bits, but Python's integers are unbounded.
            return [None if n is None else n * nanos for n in numbers]
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return strings_to_list(column)
        case TypeRoot.VARIANT:
            return [None if v is None else (v[VALUE], v[METADATA]) for v in column.to_pylist()]
        case _:
            return column.to_pylist()  # type: ignore[no-any-return]


def strings_to_list(column: pa.Array) -> list[str | None]:
    """Return a column's strings; invalid UTF-8 (casts from BINARY) becomes U+FFFD."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        raw = column.cast(pa.binary()).to_pylist()
        return [None if b is None else b.decode(errors="replace") for b in raw]


# --- internal values to columns -----------------------------------------------------------------


def column_from_internal(values: Sequence[Any], data_type: DataType) -> pa.Array:
    """Return internal values as an Arrow array; InvalidArgument if one does not fit the type."""
    try:
        return _from_internal(values, data_type, arrow_type(data_type))
    except (pa.ArrowException, OverflowError, TypeError) as e:
        raise InvalidArgument(f"a value does not fit the type {type_to_sql(data_type)}: {e}") from e


def _from_internal(values: Sequence[Any], t: DataType, arrow: pa.DataType) -> pa.Array:
    match t:
        case AtomicType():
            return _atomic_from_internal(values, t, arrow)
        case ArrayType() | VectorType():
            flat = [v for value in values if value is not None for v in value]
            child = _from_internal(flat, t.element, arrow.value_type)
            return pa.ListArray.from_arrays(_offsets(values), child, type=arrow)
        case MapType() | MultisetType():
            key_type, value_type = map_types(t)
            pairs = [pair for value in values if value is not None for pair in value]
            keys = _from_internal([k for k, _ in pairs], key_type, arrow.key_type)
            items = _from_internal([v for _, v in pairs], value_type, arrow.item_type)
            return pa.MapArray.from_arrays(_offsets(values), keys, items, type=arrow)
        case RowType():
            children = [
                _from_internal([None if v is None else v[i] for v in values], f.type, field.type)
                for i, (f, field) in enumerate(zip(t.fields, arrow, strict=True))
            ]
            nulls = pa.array([v is None for v in values], pa.bool_())
            if not children:
                return pa.array([None if v is None else {} for v in values], arrow)
            return pa.StructArray.from_arrays(children, fields=list(arrow), mask=nulls)
    raise UnsupportedFeature(f"data type {type_to_sql(t)}")


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Return list offsets, with a null offset for a null list."""
    ends = accumulate(0 if v is None else len(v) for v in values)
    starts = [0, *ends]
    marked = [None if v is None else s for v, s in zip(values, starts, strict=False)]
    return pa.array([*marked, starts[-1]], pa.int32())


def _atomic_from_internal(values: Sequence[Any], t: AtomicType, arrow: pa.DataType) -> pa.Array:
    match t.kind:
        case TypeRoot.DATE | TypeRoot.TIME:
            return pa.array(values, pa.int32()).view(arrow)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            nanos = UNIT_NANOS[arrow.unit]
            numbers = [None if v is None else v // nanos for v in values]
            return pa.array(numbers, pa.int64()).view(arrow)
        case TypeRoot.VARIANT:
            parts = [
                None if v is None else dict(zip((VALUE, METADATA), v, strict=True)) for v in values
            ]
            return pa.array(parts, arrow)
        case _:
            return pa.array(values, arrow)
