"""Finds nulls in NOT NULL parts of nested values.

A null row has no fields, and a null array has no elements.  But Arrow has entries for the fields of
a null row, and they are null, whatever the field's type.  So `paimon_core.types.arrow` makes nested
parts nullable in memory, and a null violates NOT NULL only if none of its parents is null.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from paimon_core.types.arrow import map_types
from paimon_core.types.buffers import BoolArray, fixed_values, valid_rows
from paimon_core.types.data_types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)


@lru_cache(maxsize=1024)
def has_required_parts(t: DataType) -> bool:
    """Return whether the type has a NOT NULL part at any depth, not counting itself."""
    return any(not part.nullable or has_required_parts(part) for _, part in _parts(t))


def missing_part(array: pa.Array, t: DataType, name: str) -> str | None:
    """Return the dotted name of a NOT NULL part of column `name` that is null, or None.

    Parts below a null parent do not count.
    """
    if isinstance(t, AtomicType) or not has_required_parts(t):
        return None
    return _missing_part(array, t, name, None)


def _parts(t: DataType) -> list[tuple[str, DataType]]:
    """Return the child types, without map keys, which are never null in Arrow."""
    match t:
        case RowType():
            return [(f.name, f.type) for f in t.fields]
        case ArrayType() | VectorType():
            return [("element", t.element)]
        case MapType() | MultisetType():
            return [("value", map_types(t)[1])]
    return []


def _missing_part(array: pa.Array, t: DataType, name: str, absent: BoolArray | None) -> str | None:
    """Like `missing_part`; `absent` marks the rows below a null parent."""
    if array.null_count:
        gone = ~valid_rows(array)
        absent = gone if absent is None else absent | gone
    for position, (part_name, part) in enumerate(_parts(t)):
        nested = has_required_parts(part)
        if part.nullable and not nested:
            continue
        child = _child(array, t, position)
        if not nested and not child.null_count:
            continue
        path = f"{name}.{part_name}"
        without = absent if isinstance(t, RowType) else _unused_elements(array, child, absent)
        if not part.nullable and child.null_count:
            real = ~valid_rows(child)
            if without is not None:
                real &= ~without
            if real.any():
                return path
        found = _missing_part(child, part, path, without) if nested else None
        if found is not None:
            return found
    return None


def _child(array: pa.Array, t: DataType, position: int) -> pa.Array:
    match t:
        case RowType():
            return array.field(position)
        case ArrayType() | VectorType():
            return array.values
    return array.items


def _unused_elements(
    array: pa.Array, elements: pa.Array, absent: BoolArray | None
) -> BoolArray | None:
    """Return a mask of a list or map array's elements that belong to no non-null list."""
    offsets = fixed_values(array, np.int32, extra=1)
    if absent is None and offsets[0] == 0 and offsets[-1] == len(elements):
        return None
    starts, ends = offsets[:-1], offsets[1:]
    if absent is not None:
        starts, ends = starts[~absent], ends[~absent]
    change = np.zeros(len(elements) + 1, dtype=np.int32)
    np.add.at(change, starts, 1)
    np.subtract.at(change, ends, 1)
    unused: BoolArray = np.cumsum(change[:-1]) == 0
    return unused
