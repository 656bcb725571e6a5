"""Writes BLOB files like Java Paimon (Java: `format/blob/BlobFormatWriter`); layout in `reader`."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from paimon_core.format.blob.delta_varints import encode_delta_varints
from paimon_core.format.blob.reader import FOOTER, MAGIC, NULL, OVERHEAD, PLACEHOLDER, TAIL, VERSION

_CHECKSUM: Final = struct.Struct("<I")


class BlobFileWriter:
    """`FormatWriter` of one column of BLOBs; `encode` returns the bytes to store for a value."""

    def __init__(self, sink: pa.NativeFile, encode: Callable[[Any], bytes]) -> None:
        self._sink = sink
        self._encode = encode
        self._lengths: list[int] = []

    def write(self, batch: pa.RecordBatch) -> None:
        for value in batch.column(0):
            if not value.is_valid:
                self._lengths.append(NULL)
                continue
            self.add(value.as_py())

    def add(self, value: Any) -> int:
        """Write the value of the next row; return the bytes that are stored for it."""
        data = self._encode(value)
        length = len(data) + OVERHEAD
        size = TAIL.pack(length, 0)[: -_CHECKSUM.size]
        checksum = zlib.crc32(size, zlib.crc32(data, zlib.crc32(MAGIC)))
        for part in (MAGIC, data, size, _CHECKSUM.pack(checksum)):
            self._sink.write(part)
        self._lengths.append(length)
        return len(data)

    def write_placeholders(self, rows: int) -> None:
        """Leave the values of the next rows to older files."""
        self._lengths += [PLACEHOLDER] * rows

    def bytes_written(self) -> int:
        return int(self._sink.tell())

    def close(self) -> int:
        index = encode_delta_varints(self._lengths)
        self._sink.write(index + FOOTER.pack(len(index), VERSION))
        size = int(self._sink.tell())
        self._sink.close()
        return size

    def abort(self) -> None:
        self._sink.close()
