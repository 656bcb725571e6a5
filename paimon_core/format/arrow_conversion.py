"""Converts columns from file readers to the Arrow types of `paimon_core.types.arrow`.

Only the form changes, never a value: names of list and map children, units of timestamps, times
kept as integers, INT96 kept as 12 bytes.  Nothing is copied where the bytes stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.parquet.int96 import RAW_TYPE, to_timestamps
from paimon_core.format.parquet.shredded import assembled_column, is_shredded
from paimon_core.format.shared_maps import assembled_maps, is_shared


def convert_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert the values to `target`; CorruptTable if they are of another kind or do not fit."""
    source = array.type
    if source.equals(target) and not pa.types.is_nested(target):
        return array
    try:
        if pa.types.is_nested(target):
            return _nested(array, target)
        return _flat(array, source, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        # Arrow has no cast between these types, or a value does not fit: the file
        # contradicts its schema.
        raise CorruptTable(f"a column of {source} cannot be read as {target}: {e}") from e


def with_children(array: pa.Array, target: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """Return a list, map or struct like `array` with other children.

    Lists take their whole child (`array.values`), maps keys and items, structs their fields.
    CorruptTable for a map with a null key.
    """
    if pa.types.is_struct(target):
        return _struct(array, target, children)
    if pa.types.is_map(target):
        if children[0].null_count:  # Arrow would end the process
            raise CorruptTable("a map has a null key")
        entries = pa.StructArray.from_arrays(children, fields=[target.key_field, target.item_field])
        children = [entries]
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        target, len(array), [validity, offsets], array.null_count, array.offset, children
    )


def without_validity(array: pa.Array) -> pa.Array:
    """Return the array without nulls; arbitrary values of the type replace them."""
    if pa.types.is_struct(array.type):
        fields = [array.field(i) for i in range(array.type.num_fields)]
        if not fields:
            return pa.Array.from_buffers(array.type, len(array), [None], 0, children=[])
        return pa.StructArray.from_arrays(fields, fields=list(array.type))
    children: list[pa.Array] | None = None
    if pa.types.is_map(array.type):
        entries = [array.type.key_field, array.type.item_field]
        children = [pa.StructArray.from_arrays([array.keys, array.items], fields=entries)]
    elif pa.types.is_list(array.type):
        children = [array.values]
    buffers = [None, *array.buffers()[1 : array.type.num_buffers]]
    return pa.Array.from_buffers(array.type, len(array), buffers, 0, array.offset, children)


def in_order(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch's columns in the order of `schema`; missing columns are null."""
    position = {name: i for i, name in enumerate(batch.schema.names)}
    arrays = [
        _column(batch, position[f.name], f.type)
        if f.name in position
        else pa.nulls(batch.num_rows, f.type)
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(batch: pa.RecordBatch, at: int, target: pa.DataType) -> pa.Array:
    array = batch.column(at)
    if is_shared(array.type, target):
        metadata = batch.schema.field(at).metadata
        array = assembled_maps(array, metadata, lambda v: convert_array(v, target.item_type))
    return convert_array(array, target)


def null_batches(rows: int, schema: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches with `rows` all-null rows in total.

    The schema may have no columns: the batches then only have a row count.
    """
    for start in range(0, rows, batch_rows):
        yield null_batch(min(batch_rows, rows - start), schema)


def null_batch(rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return one batch like those of `null_batches`."""
    if len(schema) == 0:
        return pa.RecordBatch.from_struct_array(
            pa.Array.from_buffers(pa.struct([]), rows, [None], 0)
        )
    return pa.RecordBatch.from_arrays([pa.nulls(rows, f.type) for f in schema], schema=schema)


def _nested(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    if pa.types.is_struct(target) and is_shredded(source, target):
        return assembled_column(array, target)
    if pa.types.is_struct(target) and pa.types.is_struct(source):
        present = {source.field(i).name: i for i in range(source.num_fields)}
        children = [
            convert_array(_present_field(array, present[f.name]), f.type)
            if f.name in present
            else pa.nulls(len(array), f.type)
            for f in target
        ]
        return _struct(array, target, children)
    if pa.types.is_map(target) and pa.types.is_map(source):
        keys = convert_array(array.keys, target.key_type)
        return with_children(array, target, [keys, convert_array(array.items, target.item_type)])
    if pa.types.is_list(target) and pa.types.is_list(source):
        return with_children(array, target, [convert_array(array.values, target.value_type)])
    raise CorruptTable(f"a column of {source} cannot be read as {target}")


def _present_field(array: pa.StructArray, at: int) -> pa.Array:
    """Return a field, null where its row is null: NOT NULL fields are undefined there."""
    if array.null_count and not array.type.field(at).nullable:
        return array.flatten()[at]
    return array.field(at)


def _struct(array: pa.Array, target: pa.DataType, children: list[pa.Array]) -> pa.Array:
    mask = array.is_null() if array.null_count else None
    if not children:
        plain: Any = pa.Array.from_buffers(
            target, len(array), [array.is_valid().buffers()[1] if mask else None], children=[]
        )
        return plain
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _flat(array: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(target):
        return _timestamps(array, source, target)
    if (pa.types.is_time32(target) or pa.types.is_date32(target)) and source == pa.int32():
        return array.view(target)
    if pa.types.is_dictionary(source):
        return array.dictionary_decode().cast(target)
    return array.cast(target)


def _timestamps(array: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    if source == RAW_TYPE:
        array = to_timestamps(array)
    elif not pa.types.is_timestamp(source):
        raise CorruptTable(f"a column of {source} cannot be read as {target}")
    try:
        # Digits below the precision are rounded down, as in Java's Timestamp.
        if array.type.unit == target.unit:
            return array.view(target)
        return array.cast(target) if _widens(array.type, target) else _floor(array, target)
    except pa.ArrowInvalid as e:
        raise UnsupportedFeature(
            "TIMESTAMP beyond microseconds outside the years 1678 to 2261",
            f"a time in a {target} column cannot be represented: {e}",
        ) from e


_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    return _UNITS[source.unit] <= _UNITS[target.unit]


def _floor(array: pa.Array, target: pa.DataType) -> pa.Array:
    factor = _UNITS[array.type.unit] // _UNITS[target.unit]
    numbers = array.view(pa.int64())
    quotient = pc.divide(numbers, factor)
    # Arrow divides towards zero, so a negative remainder means that the result is one too high.
    negative = pc.less(numbers, pc.multiply(quotient, factor))
    floored = pc.subtract(quotient, negative.cast(pa.int64()))
    return floored.view(target)
