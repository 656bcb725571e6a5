"""`write.merge-schema`: the table's schema takes in that of the rows (Java: `SchemaMergingUtils`).

Columns that are new are added at the end, nullable; a type becomes the rows' type if the cast
loses nothing.  `explicit` allows casts that SQL makes only when asked; without `widen`, types stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pyspark.sql.types import StructType

from paimon_core.ddl.alter import apply_changes
from paimon_core.ddl.schema_change import AddColumn, SchemaChange, UpdateColumnType
from paimon_core.errors import CommitConflict, NotFound, SchemaError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.types.casts.rules import can_cast
from paimon_core.types.data_types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)
from paimon_core.types.sql import type_to_sql
from paimon_spark.source.own_names import named_as
from paimon_spark.source.spark_types import paimon_type
from paimon_spark.source.writes.task_writer import ROW_KIND, check_columns

_ATTEMPTS: Final = 10


def merge_schema(
    table: FileStoreTable, schema: StructType, *, explicit: bool, widen: bool, now_millis: int
) -> FileStoreTable:
    """The table under a schema that holds the rows' columns.

    SchemaError if types do not merge, InvalidArgument if the rows would still not fit.
    """
    rows = StructType([f for f in schema.fields if f.name != ROW_KIND])
    given = paimon_type(rows)
    assert isinstance(given, RowType)
    for _ in range(_ATTEMPTS):
        latest = table.schemas.latest()
        if latest is None:
            raise NotFound(f"table {table.name} no longer has a schema", table=table.name)
        data = named_as(latest.row_type, given)
        changes = list(schema_changes(latest.row_type, data, explicit=explicit, widen=widen))
        if not changes:
            return table.refreshed()
        changed = apply_changes(
            latest,
            changes,
            now_millis=now_millis,
            has_snapshots=lambda: table.snapshots.latest_id() is not None,
        )
        check_columns(replace(table, schema=changed), schema)
        if table.commit_schema(changed):
            return table.refreshed()
    raise CommitConflict(
        f"other schema changes of table {table.name} were committed first in every attempt",
        table=table.name,
    )


def schema_changes(
    own: RowType, data: RowType, *, explicit: bool, widen: bool
) -> Iterator[SchemaChange]:
    """The schema changes after which columns can hold the data, which is cast unless `widen`."""
    return _changes(own, data, explicit=explicit, widen=widen, path=())


def _changes(
    own: RowType, data: RowType, *, explicit: bool, widen: bool, path: tuple[str, ...]
) -> Iterator[SchemaChange]:
    for field in data.fields:
        at = (*path, field.name)
        mine = own.get(field.name)
        if mine is None:
            yield AddColumn(at, field.type.with_nullable(True))
        else:
            yield from _type_changes(mine.type, field.type, explicit=explicit, widen=widen, path=at)


def _type_changes(
    own: DataType, data: DataType, *, explicit: bool, widen: bool, path: tuple[str, ...]
) -> Iterator[SchemaChange]:
    """The schema changes for the column at this path; each field of a row has its own change."""
    match own, data:
        case RowType(), RowType():
            yield from _changes(own, data, explicit=explicit, widen=widen, path=path)
        case ArrayType(element=RowType() | ArrayType() | MapType()), ArrayType():
            at = (*path, "element")
            yield from _type_changes(
                own.element, data.element, explicit=explicit, widen=widen, path=at
            )
        case MapType(value=RowType() | ArrayType() | MapType()), MapType():
            at = (*path, "value")
            yield from _type_changes(own.value, data.value, explicit=explicit, widen=widen, path=at)
        case _ if widen:
            merged = merged_type(own, data, explicit=explicit)
            if merged != own:
                yield UpdateColumnType(path, merged)


def merged_type(own: DataType, data: DataType, *, explicit: bool) -> DataType:
    """The merged type of a column, with its nullability; SchemaError if the types do not merge."""
    if own.with_nullable(True) == data.with_nullable(True):
        return own
    match own, data:
        case ArrayType(), ArrayType():
            element = merged_type(own.element, data.element, explicit=explicit)
            return ArrayType(nullable=own.nullable, element=element)
        case MapType(), MapType():
            return MapType(
                nullable=own.nullable,
                key=merged_type(own.key, data.key, explicit=explicit),
                value=merged_type(own.value, data.value, explicit=explicit),
            )
        case VectorType(), ArrayType():
            return own  # that is how Spark holds one
        case MultisetType(), MapType():
            # Spark has no multisets: rows bring them as maps to counts.
            element = merged_type(own.element, data.key, explicit=explicit)
            return MultisetType(nullable=own.nullable, element=element)
        case AtomicType(), AtomicType():
            return _merged_atomic(own, data, explicit=explicit)
    raise _unmergeable(own, data)


def _merged_atomic(own: AtomicType, data: AtomicType, *, explicit: bool) -> DataType:
    if own.kind is TypeRoot.TIME and data.kind is TypeRoot.INT:
        return own  # that is how Spark holds a TIME
    if own.kind is TypeRoot.DECIMAL and data.kind is TypeRoot.DECIMAL:
        if own.scale != data.scale:
            raise _unmergeable(own, data)
        wider = max(own.precision or 0, data.precision or 0)
        return AtomicType(kind=own.kind, nullable=own.nullable, precision=wider, scale=own.scale)
    if not can_cast(own.with_nullable(True), data, explicit=explicit):
        raise _unmergeable(own, data)
    for mine, theirs in ((own.length, data.length), (own.precision, data.precision)):
        if mine is not None and theirs is not None and mine > theirs and not explicit:
            raise _unmergeable(own, data)
    return data.with_nullable(own.nullable)


def _unmergeable(own: DataType, data: DataType) -> SchemaError:
    return SchemaError(
        f"types {type_to_sql(own)} of the table and {type_to_sql(data)} of the rows do not merge",
        next_step="cast the column of the rows, or alter the table first",
    )
