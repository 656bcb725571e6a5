"""Creates the first schema of a table and normalizes every schema (Java: `schema/Schema`).

Field ids are assigned here: a column gets the next id, then its nested fields, inner ones before
the field that holds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Final

import pyarrow as pa

from paimon_core.ddl.column_directives import apply_directive
from paimon_core.ddl.validation import validate_schema
from paimon_core.errors import PaimonError, SchemaError, UnknownKeyColumn
from paimon_core.known_options import check_values
from paimon_core.options import Options, parse_bool
from paimon_core.schema.table_schema import SEQUENCE_NUMBER_ID, TableSchema
from paimon_core.types.casts.cast import cast_column
from paimon_core.types.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)
from paimon_core.types.sql import parse_type, type_to_sql

_STRING: Final = parse_type("STRING")
_NO_BLANKS: Final = dict.fromkeys(map(ord, "\u0085\u00a0\u2007\u202f"), "_")
"""Blanks for Python, and not for Java."""
SYSTEM_FIELD_IDS: Final = SEQUENCE_NUMBER_ID // 2
"""Ids from here on are reserved for Paimon's own columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """A new column: `type` as SQL text or as a type, `default_value` as SQL text."""

    name: str
    type: str | DataType
    description: str | None = None
    default_value: str | None = None


def column_from_object(obj: Mapping[str, object]) -> Column:
    """Build the column of a JSON object: {"name", "type", "comment"?, "default"?}."""
    comment, default = obj.get("comment"), obj.get("default")
    return Column(
        str(obj["name"]),
        str(obj["type"]),
        None if comment is None else str(comment),
        None if default is None else str(default),
    )


def create_schema(
    columns: Sequence[Column],
    *,
    now_millis: int,
    partition_keys: Sequence[str] = (),
    primary_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
) -> TableSchema:
    """Return the schema with id 0; SchemaError for schemas that Java refuses.

    Keys may also be given as the options `primary-key` and `partition`; key columns become NOT
    NULL.  Comments of columns may hold directives (`column_directives`).
    """
    options = dict(options or {})
    check_values(options)
    if parse_bool(options.get("auto-create", "false")):
        raise SchemaError("the option auto-create must be false")
    ids = count()
    fields = tuple(_field(c, ids, options) for c in columns)
    for field in fields:
        check_default_value(field.type, field.default_value)
    schema = normalized(
        TableSchema(
            id=0,
            fields=fields,
            highest_field_id=highest_field_id(fields),
            partition_keys=tuple(partition_keys),
            primary_keys=tuple(primary_keys),
            options=Options(options),
            comment=comment,
            time_millis=now_millis,
        )
    )
    validate_schema(schema)
    return schema


def normalized(schema: TableSchema) -> TableSchema:
    """Return the schema with keys moved out of the options and NOT NULL key columns.

    Raises SchemaError for columns without a name, and for columns or keys that are given twice or
    do not exist.
    """
    options = dict(schema.options)
    partition_keys = _keys_of_option(options, "partition", schema.partition_keys)
    primary_keys = _keys_of_option(options, "primary-key", schema.primary_keys)
    names = schema.names
    _check_named(schema.fields)
    _check_distinct("column", names)
    for what, required, keys in (
        ("partition key", "partition fields", partition_keys),
        ("primary key", "primary key constraint", primary_keys),
    ):
        _check_distinct(what, keys)
        unknown = [k for k in keys if k not in names]
        if unknown:
            raise UnknownKeyColumn(
                f"Table column [{', '.join(names)}] should include all {required} "
                f"[{', '.join(keys)}]"
            )
    fields = tuple(
        replace(f, type=f.type.with_nullable(False)) if f.name in primary_keys else f
        for f in schema.fields
    )
    return replace(
        schema,
        fields=fields,
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=Options(options),
    )


