"""The definition of a system table: its columns, and a function that returns its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo

from paimon_core.file_store_table import FileStoreTable
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.datetimes import utc_to_local
from paimon_core.types.sql import parse_type

NANOS_OF_MILLI = 1_000_000

Row = tuple[object, ...]
"""Internal values, one per column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRead:
    """The subject of a read: a table, its snapshot (None: it has none), and the time zone.

    `like_2_0` chooses the columns of Java 2.0; otherwise they are there if it writes the table.
    """

    table: FileStoreTable
    snapshot: Snapshot | None
    zone: tzinfo = UTC
    like_2_0: bool = False

    @property
    def with_2_0(self) -> bool:
        """Whether to show the columns that Java 2.0 added."""
        return self.like_2_0 or (self.snapshot is not None and self.snapshot.written_by_2_0)

    def wall_clock(self, epoch_millis: int | None) -> int | None:
        """Convert a time to wall clock nanoseconds in the zone."""
        return None if epoch_millis is None else utc_to_local(epoch_millis * 1_000_000, self.zone)


@dataclass(frozen=True, slots=True)
class SystemTable:
    """Columns with their SQL types, and the rows; `since_2_0` are the last columns of a row.

    `shows_values`: whether the rows hold values of the table's columns, other than partitions.
    """

    columns: Mapping[str, str]
    rows: Callable[[SystemRead], Iterable[Row]]
    since_2_0: Mapping[str, str] | None = None
    shows_values: bool = False

    def row_type(self, *, with_2_0: bool) -> RowType:
        columns = {**self.columns, **((self.since_2_0 or {}) if with_2_0 else {})}
        return RowType(
            nullable=False,
            fields=tuple(
                DataField(id=i, name=n, type=parse_type(t))
                for i, (n, t) in enumerate(columns.items())
            ),
        )


def local_millis(millis: int | None) -> int | None:
    """Convert the wall clock milliseconds of data files to the value of a TIMESTAMP."""
    return None if millis is None else millis * NANOS_OF_MILLI
