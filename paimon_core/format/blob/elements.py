"""The value of one row in a BLOB file: a BLOB, an ARRAY<BLOB> or a MAP<K, BLOB>.

Java: `format/blob/{Raw,Array,Map}BlobElementSerializer`.  A BLOB is its bytes.  Arrays and maps
begin with a magic number (4 bytes), version 1 and the number of values (4 bytes).  All numbers are
little endian; lengths are delta varints, -1 for null::

    array    header, BLOBs, their lengths, size of the lengths (4 bytes)
    map      header, keys, BLOBs, lengths of the keys, of the BLOBs, sizes of both lengths
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.blob.delta_varints import decode_delta_varints, encode_delta_varints
from paimon_core.types.data_types import (
    BINARY_TYPES,
    CHARACTER_TYPES,
    ArrayType,
    DataType,
    MapType,
    TypeRoot,
)

Decode = Callable[[bytes], Any]
Encode = Callable[[Any], bytes]
Read = Callable[[int, int], bytes]
"""Returns bytes of a value: from this place on, so many."""
Locate = Callable[[Read, int], Any]
"""Returns the value, of this size, with the range of each BLOB in its place."""

_ARRAY_MAGIC: Final = 1_094_861_634
_MAP_MAGIC: Final = 0x4D424342
_VERSION: Final = 1
_HEADER: Final = struct.Struct("<iBi")
_SIZE: Final = struct.Struct("<i")
_TWO_SIZES: Final = struct.Struct("<ii")
_NULL: Final = -1
_INTEGER_BYTES: Final = {
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.BIGINT: 8,
}


def decoder_of(data_type: DataType) -> Decode | None:
    """Return the function that decodes a value of the type: bytes, a list, or a list of pairs.

    None for types that BLOB files do not hold.  The function raises CorruptTable for damaged
    values, UnsupportedFeature for another version of their layout.
    """
    locate = locator_of(data_type)
    if data_type.root is TypeRoot.BLOB or locate is None:
        return None if locate is None else bytes
    return lambda data: with_blobs(
        locate(lambda at, size: data[at : at + size], len(data)), lambda r: data[r.start : r.stop]
    )


def locator_of(data_type: DataType) -> Locate | None:
    """Return the function that finds the BLOBs of a value without reading them, as `decoder_of`."""
    match data_type:
        case ArrayType(element=element) if element.root is TypeRoot.BLOB:
            return _array
        case MapType(key=key, value=value) if value.root is TypeRoot.BLOB:
            decode_key = _key_decoder(key)
            return None if decode_key is None else lambda read, size: _map(read, size, decode_key)
        case _:
            return (lambda _, size: range(size)) if data_type.root is TypeRoot.BLOB else None


def with_blobs(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a column's value with its BLOBs changed: one, a list of them, or pairs with a key."""
    match value:
        case None:
            return None
        case list():
            return [with_blobs(v, change) for v in value]
        case tuple():
            key, blob = value
            return key, with_blobs(blob, change)
        case _:
            return change(value)


def encoder_of(data_type: DataType, content: Callable[[bytes], bytes]) -> Encode:
    """Return the function that encodes a value as `decoder_of` reads it.

    `content` returns the bytes to store for a BLOB.  Call this for types that have a decoder only.
    """

    def blobs(values: Sequence[bytes | None]) -> list[bytes | None]:
        return [None if v is None else content(v) for v in values]

    match data_type:
        case ArrayType():
            return lambda values: _encoded_array(blobs(values))
        case MapType(key=key):
            encode_key = _key_encoder(key)
            return lambda pairs: _encoded_map(
                [encode_key(k) for k, _ in pairs], blobs([v for _, v in pairs])
            )
    return content


def _encoded_array(values: Sequence[bytes | None]) -> bytes:
    lengths = _encoded_lengths(values)
    header = _HEADER.pack(_ARRAY_MAGIC, _VERSION, len(values))
    return b"".join((header, *filter(None, values), lengths, _SIZE.pack(len(lengths))))


def _encoded_map(keys: Sequence[bytes], values: Sequence[bytes | None]) -> bytes:
    lengths = _encoded_lengths(keys), _encoded_lengths(values)
    header = _HEADER.pack(_MAP_MAGIC, _VERSION, len(keys))
    sizes = _TWO_SIZES.pack(*map(len, lengths))
    return b"".join((header, *keys, *filter(None, values), *lengths, sizes))


