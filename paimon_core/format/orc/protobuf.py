"""The subset of the Protocol Buffers wire format that the tail of an ORC file needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from paimon_core.errors import CorruptTable

_VARINT: Final = 0
_BYTES: Final = 2
_FIXED: Final = {1: 8, 5: 4}
_LONGEST_VARINT: Final = 10


def varint(value: int) -> bytes:
    """Encode a non-negative number in groups of seven bits, the lowest first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Encode a field with a non-negative number."""
    return varint(field << 3 | _VARINT) + varint(value)


def blob(field: int, value: bytes | str) -> bytes:
    """Encode a field with bytes, a string or a message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | _BYTES) + varint(len(data)) + data


def packed(field: int, values: Iterable[int]) -> bytes:
    """Encode a field with a list of numbers."""
    return blob(field, b"".join(map(varint, values)))


def read_numbers(data: bytes) -> Iterator[int]:
    """Yield the numbers of a packed list; CorruptTable for invalid bytes."""
    at = 0
    while at < len(data):
        value, at = _read_varint(data, at)
        yield value


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of a message's fields, messages as bytes; CorruptTable if invalid."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        field, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _read_varint(data, at)
            yield field, value
            continue
        if wire == _BYTES:
            size, at = _read_varint(data, at)
        elif wire in _FIXED:
            size = _FIXED[wire]
        else:
            raise CorruptTable(f"a Protocol Buffers message has a field of the type {wire}")
        if at + size > len(data):
            raise CorruptTable("a Protocol Buffers message ends within a field")
        yield field, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at this position, and its end."""
    value = 0
    for shift, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, at + shift + 1
    raise CorruptTable("a number in a Protocol Buffers message does not end")
