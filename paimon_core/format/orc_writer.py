"""ORC files as Java Paimon reads them (Java: `format/orc/OrcTypeUtil`, `OrcWriterFactory`).

Field ids are kept as the attribute `paimon.id`, TIME is an int of milliseconds, TIMESTAMP LTZ an
instant in UTC.  pyarrow has no CHAR(n) and VARCHAR(n), so both are written as STRING, which ORC's
readers convert.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import pyarrow as pa
from pyarrow import orc

from paimon_core.errors import UnsupportedFeature
from paimon_core.format.conform import with_children
from paimon_core.types.arrow import FIELD_ID, arrow_schema
from paimon_core.types.data_types import RowType

ORC_FIELD_ID: Final = b"paimon.id"
STRIPE_BYTES: Final = 32 * 1024 * 1024
MAGIC_BYTES: Final = 3
FIRST_RATIO: Final = 0.4
"""Bytes on disk per Arrow byte, as long as no stripe was written yet."""
_CODECS: Final = {
    "zstd": "zstd",
    "lz4": "lz4",
    "snappy": "snappy",
    "zlib": "zlib",
    "none": "uncompressed",
}


class OrcFileWriter:
    """`FormatWriter` of one ORC file."""

    def __init__(self, sink: pa.NativeFile, row_type: RowType, *, compression: str) -> None:
        codec = _CODECS.get(compression.lower())
        if codec is None:
            raise UnsupportedFeature(
                f"compression {compression} of ORC files (Java has none of that name either)"
            )
        self._sink = sink
        self._schema = pa.schema([_file_field(f) for f in arrow_schema(row_type)])
        self._writer = orc.ORCWriter(sink, compression=codec, stripe_size=STRIPE_BYTES)
        self._empty = True
        self._given_bytes = 0
        self._flushed_at = sink.tell()
        self._flushed_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        arrays = [_to_file(a, f.type) for a, f in zip(batch.columns, self._schema, strict=True)]
        self._writer.write(pa.Table.from_arrays(arrays, schema=self._schema))
        self._empty = False
        self._given_bytes += batch.nbytes
        if self._sink.tell() > self._flushed_at + MAGIC_BYTES:
            self._flushed_at = self._sink.tell()
            self._flushed_bytes = self._given_bytes

    def bytes_written(self) -> int:
        written = int(self._sink.tell())
        ratio = written / self._flushed_bytes if self._flushed_bytes else FIRST_RATIO
        return written + int((self._given_bytes - self._flushed_bytes) * ratio)

    def close(self) -> int:
        if self._empty:
            self._writer.write(self._schema.empty_table())
        self._writer.close()
        size = int(self._sink.tell())
        self._sink.close()
        return size

    def abort(self) -> None:
        with suppress(pa.ArrowException, OSError):
            self._writer.close()
        self._sink.close()


def _file_field(field: pa.Field) -> pa.Field:
    metadata = field.metadata or {}
    ids = {ORC_FIELD_ID: metadata[FIELD_ID]} if FIELD_ID in metadata else None
    return pa.field(field.name, _file_type(field.type), field.nullable, ids)


def _file_type(t: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(t):
        return pa.struct([_file_field(f) for f in t])
    if pa.types.is_map(t):
        return pa.map_(_file_field(t.key_field), _file_field(t.item_field))
    if pa.types.is_list(t):
        return pa.list_(_file_field(t.value_field))
    return pa.int32() if pa.types.is_time(t) else t


def _to_file(array: pa.Array, target: pa.DataType) -> pa.Array:
    t = array.type
    if pa.types.is_struct(t):
        children = [_to_file(array.field(i), f.type) for i, f in enumerate(target)]
        return with_children(array, target, children)
    if pa.types.is_map(t):
        keys = _to_file(array.keys, target.key_type)
        return with_children(array, target, [keys, _to_file(array.items, target.item_type)])
    if pa.types.is_list(t):
        return with_children(array, target, [_to_file(array.values, target.value_type)])
    return array.view(target) if pa.types.is_time(t) else array
