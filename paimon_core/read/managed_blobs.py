"""BLOBs of primary-key tables: rows hold descriptors of ranges in packs (`*.managed.blob`).

Java: `data/BlobDescriptor`, `blob/PrimaryKeyBlobExternalizer`.  Rows are merged with their
descriptors, and the values are fetched afterwards, for the rows that are left.  Descriptors of
files outside the table's folders are refused: Java fetches whatever they name, also over HTTP.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_core.errors import CorruptTable, PaimonError, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.blob.elements import with_blobs
from paimon_core.format.data_format import decoding
from paimon_core.names import shown
from paimon_core.options import BLOB_AS_DESCRIPTOR
from paimon_core.read.blob_ranges import OpenFiles, batches_of
from paimon_core.read.data_file import missing_data_file
from paimon_core.types.data_types import TypeRoot, type_roots

_MAGIC: Final = 0x424C4F4244455343  # "BLOBDESC"
_VERSION: Final = 2
_HEAD: Final = struct.Struct("<bqi")
_TAIL: Final = struct.Struct("<qq")


@dataclass(frozen=True, slots=True)
class BlobDescriptor:
    """A range of a file; `length` -1 means up to its end."""

    uri: str
    offset: int
    length: int

    @staticmethod
    def of(data: bytes) -> BlobDescriptor:
        """Decode a descriptor of version 2; UnsupportedFeature for any other value."""
        if len(data) < _HEAD.size + _TAIL.size:
            raise UnsupportedFeature("BLOBs stored within rows")
        version, magic, size = _HEAD.unpack_from(data)
        if magic != _MAGIC:
            raise UnsupportedFeature("BLOBs stored within rows")
        if version != _VERSION:
            raise UnsupportedFeature(f"version {version} of BLOB descriptors")
        if size != len(data) - _HEAD.size - _TAIL.size:
            raise CorruptTable(f"a BLOB descriptor of {len(data)} bytes has a path of {size}")
        offset, length = _TAIL.unpack_from(data, _HEAD.size + size)
        uri = data[_HEAD.size : _HEAD.size + size].decode(errors="replace")
        if offset < 0 or length < -1:
            raise CorruptTable(f"a BLOB descriptor names the bytes from {offset}, {length} of them")
        return BlobDescriptor(uri, offset, length)


def with_managed_blobs(
    table: FileStoreTable, batches: Iterator[pa.RecordBatch], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows with the values of their BLOBs, in batches of bounded size.

    With `blob-as-descriptor`, with their descriptors.  Raises UnsupportedFeature for descriptors
    that name a file outside the table's folders.
    """
    if table.options.value(BLOB_AS_DESCRIPTOR):
        yield from batches
        return
    of_table = {f.name for f in table.schema.fields if TypeRoot.BLOB in type_roots(f.type)}
    with closing(OpenFiles(table.io)) as files:
        for batch in batches:
            names = [n for n in batch.schema.names if n in of_table]
            if names and batch.num_rows:
                yield from _fetched(table, batch, names, files, batch_rows)
            else:
                yield batch


@dataclass(frozen=True, slots=True)
class _Range:
    """Bytes of a file of the table."""

    path: str
    offset: int
    length: int

    def read(self, files: OpenFiles) -> bytes:
        with decoding(self.path):
            data: bytes = files(self.path).read_at(self.length, self.offset)
            if len(data) != self.length:
                raise CorruptTable(f"a pack of BLOBs ends before byte {self.offset + self.length}")
        return data


def _fetched(
    table: FileStoreTable,
    batch: pa.RecordBatch,
    names: Sequence[str],
    files: OpenFiles,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the batch in pieces, with the values of the BLOBs in these columns."""

    def located(data: bytes) -> _Range:
        try:
            descriptor = BlobDescriptor.of(data)
        except PaimonError as e:
            e.table = e.table or table.name
            raise
        return _located(table, descriptor, files)

    columns = {n: [with_blobs(v, located) for v in batch.column(n).to_pylist()] for n in names}
    sizes = np.array(
        [sum(map(_size, row)) for row in zip(*columns.values(), strict=True)], np.int64
    )
    for rows in batches_of(sizes, batch_rows, table.root):
        piece = batch.slice(rows.start, len(rows))
        for name, ranges in columns.items():
            values = [
                with_blobs(r, lambda x: x.read(files)) for r in ranges[rows.start : rows.stop]
            ]
            at = piece.schema.get_field_index(name)
            field = piece.schema.field(at)
            piece = piece.set_column(at, field, pa.array(values, field.type))
        yield piece


def _located(table: FileStoreTable, descriptor: BlobDescriptor, files: OpenFiles) -> _Range:
    path = descriptor.uri
    if not table.paths.boundary.holds(path):
        raise UnsupportedFeature(
            "BLOBs outside the folders of their table",
            f"table {table.name} cannot be read: a row has its BLOB in {shown(path)}, which is "
            f"outside the table's folder {table.root}",
            table=table.name,
            next_step="read the other columns; a table that was moved keeps the old paths",
        )
    length = descriptor.length
    try:
        source = files(path)
    except FileNotFoundError as e:
        raise missing_data_file(path) from e
    if length < 0:
        length = max(0, source.size() - descriptor.offset)
    return _Range(path, descriptor.offset, length)


def _size(value: Any) -> int:
    match value:
        case None:
            return 0
        case list():
            return sum(map(_size, value))
        case (_, blob):
            return _size(blob)
        case _:
            return int(value.length)
