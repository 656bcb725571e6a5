"""Schemas of new tables, and changes of existing ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from paimon_core.ddl import schema_change as change
from paimon_core.ddl.create import Column, create_schema
from paimon_core.ddl.special_columns import with_special_types
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
    VectorType,
)
from paimon_core.types.sql import parse_type

_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_COMMENT: Final = b"comment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Columns, keys, options and comment of a new table (Java: `schema/Schema`).

    Columns of the primary key become NOT NULL.
    """

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
        """The schema with the columns of an Arrow schema.

        A column's comment is the value of `comment` in the metadata of its Arrow field.  The
        options `blob-field`, `blob-descriptor-field`, `blob-view-field` and `vector-field` name
        columns that become BLOBs and VECTORs.  Raises InvalidArgument for an Arrow type that Paimon
        does not have, or a column that cannot become what an option says.
        """
        columns = [_column(f) for f in pa_schema]
        return Schema(
            columns=tuple(with_special_types(columns, options or {})),
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
        """The schema with columns of SQL types, as in `{"k": "BIGINT NOT NULL", "v": "STRING"}`."""
        return Schema(
            columns=tuple(Column(name, type_) for name, type_ in columns.items()),
            partition_keys=tuple(partition_keys),
            primary_keys=tuple(primary_keys),
            options=dict(options or {}),
            comment=comment,
        )

    def to_table_schema(self, *, now_millis: int) -> TableSchema:
        """The first schema of the table, created at `now_millis` (milliseconds since the epoch).

        Raises SchemaError for a schema that Java refuses.
        """
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
    """Return the Paimon type of an Arrow type; InvalidArgument if Paimon has none."""
    if pa.types.is_dictionary(t):
        return paimon_type(t.value_type, nullable=nullable)
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        element = paimon_type(t.value_type, nullable=t.value_field.nullable)
        return ArrayType(nullable=nullable, element=element)
    if pa.types.is_fixed_size_list(t):
        element = paimon_type(t.value_type, nullable=t.value_field.nullable)
        return VectorType(nullable=nullable, element=element, length=t.list_size)
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
    """Creates changes for `Table.alter` and `Catalog.alter_table` (Java: `schema/SchemaChange`).

    The name of a nested column has dots: "address.street".  A type is SQL text or an Arrow type.
    The changes are checked when they are applied, not here.
    """

    @staticmethod
    def set_option(key: str, value: str) -> change.SchemaChange:
        """Set a table option."""
        return change.SetOption(key, value)

    @staticmethod
    def remove_option(key: str) -> change.SchemaChange:
        """Remove a table option, so that its default applies."""
        return change.RemoveOption(key)

    @staticmethod
    def update_comment(comment: str | None) -> change.SchemaChange:
        """Set the comment of the table; None removes it."""
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
        """Add a column at the end, at the front, or after another one."""
        return change.AddColumn(_path(name), _type(type), comment, _place(after, first=first))

    @staticmethod
    def rename_column(name: str, new_name: str) -> change.SchemaChange:
        """Rename a column; `new_name` is only the last part of a nested column's name."""
        return change.RenameColumn(_path(name), new_name)

    @staticmethod
    def drop_column(name: str) -> change.SchemaChange:
        """Drop a column; data files keep its values."""
        return change.DropColumn(_path(name))

    @staticmethod
    def update_column_type(name: str, type: str | pa.DataType) -> change.SchemaChange:  # noqa: A002
        """Change the type of a column; reads cast the values of older files."""
        return change.UpdateColumnType(_path(name), _type(type))

    @staticmethod
    def update_column_nullability(name: str, *, nullable: bool) -> change.SchemaChange:
        """Allow or forbid null values in a column."""
        return change.UpdateColumnNullability(_path(name), nullable)

    @staticmethod
    def update_column_comment(name: str, comment: str | None) -> change.SchemaChange:
        """Set the comment of a column; None removes it."""
        return change.UpdateColumnComment(_path(name), comment)

    @staticmethod
    def update_column_default(name: str, default: str | None) -> change.SchemaChange:
        """Set the default value of a column as text; None removes it."""
        return change.UpdateColumnDefault(_path(name), default)

    @staticmethod
    def move_column(
        name: str, *, first: bool = False, after: str | None = None
    ) -> change.SchemaChange:
        """Move a column to the front, or after another one.

        Raises InvalidArgument unless exactly one of `first` and `after` is given.
        """
        place = _place(after, first=first)
        if place is None:
            raise InvalidArgument(
                f"there is no position to move column {name} to", next_step="give first or after"
            )
        path = _path(name)
        return change.MoveColumn(path[-1], place, path[:-1])


def _path(name: str) -> change.Path:
    return tuple(name.split("."))


def _type(given: str | pa.DataType) -> DataType:
    return parse_type(given) if isinstance(given, str) else paimon_type(given)


def _place(after: str | None, *, first: bool) -> change.Position | None:
    if first and after is not None:
        raise InvalidArgument(
            f"a column cannot be both first and after {after}", next_step="give only one of the two"
        )
    if first:
        return change.Position(change.Place.FIRST)
    return None if after is None else change.Position(change.Place.AFTER, after)
