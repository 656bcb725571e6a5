"""Columns that the options of a new table turn into BLOBs and VECTORs.

Java: `SparkCatalog.toInitialSchema`.  Comments do the same (`paimon_core.ddl.column_directives`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from paimon_core.ddl.column_directives import (
    BLOB_DESCRIPTOR_FIELD,
    BLOB_FIELD,
    VECTOR_FIELD,
)
from paimon_core.ddl.create import Column
from paimon_core.errors import InvalidArgument
from paimon_core.format.blob.view import BLOB_VIEW_FIELD
from paimon_core.options import Options
from paimon_core.types.data_types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    TypeRoot,
    VectorType,
)

_BYTES: Final = (TypeRoot.VARBINARY, TypeRoot.BLOB)


def with_special_types(columns: Sequence[Column], options: Mapping[str, str]) -> list[Column]:
    """The columns with the types that options name; InvalidArgument for ones that do not fit."""
    known = Options(options)
    inline = (*known.names(BLOB_DESCRIPTOR_FIELD), *known.names(BLOB_VIEW_FIELD))
    blobs, vectors = known.names(BLOB_FIELD), known.names(VECTOR_FIELD)
    result = []
    for column in columns:
        assert isinstance(column.type, DataType)
        data_type: DataType = column.type
        if column.name in inline:
            data_type = _blob(data_type, nested=False)
        elif column.name in blobs:
            data_type = _blob(data_type, nested=True)
        elif column.name in vectors:
            data_type = _vector(column.name, data_type, options)
        result.append(replace(column, type=data_type))
    return result


def _blob(data_type: DataType, *, nested: bool) -> DataType:
    if data_type.root in _BYTES:
        return AtomicType(kind=TypeRoot.BLOB, nullable=data_type.nullable)
    match data_type:
        case ArrayType(element=inner):
            what, wrong = "ARRAY<BLOB>", "The element type of array blob field must be binary"
        case MapType(value=inner):
            what, wrong = "MAP<X, BLOB>", "The value type of a MAP<X, BLOB> field must be binary"
        case _:
            raise InvalidArgument(
                "The type of blob field must be binary, array of binary, or map with binary values"
            )
    if not nested:
        raise InvalidArgument(f"{what} is only supported by '{BLOB_FIELD}'.")
    if inner.root not in _BYTES:
        raise InvalidArgument(wrong)
    part = AtomicType(kind=TypeRoot.BLOB, nullable=inner.nullable)
    if isinstance(data_type, MapType):
        return replace(data_type, key=data_type.key.with_nullable(False), value=part)
    return replace(data_type, element=part)


def _vector(name: str, data_type: DataType, options: Mapping[str, str]) -> DataType:
    if isinstance(data_type, VectorType):
        return data_type
    if not isinstance(data_type, ArrayType):
        # Java's message says "blob".
        raise InvalidArgument(f"The type of vector field {name} must be array")
    key = f"field.{name}.vector-dim"
    if key not in options:
        raise InvalidArgument(
            f"When setting '{VECTOR_FIELD}', you must also set '{key}', the length of the vectors."
        )
    try:
        length = int(options[key])
    except ValueError as e:
        raise InvalidArgument(f"{key} is {options[key]!r}, which is not a whole number") from e
    if length < 1:
        raise InvalidArgument(f"{key} must be at least 1, not {length}")
    return VectorType(element=data_type.element, length=length)