def _encoded_lengths(values: Sequence[bytes | None]) -> bytes:
    return encode_delta_varints([_NULL if v is None else len(v) for v in values])


def _array(read: Read, whole: int) -> list[range | None]:
    count = _header(read, whole, _ARRAY_MAGIC)
    at = whole - _SIZE.size
    if at < _HEADER.size:
        raise CorruptTable("an ARRAY<BLOB> is too short")
    (size,) = _SIZE.unpack(read(at, _SIZE.size))
    lengths, end = _lengths(read, at, size, count)
    values, end_of_values = _parts(_HEADER.size, lengths, end)
    if end_of_values != end:
        raise CorruptTable("the lengths of an ARRAY<BLOB> do not add up to its size")
    return values


def _map(read: Read, whole: int, decode_key: Decode) -> list[tuple[Any, range | None]]:
    count = _header(read, whole, _MAP_MAGIC)
    sizes = whole - _TWO_SIZES.size
    if sizes < _HEADER.size:
        raise CorruptTable("a MAP of BLOBs is too short")
    key_size, value_size = _TWO_SIZES.unpack(read(sizes, _TWO_SIZES.size))
    value_lengths, at = _lengths(read, sizes, value_size, count)
    key_lengths, end = _lengths(read, at, key_size, count)
    keys, middle = _parts(_HEADER.size, key_lengths, end)
    values, last = _parts(middle, value_lengths, end)
    if last != end:
        raise CorruptTable("the lengths of a MAP of BLOBs do not add up to its size")
    decoded: dict[Any, range | None] = {}
    for key, value in zip(keys, values, strict=True):
        if key is None:
            raise UnsupportedFeature("MAPs of BLOBs with null keys")
        # As in Java, the last value of a key counts.
        decoded[decode_key(read(key.start, len(key)))] = value
    return list(decoded.items())


def _header(read: Read, whole: int, magic: int) -> int:
    """Return the number of elements."""
    if whole < _HEADER.size:
        raise CorruptTable("an element of a BLOB file is too short")
    found, version, count = _HEADER.unpack(read(0, _HEADER.size))
    if found != magic:
        raise CorruptTable("an element of a BLOB file has an unknown magic number")
    if version != _VERSION:
        raise UnsupportedFeature(f"version {version} of arrays and maps of BLOBs")
    if count < 0:
        raise CorruptTable(f"an element of a BLOB file has {count} values")
    return int(count)


def _lengths(read: Read, end: int, size: int, count: int) -> tuple[list[int], int]:
    begin = end - size
    if size < 0 or begin < _HEADER.size:
        raise CorruptTable(f"the lengths in an element of a BLOB file take {size} bytes")
    lengths = decode_delta_varints(read(begin, size)).tolist()
    if len(lengths) != count or any(n < _NULL for n in lengths):
        raise CorruptTable(f"an element of a BLOB file has wrong lengths for {count} values")
    return lengths, begin


def _parts(at: int, lengths: Sequence[int], end: int) -> tuple[list[range | None], int]:
    """Return the places of the values of these lengths from `at` on, and where they end."""
    values: list[range | None] = []
    for length in lengths:
        if length == _NULL:
            values.append(None)
            continue
        if at + length > end:
            raise CorruptTable("a value of a BLOB file exceeds its element")
        values.append(range(at, at + length))
        at += length
    return values, at


def _key_encoder(data_type: DataType) -> Encode:
    if data_type.root in CHARACTER_TYPES:
        return str.encode
    width = _INTEGER_BYTES.get(data_type.root)
    if width is None:
        return bytes
    return lambda number: int(number).to_bytes(width, "little", signed=True)


def _key_decoder(data_type: DataType) -> Decode | None:
    root = data_type.root
    if root in CHARACTER_TYPES:
        return bytes.decode
    if root in BINARY_TYPES:
        return bytes
    width = _INTEGER_BYTES.get(root)
    if width is None:
        return None

    def integer(data: bytes) -> int:
        if len(data) != width:
            raise CorruptTable(f"a key of {len(data)} bytes in a MAP of BLOBs instead of {width}")
        return int.from_bytes(data, "little", signed=True)

    return integer
