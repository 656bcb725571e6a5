"""Single rows in Paimon's binary form (Java: `BinaryRow`, `BinaryArray`, `BinaryMap`).

Stored rows (partitions, keys, statistics) are four bytes of big-endian arity, then::

    row    | kind (1) | null bits from bit 8, padded to 8 | 8 bytes a field | variable part |
    array  | size (4) | null bits, padded to 4 | elements in their width, padded | variable part |
    map    | size of the key array (4) | key array | value array |

all little-endian.  A field that does not fit its slot puts `offset << 32 | size` there, counted
from the start of its own row or array; strings and bytes up to seven bytes sit in the slot itself,
whose last byte is then `0x80 | length`.  Decimals beyond 18 digits always take 16 bytes of the
variable part, timestamps beyond milliseconds 8 (the slot holds `offset << 32 | nanos of the
millisecond`), and both reserve that space for a null as well, but only as fields of a row.

Values are in the internal form of `paimon_core.types.data_types`.  These bytes are identities
(two partitions are the same if their bytes are), so they match Java's exactly.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, cast

from paimon_core.errors import UNREADABLE, CorruptTable, InvalidArgument, UnsupportedFeature
from paimon_core.types.arrow import map_types
from paimon_core.types.data_types import (
    TIMESTAMP_TYPES,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)
from paimon_core.types.decimals import COMPACT_PRECISION, from_unscaled, unscaled
from paimon_core.types.sql import type_to_sql

HEADER: Final = 4
"""The bytes of the arity at the start of stored rows."""
COMPACT_TIMESTAMP_PRECISION: Final = 3
NANOS_OF_MILLI: Final = 1_000_000
INLINE_LIMIT: Final = 7
_LONGEST_DECIMAL: Final = 16
_SHOWN: Final = 200
_MAX_CODECS: Final = 4096

_Put = Callable[[bytearray, int, Any], None]
"""Writes a value: the row or array being built, the position of the slot, the value."""
_Get = Callable[[bytes, int, int], object]
"""Reads a value: the bytes, the start of the row or array, the position of the slot."""

_LONG: Final = struct.Struct("<q")
_WORD: Final = struct.Struct("<Q")
_INT: Final = struct.Struct("<i")
_ARITY: Final = struct.Struct(">i")
_FIXED: Final = {
    TypeRoot.BOOLEAN: struct.Struct("<?"),
    TypeRoot.TINYINT: struct.Struct("<b"),
    TypeRoot.SMALLINT: struct.Struct("<h"),
    TypeRoot.INT: _INT,
    TypeRoot.DATE: _INT,
    TypeRoot.TIME: _INT,
    TypeRoot.BIGINT: _LONG,
    TypeRoot.FLOAT: struct.Struct("<f"),
    TypeRoot.DOUBLE: struct.Struct("<d"),
}
_OF_ANY_SIZE: Final = frozenset(
    {
        TypeRoot.CHAR,
        TypeRoot.VARCHAR,
        TypeRoot.BINARY,
        TypeRoot.VARBINARY,
        TypeRoot.BLOB,
        TypeRoot.ARRAY,
        TypeRoot.MAP,
        TypeRoot.MULTISET,
        TypeRoot.ROW,
        TypeRoot.VECTOR,
    }
)


def encode_row(values: Sequence[object], types: Sequence[DataType]) -> bytes:
    """Return the stored bytes of a row; InvalidArgument if a value does not fit its type."""
    return row_codec(types).encode(values)


def decode_row(data: bytes, types: Sequence[DataType]) -> tuple[object, ...]:
    """Decode a stored row; CorruptTable if the bytes are not a row of these types."""
    return row_codec(types).decode(data)


def row_arity(data: bytes) -> int:
    """Return the number of fields of a stored row."""
    if len(data) < HEADER:
        raise CorruptTable(f"a stored row needs at least 4 bytes, found {data.hex() or 'none'}")
    return cast("int", _ARITY.unpack_from(data)[0])


def null_bits_width(arity: int) -> int:
    """Return the bytes before the first slot of a row: the row kind and the null bits."""
    return (arity + 63 + 8) // 64 * 8


_codecs: dict[tuple[int, ...], RowCodec] = {}
"""Keyed by the identities of the types, which the codec keeps alive: hashing is slower."""


def row_codec(types: Sequence[DataType]) -> RowCodec:
    """Return the cached codec for rows of these types."""
    key = tuple(map(id, types))
    codec = _codecs.get(key)
    if codec is None:
        if len(_codecs) >= _MAX_CODECS:
            _codecs.clear()
        codec = _codecs[key] = RowCodec(tuple(types))
    return codec


class RowCodec:
    """Encodes and decodes rows of fixed types; created by `row_codec`."""

    __slots__ = ("_fixed", "_get", "_names", "_null", "_put", "_start", "_types")

    def __init__(self, types: tuple[DataType, ...]) -> None:
        self._types = types
        self._put = tuple(_putter(t) for t in types)
        self._get = tuple(_getter(t) for t in types)
        self._null = tuple(_room_for_null(t) for t in types)
        self._start = null_bits_width(len(types))
        self._fixed = self._start + 8 * len(types)

    def encode(self, values: Sequence[object]) -> bytes:
        """Return the stored bytes of a row."""
        return _ARITY.pack(len(self._types)) + self.encode_body(values)

    def encode_body(self, values: Sequence[object]) -> bytes:
        """Return the bytes of a row without arity, as in nested rows and for Java's hash."""
        if len(values) != len(self._types):
            raise InvalidArgument(f"{len(values)} values for {len(self._types)} fields")
        row = bytearray(self._fixed)
        slot = self._start
        for i, value in enumerate(values):
            if value is not None:
                try:
                    self._put[i](row, slot, value)
                except (
                    struct.error,
                    ArithmeticError,
                    AttributeError,
                    TypeError,
                    ValueError,
                ) as e:
                    raise _does_not_fit(value, self._types[i]) from e
            else:
                row[(i + 8) >> 3] |= 1 << (i & 7)
                if self._null[i]:
                    _WORD.pack_into(row, slot, len(row) << 32)
                    row += bytes(self._null[i])
            slot += 8
        return bytes(row)

    def decode(self, data: bytes) -> tuple[object, ...]:
        """Return the values of a stored row."""
        if row_arity(data) != len(self._types):
            raise CorruptTable(
                f"a stored row has {row_arity(data)} fields where {len(self._types)} belong: "
                f"{_hex(data)}"
            )
        return self.decode_body(data, HEADER)

    def decode_body(self, data: bytes, base: int) -> tuple[object, ...]:
        """Return the values of the row at `base`, without arity."""
        try:
            return tuple(self._field(data, base, i) for i in range(len(self._types)))
        except (struct.error, *UNREADABLE) as e:
            raise CorruptTable(f"not a row of {self._described()}: {_hex(data)}") from e

    def decode_field(self, data: bytes, index: int) -> object:
        """Decode only one value of a stored row."""
        try:
            return self._field(data, HEADER, index)
        except (struct.error, *UNREADABLE) as e:
            raise CorruptTable(f"not a row of {self._described()}: {_hex(data)}") from e

    def _field(self, data: bytes, base: int, index: int) -> object:
        if data[base + ((index + 8) >> 3)] >> (index & 7) & 1:
            return None
        return self._get[index](data, base, base + self._start + 8 * index)

    def _described(self) -> str:
        return f"({', '.join(map(type_to_sql, self._types))})"


