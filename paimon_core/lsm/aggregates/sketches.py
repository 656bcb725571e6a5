"""Unions of serialized Apache DataSketches: `hll_sketch` and `theta_sketch`.

The package `datasketches` does the work and is required only if a table needs it.  Its bytes equal
Java's except for three positions in theta sketches, which `_as_java` sets.  When HLL sketches of
different precision are merged, the buckets equal Java's, but the stored running estimate may differ
within the sketch's own error.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from paimon_core.errors import CorruptTable, UnsupportedFeature, how_to_get
from paimon_core.lsm.aggregates.scalar import Aggregate

if TYPE_CHECKING:
    from types import ModuleType

    import numpy.typing as npt

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
_HIGHEST: Final = 63
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
    kind, width, head = mode & 3, mode >> 2 & 3, _HLL_HEADS.get(mode & 3, 0)
    if (
        (version, family, 4 * ints) != (_HLL_VERSION, _HLL_FAMILY, head)
        or precision not in _PRECISIONS
        or len(data) < 4 * ints
    ):
        return False
    is_compact, slots = bool(flags & _COMPACT), 1 << precision
    if kind == _REGISTERS:
        size_of = {0: slots // 2, 1: slots * 3 // 4 + 1, 2: slots}.get(width, len(data))
        registers = np.frombuffer(data[head : head + size_of], np.uint8)
        if len(registers) < size_of or size > precision or count > _HIGHEST:
            return False
        if width:
            return width == 1 or int(registers.max()) <= _HIGHEST
        return _are_nibbles(data[head - 4 :], registers, size, is_compact=is_compact)
    sizes: Collection[int] = (_LIST_SIZE,)
    if kind == _SET:
        (count,) = struct.unpack_from("<I", data, 8)
        sizes = _SET_SIZES
    # A set is at most three quarters full.
    room = 1 << size if size in sizes else 0
    stored = _coupons(data, head, count if is_compact else room)
    return count <= (room if kind == _LIST else room * 3 // 4) and _are_all(stored, count)


def _coupons(data: bytes, begin: int, count: int) -> npt.NDArray[np.uint32]:
    """Return the coupons in this number of places, fewer if the bytes end first."""
    count = max(0, min(count, (len(data) - begin) // 4))
    found: npt.NDArray[np.uint32] = np.frombuffer(data[begin : begin + 4 * count], "<u4")
    return found


def _are_all(coupons: npt.NDArray[np.uint32], count: int) -> bool:
    """Return whether these places hold so many different coupons; 0 is none."""
    there = coupons[coupons != 0]
    return len(there) == len(np.unique(there)) == count


def _are_nibbles(
    data: bytes, registers: npt.NDArray[np.uint8], size: int, *, is_compact: bool
) -> bool:
    """Return whether the high ones of the registers are those that are stored once more.

    `data` begins with their number and the registers.
    """
    (count,) = struct.unpack_from("<I", data)
    stored = _coupons(data, 4 + len(registers), count if is_compact or not count else 1 << size)
    high = [
        np.flatnonzero(nibbles == _NIBBLES) * 2 + i
        for i, nibbles in enumerate((registers & _NIBBLES, registers >> 4))
    ]
    places = stored[stored != 0] & (2 * len(registers) - 1)
    same = np.array_equal(np.sort(np.concatenate(high)), np.sort(places))
    return _are_all(stored, count) and bool(same)


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
