"""The names of a table's columns and fields, whatever their case in the rows, as in Spark.

A name that the table has as it stands is that column, so that columns whose names differ in case
only stay apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from paimon_core.types.data_types import ArrayType, DataField, DataType, MapType, RowType


def own_name(own: Sequence[str], name: str) -> str:
    """The table's name for a column of the rows.

    The name itself if the table has no such column.
    """
    if name in own:
        return name
    alike = [n for n in own if n.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else name


def named_as(own: RowType, data: RowType) -> RowType:
    """The fields of the rows under the table's names, at any depth."""
    fields = []
    for field in data.fields:
        name = own_name(own.names, field.name)
        mine = own.get(name)
        data_type = field.type if mine is None else _type_named_as(mine.type, field.type)
        fields.append(DataField(id=field.id, name=name, type=data_type))
    return RowType(fields=tuple(fields))


def _type_named_as(own: DataType, data: DataType) -> DataType:
    match own, data:
        case RowType(), RowType():
            return named_as(own, data)
        case ArrayType(), ArrayType():
            return replace(data, element=_type_named_as(own.element, data.element))
        case MapType(), MapType():
            return replace(data, value=_type_named_as(own.value, data.value))
    return data


def unknown_fields(own: DataType, data: DataType, path: str) -> Iterable[str]:
    """Yield the paths of the rows' fields that the table lacks, under the table's names."""
    match own, data:
        case RowType(), RowType():
            for field in data.fields:
                mine = own.get(field.name)
                at = f"{path}.{field.name}"
                if mine is None:
                    yield at
                else:
                    yield from unknown_fields(mine.type, field.type, at)
        case ArrayType(), ArrayType():
            yield from unknown_fields(own.element, data.element, f"{path}.element")
        case MapType(), MapType():
            yield from unknown_fields(own.key, data.key, f"{path}.key")
            yield from unknown_fields(own.value, data.value, f"{path}.value")
