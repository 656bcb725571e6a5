"""Delta varints (Java: `utils/DeltaVarintCompressor`): differences as zigzag varints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from paimon_core.errors import CorruptTable

_MORE: Final = 0x80
_LONGEST: Final = 10


def decode_delta_varints(data: bytes) -> npt.NDArray[np.int64]:
    """Return the numbers; CorruptTable if they end within one, or one is too long."""
    found = np.frombuffer(data, np.uint8)
    if not len(found):
        return np.zeros(0, np.int64)
    ends = np.flatnonzero(found < _MORE)
    if not len(ends) or ends[-1] != len(found) - 1:
        raise CorruptTable("a list of delta varints ends within a number")
    starts = np.concatenate([[0], ends[:-1] + 1])
    if int((ends - starts).max()) >= _LONGEST:
        raise CorruptTable("a delta varint has more than ten bytes")
    places = np.arange(len(found)) - np.repeat(starts, ends - starts + 1)
    bits = (found & (_MORE - 1)).astype(np.uint64) << (7 * places).astype(np.uint64)
    zigzag: npt.NDArray[Any] = np.bitwise_or.reduceat(bits, starts)
    deltas = (zigzag >> np.uint64(1)).astype(np.int64) ^ -(zigzag & np.uint64(1)).astype(np.int64)
    return np.cumsum(deltas, dtype=np.int64)


def encode_delta_varints(numbers: Sequence[int]) -> bytes:
    """Return the bytes that `decode_delta_varints` reads."""
    out = bytearray()
    last = 0
    for number in numbers:
        delta, last = number - last, number
        zigzag = (delta << 1) ^ (delta >> 63)
        while zigzag >= _MORE:
            out.append(zigzag & (_MORE - 1) | _MORE)
            zigzag >>= 7
        out.append(zigzag)
    return bytes(out)