def _hex(data: bytes) -> str:
    text = data[:_SHOWN].hex()
    return text if len(data) <= _SHOWN else f"{text}... ({len(data):,} bytes)"


def _does_not_fit(value: object, data_type: DataType) -> InvalidArgument:
    return InvalidArgument(f"the value {value!r} does not fit the type {type_to_sql(data_type)}")


def _room_for_null(data_type: DataType) -> int:
    """Return the bytes in the variable part for a null of this type as a field of a row."""
    if isinstance(data_type, AtomicType):
        if data_type.kind is TypeRoot.DECIMAL and (data_type.precision or 0) > COMPACT_PRECISION:
            return 16
        if data_type.kind in TIMESTAMP_TYPES and not is_compact_timestamp(data_type):
            return 8
    return 0


def is_compact_timestamp(data_type: AtomicType) -> bool:
    """Return whether a timestamp is stored as milliseconds in its slot."""
    return (data_type.precision or 0) <= COMPACT_TIMESTAMP_PRECISION


# --- writing ------------------------------------------------------------------------------------


def _putter(data_type: DataType) -> _Put:
    match data_type:
        case AtomicType():
            return _atomic_putter(data_type)
        case ArrayType():
            array = _ArrayCodec(data_type.element)
            return lambda row, slot, value: _put_variable(row, slot, array.encode(value))
        case MapType() | MultisetType():
            return _map_putter(*map_types(data_type))
        case RowType():
            codec = row_codec(data_type.types)
            return lambda row, slot, value: _put_variable(row, slot, codec.encode_body(value))
        case VectorType():
            return _vector_putter(data_type)
    return _refuse(data_type)


