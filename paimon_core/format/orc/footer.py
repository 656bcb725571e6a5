"""Reads and checks the tail of an ORC file before the ORC library reads it.

The library trusts footers: it loops on types that contain themselves, and a DECIMAL of 62 digits
crashes the process.  So every reader of an ORC file checks its footer first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from paimon_core.errors import CorruptTable
from paimon_core.format.orc.protobuf import read_fields, read_numbers
from paimon_core.format.orc.streams import decompressed

_TAIL: Final = 16 * 1024
_MOST_BLOCK: Final = 1 << 23
"""The maximum bytes of a block: its header has 23 bits."""
_MOST_NESTED: Final = 64
_MOST_DIGITS: Final = 38
# Field numbers of orc_proto.proto.
_PS_FOOTER, _PS_CODEC, _PS_BLOCK, _PS_METADATA = 1, 2, 3, 5
_STRIPES, _TYPES, _USER_METADATA = 3, 4, 5
_STRIPE_PARTS: Final = (1, 2, 3, 4)
_KIND, _CHILDREN, _PRECISION, _SCALE = 1, 2, 5, 6
_KINDS: Final = range(20)
_DECIMAL: Final = 14


class OrcTail:
    """The footer of an open ORC file; raises CorruptTable without one."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._size = size = source.size()
        tail = self._read(max(0, size - _TAIL), min(size, _TAIL))
        if not tail:
            raise CorruptTable("an empty ORC file")
        length = tail[-1]
        end = 1 + length
        if end > len(tail):
            raise CorruptTable("an ORC file is shorter than its postscript")
        postscript = dict(read_fields(tail[-1 - length : -1]))
        self.codec = number_of(postscript, _PS_CODEC)
        footer_length = number_of(postscript, _PS_FOOTER)
        if footer_length + number_of(postscript, _PS_METADATA) > size - end:
            raise CorruptTable(f"an ORC footer of {footer_length:,} bytes in a file of {size:,}")
        if number_of(postscript, _PS_BLOCK) > _MOST_BLOCK:
            raise CorruptTable("an ORC file has larger blocks than the format allows")
        if footer_length + end > len(tail):
            tail = self._read(size - footer_length - end, footer_length + end)
        footer = tail[len(tail) - end - footer_length : len(tail) - end]
        self._fields = list(read_fields(decompressed(footer, self.codec)))

    def check(self) -> None:
        """Raise CorruptTable if the footer is not safe for the ORC library."""
        types = [dict(_listed(message)) for message in self._messages(_TYPES)]
        if not types:
            raise CorruptTable("an ORC file has no types")
        depths = {0: 0}
        for number, fields in enumerate(types):
            kind = number_of(fields, _KIND)
            digits, scale = number_of(fields, _PRECISION), number_of(fields, _SCALE)
            if kind not in _KINDS or (kind == _DECIMAL and max(digits, scale) > _MOST_DIGITS):
                raise CorruptTable(f"type {number} of an ORC file does not exist")
            children = fields.get(_CHILDREN, ())
            if not isinstance(children, tuple):
                raise CorruptTable(f"type {number} of an ORC file has no list of children")
            in_order = all(a < b for a, b in pairwise((number, *children, len(types))))
            depth = depths.get(number)
            if depth is None or depth > _MOST_NESTED or not in_order:
                raise CorruptTable(f"type {number} of an ORC file does not belong to a tree")
            for child in children:
                if child in depths:
                    raise CorruptTable(f"type {child} of an ORC file has two parents")
                depths[child] = depth + 1
        for stripe in self.stripes():
            if sum(number_of(stripe, part) for part in _STRIPE_PARTS) > self._size:
                raise CorruptTable("a stripe of an ORC file extends beyond the file")

    def stripes(self) -> Iterator[dict[int, int | bytes]]:
        """Yield the fields of each stripe's entry in the footer."""
        return (dict(read_fields(message)) for message in self._messages(_STRIPES))

    def user_metadata(self, key: bytes) -> str | None:
        """Return the file's metadata value of this key."""
        for item in self._messages(_USER_METADATA):
            entry = dict(read_fields(item))
            if entry.get(1) == key:
                return text_of(entry, 2)
        return None

    def stripe_footer(self, stripe: dict[int, int | bytes]) -> dict[int, int | bytes]:
        """Return the fields of a stripe's own footer; CorruptTable if it is beyond the file."""
        start = sum(number_of(stripe, part) for part in _STRIPE_PARTS[:-1])
        length = number_of(stripe, _STRIPE_PARTS[-1])
        if start + length > self._size:
            raise CorruptTable("a stripe of an ORC file extends beyond the file")
        return dict(read_fields(decompressed(self._read(start, length), self.codec)))

    def _messages(self, number: int) -> Iterator[bytes]:
        return (v for field, v in self._fields if field == number and isinstance(v, bytes))

    def _read(self, start: int, size: int) -> bytes:
        self._source.seek(start)
        return bytes(self._source.read(size))


def check_footer(source: Any) -> None:
    """Raise CorruptTable if an open file's footer is not safe for the ORC library."""
    OrcTail(source).check()
    source.seek(0)


def number_of(fields: dict[int, Any], number: int) -> int:
    """Return the number in a field; 0 without one."""
    value = fields.get(number, 0)
    return value if isinstance(value, int) else 0


def text_of(fields: dict[int, Any], number: int) -> str:
    """Return the text in a field; "" without one."""
    value = fields.get(number, b"")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _listed(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a type, its children as one tuple in either encoding."""
    children: tuple[int, ...] = ()
    for field, value in read_fields(message):
        if field != _CHILDREN:
            yield field, value
        elif isinstance(value, bytes):
            children += tuple(read_numbers(value))
        else:
            children += (value,)
    yield _CHILDREN, children
