"""Collects minimum, maximum and null count of each column of a file, like Java.

Java takes them from the footer of the finished file (Parquet, ORC) or from the rows (Avro), so the
available values depend on the format (`ParquetSimpleStatsExtractor`, `OrcSimpleStatsExtractor`,
`SimpleStatsCollector`):

====================  ===================  ====================  ==================
column                parquet              orc                   avro
====================  ===================  ====================  ==================
BINARY, VARBINARY     null count           null count            null count
TIMESTAMP, LTZ > 6    null count           all three             (no such files)
ARRAY, VARIANT, ...   nothing at all       null count            null count
all others            all three            all three             all three
====================  ===================  ====================  ==================

Two results differ from Java's, without any risk of losing rows: with ORC, Java returns NaN as the
minimum if it is the first value, and blanks for padded CHAR values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import InvalidArgument
from paimon_core.options import STATS_KEEP_FIRST_N, Options
from paimon_core.types.arrow import arrow_type
from paimon_core.types.buffers import fixed_values
from paimon_core.types.data_types import (
    TIMESTAMP_TYPES,
    AtomicType,
    DataType,
    RowType,
    TypeRoot,
)

KEY_TRUNCATION: Final = 128
"""The characters kept of a key's minimum and maximum, whatever the mode."""
_TRUNCATE: Final = re.compile(r"truncate\((\d+)\)")
_BINARY: Final = (TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.VARIANT)
_MICROS: Final = 6
_NANOS: Final = {"ms": 10**6, "us": 10**3, "ns": 1}
_LAST_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


class Detail(Enum):
    """How much is stored for a column (the word before `(n)` in `metadata.stats-mode`)."""

    NONE = auto()
    COUNTS = auto()
    TRUNCATE = auto()
    FULL = auto()


@dataclass(frozen=True, slots=True)
class StatsMode:
    """A value of `metadata.stats-mode`; `length` is in characters, for TRUNCATE only."""

    detail: Detail
    length: int = 0

    @staticmethod
    def parse(text: str) -> StatsMode:
        """Parse a mode such as "truncate(16)"; InvalidArgument if it is invalid."""
        lowered = text.strip().lower()
        if match := _TRUNCATE.fullmatch(lowered):
            length = int(match.group(1))
            if length > 0:
                return StatsMode(Detail.TRUNCATE, length)
        elif lowered in ("none", "counts", "full"):
            return StatsMode(Detail[lowered.upper()])
        raise InvalidArgument(
            f"not a statistics mode: {text!r} (expected none, counts, full or truncate(n))"
        )


KEY_MODE: Final = StatsMode(Detail.TRUNCATE, KEY_TRUNCATION)
NO_STATS: Final = StatsMode(Detail.NONE)


class ColumnStats(NamedTuple):
    """The statistics of one column in internal values; None for unknown values."""

    minimum: Any = None
    maximum: Any = None
    null_count: int | None = None


UNKNOWN: Final = ColumnStats()


def column_modes(
    names: Sequence[str], stats_mode: str, options: Options, *, key_columns: Collection[str] = ()
) -> list[StatsMode]:
    """Return the mode of each column (Java: `StatsCollectorFactories.createStatsFactories`).

    `fields.NAME.stats-mode` has priority; `key_columns`, whose statistics are those of the key in
    thin mode, are always kept; of the others, `metadata.stats-keep-first-n-columns` keeps the first
    ones.
    """
    kept = options.value(STATS_KEEP_FIRST_N)
    default = StatsMode.parse(stats_mode)
    modes, counted = [], 0
    for name in names:
        own = options.get(f"fields.{name}.stats-mode")
        if own is not None:
            modes.append(StatsMode.parse(own))
        elif name in key_columns:
            modes.append(KEY_MODE)
            continue
        else:
            modes.append(NO_STATS if 0 <= kept <= counted else default)
        counted += 1
    return modes


def is_nested(data_type: DataType) -> bool:
    """Return whether values have several parts, as far as files are concerned."""
    return not isinstance(data_type, AtomicType) or data_type.kind is TypeRoot.VARIANT


def has_minimum(data_type: DataType, file_format: str) -> bool:
    """Return whether the format provides minimum and maximum for columns of the type."""
    if not isinstance(data_type, AtomicType) or is_nested(data_type) or data_type.kind in _BINARY:
        return False
    if data_type.kind in TIMESTAMP_TYPES and (data_type.precision or 0) > _MICROS:
        return file_format == "orc"
    return True


class StatsCollector:
    """Statistics of a file's columns, collected batch by batch, untruncated."""

    def __init__(self, columns: RowType, details: Sequence[Detail], file_format: str) -> None:
        """`details` defines what to collect for each column; the rest is ignored."""
        self._columns = [
            _Column(f.type, file_format, detail)
            for f, detail in zip(columns.fields, details, strict=True)
        ]
        self._passed: frozenset[int] = frozenset()

    def pass_over(self, places: Collection[int]) -> None:
        """Leave these columns out of `update`: `add_known` will be called for them."""
        self._passed = frozenset(places)

    def update(self, arrays: Sequence[pa.Array]) -> None:
        """Add the next rows: one array per column."""
        for place, (column, array) in enumerate(zip(self._columns, arrays, strict=True)):
            if place not in self._passed:
                column.update(array)

    def update_column(self, place: int, array: pa.Array) -> None:
        """Add the next rows of one column."""
        self._columns[place].update(array)

    def add_known(self, place: int, nulls: int, bounds: Sequence[Any] | None = ()) -> None:
        """Add rows of one column by their null count and bounds, without reading them.

        `bounds` include the least and the greatest value, as Arrow numbers, strings or Decimals;
        they are empty if all values are null, or if `wants_bounds` is false, and None if they are
        unknown: then those of the whole file are.
        """
        self._columns[place].add_known(nulls, bounds)

    def wants_counts(self, place: int) -> bool:
        """Return whether the nulls of the column are counted."""
        return self._columns[place].counts

    def wants_bounds(self, place: int) -> bool:
        """Return whether minimum and maximum of the column are kept."""
        return self._columns[place].counts and self._columns[place].bounds

    def results(self) -> list[ColumnStats]:
        """Return the statistics of all rows so far, one per column."""
        return [column.result() for column in self._columns]


