"""Converts incoming rows to rows of the table (Java: `table/sink/TableWriteImpl`).

In this order, as in Java: nulls in NOT NULL columns are refused, nulls in columns with a default
value get it, the row kind is taken from `rowkind.field`, rows whose kind the table ignores are
dropped.  CHAR(n) and BINARY(n) are stored unchanged: engines (and ORC readers) do the padding,
Java's core does none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import InvalidArgument, NullInRequiredColumn, SchemaError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.merge_engine import DELETE, UPDATE_BEFORE
from paimon_core.options import IGNORE_DELETE, IGNORE_UPDATE_BEFORE, ROWKIND_FIELD
from paimon_core.types.arrow import arrow_schema, column_from_internal
from paimon_core.types.casts.cast import parse_default
from paimon_core.types.data_types import DataField, RowType, TypeRoot
from paimon_core.types.not_null import has_required_parts, missing_part
from paimon_core.types.value_shapes import has_shapes, wrong_shape

Kinds = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]
_KINDS: Final = ("+I", "-U", "+U", "-D")


def fit_to_schema(
    table: FileStoreTable,
    rows: pa.Table,
    row_type: RowType | None = None,
    *,
    stored: Mask | None = None,
) -> pa.Table:
    """Return the rows with the table's columns (or those of `row_type`), types and default values.

    Columns are matched by name; a nullable one may be missing.  Those that `stored` marks were in
    the table before, and keep their nulls.  Raises InvalidArgument for unknown columns, values that
    do not fit, and nulls in NOT NULL columns.
    """
    row_type = row_type or table.schema.row_type
    schema = arrow_schema(row_type)
    unknown = [n for n in rows.schema.names if n not in schema.names]
    if unknown:
        raise InvalidArgument(
            f"table {table.name} has no column {', '.join(unknown)}", table=table.name
        )
    columns = [
        _column(table, rows, arrow_field, data_field, stored)
        for arrow_field, data_field in zip(schema, row_type.fields, strict=True)
    ]
    return pa.table(columns, schema=schema)


def without_defaults(table: FileStoreTable) -> FileStoreTable:
    """Return the table for a writer of rows that were in a table before: their nulls stay null."""
    fields = tuple(replace(f, default_value=None) for f in table.schema.fields)
    return replace(table, schema=replace(table.schema, fields=fields))


def _column(
    table: FileStoreTable,
    rows: pa.Table,
    arrow_field: pa.Field,
    data_field: DataField,
    stored: Mask | None,
) -> pa.ChunkedArray:
    if arrow_field.name not in rows.schema.names:
        column = pa.chunked_array([pa.nulls(rows.num_rows, arrow_field.type)])
    else:
        column = rows.column(arrow_field.name)
    if column.type != arrow_field.type:
        try:
            column = column.cast(arrow_field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
            # Arrow has no cast from the caller's type, or a value does not fit the column.
            raise InvalidArgument(
                f"column {arrow_field.name} of table {table.name}: {e}", table=table.name
            ) from e
    if column.null_count and not data_field.type.nullable:
        raise NullInRequiredColumn(
            f"null in column {arrow_field.name} of table {table.name}, which is NOT NULL",
            table=table.name,
        )
    if has_required_parts(data_field.type):
        _check_parts(table, column, data_field)
    if has_shapes(data_field.type):
        _check_shapes(table, column, data_field)
    if column.null_count and data_field.default_value is not None:
        column = _filled(column, data_field, stored)
    return column


def _check_parts(table: FileStoreTable, column: pa.ChunkedArray, field: DataField) -> None:
    for chunk in column.chunks:
        missing = missing_part(chunk, field.type, field.name)
        if missing is not None:
            raise NullInRequiredColumn(
                f"null in {missing} of table {table.name}, which is NOT NULL", table=table.name
            )


def _check_shapes(table: FileStoreTable, column: pa.ChunkedArray, field: DataField) -> None:
    for chunk in column.chunks:
        wrong = wrong_shape(chunk, field.type)
        if wrong is not None:
            raise InvalidArgument(
                f"column {field.name} of table {table.name} holds {wrong}", table=table.name
            )


def _filled(column: pa.ChunkedArray, field: DataField, stored: Mask | None) -> pa.ChunkedArray:
    """Return the column with its default value in place of the nulls of new rows."""
    default = column_from_internal(
        [parse_default(field.default_value or "", field.type)], field.type
    )
    values = pa.chunked_array([*column.chunks, default], type=column.type).combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        raise SchemaError(f"column {field.name} is too large to fill in its default value")
    places = np.arange(len(column))
    blank = np.asarray(column.is_null())
    places[blank if stored is None else blank & ~stored] = len(column)
    return pa.chunked_array([values.take(pa.array(places))])


def row_kinds(table: FileStoreTable, rows: pa.Table, kinds: Kinds | None) -> Kinds | None:
    """Return the kind of each row: from `rowkind.field` if the table has it, else as given.

    Raises InvalidArgument if that column holds null or an invalid row kind.
    """
    name = table.options.value(ROWKIND_FIELD)
    if name is None:
        return kinds
    field = table.schema.row_type.get(name)
    if field is None or field.type.root not in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        raise InvalidArgument(
            f"rowkind.field of table {table.name} must name a string column, not {name!r}",
            table=table.name,
        )
    found = pc.index_in(rows.column(name), value_set=pa.array(_KINDS))
    if found.null_count:
        bad = rows.column(name).filter(found.is_null())[0].as_py()
        raise InvalidArgument(
            f"{bad!r} in column {name} of table {table.name} is not a row kind (+I, -U, +U, -D)",
            table=table.name,
        )
    return np.asarray(found, dtype=np.int8)


def kept_rows(table: FileStoreTable, kinds: Kinds) -> Mask | None:
    """Return a mask of the rows that the table does not ignore.

    None for all (Java: `utils/RowKindFilter`).
    """
    if table.options.value(IGNORE_DELETE):
        return np.isin(kinds, (UPDATE_BEFORE, DELETE), invert=True)
    if table.options.value(IGNORE_UPDATE_BEFORE):
        return np.not_equal(kinds, UPDATE_BEFORE)
    return None
