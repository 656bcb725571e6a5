"""Arrow batches of the core as Spark wants them, and the reverse.

Spark compares the schema of the first batch with its own, so every column has exactly its type:
timestamps of microseconds, TIME as an integer, no dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import is_variant, to_arrow_schema
from pyspark.sql.types import StructType

from paimon_core.errors import InvalidArgument, SchemaError
from paimon_core.lsm.key_column import kind_values
from paimon_core.lsm.merge_engine import is_retract
from paimon_core.schema.table_schema import VALUE_KIND
from paimon_core.types.arrow import UNIT_NANOS
from paimon_core.types.casts.cast import cast_column
from paimon_core.types.data_types import AtomicType, TypeRoot
from paimon_spark.source.own_names import own_name


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of batches of this schema."""
    return to_arrow_schema(schema, timezone="UTC")


def to_spark(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows for Spark.  Rows that retract another one (-U, -D) are left out.

    A DataFrame has no row kinds: with them, a deleted row would look like an existing one.
    """
    for batch in batches:
        kept = batch
        kinds = kind_values(batch.column(VALUE_KIND))
        retracts = is_retract(kinds)
        if retracts.any():
            kept = batch.filter(pa.array(~retracts))
        if kept.num_rows:
            columns = [converted(kept.column(f.name), f.type) for f in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def converted(column: pa.Array, target: pa.DataType) -> pa.Array:
    """The column in the target type; digits of timestamps beyond its precision are dropped.

    InvalidArgument for other values that do not fit.
    """
    if column.type == target:
        return column
    if pa.types.is_dictionary(column.type):
        return converted(column.dictionary_decode(), target)
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(column.type):
        return _timestamps(column, target)
    if pa.types.is_decimal(target) and _is_number(column.type):
        return _decimals(column, target)
    if pa.types.is_map(target) and pa.types.is_map(column.type):
        return _map(column, target)
    if pa.types.is_struct(target) and pa.types.is_struct(column.type):
        return _struct(column, target)
    if pa.types.is_list(target) and _is_list(column.type):
        items = converted(column.flatten(), target.value_type)
        lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0), dtype=np.int64)
        return pa.ListArray.from_arrays(_offsets(column, lengths), items, type=target)
    try:
        return column.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        # Arrow has no cast between these types, or a value does not fit.
        raise InvalidArgument(f"values of Arrow type {column.type} as {target}: {e}") from e


def _is_list(t: pa.DataType) -> bool:
    return bool(pa.types.is_list(t) or pa.types.is_large_list(t))


def _is_number(t: pa.DataType) -> bool:
    return bool(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t))


def _decimals(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Round half up, as Spark does when it stores a number in another type."""
    wanted = AtomicType(kind=TypeRoot.DECIMAL, precision=target.precision, scale=target.scale)
    t = column.type
    if pa.types.is_decimal(t):
        given = replace(wanted, precision=t.precision, scale=t.scale)
    else:
        given = AtomicType(kind=TypeRoot.DOUBLE if pa.types.is_floating(t) else TypeRoot.BIGINT)
    try:
        decimals = cast_column(column, given, wanted)
    except SchemaError:  # for NaN and infinity
        decimals = None
    if decimals is None or decimals.null_count > column.null_count:
        raise InvalidArgument(f"a value of Arrow type {t} does not fit into {target}")
    return decimals


def _timestamps(column: pa.Array, target: pa.DataType) -> pa.Array:
    have, want = UNIT_NANOS[column.type.unit], UNIT_NANOS[target.unit]
    if have >= want:
        # Finer units hold all digits; what leaves 64 bits is an error.
        plain = column.cast(pa.timestamp(column.type.unit), safe=False)
        try:
            return plain.cast(pa.timestamp(target.unit)).view(target)
        except pa.ArrowInvalid as e:
            raise InvalidArgument(f"a timestamp does not fit into {target}: {e}") from e
    valid = np.asarray(column.is_valid())
    numbers = np.asarray(column.view(pa.int64()).fill_null(0))
    floored = np.floor_divide(numbers, want // have)
    return pa.array(floored, pa.int64(), mask=~valid).view(target)


def _offsets(column: pa.Array, lengths: np.ndarray) -> pa.Array:
    """Offsets from 0, a null one for each null list."""
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.array(starts, pa.int32(), mask=np.append(np.asarray(column.is_null()), [False]))


def _map(column: pa.Array, target: pa.DataType) -> pa.Array:
    offsets = np.asarray(column.offsets)
    lengths = np.diff(offsets)
    if lengths[np.asarray(column.is_null())].any():
        # Entries below a null map, which take() leaves behind.
        return _map(column.take(pa.array(np.arange(len(column)))), target)
    first, entries = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys = converted(column.keys.slice(first, entries), target.key_type)
    items = converted(column.items.slice(first, entries), target.item_type)
    return pa.MapArray.from_arrays(_offsets(column, lengths), keys, items, type=target)


def _struct(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Match fields by name, as `own_names`; a missing field is null."""
    fields = list(target)
    names = [f.name for f in fields]
    have = {own_name(names, field.name): i for i, field in enumerate(column.type)}
    flat = column.flatten()
    if is_variant(target):
        # Spark demands both parts even of a null.
        flat = [pc.fill_null(part, b"") for part in flat]
    children = [
        pa.nulls(len(column), f.type)
        if f.name not in have
        else converted(flat[have[f.name]], f.type)
        for f in fields
    ]
    if not children:
        return column.cast(target)
    return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())
