"""Schemas of new tables, and changes of existing ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from paimon_core.ddl import schema_change as change
from paimon_core.ddl.create import Column, create_schema
from paimon_core.errors import InvalidArgument
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from paimon_core.types.sql import parse_type

_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_COMMENT: Final = b"comment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Columns, keys, options and comment of a new table.  Columns of the primary key are NOT NULL."""

    columns: tuple[Column, ...]
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    @staticmethod
    def from_pyarrow_schema(
        pa_schema: pa.Schema,
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> Schema:
        """The schema with these Arrow columns; a field's metadata may hold its `comment`."""
        return Schema(
            columns=tuple(_column(f) for f in pa_schema),
            partition_keys=tuple(partition_keys),
            primary_keys=tuple(primary_keys),
            options=dict(options or {}),
            comment=comment,
        )

    @staticmethod
    def of(
        columns: Mapping[str, str | DataType],
        *,
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> Schema:
        """The schema with columns of SQL types: `Schema.of({"k": "BIGINT", "v": "STRING"})`."""
        return Schema(
            columns=tuple(Column(name, type_) for name, type_ in columns.items()),
            partition_keys=tuple(partition_keys),
            primary_keys=tuple(primary_keys),
            options=dict(options or {}),
            comment=comment,
        )

    def to_table_schema(self, *, now_millis: int) -> TableSchema:
        """The first schema of the table; SchemaError for schemas that Java refuses."""
        return create_schema(
            self.columns,
            now_millis=now_millis,
            partition_keys=self.partition_keys,
            primary_keys=self.primary_keys,
            options=self.options,
            comment=self.comment,
        )


def _column(arrow: pa.Field) -> Column:
    comment = (arrow.metadata or {}).get(_COMMENT)
    return Column(
        arrow.name,
        paimon_type(arrow.type, nullable=arrow.nullable),
        None if comment is None else comment.decode(),
    )


def paimon_type(t: pa.DataType, *, nullable: bool = True) -> DataType:
    """Return the Paimon type of an Arrow type; InvalidArgument for types without an equal."""
    if pa.types.is_dictionary(t):
        return paimon_type(t.value_type, nullable=nullable)
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        element = paimon_type(t.value_type, nullable=t.value_field.nullable)
        return ArrayType(nullable=nullable, element=element)
    if pa.types.is_map(t):
        return MapType(
            nullable=nullable,
            key=paimon_type(t.key_type, nullable=False),
            value=paimon_type(t.item_type, nullable=t.item_field.nullable),
        )
    if pa.types.is_struct(t):
        fields = tuple(
            DataField(id=i, name=f.name, type=paimon_type(f.type, nullable=f.nullable))
            for i, f in enumerate(t)
        )
        return RowType(nullable=nullable, fields=fields)
    return _atomic(t, nullable=nullable)


def _atomic(t: pa.DataType, *, nullable: bool) -> AtomicType:
    simple = _SIMPLE.get(t)
    if simple is not None:
        return AtomicType(nullable=nullable, kind=simple)
    if pa.types.is_string(t) or pa.types.is_large_string(t):
        return AtomicType(nullable=nullable, kind=TypeRoot.VARCHAR, length=MAX_LENGTH)
    if pa.types.is_fixed_size_binary(t):
        return AtomicType(nullable=nullable, kind=TypeRoot.BINARY, length=t.byte_width)
    if pa.types.is_binary(t) or pa.types.is_large_binary(t):
        return AtomicType(nullable=nullable, kind=TypeRoot.VARBINARY, length=MAX_LENGTH)
    if pa.types.is_decimal(t):
        return AtomicType(
            nullable=nullable, kind=TypeRoot.DECIMAL, precision=t.precision, scale=t.scale
        )
    if pa.types.is_time(t):
        return AtomicType(nullable=nullable, kind=TypeRoot.TIME, precision=_DIGITS[t.unit])
    if pa.types.is_timestamp(t):
        kind = TypeRoot.TIMESTAMP if t.tz is None else TypeRoot.TIMESTAMP_LTZ
        return AtomicType(nullable=nullable, kind=kind, precision=_DIGITS[t.unit])
    raise InvalidArgument(f"Paimon has no type for Arrow's {t}")


_SIMPLE: Final = {
    pa.bool_(): TypeRoot.BOOLEAN,
    pa.int8(): TypeRoot.TINYINT,
    pa.int16(): TypeRoot.SMALLINT,
    pa.int32(): TypeRoot.INT,
    pa.int64(): TypeRoot.BIGINT,
    pa.float32(): TypeRoot.FLOAT,
    pa.float64(): TypeRoot.DOUBLE,
    pa.date32(): TypeRoot.DATE,
}


# --- changes ------------------------------------------------------------------------------------


class SchemaChange:
    """Changes for `Table.alter` and `Catalog.alter_table` (Java: `schema/SchemaChange`).

    A nested column is written with dots, "address.street".  Types are SQL text or Arrow types.
    """

    @staticmethod
    def set_option(key: str, value: str) -> change.SchemaChange:
        return change.SetOption(key, value)

    @staticmethod
    def remove_option(key: str) -> change.SchemaChange:
        return change.RemoveOption(key)

    @staticmethod
    def update_comment(comment: str | None) -> change.SchemaChange:
        return change.UpdateTableComment(comment)

    @staticmethod
    def add_column(
        name: str,
        type: str | pa.DataType,  # noqa: A002 - the word for it
        *,
        comment: str | None = None,
        first: bool = False,
        after: str | None = None,
    ) -> change.SchemaChange:
        return change.AddColumn(_path(name), _type(type), comment, _place(after, first=first))

    @staticmethod
    def rename_column(name: str, new_name: str) -> change.SchemaChange:
        return change.RenameColumn(_path(name), new_name)

    @staticmethod
    def drop_column(name: str) -> change.SchemaChange:
        return change.DropColumn(_path(name))

    @staticmethod
    def update_column_type(name: str, type: str | pa.DataType) -> change.SchemaChange:  # noqa: A002
        return change.UpdateColumnType(_path(name), _type(type))

    @staticmethod
    def update_column_nullability(name: str, *, nullable: bool) -> change.SchemaChange:
        return change.UpdateColumnNullability(_path(name), nullable)

    @staticmethod
    def update_column_comment(name: str, comment: str | None) -> change.SchemaChange:
        return change.UpdateColumnComment(_path(name), comment)

    @staticmethod
    def update_column_default(name: str, default: str | None) -> change.SchemaChange:
        return change.UpdateColumnDefault(_path(name), default)

    @staticmethod
    def move_column(
        name: str, *, first: bool = False, after: str | None = None
    ) -> change.SchemaChange:
        """Move a column to the front, or after another one; InvalidArgument without a place."""
        place = _place(after, first=first)
        if place is None:
            raise InvalidArgument(f"where column {name} moves to is missing: first or after")
        path = _path(name)
        return change.MoveColumn(path[-1], place, path[:-1])


def _path(name: str) -> change.Path:
    return tuple(name.split("."))


def _type(given: str | pa.DataType) -> DataType:
    return parse_type(given) if isinstance(given, str) else paimon_type(given)


def _place(after: str | None, *, first: bool) -> change.Position | None:
    if first and after is not None:
        raise InvalidArgument("a column is either first or after another one")
    if first:
        return change.Position(change.Place.FIRST)
    return None if after is None else change.Position(change.Place.AFTER, after)
