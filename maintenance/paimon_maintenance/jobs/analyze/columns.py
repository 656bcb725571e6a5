"""The column statistics of Spark's ANALYZE TABLE (Spark: `CommandUtils.statExprs`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.format.column_stats import ColumnStats, Detail, StatsCollector, sorts_before
from paimon_core.table.statistics import ColumnStatistics
from paimon_core.types.data_types import DataField, DataType, RowType, TypeRoot
from paimon_core.types.usual_sizes import usual_size
from paimon_maintenance.jobs.analyze.distinct import DistinctCounter, hashes_of

_FIXED: Final = frozenset(
    {
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
        TypeRoot.DECIMAL,
        TypeRoot.DATE,
        TypeRoot.TIMESTAMP,
        TypeRoot.TIMESTAMP_LTZ,
    }
)
"""Types whose values all have one size, for which Spark and Paimon take the same."""
_TEXTS: Final = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES: Final = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_SIZE_OF_NO_TEXT: Final = 20
_SIZE_OF_NO_BYTES: Final = 100


def can_be_analyzed(data_type: DataType) -> bool:
    """Whether Spark collects statistics for columns of this type."""
    root = data_type.root
    return root in _FIXED or root in _TEXTS or root in _BYTES


@dataclass(slots=True)
class ColumnStatisticsCollector:
    """Collects the statistics of one column; collectors are picklable and can be merged."""

    data_type: DataType
    distinct: DistinctCounter = field(default_factory=DistinctCounter)
    rows: int = 0
    nulls: int = 0
    length: int = 0
    longest: int = 0
    minimum: Any = None
    maximum: Any = None

    @property
    def _has_lengths(self) -> bool:
        return self.data_type.root in _TEXTS or self.data_type.root in _BYTES

    def add(self, array: pa.Array, bounds: ColumnStats) -> None:
        """Add rows with known minimum and maximum."""
        self.rows += len(array)
        self.nulls += array.null_count
        if array.null_count == len(array):
            return
        self.distinct.add(hashes_of(array, self.data_type))
        if self._has_lengths:
            text = self.data_type.root in _TEXTS
            lengths = pc.utf8_length(array) if text else pc.binary_length(array)
            self.length += pc.sum(lengths).as_py()
            self.longest = max(self.longest, pc.max(lengths).as_py())
        else:
            self._widen(bounds.minimum, bounds.maximum)

    def merge(self, other: ColumnStatisticsCollector) -> None:
        """Add the statistics of another collector for the same column."""
        self.distinct.merge(other.distinct)
        self.rows += other.rows
        self.nulls += other.nulls
        self.length += other.length
        self.longest = max(self.longest, other.longest)
        self._widen(other.minimum, other.maximum)

    def _widen(self, low: Any, high: Any) -> None:
        if low is not None and (self.minimum is None or sorts_before(low, self.minimum)):
            self.minimum = low
        if high is not None and (self.maximum is None or sorts_before(self.maximum, high)):
            self.maximum = high

    def result(self, column_id: int) -> ColumnStatistics:
        """The statistics of all added rows."""
        values = self.rows - self.nulls
        average, longest = self._lengths(values)
        return ColumnStatistics(
            column_id=column_id,
            distinct_count=min(self.distinct.count(), values),
            min=self.minimum,
            max=self.maximum,
            null_count=self.nulls,
            avg_len=average,
            max_len=longest,
        )

    def _lengths(self, values: int) -> tuple[int, int]:
        if self._has_lengths:
            if not values:
                nothing = _SIZE_OF_NO_TEXT if self.data_type.root in _TEXTS else _SIZE_OF_NO_BYTES
                return nothing, nothing
            return -(-self.length // values), self.longest
        size = usual_size(self.data_type)
        return size, size


class StatisticsCollector:
    """Collects the statistics of all columns."""

    def __init__(self, fields: Sequence[DataField]) -> None:
        self.rows = 0
        self.columns = {f.name: ColumnStatisticsCollector(f.type) for f in fields}
        self._row_type = RowType(fields=tuple(fields))

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch with these columns."""
        self.rows += batch.num_rows
        if not self.columns or not batch.num_rows:
            return
        arrays = [batch.column(name) for name in self.columns]
        # As for an ORC file, which has bounds for every timestamp.
        bounds = StatsCollector(self._row_type, [Detail.FULL] * len(arrays), "orc")
        bounds.update(arrays)
        for gatherer, array, found in zip(
            self.columns.values(), arrays, bounds.results(), strict=True
        ):
            gatherer.add(array, found)

    def merge(self, other: StatisticsCollector) -> None:
        """Add the statistics of another collector."""
        self.rows += other.rows
        for name, gatherer in self.columns.items():
            gatherer.merge(other.columns[name])
