"""Refuses rows of partitions that represent no time (Java: `PartitionTimestampValidator`).

With `partition.timestamp-format.strict`, a wrong value in a partition column is an error when it is
written.  Otherwise it makes a partition that never expires.
"""

from __future__ import annotations

from collections.abc import Callable

from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import (
    PARTITION_TIMESTAMP_FORMAT_STRICT,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
)
from paimon_core.types.partition_time import PartitionTimes


def partition_check(table: FileStoreTable) -> Callable[[bytes], None] | None:
    """Return what raises InvalidArgument for a stored row that is no time; None if any may be."""
    options, kind = table.options, table.schema.partition_type
    pattern = options.value(PARTITION_TIMESTAMP_PATTERN)
    formatter = options.value(PARTITION_TIMESTAMP_FORMATTER)
    strict = options.value(PARTITION_TIMESTAMP_FORMAT_STRICT)
    if not strict or not kind.fields or (pattern is None and formatter is None):
        return None
    times = PartitionTimes.of(pattern, formatter)

    def check(row: bytes) -> None:
        time = times.time_of(kind, row)
        if isinstance(time, str):
            raise InvalidArgument(
                f"partition {table.paths.partition_path(row)} of table {table.name} does not match "
                f"partition.timestamp-formatter or partition.timestamp-pattern: {time}",
                table=table.name,
                next_step="correct the values of the partition columns; "
                f"{PARTITION_TIMESTAMP_FORMAT_STRICT.key}=false accepts them",
            )

    return check
