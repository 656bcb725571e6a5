"""Comments that make a new column a BLOB or a VECTOR (Java 2.0: `schema/ColumnDirectiveUtils`).

::

    __BLOB_FIELD[; comment]              in files of its own                  blob-field
    __BLOB_DESCRIPTOR_FIELD[; comment]   its descriptor in the data files     blob-descriptor-field
    __BLOB_VIEW_FIELD[; comment]         a reference to a row of a table      blob-view-field
    __VECTOR_FIELD;dimension[; comment]  a vector                             vector-field

The option on the right lists the columns of its kind.  The text after the last semicolon is the
comment that the column keeps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paimon_core.ddl import map_layouts
from paimon_core.errors import SchemaError
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
from paimon_core.types.sql import type_to_sql

BLOB_FIELD: Final = "blob-field"
BLOB_DESCRIPTOR_FIELD: Final = "blob-descriptor-field"
VECTOR_FIELD: Final = "vector-field"
_BLOBS: Final = {
    "__BLOB_FIELD": BLOB_FIELD,
    "__BLOB_DESCRIPTOR_FIELD": BLOB_DESCRIPTOR_FIELD,
    "__BLOB_VIEW_FIELD": BLOB_VIEW_FIELD,
}
_VECTOR: Final = "__VECTOR_FIELD"
_OLD_KEYS: Final = {BLOB_DESCRIPTOR_FIELD: "blob.stored-descriptor-fields"}
_BYTES: Final = (TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB)


def apply_directive(
    name: str, data_type: DataType, comment: str | None, options: dict[str, str]
) -> tuple[DataType, str | None]:
    """Return the type and the comment of a new column; a directive adds it to the `options`.

    SchemaError for an unknown directive, or a type that it cannot convert.
    """
    text = (comment or "").strip()
    if text.startswith("__VECTOR"):
        length, rest = _vector(text)
        if not isinstance(data_type, ArrayType):
            raise SchemaError(
                f"Column {name} declared with a VECTOR directive must be of ARRAY type, but was "
                f"{type_to_sql(data_type)}."
            )
        converted: DataType = VectorType(
            nullable=data_type.nullable, element=data_type.element, length=length
        )
        key = VECTOR_FIELD
    elif text.startswith("__BLOB"):
        directive, _, rest = text.partition(";")
        if directive not in _BLOBS:
            raise SchemaError(
                f"Unsupported BLOB directive in column comment: '{text}'. Supported directives are "
                f"{', '.join(map(repr, _BLOBS))}."
            )
        key = _BLOBS[directive]
        converted = _blob(name, data_type, key)
    else:
        return data_type, comment
    known = options.get(key, "") or options.pop(_OLD_KEYS.get(key, ""), "")
    options[key] = f"{known},{name}" if known else name
    return converted, rest.strip() or None


def forget_column(name: str, data_type: DataType, options: dict[str, str]) -> None:
    """Remove a dropped column from lists of BLOBs and vectors, and the options of a map."""
    if is_blob_column(data_type):
        keys: tuple[str, ...] = (*_BLOBS.values(), *_OLD_KEYS.values())
    elif isinstance(data_type, VectorType):
        keys = (VECTOR_FIELD,)
        options.pop(f"field.{name}.vector-dim", None)
    elif isinstance(data_type, MapType):
        for option in map_layouts.FIELD_OPTIONS:
            options.pop(f"fields.{name}.{option}", None)
        return
    else:
        return
    for key in keys:
        names = Options(options).names(key)
        if name in names:
            options[key] = ",".join(n for n in names if n != name)
            if not options[key]:
                del options[key]


def is_blob_column(data_type: DataType) -> bool:
    """Return whether a column of the type is a BLOB, an ARRAY of BLOB or a MAP to BLOB."""
    match data_type:
        case ArrayType(element=inner) | MapType(value=inner):
            return inner.root is TypeRoot.BLOB
    return data_type.root is TypeRoot.BLOB


def _vector(text: str) -> tuple[int, str]:
    """Return the dimension and the comment."""
    directive, semicolon, rest = text.partition(";")
    if directive != _VECTOR:
        raise SchemaError(
            f"Unsupported VECTOR directive in column comment: '{text}'. Supported directive is "
            f"'{_VECTOR}'."
        )
    if not semicolon:
        raise SchemaError(
            f"VECTOR directive '{text}' requires a dimension, e.g. '{_VECTOR};128' or "
            f"'{_VECTOR};128; my comment'."
        )
    number, _, comment = rest.partition(";")
    try:
        length = int(number)
    except ValueError as e:
        raise SchemaError(
            f"Expected an integer dimension after '{_VECTOR};', but got: '{number.strip()}'."
        ) from e
    if length < 1:
        raise SchemaError(f"Vector dimension must be >= 1, but got: {length}.")
    return length, comment


def _blob(name: str, data_type: DataType, key: str) -> DataType:
    match data_type:
        case ArrayType(element=inner) | MapType(value=inner):
            if key != BLOB_FIELD:
                raise SchemaError(
                    f"Column {name} declared with '{key}' must be of BYTES, BINARY or BLOB type, "
                    f"but was {type_to_sql(data_type)}. Arrays and maps of BLOBs are only "
                    f"supported by '{BLOB_FIELD}'."
                )
            if inner.root in _BYTES:
                part = AtomicType(kind=TypeRoot.BLOB, nullable=inner.nullable)
                if isinstance(data_type, MapType):
                    return replace(data_type, value=part)
                return replace(data_type, element=part)
        case _:
            if data_type.root in _BYTES:
                return AtomicType(kind=TypeRoot.BLOB, nullable=data_type.nullable)
    raise SchemaError(
        f"Column {name} declared with a BLOB directive must be of BYTES, BINARY, BLOB, "
        "ARRAY<BYTES>, ARRAY<BINARY> or ARRAY<BLOB> type, or a supported MAP<X, BYTES/BINARY/BLOB> "
        f"type, but was {type_to_sql(data_type)}."
    )
