"""Counts distinct values in bounded memory, exactly if there are few.

Values are 64-bit hashes.  A set stores up to `EXACT` distinct hashes.  Beyond that, a HyperLogLog
with 4,096 registers stores the maximum number of leading zeros for each group of hashes (standard
error 1.6 %).  Counters can be merged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.index.file_index.hash64 import float_bits, hash_column, hash_numbers, xxhash64
from paimon_core.types.data_types import DataType, TypeRoot

Words = npt.NDArray[np.uint64]

EXACT: Final = 65_536
_BITS: Final = 12
_REGISTERS: Final = 1 << _BITS
_ALPHA: Final = 0.7213 / (1 + 1.079 / _REGISTERS)


def _no_words() -> Words:
    return np.empty(0, np.uint64)


@dataclass(slots=True)
class DistinctCounter:
    """Counts distinct hashes; either `_exact` or `_registers` is in use."""

    _exact: Words = field(default_factory=_no_words)
    _registers: npt.NDArray[np.uint8] | None = None

    def add(self, hashes: Words) -> None:
        """Add these hashes."""
        if self._registers is not None:
            _raise(self._registers, hashes)
            return
        both = np.union1d(self._exact, hashes)
        if len(both) <= EXACT:
            self._exact = both
            return
        self._registers = np.zeros(_REGISTERS, np.uint8)
        _raise(self._registers, both)
        self._exact = _no_words()

    def merge(self, other: DistinctCounter) -> None:
        """Add the hashes of another counter."""
        if other._registers is None:
            self.add(other._exact)
            return
        if self._registers is None:
            held, self._exact = self._exact, _no_words()
            self._registers = np.zeros(_REGISTERS, np.uint8)
            _raise(self._registers, held)
        np.maximum(self._registers, other._registers, out=self._registers)

    def count(self) -> int:
        """The number of distinct hashes, exact or estimated."""
        if self._registers is None:
            return len(self._exact)
        registers = self._registers.astype(np.float64)
        estimate = _ALPHA * _REGISTERS**2 / float(np.sum(2.0**-registers))
        empty = int(np.count_nonzero(self._registers == 0))
        if estimate <= 2.5 * _REGISTERS and empty:
            return round(_REGISTERS * math.log(_REGISTERS / empty))
        return round(estimate)


def _raise(registers: npt.NDArray[np.uint8], hashes: Words) -> None:
    groups = (hashes >> np.uint64(64 - _BITS)).astype(np.int64)
    np.maximum.at(registers, groups, _rank(hashes << np.uint64(_BITS)))


def _rank(words: Words) -> npt.NDArray[np.uint8]:
    """One plus the number of leading zeros in the remaining 52 bits of a hash."""
    rank = np.ones(len(words), np.uint8)
    for step in (32, 16, 8, 4, 2, 1):
        small = words < np.uint64(1) << np.uint64(64 - step)
        rank[small] += np.uint8(step)
        words = np.where(small, words << np.uint64(step), words)
    return np.minimum(rank, np.uint8(64 - _BITS + 1))


def hashes_of(array: pa.Array, data_type: DataType) -> Words:
    """The hashes of all non-null values; equal values have equal hashes."""
    array = array.drop_null()
    root = data_type.root
    if root is TypeRoot.BOOLEAN:
        return hash_numbers(np.asarray(array.cast(pa.int8())).astype(np.int64))
    if root is TypeRoot.DECIMAL:
        data = np.frombuffer(array.buffers()[1], np.uint8, len(array) * 16, array.offset * 16)
        return xxhash64(data.reshape(len(array), 16))
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        values = np.asarray(array)
        # Minus zero equals zero.
        return hash_numbers(float_bits(values + values.dtype.type(0)))
    if pa.types.is_timestamp(array.type):
        return hash_numbers(np.asarray(array.view(pa.int64())))
    if pa.types.is_date32(array.type):
        return hash_numbers(np.asarray(array.view(pa.int32())).astype(np.int64))
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    return hash_column(array, data_type)
