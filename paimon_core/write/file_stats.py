"""Statistics for a data file's metadata (Java: `stats/SimpleStatsConverter`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import pyarrow as pa

from paimon_core.format.column_stats import (
    KEY_MODE,
    UNKNOWN,
    ColumnStats,
    Detail,
    StatsCollector,
    StatsMode,
    column_modes,
    narrowed,
)
from paimon_core.manifest.data_file import EMPTY_STATS, SimpleStats
from paimon_core.options import STATS_DENSE_STORE, Options
from paimon_core.schema.key_value import file_row_type
from paimon_core.types.binary_row import encode_row
from paimon_core.types.data_types import DataType, RowType

_DETAILS: Final = list(Detail)


class FileStats:
    """Collects the statistics of one file, of its value columns and of its key.

    A key column is evaluated once: the file holds its values twice, as `_KEY_x` and as `x`.
    """

    def __init__(
        self,
        value_type: RowType,
        options: Options,
        *,
        file_format: str,
        stats_mode: str,
        key_names: Sequence[str] = (),
        thin: bool = False,
    ) -> None:
        self._type = value_type
        self._places = {name: i for i, name in enumerate(value_type.names)}
        self._key_at = [self._places[k] for k in key_names]
        self._dense = options.value(STATS_DENSE_STORE)
        keys = RowType(fields=tuple(value_type.fields[i] for i in self._key_at))
        if file_format == "avro" and key_names:
            # Java counts the system columns of a key-value Avro file as if they were the table's.
            names = file_row_type(keys, value_type, thin=thin).names
            modes = column_modes(names, stats_mode, options)
            self._modes = modes[len(names) - len(value_type) :]
            self._key_modes = (
                [self._modes[i] for i in self._key_at] if thin else modes[: len(key_names)]
            )
        else:
            thin_keys = key_names if thin else ()
            self._modes = column_modes(value_type.names, stats_mode, options, key_columns=thin_keys)
            self._key_modes = [_key_mode(k, options) for k in key_names]
            if thin:
                self._key_modes = [self._modes[i] for i in self._key_at]
        wanted = [m.detail for m in self._modes]
        for i, mode in zip(self._key_at, self._key_modes, strict=True):
            wanted[i] = max(wanted[i], mode.detail, key=_DETAILS.index)
        self._collector = StatsCollector(value_type, wanted, file_format)

    def update(self, values: Sequence[pa.Array]) -> None:
        """Add the next rows: the value columns in order."""
        self._collector.update(values)

    def pass_over(self, columns: Collection[str]) -> None:
        """Leave these columns out of `update`: `add_known` will be called for them."""
        self._collector.pass_over([self._places[n] for n in columns if n in self._places])

    def add_known(self, name: str, nulls: int, bounds: Sequence[Any] | None) -> None:
        """Add rows of one column, as `StatsCollector.add_known`; other columns are ignored."""
        if name in self._places:
            self._collector.add_known(self._places[name], nulls, bounds)

    @property
    def collector(self) -> StatsCollector:
        """Return the collector for the value columns, column by column."""
        return self._collector

    def key_stats(self) -> SimpleStats:
        """Return the statistics of all key columns."""
        results = self._collector.results()
        stats = [
            narrowed(results[i], mode, self._type.fields[i].type)
            for i, mode in zip(self._key_at, self._key_modes, strict=True)
        ]
        return _stored(stats, [self._type.fields[i].type for i in self._key_at])

    def value_stats(self) -> tuple[SimpleStats, tuple[str, ...] | None]:
        """Return the statistics of the value columns, and which columns they cover (None: all)."""
        stats = [
            narrowed(result, mode, f.type)
            for result, mode, f in zip(
                self._collector.results(), self._modes, self._type.fields, strict=True
            )
        ]
        if not self._dense:
            return _stored(stats, self._type.types), None
        known = [i for i, s in enumerate(stats) if s != UNKNOWN]
        stored = _stored([stats[i] for i in known], [self._type.fields[i].type for i in known])
        if len(known) == len(stats):
            return stored, None
        return stored, tuple(self._type.fields[i].name for i in known)


def _key_mode(name: str, options: Options) -> StatsMode:
    own = options.get(f"fields._KEY_{name}.stats-mode")
    return KEY_MODE if own is None else StatsMode.parse(own)


def _stored(stats: Sequence[ColumnStats], types: Sequence[DataType]) -> SimpleStats:
    if not stats:
        return EMPTY_STATS
    nullable = [t.with_nullable(True) for t in types]
    return SimpleStats(
        encode_row([s.minimum for s in stats], nullable),
        encode_row([s.maximum for s in stats], nullable),
        tuple(s.null_count for s in stats),
    )
