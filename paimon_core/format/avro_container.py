"""Avro object container files: header, then compressed blocks of rows.

::

    Obj 1 | map: avro.schema, avro.codec, ... | sync marker (16)
    row count (varint) | bytes (varint) | compressed rows | sync marker        block, repeated

fastavro knows this layout too, but wants a zstd package of its own and turns every value with a
logical type into a Python object.  Reading the blocks here leaves it the one thing that it is
fast at: rows to Python values and back, over a schema of plain types.
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from io import BytesIO
from typing import Any, Final, NamedTuple

import pyarrow as pa
import zstandard

from paimon_core.errors import CorruptTable, UnsupportedFeature

MAGIC: Final = b"Obj\x01"
SYNC_SIZE: Final = 16
SCHEMA_KEY: Final = "avro.schema"
CODEC_KEY: Final = "avro.codec"
_CHECKSUM: Final = 4
_READ_AHEAD: Final = 1 << 20


class Block(NamedTuple):
    """A decompressed block: how many rows, and their bytes."""

    rows: int
    data: bytes


@lru_cache(maxsize=64)
def _parsed(schema: bytes) -> Any:
    """The schema; thousands of metadata files have the same one, which nobody may change."""
    return json.loads(schema)


class Container:
    """An open container file: its schema (JSON), its codec, and its blocks."""

    def __init__(self, source: Any) -> None:
        """Reads the header; CorruptTable if the bytes are no Avro file."""
        self._source = _Reader(source)
        if self._source.take(len(MAGIC)) != MAGIC:
            raise CorruptTable("not an Avro file: it does not begin with 'Obj1'")
        self.metadata = self._read_map()
        self._sync = self._source.take(SYNC_SIZE)
        self.codec = self.metadata.get(CODEC_KEY, b"null").decode()
        try:
            self.schema: Any = _parsed(self.metadata[SCHEMA_KEY])
        except (KeyError, ValueError) as e:
            raise CorruptTable("an Avro file without a readable schema") from e

    def blocks(self) -> Iterator[Block]:
        """The blocks in file order, decompressed."""
        decompress = decompressor(self.codec)
        while not self._source.at_end():
            rows = self._source.varint()
            data = self._source.take(self._source.varint())
            if self._source.take(SYNC_SIZE) != self._sync:
                raise CorruptTable("a block of an Avro file does not end with the sync marker")
            yield Block(rows, decompress(data))

    def row_count(self) -> int:
        """Rows in all blocks; nothing is decompressed."""
        total = 0
        while not self._source.at_end():
            total += self._source.varint()
            self._source.take(self._source.varint() + SYNC_SIZE)
        return total

    def _read_map(self) -> dict[str, bytes]:
        entries: dict[str, bytes] = {}
        while count := self._source.varint():
            if count < 0:
                self._source.varint()
            for _ in range(abs(count)):
                key = self._source.take(self._source.varint()).decode()
                entries[key] = self._source.take(self._source.varint())
        return entries


def encode_varint(value: int) -> bytes:
    """A non-negative count as Avro writes a long (zigzag)."""
    value <<= 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_header(schema: Any, codec: str, sync: bytes) -> bytes:
    """The bytes before the first block."""
    entries = {SCHEMA_KEY: json.dumps(schema).encode(), CODEC_KEY: codec.encode()}
    out = bytearray(MAGIC)
    out += encode_varint(len(entries))
    for key, value in entries.items():
        out += encode_varint(len(key)) + key.encode() + encode_varint(len(value)) + value
    return bytes(out) + b"\0" + sync


def encode_block(rows: int, compressed: bytes, sync: bytes) -> bytes:
    """The bytes of one block around its compressed rows."""
    return encode_varint(rows) + encode_varint(len(compressed)) + compressed + sync


def decompressor(codec: str) -> Callable[[bytes], bytes]:
    """What undoes the codec for one block; UnsupportedFeature for an unknown codec."""
    match codec:
        case "null":
            return _same
        case "deflate":
            return lambda data: zlib.decompress(data, -15)
        case "zstandard":
            return _decompress_zstd
        case "snappy":
            return _decompress_snappy
        case "bzip2":
            return bz2.decompress
        case "xz":
            return lzma.decompress
    raise UnsupportedFeature(f"Avro codec {codec}")


def compressor(codec: str, level: int) -> Callable[[bytes], bytes]:
    """What applies the codec to one block; `level` is zstd's."""
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


def _decompress_zstd(data: bytes) -> bytes:
    # Java's stream writer leaves the size out of the frame, so the one-shot call cannot be used.
    with zstandard.ZstdDecompressor().stream_reader(BytesIO(data)) as stream:
        return stream.read()


def _decompress_snappy(data: bytes) -> bytes:
    size, shift = 0, 0
    for byte in data:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    plain = pa.Codec("snappy").decompress(data[:-_CHECKSUM], size, asbytes=True)
    if zlib.crc32(plain).to_bytes(_CHECKSUM, "big") != data[-_CHECKSUM:]:
        raise CorruptTable("a snappy block of an Avro file has the wrong checksum")
    return plain  # type: ignore[no-any-return]


def _compress_snappy(data: bytes) -> bytes:
    checksum = zlib.crc32(data).to_bytes(_CHECKSUM, "big")
    return pa.Codec("snappy").compress(data, asbytes=True) + checksum  # type: ignore[no-any-return]


class _Reader:
    """Bytes and varints from a stream, read a megabyte ahead."""

    __slots__ = ("_at", "_chunk", "_source")

    def __init__(self, source: Any) -> None:
        self._source = source
        self._chunk = b""
        self._at = 0

    def at_end(self) -> bool:
        return self._at == len(self._chunk) and not self._more(1)

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._chunk) and not self._more(size):
            raise CorruptTable("an Avro file ends in the middle of a block")
        end = self._at + size
        data = self._chunk[self._at : end]
        self._at = end
        return data

    def varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)
            shift += 7

    def _more(self, size: int) -> bool:
        parts = [self._chunk[self._at :]]
        have = len(parts[0])
        while have < size:
            part = bytes(self._source.read(max(_READ_AHEAD, size - have)))
            if not part:
                break
            parts.append(part)
            have += len(part)
        self._chunk = b"".join(parts)
        self._at = 0
        return have >= size
