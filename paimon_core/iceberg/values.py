"""Single values in Iceberg's metadata (Java: `iceberg/manifest/IcebergConversions`).

A value has three forms here: Paimon's internal one, the one in Avro records (partitions), and
Iceberg's bytes (bounds).
"""

from __future__ import annotations

import struct
from typing import Any, Final, cast

from paimon_core.types.data_types import AtomicType, DataType, TypeRoot
from paimon_core.types.decimals import from_unscaled, unscaled

_INT: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<q")
_STRUCTS: Final = {
    TypeRoot.TINYINT: _INT,
    TypeRoot.SMALLINT: _INT,
    TypeRoot.INT: _INT,
    TypeRoot.DATE: _INT,
    TypeRoot.BIGINT: _LONG,
    TypeRoot.FLOAT: struct.Struct("<f"),
    TypeRoot.DOUBLE: struct.Struct("<d"),
    TypeRoot.BOOLEAN: struct.Struct("<?"),
}
_TEXTS: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES: Final = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_TIMESTAMPS: Final = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_MILLIS: Final = 3
_MICROS: Final = 6
_NANOS_OF_MILLI: Final = 1_000_000
_NANOS_OF_MICRO: Final = 1_000
_MICROS_OF_MILLI: Final = 1_000


def to_bytes(t: DataType, value: Any) -> bytes | None:
    """Return Iceberg's bytes of an internal value; None for null and for types without bounds.

    Java fails for TIMESTAMP below milliseconds or beyond microseconds; they have no bounds here.
    """
    if value is None or not isinstance(t, AtomicType):
        return None
    kind = t.kind
    if kind in _STRUCTS:
        return _STRUCTS[kind].pack(value)
    if kind in _TEXTS:
        return cast("str", value).encode()
    if kind in _BYTES:
        return bytes(value)
    if kind is TypeRoot.DECIMAL:
        return _two_complement(unscaled(value, t.scale or 0))
    if kind is TypeRoot.TIME:
        return _LONG.pack(value * _MICROS_OF_MILLI)
    if kind in _TIMESTAMPS and _MILLIS <= (t.precision or 0) <= _MICROS:
        return _LONG.pack(value // _NANOS_OF_MICRO)
    return None


def from_bytes(t: DataType, data: bytes) -> Any:
    """Return the internal value of Iceberg's bytes; ValueError or struct.error if they are bad."""
    if not isinstance(t, AtomicType):
        raise ValueError(f"{t.root} has no bounds")  # noqa: TRY004 - all unreadable data
    kind = t.kind
    if kind in _STRUCTS:
        return _STRUCTS[kind].unpack(data)[0]
    if kind in _TEXTS:
        return data.decode()
    if kind in _BYTES:
        return data
    if kind is TypeRoot.DECIMAL:
        return from_unscaled(int.from_bytes(data, "big", signed=True), t.scale or 0)
    number: int = _LONG.unpack(data)[0]
    if kind is TypeRoot.TIME:
        return number // _MICROS_OF_MILLI
    return number * _NANOS_OF_MICRO


def to_avro(t: DataType, value: Any) -> Any:
    """Return an internal value as Avro stores it."""
    if value is None or not isinstance(t, AtomicType):
        return value
    if t.kind is TypeRoot.DECIMAL:
        return _two_complement(unscaled(value, t.scale or 0))
    if t.kind in _TIMESTAMPS:
        return value // _avro_unit(t)
    return value


def from_avro(t: DataType, stored: Any) -> Any:
    """Return the internal value of what Avro stores."""
    if stored is None or not isinstance(t, AtomicType):
        return stored
    if t.kind is TypeRoot.DECIMAL:
        return from_unscaled(int.from_bytes(stored, "big", signed=True), t.scale or 0)
    if t.kind in _TIMESTAMPS:
        return stored * _avro_unit(t)
    return stored


def _avro_unit(t: AtomicType) -> int:
    return _NANOS_OF_MILLI if (t.precision or 0) <= _MILLIS else _NANOS_OF_MICRO


def _two_complement(number: int) -> bytes:
    """The shortest big-endian two's complement (Java: `BigInteger.toByteArray`)."""
    size = (number.bit_length() if number >= 0 else (number + 1).bit_length()) // 8 + 1
    return number.to_bytes(size, "big", signed=True)
