"""Writes Avro files like Java Paimon (Java: `format/avro/AvroFileFormat`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Any, Final

import fastavro
import pyarrow as pa

from paimon_core.errors import UnsupportedFeature
from paimon_core.format.avro.container import (
    Container,
    compressor,
    encode_block,
    encode_header,
)
from paimon_core.format.avro.decimal_bytes import decimals_to_bytes
from paimon_core.format.avro.schema import file_schema, is_string_keyed, physical_schema
from paimon_core.types.arrow import map_types
from paimon_core.types.data_types import (
    ArrayType,
    DataType,
    MapType,
    MultisetType,
    RowType,
)

BLOCK_BYTES: Final = 64_000
"""The bytes of a block before compression, as in Avro's Java library."""
# Without xz: Java's bundles have no library for it.
_CODECS: Final = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "snappy": "snappy",
    "deflate": "deflate",
    "null": "null",
    "bzip2": "bzip2",
}


class AvroFileWriter:
    """`FormatWriter` of one Avro file; `sync` holds 16 bytes that are unlikely in any row."""

    def __init__(
        self,
        sink: pa.NativeFile,
        row_type: RowType,
        *,
        compression: str,
        zstd_level: int,
        sync: bytes,
    ) -> None:
        codec = _CODECS.get(compression.lower())
        if codec is None:
            raise UnsupportedFeature(
                f"compression {compression} of Avro files (Java Paimon cannot read or write it either)"
            )
        schema = file_schema(row_type)
        self._sink = sink
        self._type = row_type
        self._rows_schema = fastavro.parse_schema(physical_schema(schema))
        self._compress: Callable[[bytes], bytes] = compressor(codec, zstd_level)
        self._sync = sync
        sink.write(encode_header(schema, codec, sync))

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [
            _values(column, f.type)
            for column, f in zip(batch.columns, self._type.fields, strict=True)
        ]
        names = self._type.names
        rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        plain = BytesIO()
        fastavro.writer(plain, self._rows_schema, rows, "null", sync_interval=BLOCK_BYTES)
        plain.seek(0)
        for block in Container(plain).blocks():
            self._sink.write(encode_block(block.rows, self._compress(block.data), self._sync))

    def bytes_written(self) -> int:
        return int(self._sink.tell())

    def close(self) -> int:
        size = int(self._sink.tell())
        self._sink.close()
        return size

    def abort(self) -> None:
        self._sink.close()


def _values(array: pa.Array, t: DataType) -> Iterable[Any]:
    """Return the values as stored: timestamps as numbers, decimals as bytes."""
    match t:
        case ArrayType():
            return _lists(array, list(_values(array.values, t.element)))
        case MapType() | MultisetType():
            key, value = map_types(t)
            pairs = zip(_values(array.keys, key), _values(array.items, value), strict=True)
            if is_string_keyed(t):
                entries = _lists(array, list(pairs))
                return [None if e is None else dict(e) for e in entries]
            return _lists(array, [{"key": k, "value": v} for k, v in pairs])
        case RowType():
            children = [_values(array.field(i), f.type) for i, f in enumerate(t.fields)]
            rows = [dict(zip(t.names, row, strict=True)) for row in zip(*children, strict=True)]
            if array.null_count == 0:
                return rows
            valid = array.is_valid().to_pylist()
            return [row if ok else None for row, ok in zip(rows, valid, strict=True)]
    kind = array.type
    if pa.types.is_decimal(kind):
        return decimals_to_bytes(array)
    if pa.types.is_timestamp(kind):
        array = array.view(pa.int64())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        array = array.view(pa.int32())
    return array.to_pylist()  # type: ignore[no-any-return]


def _lists(array: pa.Array, children: list[Any]) -> list[list[Any] | None]:
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [
        children[start:end] if ok else None
        for start, end, ok in zip(offsets[:-1], offsets[1:], valid, strict=True)
    ]
