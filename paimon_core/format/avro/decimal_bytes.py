"""Converts decimals between Arrow's 16 bytes and Avro's shortest big-endian two's complement."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.errors import CorruptTable

_WIDTH: Final = 16


def decimals_from_bytes(array: pa.Array, target: pa.Decimal128Type) -> pa.Array:
    """Convert byte strings of unscaled values to decimals (Java: `BigInteger(byte[])`)."""
    size = len(array)
    if size == 0:
        return pa.array([], target)
    offsets = np.frombuffer(array.buffers()[1], np.int32, size + 1, array.offset * 4).astype(
        np.int64
    )
    starts, ends = offsets[:-1], offsets[1:]
    lengths = ends - starts
    data = np.frombuffer(array.buffers()[2] or b"", np.uint8)
    if (lengths > _WIDTH).any():
        raise CorruptTable("a decimal of an Avro file takes more than 16 bytes")
    filled = lengths > 0
    negative = np.zeros(size, np.uint8)
    negative[filled] = np.where(data[starts[filled]] >= 0x80, 0xFF, 0)
    little = np.empty((size, _WIDTH), np.uint8)
    for i in range(_WIDTH):
        little[:, i] = negative
        has = lengths > i
        little[has, i] = data[ends[has] - 1 - i]
    validity = pa.array(np.asarray(array.is_valid())).buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(target, size, [validity, pa.py_buffer(little)])


def decimals_to_bytes(array: pa.Array) -> list[bytes | None]:
    """Return the shortest two's complement bytes of each unscaled value, None for null."""
    size = len(array)
    if size == 0:
        return []
    raw = np.frombuffer(array.buffers()[1], np.uint8, size * _WIDTH, array.offset * _WIDTH)
    big = np.ascontiguousarray(raw.reshape(size, _WIDTH)[:, ::-1])
    sign = np.where(big[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    # Drop leading bytes that only repeat the sign, but keep one if the sign would be lost.
    differs = big != sign
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), _WIDTH)
    at = np.minimum(first, _WIDTH - 1)
    flips = (first < _WIDTH) & ((big[np.arange(size), at] >= 0x80) != (sign[:, 0] == 0xFF))
    start = np.minimum(first - flips, _WIDTH - 1)
    data = big.tobytes()
    values: list[bytes | None] = [
        data[i * _WIDTH + s : (i + 1) * _WIDTH] for i, s in enumerate(start.tolist())
    ]
    if array.null_count:
        for i in np.flatnonzero(~np.asarray(array.is_valid())).tolist():
            values[i] = None
    return values
