"""Checks what Arrow's types leave open: the length of VECTORs, and both parts of VARIANTs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.types.arrow import map_types
from paimon_core.types.data_types import (
    ArrayType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)


@lru_cache(maxsize=1024)
def has_shapes(t: DataType) -> bool:
    """Return whether the type is or holds a VECTOR or VARIANT."""
    return t.root in (TypeRoot.VECTOR, TypeRoot.VARIANT) or any(map(has_shapes, _parts(t)))


def wrong_shape(array: pa.Array, t: DataType) -> str | None:
    """Return what is wrong with a value of the column, or None.

    Parts below a null parent do not count.
    """
    if not has_shapes(t):
        return None
    valid = array.drop_null()
    if t.root is TypeRoot.VARIANT:
        parts = (valid.field(name).null_count for name in ("value", "metadata"))
        return "a VARIANT without value or metadata" if any(parts) else None
    if isinstance(t, VectorType):
        lengths = np.asarray(pc.list_value_length(valid))
        wrong = lengths[lengths != t.length]
        if len(wrong):
            return f"a VECTOR of {wrong[0]} elements instead of {t.length}"
    found = (wrong_shape(c, p) for c, p in zip(_children(valid, t), _parts(t), strict=True))
    return next((reason for reason in found if reason is not None), None)


def _parts(t: DataType) -> tuple[DataType, ...]:
    match t:
        case RowType():
            return t.types
        case ArrayType() | VectorType():
            return (t.element,)
        case MapType() | MultisetType():
            return map_types(t)
    return ()


def _children(array: pa.Array, t: DataType) -> list[pa.Array]:
    if isinstance(t, RowType):
        return [array.field(i) for i in range(len(t))]
    if isinstance(t, ArrayType | VectorType):
        return [array.flatten()]
    entries = array.offsets[0].as_py(), array.offsets[-1].as_py() if len(array) else 0
    start, length = entries[0], entries[1] - entries[0]
    return [array.keys.slice(start, length), array.items.slice(start, length)]
