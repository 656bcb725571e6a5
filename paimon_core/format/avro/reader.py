"""Reads batches of rows from an Avro file.

Avro is a row format: fastavro converts a batch of rows to Python values, and each column becomes an
Arrow array in one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final

import fastavro
import pyarrow as pa

from paimon_core.errors import CorruptTable
from paimon_core.format.arrow_conversion import convert_array, null_batches, with_children
from paimon_core.format.avro.container import (
    Container,
    encode_block,
    encode_header,
)
from paimon_core.format.avro.decimal_bytes import decimals_from_bytes
from paimon_core.format.avro.schema import physical_schema, without_null
from paimon_core.format.damage import DAMAGE, cause
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import RowType

_SYNC: Final = bytes(16)
_BATCH_BYTES: Final = 32 * 1024 * 1024
"""The bytes of rows that are decoded at once as Python values, unless a block is larger."""


def read_avro(source: Any, fields: RowType, *, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of these columns of the file, by name; missing columns are null.

    Batches hold about `batch_rows` rows: whole blocks of the file.
    """
    container = Container(source)
    schema = arrow_schema(fields)
    written = {f["name"]: f["type"] for f in container.schema["fields"]}
    names = [f.name for f in fields if f.name in written]
    if not names:
        yield from null_batches(container.row_count(), schema, batch_rows)
        return
    decode = _RowDecoder(container.schema, names)
    for rows, data in _joined_blocks(container, batch_rows):
        records = decode(rows, data)
        yield pa.RecordBatch.from_arrays(
            [
                _column([r[f.name] for r in records], written[f.name], f.type)
                if f.name in written
                else pa.nulls(rows, f.type)
                for f in schema
            ],
            schema=schema,
        )


def decode_all_rows(source: Any) -> int:
    """Decode all rows and return their number; CorruptTable if one cannot be decoded."""
    container = Container(source)
    decode = _RowDecoder(container.schema, [f["name"] for f in container.schema["fields"]])
    return sum(len(decode(rows, data)) for rows, data in container.blocks())


class _RowDecoder:
    """Decodes blocks of rows to dicts of the named fields, without logical types."""

    def __init__(self, schema: Any, names: list[str]) -> None:
        writer = physical_schema(schema)
        self._header = encode_header(writer, "null", _SYNC)
        self._reader = None
        if len(names) < len(writer["fields"]):
            wanted = set(names)
            fields = [f for f in writer["fields"] if f["name"] in wanted]
            self._reader = fastavro.parse_schema({**writer, "fields": fields})

    def __call__(self, rows: int, data: bytes) -> list[dict[str, Any]]:
        container = BytesIO(self._header + encode_block(rows, data, _SYNC))
        try:
            return list(fastavro.reader(container, self._reader))  # type: ignore[arg-type]
        except DAMAGE as e:
            raise CorruptTable(f"rows of an Avro file cannot be decoded: {cause(e)}") from e


def _joined_blocks(container: Container, batch_rows: int) -> Iterator[tuple[int, bytes]]:
    rows = size = 0
    parts: list[bytes] = []
    for block in container.blocks():
        if rows and (rows + block.rows > batch_rows or size + len(block.data) > _BATCH_BYTES):
            yield rows, b"".join(parts)
            rows, size, parts = 0, 0, []
        rows += block.rows
        size += len(block.data)
        parts.append(block.data)
    if rows:
        yield rows, b"".join(parts)


def _column(values: list[Any], written: Any, target: pa.DataType) -> pa.Array:
    try:
        array = pa.array(values, read_type(written))
    except DAMAGE as e:
        raise CorruptTable(f"a column of an Avro file does not fit its schema: {cause(e)}") from e
    return convert_array(_logical(array, written, target), target)


def read_type(schema: Any) -> pa.DataType:
    """Return the Arrow type of the decoded values of a schema."""
    schema = without_null(schema)
    if isinstance(schema, dict):
        logical = schema.get("logicalType", "")
        match schema["type"]:
            case "record":
                return pa.struct([(f["name"], read_type(f["type"])) for f in schema["fields"]])
            case "array":
                return pa.list_(read_type(schema["items"]))
            case "map":
                return pa.map_(pa.string(), read_type(schema["values"]))
            case "long" if logical.endswith("timestamp-millis"):
                return pa.timestamp("ms")
            case "long" if logical.endswith("timestamp-micros"):
                return pa.timestamp("us")
            case "fixed":
                return pa.binary()
        return read_type(schema["type"])
    match schema:
        case "boolean":
            return pa.bool_()
        case "int":
            return pa.int32()
        case "long":
            return pa.int64()
        case "float":
            return pa.float32()
        case "double":
            return pa.float64()
        case "string":
            return pa.string()
        case "bytes":
            return pa.binary()
    raise CorruptTable(f"an Avro file has a column of the type {schema!r}, which no table has")


def _logical(array: pa.Array, schema: Any, target: pa.DataType) -> pa.Array:
    """Convert bytes to decimals, and arrays of entries to maps, at any depth."""
    schema = without_null(schema)
    if not isinstance(schema, dict):
        return array
    match schema["type"]:
        case "bytes" if pa.types.is_decimal(target):
            return decimals_from_bytes(array, target)
        case "record" if pa.types.is_struct(target):
            return _logical_struct(array, schema, target)
        case "array" if pa.types.is_map(target):
            entries = array.values
            fields = {f["name"]: f["type"] for f in schema["items"]["fields"]}
            keys = _logical(entries.field("key"), fields["key"], target.key_type)
            items = _logical(entries.field("value"), fields["value"], target.item_type)
            map_type = pa.map_(keys.type, items.type)
            return with_children(array, map_type, [keys, items])
        case "array" if pa.types.is_list(target):
            values = _logical(array.values, schema["items"], target.value_type)
            return with_children(array, pa.list_(values.type), [values])
        case "map" if pa.types.is_map(target):
            items = _logical(array.items, schema["values"], target.item_type)
            map_type = pa.map_(array.type.key_type, items.type)
            return with_children(array, map_type, [array.keys, items])
    return array


def _logical_struct(array: pa.StructArray, schema: Any, target: pa.StructType) -> pa.Array:
    wanted = {f.name: f.type for f in target}
    children, fields = [], []
    for field in schema["fields"]:
        name = field["name"]
        if name in wanted:
            child = _logical(array.field(name), field["type"], wanted[name])
            children.append(child)
            fields.append(pa.field(name, child.type))
    return with_children(array, pa.struct(fields), children)
