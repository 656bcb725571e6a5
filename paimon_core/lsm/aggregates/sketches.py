"""Unions of serialized Apache DataSketches: `hll_sketch` and `theta_sketch`.

The package `datasketches` does the work and is required only if a table needs it.  Its bytes equal
Java's except for three positions in theta sketches, which `_as_java` sets.  When HLL sketches of
different precision are merged, the buckets equal Java's, but the stored running estimate may differ
within the sketch's own error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
        try:
            later = library.hll_sketch.deserialize(value)
            union = library.hll_union(later.lg_config_k)
            union.update(later)
            union.update(library.hll_sketch.deserialize(accumulator))
        except (RuntimeError, ValueError, IndexError) as e:
            raise _unreadable(self.name, e) from e
        return bytes(union.get_result(library.tgt_hll_type.HLL_4).serialize_compact())


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
