"""Unions of serialized Apache DataSketches: `hll_sketch` and `theta_sketch`.

The package `datasketches` does the work and is required only if a table needs it.  Its bytes equal
Java's except for three positions in theta sketches, which `_as_java` sets.  When HLL sketches of
different precision are merged, the buckets equal Java's, but the stored running estimate may differ
within the sketch's own error.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from paimon_core.errors import CorruptTable, UnsupportedFeature, how_to_get
from paimon_core.lsm.aggregates.scalar import Aggregate

if TYPE_CHECKING:
    from types import ModuleType

_PREAMBLE_LONGS: Final = 0x3F
_FLAGS: Final = 5
_SEED_HASH: Final = slice(6, 8)
_EMPTY_BYTES: Final = 8
_SINGLE_ITEM: Final = 0x20
_SINGLE_ITEM_BYTES: Final = 16
_SAMPLING: Final = slice(12, 16)
_ALL: Final = bytes.fromhex("0000803f")
"""The sampling probability 1.0 as a little-endian float."""
# HLL sketches: a list or a set of coupons, or registers, behind a head of this many bytes.
_HLL_VERSION, _HLL_FAMILY = 1, 7
_PRECISIONS: Final = range(4, 22)
_LIST, _SET, _REGISTERS = range(3)
_HLL_HEADS: Final = {_LIST: 8, _SET: 12, _REGISTERS: 40}
_COMPACT: Final = 8
_LIST_SIZE: Final = 3
_SET_SIZES: Final = range(5, 19)
_NIBBLES: Final = 15
"""Registers of four bits that are this high are stored once more, behind all registers."""


class HllSketch(Aggregate):
    """Builds the union of HyperLogLog sketches, stored as HLL_4 (Java: `HllSketchUtil`)."""

    name = "hll_sketch"

    def __init__(self) -> None:
        super().__init__()
        self._library = _datasketches(self.name)

    def add(self, accumulator: Any, value: Any) -> Any:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        library = self._library
        if not (_is_hll(value) and _is_hll(accumulator)):
            raise _unreadable(self.name, ValueError("its parts contradict each other"))
        try:
            later = library.hll_sketch.deserialize(value)
            union = library.hll_union(later.lg_config_k)
            union.update(later)
            union.update(library.hll_sketch.deserialize(accumulator))
        except (RuntimeError, ValueError, IndexError) as e:
            raise _unreadable(self.name, e) from e
        return bytes(union.get_result(library.tgt_hll_type.HLL_4).serialize_compact())


def _is_hll(data: bytes) -> bool:
    """Return whether the library reads nothing but these bytes as a sketch.

    It believes what they say of their parts, and ends the process if that is wrong.
    """
    if len(data) < _HLL_HEADS[_LIST]:
        return False
    ints, version, family, precision, size, flags, count, mode = data[:8]
    kind, width, head = mode & 3, mode >> 2 & 3, _HLL_HEADS.get(mode & 3)
    if (
        (version, family, 4 * ints) != (_HLL_VERSION, _HLL_FAMILY, head)
        or precision not in _PRECISIONS
        or len(data) < 4 * ints
    ):
        return False
    rest, is_compact = len(data) - 4 * ints, bool(flags & _COMPACT)
    if kind == _LIST:
        return size == _LIST_SIZE and 4 * (count if is_compact else 8) <= rest and count <= 8
    if kind == _SET:
        (count,) = struct.unpack_from("<I", data, 8)
        fits = size in _SET_SIZES and 4 * count <= 3 << size
        return fits and 4 * (count if is_compact else 1 << size) <= rest
    slots = 1 << precision
    if width == 0:
        return _are_nibbles(data, slots, size, is_compact=is_compact)
    return width < 3 and (slots * 3 // 4 + 1 if width == 1 else slots) <= rest


def _are_nibbles(data: bytes, slots: int, size: int, *, is_compact: bool) -> bool:
    """Return whether the high ones of the registers are those that are stored once more."""
    begin = _HLL_HEADS[_REGISTERS]
    (count,) = struct.unpack_from("<I", data, begin - 4)
    more = count if is_compact or not count else 1 << min(size, 32)
    end = begin + slots // 2
    if len(data) < end + 4 * more:
        return False
    registers = np.frombuffer(data, np.uint8, slots // 2, begin)
    high = [
        np.flatnonzero(n == _NIBBLES) * 2 + i
        for i, n in enumerate((registers & 15, registers >> 4))
    ]
    stored = np.frombuffer(data, "<u4", more, end)
    stored = stored[stored != 0] & (slots - 1)
    return len(stored) == count and bool(
        np.array_equal(np.sort(np.concatenate(high)), np.sort(stored))
    )


class ThetaSketch(Aggregate):
    """Builds the union of theta sketches with 4096 nominal entries (Java: `ThetaSketch`)."""

    name = "theta_sketch"

    def __init__(self) -> None:
        super().__init__()
        self._library = _datasketches(self.name)

    def add(self, accumulator: Any, value: Any) -> Any:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        read = self._library.compact_theta_sketch.deserialize
        union = self._library.theta_union()
        try:
            union.update(read(accumulator))
            union.update(read(value))
        except (RuntimeError, ValueError, IndexError) as e:
            raise _unreadable(self.name, e) from e
        return _as_java(union.get_result().serialize())


def _as_java(sketch: bytes) -> bytes:
    """Return the bytes as Java writes them: with sampling probability and a single-item flag.

    An empty sketch has no seed.
    """
    data = bytearray(sketch)
    if len(data) == _EMPTY_BYTES:
        data[_SEED_HASH] = bytes(2)
    elif data[0] & _PREAMBLE_LONGS > 1:
        data[_SAMPLING] = _ALL
    elif len(data) == _SINGLE_ITEM_BYTES:
        data[_FLAGS] |= _SINGLE_ITEM
    return bytes(data)


def _datasketches(function: str) -> ModuleType:
    try:
        import datasketches  # noqa: PLC0415 - an extra; few tables need it
    except ImportError as e:
        raise UnsupportedFeature(
            f"aggregate function {function} without the package datasketches",
            next_step=f"where the job runs: {how_to_get('sketches')}; then run again",
        ) from e
    module: ModuleType = datasketches
    return module


def _unreadable(function: str, reason: Exception) -> CorruptTable:
    return CorruptTable(
        f"a value of {function} is not a sketch: {reason}",
        next_step="check what the writers of this column write",
    )