def with_new_ids(data_type: DataType, ids: Iterator[int]) -> DataType:
    """Return the type with new ids for its nested fields (Java: `ReassignFieldId`)."""
    match data_type:
        case ArrayType() | VectorType() | MultisetType():
            return replace(data_type, element=with_new_ids(data_type.element, ids))
        case MapType():
            key = with_new_ids(data_type.key, ids)
            return replace(data_type, key=key, value=with_new_ids(data_type.value, ids))
        case RowType():
            fields = []
            for field in data_type.fields:
                inner = with_new_ids(field.type, ids)
                fields.append(replace(field, type=inner, id=next(ids)))
            return replace(data_type, fields=tuple(fields))
    return data_type


def numbered_after(schema: TableSchema, before: TableSchema) -> TableSchema:
    """Return the schema, which replaces the one before, with field ids that no column had before.

    Java starts with 0 again: what a writer that opened the table before commits is then read as
    values of other columns.
    """
    ids = count(max(before.highest_field_id, highest_field_id(before.fields)) + 1)
    fields = tuple(replace(f, id=next(ids), type=with_new_ids(f.type, ids)) for f in schema.fields)
    return replace(
        schema, id=before.id + 1, fields=fields, highest_field_id=highest_field_id(fields)
    )


def highest_field_id(fields: Sequence[DataField]) -> int:
    """Return the greatest id of the fields and their nested fields; -1 without fields."""
    ids = chain.from_iterable((f.id, *_ids(f.type)) for f in fields)
    return max((i for i in ids if i < SYSTEM_FIELD_IDS), default=-1)


def check_default_value(data_type: DataType, text: str | None) -> None:
    """Raise SchemaError if the text cannot be cast to the type (Java: `DefaultValueUtils`)."""
    if text is None:
        return
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    try:
        cast_column(pa.array([text]), _STRING, data_type.with_nullable(True))
    except (PaimonError, pa.ArrowException, ValueError, ArithmeticError) as e:
        raise SchemaError(
            f"the default value {text!r} does not fit the type {type_to_sql(data_type)}"
        ) from e


def _field(column: Column, ids: Iterator[int], options: dict[str, str]) -> DataField:
    field_id = next(ids)
    data_type = parse_type(column.type) if isinstance(column.type, str) else column.type
    data_type, description = apply_directive(column.name, data_type, column.description, options)
    return DataField(
        id=field_id,
        name=column.name,
        type=with_new_ids(data_type, ids),
        description=description,
        default_value=column.default_value,
    )


def _ids(data_type: DataType) -> Iterator[int]:
    match data_type:
        case AtomicType():
            return
        case ArrayType() | VectorType() | MultisetType():
            yield from _ids(data_type.element)
        case MapType():
            yield from _ids(data_type.key)
            yield from _ids(data_type.value)
        case RowType():
            for field in data_type.fields:
                yield field.id
                yield from _ids(field.type)


def _keys_of_option(options: dict[str, str], option: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    text = options.pop(option, None)
    if text is None:
        return keys
    if keys:
        raise SchemaError(f"{option} is given twice: by the option {option!r} and as an argument")
    return tuple(k.strip() for k in text.split(",") if k.strip())


def _check_named(fields: Sequence[DataField]) -> None:
    """Raise SchemaError for a blank name at any depth: Java cannot read such a schema."""
    for field in fields:
        if not field.name.translate(_NO_BLANKS).strip():
            raise SchemaError("the name of a column must not be blank")
        _check_inner_named(field.type)


def _check_inner_named(data_type: DataType) -> None:
    match data_type:
        case ArrayType() | VectorType() | MultisetType():
            _check_inner_named(data_type.element)
        case MapType():
            _check_inner_named(data_type.key)
            _check_inner_named(data_type.value)
        case RowType():
            _check_named(data_type.fields)


def _check_distinct(what: str, names: Sequence[str]) -> None:
    repeated = sorted({n for n in names if names.count(n) > 1})
    if repeated:
        raise SchemaError(f"the {what} {', '.join(repeated)} is given more than once")
