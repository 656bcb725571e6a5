"""Protocol Buffers' wire format, as far as the tail of an ORC file needs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from paimon_core.errors import CorruptTable

_VARINT: Final = 0
_BYTES: Final = 2
_FIXED: Final = {1: 8, 5: 4}
_LONGEST_VARINT: Final = 10


def varint(value: int) -> bytes:
    """A non-negative number in groups of seven bits, the lowest first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field that holds a non-negative number."""
    return varint(field << 3 | _VARINT) + varint(value)


def blob(field: int, value: bytes | str) -> bytes:
    """A field that holds bytes, a text or a message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | _BYTES) + varint(len(data)) + data


def packed(field: int, values: Iterable[int]) -> bytes:
    """A field that holds a list of numbers."""
    return blob(field, b"".join(map(varint, values)))


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: number and value, messages as bytes."""
    at = 0

    def read_varint() -> int:
        nonlocal at
        value = 0
        for shift in range(0, _LONGEST_VARINT * 7, 7):
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise CorruptTable("a number in a Protocol Buffers message has too many bytes")

    try:
        while at < len(data):
            tag = read_varint()
            field, wire = tag >> 3, tag & 7
            if wire == _VARINT:
                yield field, read_varint()
                continue
            size = read_varint() if wire == _BYTES else _FIXED[wire]
            if at + size > len(data):
                raise IndexError
            yield field, data[at : at + size]
            at += size
    except (IndexError, KeyError) as e:
        raise CorruptTable("a Protocol Buffers message cannot be decoded") from e
