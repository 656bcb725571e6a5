"""Columns by their path (Java: `SchemaManager.NestedColumnModifier`).

A path goes through rows by field name.  Through an array or a map it has one more step, to the
element or the value, whose name ("element", "value") is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from paimon_core.errors import SchemaError
from paimon_core.types.data_types import ArrayType, DataField, DataType, MapType, RowType

Path = tuple[str, ...]


def described(path: Path) -> str:
    """Return the path for messages."""
    return repr(".".join(path))


def index_of(fields: Sequence[DataField], name: str) -> int | None:
    """Return the index of the field of this name; None if there is none."""
    return next((i for i, f in enumerate(fields) if f.name == name), None)


def update_siblings(
    fields: list[DataField], path: Path, change: Callable[[list[DataField], str], None]
) -> None:
    """Change, in place, the list of fields that the path's last name belongs to.

    `change` gets that list and the last name.  Raises SchemaError if the path does not exist, or
    ends at an element of an array or a value of a map, which is no column. (Java changes the column
    that holds it, or fails.)
    """

    def update(siblings: list[DataField], depth: int) -> None:
        if depth < len(path) - 1:
            raise SchemaError(f"{described(path)} is not a column, but a part of {path[depth]!r}")
        change(siblings, path[depth])

    _descend(fields, path, 0, update)


def update_column(
    fields: list[DataField], path: Path, change: Callable[[DataField, int], DataField]
) -> None:
    """Replace, in place, the field that the path names.

    `change` gets the field and its depth in the path: less than the last index if the path ends
    inside the field's arrays and maps.  Raises SchemaError if there is no such field.
    """

    def update(siblings: list[DataField], depth: int) -> None:
        at = index_of(siblings, path[depth])
        if at is None:
            raise SchemaError(f"the column {described(path)} does not exist")
        siblings[at] = change(siblings[at], depth)

    _descend(fields, path, 0, update)


def _descend(
    fields: list[DataField], path: Path, depth: int, change: Callable[[list[DataField], int], None]
) -> None:
    if depth == len(path) - 1:
        change(fields, depth)
        return
    at = index_of(fields, path[depth])
    if at is None:
        raise SchemaError(f"the column {described(path[: depth + 1])} does not exist")
    inner, steps = _inner_fields(fields[at].type)
    if depth + steps >= len(path):
        # The path ends at an element or a value: change the field that holds it.
        change(fields, depth)
        return
    _descend(inner, path, depth + steps, change)
    fields[at] = replace(fields[at], type=_with_inner_fields(fields[at].type, inner))


def _inner_fields(data_type: DataType) -> tuple[list[DataField], int]:
    """Return the fields of the row inside arrays and maps, and the number of steps to them."""
    match data_type:
        case RowType():
            return list(data_type.fields), 1
        case ArrayType():
            fields, steps = _inner_fields(data_type.element)
            return fields, steps + 1
        case MapType():
            fields, steps = _inner_fields(data_type.value)
            return fields, steps + 1
    return [], 1


def _with_inner_fields(data_type: DataType, fields: list[DataField]) -> DataType:
    match data_type:
        case RowType():
            return replace(data_type, fields=tuple(fields))
        case ArrayType():
            return replace(data_type, element=_with_inner_fields(data_type.element, fields))
        case MapType():
            return replace(data_type, value=_with_inner_fields(data_type.value, fields))
    return data_type


def leaf_type(data_type: DataType, steps: int) -> DataType:
    """Return the type `steps` levels inside arrays (elements) and maps (values)."""
    if steps == 0:
        return data_type
    match data_type:
        case ArrayType():
            return leaf_type(data_type.element, steps - 1)
        case MapType():
            return leaf_type(data_type.value, steps - 1)
    return data_type


def with_leaf_type(data_type: DataType, leaf: DataType, steps: int) -> DataType:
    """Return the type with `leaf` at `steps` levels inside its arrays and maps."""
    if steps == 0:
        return leaf
    match data_type:
        case ArrayType():
            return replace(data_type, element=with_leaf_type(data_type.element, leaf, steps - 1))
        case MapType():
            return replace(data_type, value=with_leaf_type(data_type.value, leaf, steps - 1))
    return leaf
