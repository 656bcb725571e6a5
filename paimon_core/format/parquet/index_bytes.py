"""Page headers and page indexes, decoded and encoded without a structure in between.

A table has millions of pages, and nearly all writers store their headers and indexes in the same
way: fields in order, in Thrift's compact protocol.  What differs in anything gives None here, and
callers decode it as any structure (`thrift_compact`), which also makes all errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from paimon_core.format.parquet.thrift_compact import (
    BINARY,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
)

DATA_PAGES: Final = {0: 5, 3: 8}
"""The field of a page header with the number of values, by the kind of the data page (v1, v2)."""
DICTIONARY_PAGE: Final = 2
_DICTIONARY_FIELD: Final = 7
_FIRST_STRUCT: Final = 5
_MOST_NESTED: Final = 4
_LONG_LIST: Final = 15
_NEXT_LIST: Final = 1 << 4 | LIST
_NEXT_I32: Final = 1 << 4 | I32
_NEXT_I64: Final = 1 << 4 | I64

PageBounds = tuple[bool, bytes, bytes, int]
"""Of a page: whether all values are null, the minimum, the maximum, the number of nulls."""


class PageFields(NamedTuple):
    """A page header: where it ends, the bytes of the page after it, its checksum and its values.

    A dictionary has no values (None).
    """

    end: int
    size: int
    uncompressed: int
    checksum: int | None
    values: int | None


def page_fields(data: bytes | memoryview, at: int) -> PageFields | None:
    """Decode the header of a data or dictionary page at this position."""
    numbers: list[int | None] = [None] * _FIRST_STRUCT
    values: int | None = None
    number = counted = 0
    try:
        while head := data[at]:
            number += head >> 4
            if head & 15 == I32 and head >> 4 and number < _FIRST_STRUCT:
                value, at = varint(data, at + 1)
                numbers[number] = value >> 1 ^ -(value & 1)
            elif head & 15 == STRUCT and head >> 4:
                counted = number
                if data[at + 1] != _NEXT_I32:
                    return None
                value, _ = varint(data, at + 2)
                values = value >> 1 ^ -(value & 1)
                at = _after_struct(data, at + 1, _MOST_NESTED)
            else:
                return None
    except IndexError:
        return None
    _, kind, uncompressed, size, checksum = numbers
    if kind is None or size is None or uncompressed is None or values is None:
        return None
    if min(size, uncompressed, values) < 0:
        return None
    if kind == DICTIONARY_PAGE and counted == _DICTIONARY_FIELD:
        return PageFields(at + 1, size, uncompressed, checksum, None)
    if counted and counted == DATA_PAGES.get(kind):
        return PageFields(at + 1, size, uncompressed, checksum, values)
    return None


def page_values(data: bytes, at: int) -> int | None:
    """Return the number of values that the header of the data page at this position states.

    The bytes may end after that number.
    """
    number = counts = 0
    try:
        while True:
            head = data[at]
            number += head >> 4
            if head == _NEXT_I32 and number < _FIRST_STRUCT:
                value, at = varint(data, at + 1)
                if number == 1:
                    counts = DATA_PAGES.get(value >> 1, 0)
            elif head & 15 == STRUCT and head >> 4 and number == counts:
                value, _ = varint(data, at + 2)
                return None if data[at + 1] != _NEXT_I32 or value & 1 else value >> 1
            else:
                return None
    except IndexError:
        return None


def _after_struct(data: bytes | memoryview, at: int, nested: int) -> int:
    """Return where the struct at this position ends; IndexError if it is unusual."""
    while head := data[at]:
        at += 1
        kind = head & 15
        if I16 <= kind <= I64:
            while data[at] >= 128:
                at += 1
            at += 1
        elif kind == BINARY:
            size, at = varint(data, at)
            at += size
        elif kind == STRUCT and nested:
            at = _after_struct(data, at, nested - 1)
        elif kind not in (TRUE, FALSE):
            raise IndexError
        if head < 16:
            raise IndexError  # the number of the field follows
    return at + 1


def page_locations(index: bytes) -> list[tuple[int, int, int]] | None:
    """Return the (offset, size, first row) of all pages of an offset index."""
    try:
        if index[0] != _NEXT_LIST or index[1] & 15 != STRUCT:
            return None
        count, at = _count(index, 1)
        found = []
        for _ in range(min(count, len(index))):
            if index[at] != _NEXT_I64:
                return None
            offset, at = varint(index, at + 1)
            if index[at] != _NEXT_I32:
                return None
            size, at = varint(index, at + 1)
            if index[at] != _NEXT_I64:
                return None
            row, at = varint(index, at + 1)
            if index[at] != 0:
                return None
            at += 1
            # Zigzag numbers; negative ones are odd, and halves of them are never in order.
            found.append((offset >> 1, size >> 1, row >> 1))
    except IndexError:
        return None  # the bytes end in the middle
    return found


def page_bounds(index: bytes, pages: int) -> list[PageBounds] | None:
    """Return the bounds of all pages of a column index, which must have this number of pages."""
    try:
        if index[0] != _NEXT_LIST or index[1] & 15 not in (TRUE, FALSE):
            return None
        count, at = _count(index, 1)
        if count != pages or at + pages > len(index):
            return None
        all_null = [byte == TRUE for byte in index[at : at + pages]]
        at += pages
        bounds: list[list[bytes]] = []
        for _ in range(2):
            if index[at] != _NEXT_LIST or index[at + 1] & 15 != BINARY:
                return None
            count, at = _count(index, at + 1)
            if count != pages:
                return None
            values = []
            for _ in range(pages):
                size, at = varint(index, at)
                values.append(index[at : at + size])
                at += size
            bounds.append(values)
        if index[at] != _NEXT_I32:
            return None
        _, at = varint(index, at + 1)
        if index[at] != _NEXT_LIST or index[at + 1] & 15 != I64:
            return None
        count, at = _count(index, at + 1)
        if count != pages:
            return None
        nulls = []
        for _ in range(pages):
            value, at = varint(index, at)
            if value & 1:
                return None  # a negative number
            nulls.append(value >> 1)
    except IndexError:
        return None
    if at >= len(index):
        return None
    return list(zip(all_null, *bounds, nulls, strict=True))


def encode_locations(places: Sequence[tuple[int, int, int]]) -> bytes:
    """Return an offset index of pages, given as (offset, size, first row)."""
    out = bytearray((_NEXT_LIST,))
    _put_count(out, len(places), STRUCT)
    for offset, size, row in places:
        out.append(_NEXT_I64)
        _put_varint(out, offset << 1)
        out.append(_NEXT_I32)
        _put_varint(out, size << 1)
        out.append(_NEXT_I64)
        _put_varint(out, row << 1)
        out.append(0)
    out.append(0)
    return bytes(out)


def encode_bounds(bounds: Sequence[PageBounds], order: int) -> bytes:
    """Return a column index of pages with these bounds; `order` is Parquet's BoundaryOrder."""
    count = len(bounds)
    out = bytearray((_NEXT_LIST,))
    _put_count(out, count, TRUE)
    out += bytes(TRUE if all_null else FALSE for all_null, *_ in bounds)
    for values in ([low for _, low, *_ in bounds], [high for _, _, high, _ in bounds]):
        out.append(_NEXT_LIST)
        _put_count(out, count, BINARY)
        _put_texts(out, values)
    out.append(_NEXT_I32)
    _put_varint(out, order << 1)
    out.append(_NEXT_LIST)
    _put_count(out, count, I64)
    for *_, nulls in bounds:
        _put_varint(out, nulls << 1)
    out.append(0)
    return bytes(out)


def _put_texts(out: bytearray, values: Iterable[bytes]) -> None:
    for value in values:
        _put_varint(out, len(value))
        out += value


def _put_count(out: bytearray, count: int, kind: int) -> None:
    if count < _LONG_LIST:
        out.append(count << 4 | kind)
    else:
        out.append(_LONG_LIST << 4 | kind)
        _put_varint(out, count)


def _count(data: bytes, at: int) -> tuple[int, int]:
    """Return (the number of elements of the list whose head is here, where they begin)."""
    count = data[at] >> 4
    return varint(data, at + 1) if count == _LONG_LIST else (count, at + 1)


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return (the number at this position, its end); IndexError if it is longer than 64 bits."""
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    value = byte & 127
    for shift in range(7, 70, 7):
        at += 1
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
    raise IndexError


def _put_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
