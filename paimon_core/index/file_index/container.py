"""The container of all indexes of one file (Java: `fileindex/FileIndexFormat`)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from paimon_core.errors import CorruptTable, UnsupportedFeature

MAGIC: Final = 1493475289347502
VERSION: Final = 1
EMPTY: Final = -1
"""The position of an index over no rows, which has no bytes."""
_FIXED: Final = struct.Struct(">qii")
_INT: Final = struct.Struct(">i")
_WHERE: Final = struct.Struct(">ii")

Indexes = Mapping[str, Mapping[str, bytes | None]]
"""Column -> kind of index -> its bytes; None for an index over no rows."""


def encode_indexes(indexes: Indexes) -> bytes:
    """Return the container with these indexes."""
    names = [
        (java_utf(column), [(java_utf(kind), data) for kind, data in kinds.items()])
        for column, kinds in indexes.items()
    ]
    length = _FIXED.size + 4 + 4
    for column, kinds in names:
        length += len(column) + 4 + sum(len(kind) + _WHERE.size for kind, _ in kinds)
    head = bytearray(_FIXED.pack(MAGIC, VERSION, length) + _INT.pack(len(names)))
    body = bytearray()
    for column, kinds in names:
        head += column + _INT.pack(len(kinds))
        for kind, data in kinds:
            at = EMPTY if data is None else length + len(body)
            head += kind + _WHERE.pack(at, len(data or b""))
            body += data or b""
    return bytes(head + _INT.pack(0) + body)


def decode_indexes(data: bytes) -> dict[str, dict[str, bytes | None]]:
    """Return the indexes in a container; CorruptTable if the bytes are invalid."""
    try:
        magic, version, _ = _FIXED.unpack_from(data)
        if magic != MAGIC:
            raise CorruptTable("not a file index: its magic number is wrong")
        if version != VERSION:
            raise UnsupportedFeature(f"file index of version {version}")
        at = _FIXED.size
        (columns,) = _INT.unpack_from(data, at)
        at += 4
        result: dict[str, dict[str, bytes | None]] = {}
        left = len(data)
        for _ in range(columns):
            column, at = read_java_utf(data, at)
            (kinds,) = _INT.unpack_from(data, at)
            at += 4
            found = result.setdefault(column, {})
            for _ in range(kinds):
                kind, at = read_java_utf(data, at)
                start, length = _WHERE.unpack_from(data, at)
                at += _WHERE.size
                if start != EMPTY and not 0 <= start <= start + length <= len(data):
                    raise CorruptTable(f"the index of column {column} lies beyond its file")
                left -= max(length, 0)
                if left < 0:
                    raise CorruptTable("the indexes in a file index overlap")
                found[kind] = None if start == EMPTY else data[start : start + length]
    except (struct.error, UnicodeError) as e:
        raise CorruptTable(f"a file index cannot be decoded: {e}") from e
    return result


def java_utf(text: str) -> bytes:
    """Encode a string like Java's `DataOutput.writeUTF`: length, then modified UTF-8."""
    out = bytearray()
    for char in text:
        code = ord(char)
        if code == 0:
            out += b"\xc0\x80"
        elif code > 0xFFFF:
            pair = char.encode("utf-16-be", "surrogatepass")
            for half in (pair[:2], pair[2:]):
                out += half.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")
        else:
            out += char.encode("utf-8", "surrogatepass")
    return len(out).to_bytes(2, "big") + bytes(out)


def read_java_utf(data: bytes, at: int) -> tuple[str, int]:
    """Decode the string at `at`; return it and its end."""
    (length,) = struct.unpack_from(">H", data, at)
    end = at + 2 + length
    if end > len(data):
        raise struct.error(f"a text ends at {end} of {len(data)} bytes")
    raw = data[at + 2 : end].replace(b"\xc0\x80", b"\0")
    halves = raw.decode("utf-8", "surrogatepass")
    return halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be"), end
