"""The iteration order of Java's hash sets and maps.

Java keeps collected arrays and nested tables in a HashSet or HashMap during a merge, so their order
in the file follows from hash codes.  The order has no meaning, but reproducing it keeps results
equal to Java's, element by element.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, TypeVar

from paimon_core.types.binary_row import encode_row
from paimon_core.types.data_types import DataType, TypeRoot
from paimon_core.types.decimals import unscaled
from paimon_core.types.row_hash import murmur_hash

T = TypeVar("T")

_MASK: Final = 0xFFFFFFFF
_FIRST_CAPACITY: Final = 16
_ARITY_BYTES: Final = 4
_INTS: Final = frozenset(
    {TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.DATE, TypeRoot.TIME}
)
_TIMESTAMPS: Final = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})

Hash = Callable[[Any], int]
"""Returns a value's Java hash code as 32 bits of either sign."""


def in_hash_order(entries: Sequence[tuple[int, T]]) -> list[T]:
    """Return the values of pairs (hash code, value) in the iteration order of a HashMap.

    Each key occurs once, in the order of insertion.
    """
    capacity = _FIRST_CAPACITY
    while len(entries) * 4 > capacity * 3:
        capacity *= 2

    def place(entry: tuple[int, T]) -> int:
        code = entry[0] & _MASK
        return (code ^ code >> 16) & (capacity - 1)

    return [value for _, value in sorted(entries, key=place)]


def hash_of(data_type: DataType) -> Hash | None:
    """Return the hash function of a type; None if Java's order is unknown or not by hash."""
    root = data_type.root
    if root in _INTS:
        return int
    if root in _TIMESTAMPS:
        return _hash_of_timestamp
    return _HASHES.get(root)


def hash_of_rows(types: Sequence[DataType]) -> Callable[[Sequence[Any]], int]:
    """Return the hash function for keys of these types, as in BinaryRow."""
    return lambda values: murmur_hash(encode_row(values, types)[_ARITY_BYTES:])


def _fold_long(bits: int) -> int:
    return (bits ^ bits >> 32) & _MASK


def _hash_of_timestamp(nanos: int) -> int:
    millis, nano_of_milli = divmod(nanos, 1_000_000)
    return (31 * ((millis ^ millis >> 32) & _MASK) + nano_of_milli) & _MASK


def _hash_of_float(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def _hash_of_double(value: float) -> int:
    return _fold_long(int(struct.unpack("<Q", struct.pack("<d", value))[0]))


def _hash_of_decimal(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) else 0
    number = unscaled(value, scale)
    magnitude = abs(number)
    code = 0
    for shift in range((max(magnitude.bit_length(), 1) - 1) // 32 * 32, -1, -32):
        code = (31 * code + (magnitude >> shift & _MASK)) & _MASK
    return (31 * (-code if number < 0 else code) + scale) & _MASK


def hash_of_bytes(data: bytes) -> int:
    """Java's `MurmurHashUtils.hashBytes`: words as in `murmur_hash`, then single signed bytes."""
    whole = len(data) // 4 * 4
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, whole, 4)]
    words += [byte - 256 if byte >= 128 else byte for byte in data[whole:]]
    h = 42
    for word in words:
        k = (word & _MASK) * 0xCC9E2D51 & _MASK
        k = (k << 15 | k >> 17) * 0x1B873593 & _MASK
        h ^= k
        h = ((h << 13 | h >> 19) & _MASK) * 5 + 0xE6546B64 & _MASK
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    return h ^ h >> 16


_HASHES: Final[dict[TypeRoot, Hash]] = {
    TypeRoot.BIGINT: _fold_long,
    TypeRoot.BOOLEAN: lambda value: 1231 if value else 1237,
    TypeRoot.FLOAT: _hash_of_float,
    TypeRoot.DOUBLE: _hash_of_double,
    TypeRoot.DECIMAL: _hash_of_decimal,
    TypeRoot.CHAR: lambda value: hash_of_bytes(value.encode()),
    TypeRoot.VARCHAR: lambda value: hash_of_bytes(value.encode()),
}
