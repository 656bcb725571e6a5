"""Avro object container files: header, then compressed blocks of rows.

::

    Obj 1 | map: avro.schema, avro.codec, ... | sync marker (16)
    row count (varint) | bytes (varint) | compressed rows | sync marker        block, repeated

fastavro supports this layout too, but needs its own zstd package and turns every value with a
logical type into a Python object.  Reading the blocks here leaves it the task at which it is fast:
converting rows to Python values and back, with a schema of plain types.
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
import zstandard

from paimon_core.errors import UNREADABLE, CorruptTable, UnsupportedFeature
from paimon_core.format.avro.schema import check_schema
from paimon_core.format.bounded import inflate
from paimon_core.format.damage import cause
from paimon_core.io.json_text import parse_json

MAGIC: Final = b"Obj\x01"
SYNC_SIZE: Final = 16
SCHEMA_KEY: Final = "avro.schema"
CODEC_KEY: Final = "avro.codec"
_CODECS: Final = ("null", "deflate", "zstandard", "snappy", "bzip2", "xz")
MOST_BLOCK_ROWS: Final = 1 << 18
"""The maximum rows of a block: writers close a block at 64,000 bytes."""
MOST_BLOCK_BYTES: Final = 256 * 1024 * 1024
"""The maximum bytes of a decompressed block, because one row may be large."""
_SMALL_BLOCK_BYTES: Final = 4 * 1024 * 1024
_SMALL_FILE_BYTES: Final = 256 * 1024 * 1024
_MOST_RATIO: Final = 1000
"""The maximum compression ratio of a block or file beyond the sizes above."""
_MOST_HEADER_BYTES: Final = 16 * 1024 * 1024
_LONGEST_VARINT: Final = 10
_CHECKSUM: Final = 4
_READ_AHEAD: Final = 1 << 20


class Block(NamedTuple):
    """A decompressed block: its row count and its bytes."""

    rows: int
    data: bytes


@lru_cache(maxsize=64)
def _parsed(schema: bytes) -> Any:
    """Return the schema; thousands of metadata files share it, so do not change it."""
    parsed = parse_json(schema)
    check_schema(parsed)
    return parsed


class Container:
    """An open container file: its schema (JSON), its codec, and its blocks."""

    def __init__(self, source: Any) -> None:
        """Read the header of a seekable source; CorruptTable if it is not an Avro file."""
        self._source = _Reader(source)
        if self._source.take(min(len(MAGIC), self._source.left)) != MAGIC:
            raise CorruptTable("not an Avro file: it does not begin with 'Obj1'")
        self.metadata = self._read_map()
        self._sync = self._source.take(SYNC_SIZE)
        self.last_block_bytes = 0
        """The decompressed size of the last block that `blocks` has yielded."""
        self.codec = self.metadata.get(CODEC_KEY, b"null").decode("latin-1")
        try:
            self.schema: Any = _parsed(self.metadata[SCHEMA_KEY])
        except UNREADABLE as e:
            raise CorruptTable(f"an Avro file without a readable schema: {cause(e)}") from e

    @property
    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self._source.size

    def blocks(self) -> Iterator[Block]:
        """Yield the decompressed blocks in file order.

        Raises CorruptTable for a block with an impossible row count or size: every row takes at
        least a byte.
        """
        if self.codec not in _CODECS:
            raise UnsupportedFeature(f"Avro codec {self.codec}")
        left = max(_SMALL_FILE_BYTES, _MOST_RATIO * self._source.size)
        while not self._source.at_end():
            rows, size = self._source.varint(), self._source.varint()
            data = self._source.take(size)
            if self._source.take(SYNC_SIZE) != self._sync:
                raise CorruptTable("a block of an Avro file does not end with the sync marker")
            plain = _plain(self.codec, data)
            left -= len(plain)
            if left < 0:
                raise CorruptTable(
                    f"the blocks of an Avro file of {self._source.size:,} bytes decompress to more "
                    f"than {_MOST_RATIO} times as much"
                )
            if not 0 <= rows <= min(len(plain), MOST_BLOCK_ROWS):
                raise CorruptTable(
                    f"a block of an Avro file says that it holds {rows:,} rows in "
                    f"{len(plain):,} bytes"
                )
            self.last_block_bytes = len(plain)
            yield Block(rows, plain)

    def row_count(self) -> int:
        """Return the row count from the block headers, without decompressing anything."""
        total = 0
        while not self._source.at_end():
            rows = self._source.varint()
            if not 0 <= rows <= MOST_BLOCK_ROWS:
                raise CorruptTable(f"a block of an Avro file says that it holds {rows:,} rows")
            total += rows
            self._source.take(self._source.varint())
            if self._source.take(SYNC_SIZE) != self._sync:
                raise CorruptTable("a block of an Avro file does not end with the sync marker")
        return total

    def _read_map(self) -> dict[str, bytes]:
        entries: dict[str, bytes] = {}
        source, start = self._source, self._source.left
        while count := source.varint():
            if count < 0:
                source.varint()
            for _ in range(abs(count)):
                key = source.take(source.varint()).decode("utf-8", "replace")
                entries[key] = source.take(source.varint())
                if start - source.left > _MOST_HEADER_BYTES:
                    raise CorruptTable(
                        f"the header of an Avro file has more than {_MOST_HEADER_BYTES:,} bytes"
                    )
        return entries


def encode_varint(value: int) -> bytes:
    """Encode a non-negative count as an Avro long (zigzag)."""
    value <<= 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_header(schema: Any, codec: str, sync: bytes) -> bytes:
    """Return the bytes before the first block."""
    entries = {SCHEMA_KEY: json.dumps(schema).encode(), CODEC_KEY: codec.encode()}
    out = bytearray(MAGIC)
    out += encode_varint(len(entries))
    for key, value in entries.items():
        out += encode_varint(len(key)) + key.encode() + encode_varint(len(value)) + value
    return bytes(out) + b"\0" + sync


def encode_block(rows: int, compressed: bytes, sync: bytes) -> bytes:
    """Return the bytes of one block with its compressed rows."""
    return encode_varint(rows) + encode_varint(len(compressed)) + compressed + sync


def compressor(codec: str, level: int) -> Callable[[bytes], bytes]:
    """Return a function that compresses one block; `level` applies to zstd."""
    match codec:
        case "null":
            return _same
        case "deflate":
            return _deflate
        case "zstandard":
            return zstandard.ZstdCompressor(level=level).compress
        case "snappy":
            return _compress_snappy
        case "bzip2":
            return bz2.compress
        case "xz":
            return lzma.compress
    raise UnsupportedFeature(f"Avro codec {codec}")


def _same(data: bytes) -> bytes:
    return data


def _deflate(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(data) + deflate.flush()


def _plain(codec: str, data: bytes) -> bytes:
    """Decompress a block; CorruptTable if it is damaged or decompresses to too many bytes."""
    limit = min(MOST_BLOCK_BYTES, max(_SMALL_BLOCK_BYTES, _MOST_RATIO * len(data)))
    if codec != "snappy":
        return inflate(codec, data, limit)
    plain = inflate(codec, data[:-_CHECKSUM], limit)
    if zlib.crc32(plain).to_bytes(_CHECKSUM, "big") != data[-_CHECKSUM:]:
        raise CorruptTable("a snappy block of an Avro file has the wrong checksum")
    return plain


def _compress_snappy(data: bytes) -> bytes:
    checksum = zlib.crc32(data).to_bytes(_CHECKSUM, "big")
    return pa.Codec("snappy").compress(data, asbytes=True) + checksum  # type: ignore[no-any-return]


class _Reader:
    """Reads bytes and varints from a stream, a megabyte ahead.

    Raises CorruptTable for a length that is negative or exceeds the stream.
    """

    __slots__ = ("_at", "_chunk", "_source", "_unread", "size")

    def __init__(self, source: Any) -> None:
        self._source = source
        self._chunk = b""
        self._at = 0
        start = source.tell()
        self.size: int = source.seek(0, 2) - start
        source.seek(start)
        self._unread: int = self.size

    @property
    def left(self) -> int:
        """Return the number of bytes up to the end of the stream."""
        return len(self._chunk) - self._at + self._unread

    def at_end(self) -> bool:
        return self.left == 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise CorruptTable(
                f"an Avro file says that {size:,} bytes follow where {self.left:,} are left"
            )
        if self._at + size > len(self._chunk):
            self._read(size)
        data = self._chunk[self._at : self._at + size]
        self._at += size
        return data

    def varint(self) -> int:
        value = 0
        for shift in range(0, 7 * _LONGEST_VARINT, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)
        raise CorruptTable(f"a number in an Avro file has more than {_LONGEST_VARINT} bytes")

    def _read(self, size: int) -> None:
        parts = [self._chunk[self._at :]]
        have = len(parts[0])
        while have < size:
            wanted = min(self._unread, max(_READ_AHEAD, size - have))
            part = bytes(self._source.read(wanted))
            if not part:
                raise CorruptTable("an Avro file became shorter while it was read")
            parts.append(part)
            have += len(part)
            self._unread -= len(part)
        self._chunk = b"".join(parts)
        self._at = 0
