"""The statistics of a file's columns, for comparing files that were made in different ways."""

from __future__ import annotations

from typing import Any

from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.scan.prune import column_stats
from paimon_core.schema.table_schema import TableSchema


def bounds_of(file: DataFileMeta, schema: TableSchema) -> dict[str, tuple[Any, Any, int | None]]:
    """Minimum, maximum and nulls of each column.

    A zero of FLOAT and DOUBLE has the sign that it has in a footer of Parquet (-0.0 as minimum, 0.0
    as maximum): a file of copied pages has no other, one whose rows were decoded may have both.
    """

    def bound(value: Any, zero: float) -> Any:
        return zero if isinstance(value, float) and value == 0 else value

    return {
        name: (bound(low, -0.0), bound(high, 0.0), nulls)
        for name, (low, high, nulls) in column_stats(file, schema).items()
    }
