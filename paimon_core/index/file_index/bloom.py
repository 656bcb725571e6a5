"""Bloom filters: may a value be in the file? (Java: `fileindex/bloomfilter/*`, `BloomFilter64`).

::

    number of hash functions (4 bytes, big endian) | bits, the first of a byte in its lowest bit
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.index.file_index.hash64 import Words, hash_column
from paimon_core.types.arrow import column_from_internal
from paimon_core.types.data_types import DataType

DEFAULT_ITEMS: Final = 1_000_000
DEFAULT_FPP: Final = 0.1
_MOST_HASHES: Final = 10_000
"""Far more than any `fpp` needs: each hash function is a step for every value."""


class BloomWriter:
    """Builds the filter of one column; it needs one byte of memory per bit of the filter."""

    def __init__(self, data_type: DataType, options: Mapping[str, str]) -> None:
        """Options: `items`, the expected number of values; `fpp`, the false positive rate."""
        items = int(options.get("items", DEFAULT_ITEMS))
        fpp = float(options.get("fpp", DEFAULT_FPP))
        bits = int(-items * math.log(fpp) / math.log(2) ** 2)
        self._type = data_type
        self._bits = np.zeros(bits + 8 - bits % 8, np.bool_)
        self._hashes = max(1, math.floor(len(self._bits) / items * math.log(2) + 0.5))
        hash_column(column_from_internal([], data_type), data_type)  # refuses an unsupported type

    def write(self, array: pa.Array) -> None:
        for positions in _positions(hash_column(array, self._type), self._hashes, len(self._bits)):
            self._bits[positions] = True

    def finish(self) -> bytes:
        bits = np.packbits(self._bits, bitorder="little")
        return self._hashes.to_bytes(4, "big") + bits.tobytes()


class BloomReader:
    """Reads one filter."""

    def __init__(self, data: bytes, data_type: DataType) -> None:
        self._type = data_type
        self._hashes = int.from_bytes(data[:4], "big")
        self._bits = np.frombuffer(data, np.uint8, offset=4)
        if not (0 < self._hashes <= _MOST_HASHES and len(self._bits)):
            raise ValueError(
                f"a bloom filter of {self._hashes:,} hash functions and {len(self._bits):,} bytes"
            )

    def may_contain(self, value: Any) -> bool:
        """Return whether the value (internal, not null) may be in the file."""
        values = [value, -value] if isinstance(value, float) and value == 0 else [value]
        hashed = hash_column(column_from_internal(values, self._type), self._type)
        present = np.ones(len(values), np.bool_)
        for at in _positions(hashed, self._hashes, 8 * len(self._bits)):
            present &= (self._bits[at >> 3] >> (at & 7).astype(np.uint8) & 1).astype(np.bool_)
        return bool(present.any())


def _positions(hashed: Words, count: int, bits: int) -> list[npt.NDArray[np.int64]]:
    """Return the bits that each hash sets: wrapping 32-bit arithmetic, negative sums inverted."""
    first = hashed.astype(np.uint32).view(np.int32)
    second = (hashed >> np.uint64(32)).astype(np.uint32).view(np.int32)
    result = []
    with np.errstate(over="ignore"):
        for i in range(1, count + 1):
            combined = first + np.int32(i) * second
            combined = np.where(combined < 0, ~combined, combined)
            result.append(combined.astype(np.int64) % bits)
    return result
