"""Converts rows between the forms that callers use and the batches of the core.

Input: Arrow tables and batches, objects with the Arrow C stream interface (polars, DuckDB,
readers), pandas DataFrames and dicts.  Output: Arrow batches with exactly the types of the table,
and with the kind of each row on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import InvalidArgument
from paimon_core.lsm.key_column import kind_values
from paimon_core.lsm.merge_engine import is_retract
from paimon_core.schema.table_schema import VALUE_KIND, TableSchema
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import RowType
from paimon_core.write.incoming_rows import Kinds

ROW_KIND: Final = "_row_kind"
"""The column with the kind of each row: +I, -U, +U or -D."""
KIND_TEXTS: Final = ("+I", "-U", "+U", "-D")
_DICTS_AT_ONCE: Final = 8192


# --- in -----------------------------------------------------------------------------------------


def batches_in(data: Any, schema: TableSchema) -> Iterator[pa.Table]:
    """Yield the data as Arrow tables; InvalidArgument for an object that is not rows."""
    if isinstance(data, pa.Table):
        yield data
    elif isinstance(data, pa.RecordBatch):
        yield pa.Table.from_batches([data])
    elif type(data).__module__.partition(".")[0] == "pandas":
        yield pa.Table.from_pandas(data, preserve_index=False)
    elif hasattr(data, "__arrow_c_stream__"):
        for batch in pa.RecordBatchReader.from_stream(data):
            yield pa.Table.from_batches([batch])
    elif isinstance(data, Mapping):
        yield _columns(data, schema)
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes):
        yield from _of_items(iter(data), schema)
    else:
        raise _not_rows(data)


def _of_items(items: Iterator[Any], schema: TableSchema) -> Iterator[pa.Table]:
    """Yield dicts in tables of up to `_DICTS_AT_ONCE` rows; yield tables and batches unchanged."""
    while chunk := list(islice(items, 1)):
        first = chunk[0]
        if isinstance(first, Mapping):
            chunk += islice(items, _DICTS_AT_ONCE - 1)
            yield from dicts_in(chunk, schema)
        elif isinstance(first, pa.RecordBatch | pa.Table):
            yield from batches_in(first, schema)
        else:
            raise _not_rows(first)


def dicts_in(rows: Sequence[Mapping[str, Any]], schema: TableSchema) -> Iterator[pa.Table]:
    """Yield the rows, which are dicts of column names and values, as one Arrow table.

    A column that is in no row is left out, so it gets its default value.  A column that is in some
    rows is null in the others.  Raises InvalidArgument for a value that does not fit its column.
    """
    if not rows:
        return
    for row in rows:
        if not isinstance(row, Mapping):
            raise _not_rows(row)
    names = dict.fromkeys(name for row in rows for name in row)
    yield _columns({n: [row.get(n) for row in rows] for n in names}, schema)


def _columns(columns: Mapping[str, Any], schema: TableSchema) -> pa.Table:
    types = {f.name: f.type for f in arrow_schema(schema.row_type)}
    arrays = {}
    for name, values in columns.items():
        if isinstance(values, pa.Array | pa.ChunkedArray):
            arrays[name] = values
            continue
        wanted = types.get(name)
        try:
            if isinstance(values, np.ndarray):
                arrays[name] = pa.array(values).cast(wanted or pa.null())
                continue
            if wanted is not None:
                check_whole(values, wanted)
            arrays[name] = pa.array(values, type=wanted)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            raise InvalidArgument(f"column {name}: {e}") from e
    return pa.table(arrays)


def check_whole(values: Iterable[Any], wanted: pa.DataType) -> None:
    """Raise ValueError for a fraction in an integer column, which Arrow would truncate."""
    if pa.types.is_integer(wanted):
        for value in values:
            if isinstance(value, float | np.floating | Decimal) and value != value // 1:
                raise ValueError(f"{value!r} is not a whole number")
    elif pa.types.is_list(wanted):
        check_whole((v for item in values if item is not None for v in item), wanted.value_type)
    elif pa.types.is_struct(wanted):
        for field in wanted:
            parts = (v.get(field.name) for v in values if isinstance(v, Mapping))
            check_whole(parts, field.type)
    elif pa.types.is_map(wanted):
        pairs = [p for m in values if m is not None for p in dict(m).items()]
        check_whole((k for k, _ in pairs), wanted.key_type)
        check_whole((v for _, v in pairs), wanted.item_type)


def split_kinds(rows: pa.Table) -> tuple[pa.Table, Kinds | None]:
    """Return the rows without the column `_row_kind`, and their kinds; None without the column."""
    if ROW_KIND not in rows.schema.names:
        return rows, None
    found = pc.index_in(rows.column(ROW_KIND).cast(pa.string()), value_set=pa.array(KIND_TEXTS))
    if found.null_count:
        bad = rows.column(ROW_KIND).filter(found.is_null())[0].as_py()
        raise InvalidArgument(
            f"{bad!r} in column {ROW_KIND} is not a row kind ({', '.join(KIND_TEXTS)})"
        )
    return rows.drop_columns([ROW_KIND]), np.asarray(found, dtype=np.int8)


def _not_rows(data: object) -> InvalidArgument:
    return InvalidArgument(
        f"rows cannot be read from {type(data).__name__}",
        next_step="pass an Arrow table or batch, a pandas DataFrame, or a list of dicts",
    )


# --- out ----------------------------------------------------------------------------------------


def schema_out(row_type: RowType, *, kinds: bool) -> pa.Schema:
    """The Arrow schema of rows that are read; with `kinds`, `_row_kind` is its first column."""
    schema = arrow_schema(row_type)
    return schema.insert(0, pa.field(ROW_KIND, pa.string(), nullable=False)) if kinds else schema


def batches_out(
    batches: Iterable[pa.RecordBatch], row_type: RowType, *, kinds: bool
) -> Iterator[pa.RecordBatch]:
    """Yield batches of the core with exactly the schema of `schema_out`.

    Without `kinds`, retractions (-U, -D) are left out, because callers could not distinguish them
    from rows that exist.
    """
    schema = schema_out(row_type, kinds=kinds)
    for batch in batches:
        values = kind_values(batch.column(VALUE_KIND))
        kept = batch
        if not kinds:
            retracts = is_retract(values)
            if retracts.any():
                kept = batch.filter(pa.array(~retracts))
        if not kept.num_rows:
            continue
        columns = [_exactly(kept.column(f.name), f.type) for f in schema if f.name != ROW_KIND]
        if kinds:
            columns.insert(0, pa.array(KIND_TEXTS).take(pa.array(values)))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _exactly(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if column.type == wanted else column.cast(wanted)