def narrowed(stats: ColumnStats, mode: StatsMode, data_type: DataType) -> ColumnStats:
    """Reduce full statistics to those of the mode (Java: `SimpleColStatsCollector.convert`).

    A truncated maximum is increased above every value that it represents; if that is impossible,
    minimum and maximum are both unknown.
    """
    if stats.null_count is None or mode.detail is Detail.NONE:
        return UNKNOWN
    if mode.detail is Detail.COUNTS:
        return ColumnStats(null_count=stats.null_count)
    is_text = isinstance(stats.maximum, str) and isinstance(data_type, AtomicType)
    if mode.detail is Detail.FULL or not is_text:
        return stats
    maximum = truncated_maximum(stats.maximum, mode.length)
    if maximum is None:
        return ColumnStats(null_count=stats.null_count)
    return ColumnStats(stats.minimum[: mode.length], maximum, stats.null_count)


def truncated_maximum(text: str, length: int) -> str | None:
    """Return a string of at most `length` characters that is >= `text`; None if impossible."""
    if len(text) <= length:
        return text
    for i in range(length - 1, -1, -1):
        following = ord(text[i]) + 1
        if following in _SURROGATES:
            # Java writes '?' for a surrogate here, which is less than the text.
            following = _SURROGATES.stop
        if following <= _LAST_CODE_POINT:
            return text[:i] + chr(following)
    return None


class _Column:
    __slots__ = ("_float", "_max", "_min", "_nulls", "_seen", "_unit", "bounds", "counts")

    def __init__(self, data_type: DataType, file_format: str, detail: Detail) -> None:
        nested_in_parquet = file_format == "parquet" and is_nested(data_type)
        self.counts = detail is not Detail.NONE and not nested_in_parquet
        self.bounds = detail in (Detail.TRUNCATE, Detail.FULL) and has_minimum(
            data_type, file_format
        )
        root = data_type.root
        self._float = root in (TypeRoot.FLOAT, TypeRoot.DOUBLE)
        is_timestamp = root in TIMESTAMP_TYPES
        self._unit = _NANOS[arrow_type(data_type).unit] if is_timestamp else 1
        self._nulls = 0
        self._seen = False
        self._min: Any = None
        self._max: Any = None

    def update(self, array: pa.Array) -> None:
        if not self.counts:
            return
        self._nulls += array.null_count
        if not self.bounds or array.null_count == len(array):
            return
        bounds = _float_bounds(array) if self._float else ordered_bounds(array)
        if bounds is None:
            self.bounds = False
        else:
            self._widen(*bounds)

    def add_known(self, nulls: int, bounds: Sequence[Any] | None) -> None:
        if self.counts:
            self._nulls += nulls
            self.bounds = self.bounds and bounds is not None
            for value in bounds if self.bounds and bounds else ():
                self._widen(value, value)

    def _widen(self, low: Any, high: Any) -> None:
        if not self._seen:
            self._min, self._max, self._seen = low, high, True
            return
        if sorts_before(low, self._min):
            self._min = low
        if sorts_before(self._max, high):
            self._max = high

    def result(self) -> ColumnStats:
        if not self.counts:
            return UNKNOWN
        if not self.bounds or not self._seen:
            return ColumnStats(null_count=self._nulls)
        if self._unit != 1:
            return ColumnStats(self._min * self._unit, self._max * self._unit, self._nulls)
        return ColumnStats(self._min, self._max, self._nulls)


def sorts_before(left: Any, right: Any) -> bool:
    """Return whether left sorts before right; floats compare as in Java's `Double.compare`."""
    if isinstance(left, float):
        if math.isnan(left) or math.isnan(right):
            return not math.isnan(left)
        if left == right:
            return math.copysign(1, left) < math.copysign(1, right)
    return bool(left < right)


def ordered_bounds(array: pa.Array | pa.ChunkedArray) -> tuple[Any, Any] | None:
    """Return minimum and maximum of a column with values, for `add_known`; None if unknown."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        array = array.view(pa.int64())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        array = array.view(pa.int32())
    bounds = pc.min_max(array)
    try:
        return bounds["min"].as_py(), bounds["max"].as_py()
    except UnicodeDecodeError:
        return None  # not valid text: readers would interpret the bounds differently


def _float_bounds(array: pa.Array) -> tuple[float, float]:
    """Return minimum and maximum with -0.0 below 0.0 and NaN above all (Java: `Double.compare`)."""
    kept = array.drop_null() if array.null_count else array
    values = fixed_values(kept, np.float32 if pa.types.is_float32(kept.type) else np.float64)
    low, high = float(np.fmin.reduce(values)), float(values.max())
    if low == 0 and np.signbit(values[values == 0]).any():
        low = -0.0
    if high == 0 and not np.signbit(values[values == 0]).all():
        high = 0.0
    elif high == 0:
        high = -0.0
    return low, high
