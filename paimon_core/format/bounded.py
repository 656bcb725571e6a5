"""Decompression with a memory limit.

A few bytes of zstd or deflate can expand to gigabytes.  The limit applies before the memory is
allocated: the output is produced in steps, and the first step beyond the limit raises.  Threads
read many files at once, so only one of them at a time decompresses more than `_TOGETHER`.
"""

from __future__ import annotations

import bz2
import lzma
import threading
import zlib
from io import BytesIO
from typing import Final

import pyarrow as pa
import zstandard

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.damage import DAMAGE_OF_STREAMS, cause

_STEP: Final = 256 * 1024
_LARGE_STEP: Final = 33 * 1024 * 1024
"""What malloc gives back to the system at once, and keeps for no thread."""
_TOGETHER: Final = 4 * 1024 * 1024
"""What threads may decompress side by side, each."""
_alone = threading.Lock()
_LZMA_MEMORY: Final = 64 * 1024 * 1024
_VARINT_BITS: Final = 35


def inflate(codec: str, data: bytes, limit: int) -> bytes:
    """Return the decompressed bytes; `codec` is an Avro codec name, or "lz4" for LZ4 blocks.

    Raises CorruptTable if they are damaged or exceed `limit`, UnsupportedFeature for an unknown
    codec.
    """
    plain = _inflate(codec, data, min(limit, _TOGETHER))
    if plain is None and limit > _TOGETHER:
        with _alone:
            plain = _inflate(codec, data, limit)
    if plain is None:
        raise CorruptTable(
            f"{len(data):,} bytes of {codec} data decompress to more than {limit:,} bytes"
        )
    return plain


def _inflate(codec: str, data: bytes, limit: int) -> bytes | None:
    """Return the output; None beyond the limit, because an error would keep what is there."""
    plain: bytes | None
    try:
        match codec:
            case "null":
                plain = data
            case "deflate":
                plain = _deflate(data, limit)
            case "zstandard":
                plain = _zstd(data, limit)
            case "snappy":
                plain = _snappy(data, limit)
            case "bzip2":
                plain = bz2.BZ2Decompressor().decompress(data, limit + 1)
            case "xz":
                plain = lzma.LZMADecompressor(memlimit=_LZMA_MEMORY).decompress(data, limit + 1)
            case "lz4":
                plain = _lz4(data, limit)
            case _:
                raise UnsupportedFeature(f"compression {codec}")
    except DAMAGE_OF_STREAMS as e:
        raise CorruptTable(f"{codec} data cannot be decompressed: {cause(e)}") from e
    return None if plain is None or len(plain) > limit else plain


def _deflate(data: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(-15)
    plain = stream.decompress(data, limit + 1)
    if not stream.eof and len(plain) <= limit:
        raise ValueError("it ends in the middle")
    return plain


def _zstd(data: bytes, limit: int) -> bytes | None:
    # Java's stream writer omits the size in the frame, so the one-shot call cannot be used.
    parts: list[bytes] = []
    size = 0
    step = _STEP if limit <= _TOGETHER else _LARGE_STEP
    with zstandard.ZstdDecompressor().stream_reader(BytesIO(data)) as stream:
        while part := stream.read(step):
            parts.append(part)
            size += len(part)
            if size > limit:
                return None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy(data: bytes, limit: int) -> bytes | None:
    size = shift = 0
    for byte in data:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
        if shift >= _VARINT_BITS:
            raise ValueError("its length has more than five bytes")
    if size > limit:
        return None
    return bytes(pa.Codec("snappy").decompress(data, size, asbytes=True))


def _lz4(data: bytes, limit: int) -> bytes | None:
    """Decompress LZ4's block format, which has no size, so Arrow cannot be used."""
    out = bytearray()
    at = 0

    def length(code: int) -> int:
        nonlocal at
        if code == 15:
            while True:
                more = data[at]
                at += 1
                code += more
                if more != 0xFF:
                    break
        return code

    while at < len(data):
        token = data[at]
        at += 1
        literals = length(token >> 4)
        if at + literals > len(data):
            raise IndexError(at + literals)
        out += data[at : at + literals]
        at += literals
        if at < len(data):
            distance = int.from_bytes(data[at : at + 2], "little")
            at += 2
            count = length(token & 15) + 4
            if not 0 < distance <= len(out):
                raise ValueError("a match begins before the data")
            if len(out) + count > limit:
                return None
            pattern = bytes(out[-distance:])
            out += (pattern * (count // distance + 1))[:count]
    return bytes(out)