def _atomic_putter(t: AtomicType) -> _Put:
    if t.kind in _FIXED:
        return _FIXED[t.kind].pack_into
    match t.kind:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return lambda row, slot, value: _put_bytes(row, slot, value.encode())
        case TypeRoot.BINARY | TypeRoot.VARBINARY | TypeRoot.BLOB:
            return _put_bytes
        case TypeRoot.DECIMAL:
            return _decimal_putter(t.precision or 0, t.scale or 0)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _put_millis if is_compact_timestamp(t) else _put_nanos
    return _refuse(t)


def _refuse(data_type: DataType) -> _Put:
    # Refused on use, not when the codec is created: nulls of such a type are valid.
    def put(*_: object) -> None:
        raise UnsupportedFeature(f"{type_to_sql(data_type)} values in metadata rows")

    return put


def _put_bytes(row: bytearray, slot: int, value: bytes) -> None:
    size = len(value)
    if size > INLINE_LIMIT:
        _put_variable(row, slot, value)
    else:
        row[slot : slot + size] = value
        row[slot + 7] = 0x80 | size


def _put_variable(row: bytearray, slot: int, value: bytes) -> None:
    _WORD.pack_into(row, slot, len(row) << 32 | len(value))
    row += value
    row += bytes(-len(value) % 8)


def _decimal_putter(precision: int, scale: int) -> _Put:
    if precision <= COMPACT_PRECISION:
        return lambda row, slot, value: _LONG.pack_into(row, slot, unscaled(value, scale))

    def put(row: bytearray, slot: int, value: Decimal) -> None:
        number = unscaled(value, scale)
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        _WORD.pack_into(row, slot, len(row) << 32 | size)
        row += number.to_bytes(size, "big", signed=True).ljust(16, b"\0")

    return put


