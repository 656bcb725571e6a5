"""Builds byte strings of many records at once: numbers of variable length, and parts joined.

Java writes record by record (`memory/MemorySliceOutput`).  Here a column of byte strings is one
array of bytes and one of lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_BITS: Final = 7
_MORE: Final = 0x80
_MOST_BITS: Final = 63


@dataclass(frozen=True, slots=True)
class Records:
    """Byte strings, one after the other: all bytes, and the length of each string."""

    data: Bytes
    lengths: Ints

    def starts(self) -> Ints:
        """The position of each string in `data`."""
        return np.cumsum(self.lengths) - self.lengths


def fixed(values: npt.NDArray[np.generic]) -> Records:
    """Numbers in little endian, each with the width of its type."""
    little = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False)
    return Records(little.view(np.uint8), np.full(len(values), values.dtype.itemsize, np.int64))


def varints(values: Ints) -> Records:
    """Numbers >= 0 in groups of seven bits, the lowest first (Java: `writeVarLenLong`)."""
    lengths = np.ones(len(values), np.int64)
    most = int(values.max()) if len(values) else 0
    for bits in range(_BITS, most.bit_length(), _BITS):
        lengths += values >= 1 << bits
    data = np.empty(int(lengths.sum()), np.uint8)
    starts = np.cumsum(lengths) - lengths
    for i in range(int(lengths.max()) if len(values) else 0):
        having = lengths > i
        group = (values[having] >> (_BITS * i)) & (_MORE - 1)
        group |= np.where(lengths[having] > i + 1, _MORE, 0)
        data[starts[having] + i] = group
    return Records(data, lengths)


def joined(parts: Sequence[Records]) -> Records:
    """Each record followed by that of the next part; all parts have the same number of them."""
    lengths = sum((p.lengths for p in parts[1:]), start=parts[0].lengths)
    data = np.empty(int(lengths.sum()), np.uint8)
    at = np.cumsum(lengths) - lengths
    for part in parts:
        places = np.repeat(at - part.starts(), part.lengths)
        places += np.arange(len(part.data))
        data[places] = part.data
        at = at + part.lengths
    return Records(data, lengths)


def grouped(records: Records, starts: Ints) -> Records:
    """Records that follow each other as one: the first of each group is at `starts`."""
    return Records(records.data, np.add.reduceat(records.lengths, starts))


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at` and its end; IndexError beyond the data."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & (_MORE - 1)) << shift
        at += 1
        if byte < _MORE:
            return value, at
        shift += _BITS


def read_varints(data: bytes) -> Ints:
    """Return all numbers of `varints`; IndexError for bytes that end within one."""
    stored = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(stored < _MORE)
    if not len(ends) or ends[-1] != len(stored) - 1:
        raise IndexError(len(stored))
    starts = np.append(0, ends[:-1] + 1)
    lengths = ends - starts + 1
    if int(lengths.max()) * _BITS > _MOST_BITS:
        raise IndexError(len(stored))
    numbers = np.zeros(len(starts), np.int64)
    for i in range(int(lengths.max())):
        having = lengths > i
        group = stored[starts[having] + i] & (_MORE - 1)
        numbers[having] |= group.astype(np.int64) << (_BITS * i)
    return numbers
