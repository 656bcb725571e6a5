"""The subset of Thrift's compact protocol that a Parquet footer needs.

Decodes bytes to a tree and encodes it again.  A struct is a list of fields in file order, a list
its element type with its elements.  This module is independent of Parquet; unknown fields are
preserved byte for byte.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from paimon_core.errors import CorruptTable

TRUE: Final = 1
FALSE: Final = 2
BYTE: Final = 3
I16: Final = 4
I32: Final = 5
I64: Final = 6
DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
SET: Final = 10
MAP: Final = 11
STRUCT: Final = 12

_LONG_LIST: Final = 15
_LONGEST_VARINT: Final = 10
_MOST_NESTED: Final = 64
"""The maximum nesting of structs and lists; parquet.thrift has at most ten levels."""
_DOUBLE: Final = struct.Struct("<d")


@dataclass(slots=True)
class Field:
    """A field of a struct: its number, its wire type, its value."""

    id: int
    type: int
    value: Value


@dataclass(slots=True)
class ThriftList:
    """A list or set: the wire type of the elements, and the elements."""

    type: int
    items: list[Value]


@dataclass(slots=True)
class ThriftMap:
    key_type: int
    value_type: int
    items: list[tuple[Value, Value]]


Struct = list[Field]
Value = bool | int | float | bytes | ThriftList | ThriftMap | Struct


def field_value(fields: Struct, number: int) -> Value | None:
    """Return the value of the field with this number; None if the struct has no such field."""
    for field in fields:  # a generator would take twice as long
        if field.id == number:
            return field.value
    return None


def decode_struct(data: bytes) -> Struct:
    """Decode the struct at the start of the bytes; CorruptTable if they are invalid."""
    decoded = decode_at(data, 0)
    if decoded is None:
        raise CorruptTable("a Thrift structure ends in the middle")
    return decoded[0]


def decode_at(data: bytes | memoryview, start: int) -> tuple[Struct, int] | None:
    """Decode the struct at this position; return it and its end, None if the bytes end first."""
    decoder = _Decoder(data, start)
    try:
        return decoder.struct(), decoder.at
    except (IndexError, struct.error):
        return None


def encode_struct(fields: Struct) -> bytes:
    """Encode a struct."""
    out = bytearray()
    _put_struct(out, fields)
    return bytes(out)


class _Decoder:
    __slots__ = ("_data", "_depth", "at")

    def __init__(self, data: bytes | memoryview, start: int) -> None:
        self._data = data
        self._depth = 0
        self.at = start

    def struct(self) -> Struct:
        # Numbers are most of a footer, and most of them take one byte: no calls for these.
        fields: Struct = []
        data = self._data
        number = 0
        while True:
            header = data[self.at]
            self.at += 1
            if header == 0:
                return fields
            wire_type = header & 15
            number = number + (header >> 4) if header > 15 else _unzigzag(self._varint())
            if I16 <= wire_type <= I64:
                byte = data[self.at]
                if byte < 0x80:
                    self.at += 1
                    value: Value = byte >> 1 ^ -(byte & 1)
                else:
                    value = _unzigzag(self._varint())
            elif wire_type in (TRUE, FALSE):
                value = wire_type == TRUE
            else:
                value = self._value(wire_type)
            fields.append(Field(number, wire_type, value))

    def _value(self, wire_type: int) -> Value:
        if wire_type < LIST or wire_type > STRUCT:
            return self._plain(wire_type)
        if self._depth == _MOST_NESTED:
            raise CorruptTable(f"a Thrift structure is nested deeper than {_MOST_NESTED} levels")
        self._depth += 1
        match wire_type:
            case 12:
                value: Value = self.struct()
            case 11:
                value = self._map()
            case _:
                value = self._list()
        self._depth -= 1
        return value

    def _plain(self, wire_type: int) -> Value:
        match wire_type:
            case 5 | 6 | 4:
                return _unzigzag(self._varint())
            case 8:
                size = self._varint()
                start = self.at
                self.at += size
                if self.at > len(self._data):
                    raise IndexError
                return bytes(self._data[start : self.at])
            case 1 | 2:
                return self._byte() == TRUE
            case 3:
                return self._byte()
            case 7:
                value = _DOUBLE.unpack_from(self._data, self.at)[0]
                self.at += 8
                return float(value)
        raise CorruptTable(f"a Thrift structure has the unknown type {wire_type}")

    def _list(self) -> ThriftList:
        header = self._byte()
        size, element_type = header >> 4, header & 15
        if size == _LONG_LIST:
            size = self._varint()
        return ThriftList(element_type, [self._value(element_type) for _ in range(size)])

    def _map(self) -> ThriftMap:
        size = self._varint()
        if size == 0:
            return ThriftMap(0, 0, [])
        types = self._byte()
        key_type, value_type = types >> 4, types & 15
        items = [(self._value(key_type), self._value(value_type)) for _ in range(size)]
        return ThriftMap(key_type, value_type, items)

    def _byte(self) -> int:
        value = self._data[self.at]
        self.at += 1
        return value

    def _varint(self) -> int:
        data, at, result = self._data, self.at, 0
        for shift in range(0, 7 * _LONGEST_VARINT, 7):
            byte = data[at]
            at += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.at = at
                return result
        raise CorruptTable(f"a number in Thrift has more than {_LONGEST_VARINT} bytes")


def _put_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for field in fields:
        wire_type = field.type
        if wire_type in (TRUE, FALSE):
            wire_type = TRUE if field.value else FALSE
        delta = field.id - last
        if 0 < delta <= 15:
            out.append(delta << 4 | wire_type)
        else:
            out.append(wire_type)
            _put_varint(out, _zigzag(field.id))
        last = field.id
        if I16 <= wire_type <= I64 and isinstance(field.value, int):
            _put_varint(out, _zigzag(field.value))
        elif wire_type not in (TRUE, FALSE):
            _put_value(out, wire_type, field.value)
    out.append(0)


def _put_value(out: bytearray, wire_type: int, value: Value) -> None:
    match value:
        case bool():
            out.append(TRUE if value else FALSE)
        case int() if wire_type == BYTE:
            out.append(value)
        case int():
            _put_varint(out, _zigzag(value))
        case float():
            out += _DOUBLE.pack(value)
        case bytes():
            _put_varint(out, len(value))
            out += value
        case ThriftList():
            _put_list(out, value)
        case ThriftMap():
            _put_map(out, value)
        case _:
            _put_struct(out, value)


def _put_list(out: bytearray, value: ThriftList) -> None:
    size = len(value.items)
    if size < _LONG_LIST:
        out.append(size << 4 | value.type)
    else:
        out.append(_LONG_LIST << 4 | value.type)
        _put_varint(out, size)
    for item in value.items:
        _put_value(out, value.type, item)


def _put_map(out: bytearray, value: ThriftMap) -> None:
    _put_varint(out, len(value.items))
    if value.items:
        out.append(value.key_type << 4 | value.value_type)
    for key, item in value.items:
        _put_value(out, value.key_type, key)
        _put_value(out, value.value_type, item)


def _put_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _unzigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)