def _put_millis(row: bytearray, slot: int, value: int) -> None:
    _LONG.pack_into(row, slot, value // NANOS_OF_MILLI)


def _put_nanos(row: bytearray, slot: int, value: int) -> None:
    _WORD.pack_into(row, slot, len(row) << 32 | value % NANOS_OF_MILLI)
    row += _LONG.pack(value // NANOS_OF_MILLI)


def _map_putter(key: DataType, value_type: DataType) -> _Put:
    keys, items = _ArrayCodec(key), _ArrayCodec(value_type)

    def put(row: bytearray, slot: int, value: Sequence[tuple[object, object]]) -> None:
        key_array = keys.encode([k for k, _ in value])
        item_array = items.encode([v for _, v in value])
        _put_variable(row, slot, _INT.pack(len(key_array)) + key_array + item_array)

    return put


def _vector_putter(t: VectorType) -> _Put:
    element = _vector_element(t)

    def put(row: bytearray, slot: int, value: Sequence[object]) -> None:
        body = b"".join(map(element.pack, value))
        _put_variable(row, slot, _INT.pack(len(value)) + body)

    return put


def _vector_element(t: VectorType) -> struct.Struct:
    return _FIXED[t.element.root]


# --- reading ------------------------------------------------------------------------------------


def _getter(data_type: DataType) -> _Get:
    match data_type:
        case AtomicType():
            return _atomic_getter(data_type)
        case ArrayType():
            array = _ArrayCodec(data_type.element)
            return lambda data, base, slot: array.decode(_part(data, base, slot))
        case MapType() | MultisetType():
            return _map_getter(*map_types(data_type))
        case RowType():
            codec = row_codec(data_type.types)
            return lambda data, base, slot: codec.decode_body(_part(data, base, slot), 0)
        case VectorType():
            return _vector_getter(data_type)
    return _refuse_reading(data_type)


def _atomic_getter(t: AtomicType) -> _Get:
    if t.kind in _FIXED:
        unpack = _FIXED[t.kind].unpack_from
        return lambda data, _, slot: unpack(data, slot)[0]
    match t.kind:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return lambda data, base, slot: _get_bytes(data, base, slot).decode()
        case TypeRoot.BINARY | TypeRoot.VARBINARY | TypeRoot.BLOB:
            return _get_bytes
        case TypeRoot.DECIMAL:
            return _decimal_getter(t.precision or 0, t.scale or 0)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _get_millis if is_compact_timestamp(t) else _get_nanos
    return _refuse_reading(t)


def _refuse_reading(data_type: DataType) -> _Get:
    def get(*_: object) -> object:
        raise UnsupportedFeature(f"{type_to_sql(data_type)} values in metadata rows")

    return get


def _part(data: bytes, base: int, slot: int) -> bytes:
    """Return the bytes that a slot points to.

    A nested value is decoded only from its own bytes, so overlapping values, which no writer
    creates, cannot expand to more than the input.
    """
    word: int = _WORD.unpack_from(data, slot)[0]
    start, size = base + (word >> 32), word & 0xFFFFFFFF
    if start + size > len(data):
        raise IndexError(start + size)
    return data[start : start + size]


def _get_bytes(data: bytes, base: int, slot: int) -> bytes:
    last = data[slot + 7]
    if last & 0x80:
        return data[slot : slot + min(last & 0x7F, INLINE_LIMIT)]
    return _part(data, base, slot)


def _decimal_getter(precision: int, scale: int) -> _Get:
    if precision <= COMPACT_PRECISION:
        return lambda data, _, slot: from_unscaled(_LONG.unpack_from(data, slot)[0], scale)

    def get(data: bytes, base: int, slot: int) -> Decimal:
        stored = _part(data, base, slot)
        if len(stored) > _LONGEST_DECIMAL:
            raise ValueError(f"a decimal of {len(stored)} bytes")
        return from_unscaled(int.from_bytes(stored, "big", signed=True), scale)

    return get


def _get_millis(data: bytes, _: int, slot: int) -> int:
    return cast("int", _LONG.unpack_from(data, slot)[0]) * NANOS_OF_MILLI


def _get_nanos(data: bytes, base: int, slot: int) -> int:
    word: int = _WORD.unpack_from(data, slot)[0]
    millis: int = _LONG.unpack_from(data, base + (word >> 32))[0]
    return millis * NANOS_OF_MILLI + (word & 0xFFFFFFFF)


def _map_getter(key: DataType, value_type: DataType) -> _Get:
    keys, items = _ArrayCodec(key), _ArrayCodec(value_type)

    def get(data: bytes, base: int, slot: int) -> list[tuple[object, object]]:
        part = _part(data, base, slot)
        size: int = _INT.unpack_from(part)[0]
        if not 0 <= size <= len(part) - 4:
            raise IndexError(size)
        key_list = keys.decode(part[4 : 4 + size])
        return list(zip(key_list, items.decode(part[4 + size :]), strict=True))

    return get


def _vector_getter(t: VectorType) -> _Get:
    element = _vector_element(t)

    def get(data: bytes, base: int, slot: int) -> list[object]:
        part = _part(data, base, slot)
        size: int = _INT.unpack_from(part)[0]
        if not 0 <= size * element.size <= len(part) - 4:
            raise IndexError(size)
        return [element.unpack_from(part, 4 + i * element.size)[0] for i in range(size)]

    return get


# --- arrays -------------------------------------------------------------------------------------


class _ArrayCodec:
    """Encodes arrays, which pack elements in their own width and reserve nothing for nulls."""

    __slots__ = ("_element", "_fixed", "_get", "_put", "_width")

    def __init__(self, element: DataType) -> None:
        self._element = element
        self._put = _putter(element)
        self._get = _getter(element)
        fixed = _FIXED.get(element.root)
        self._width = fixed.size if fixed else 8
        # Numbers, and timestamps, whose slots do not hold offset and size.
        self._fixed = bool(fixed) or element.root not in _OF_ANY_SIZE

    def encode(self, values: Sequence[object]) -> bytes:
        count, width = len(values), self._width
        header = 4 + (count + 31) // 32 * 4
        array = bytearray((header + width * count + 7) // 8 * 8)
        _INT.pack_into(array, 0, count)
        for i, value in enumerate(values):
            if value is None:
                array[4 + (i >> 3)] |= 1 << (i & 7)
            else:
                self._put(array, header + width * i, value)
        return bytes(array)

    def decode(self, data: bytes) -> list[object]:
        """Return the elements; `data` holds only the bytes of the array."""
        count: int = _INT.unpack_from(data)[0]
        first = 4 + (count + 31) // 32 * 4
        if not (count >= 0 and first + self._width * count <= len(data)):
            raise IndexError(count)
        if not self._fixed:
            self._check_sizes(data, count, first)
        return [
            None
            if data[4 + (i >> 3)] >> (i & 7) & 1
            else self._get(data, 0, first + self._width * i)
            for i in range(count)
        ]

    def _check_sizes(self, data: bytes, count: int, first: int) -> None:
        """Raise IndexError if the elements together exceed the array, so they overlap."""
        words = struct.unpack_from(f"<{count}Q", data, first)
        size = sum(
            word & 0xFFFFFFFF
            for i, word in enumerate(words)
            if not (word >> 63 or data[4 + (i >> 3)] >> (i & 7) & 1)
        )
        if size > len(data):
            raise IndexError(size)
