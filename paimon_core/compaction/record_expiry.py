"""Record-level expiration: `record-level.expire-time` (Java: `io/RecordLevelExpire`).

Compaction drops expired rows; until then, reads still return them.  The time of a row is its
`record-level.time-field`: seconds since the epoch (INT, BIGINT), milliseconds (BIGINT from 10^12
on), or a timestamp, truncated to seconds towards zero.  A row without a time never expires.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import RECORD_LEVEL_EXPIRE_TIME, RECORD_LEVEL_TIME_FIELD
from paimon_core.scan.prune import column_stats
from paimon_core.types.buffers import BoolArray, fixed_values, valid_rows
from paimon_core.types.data_types import (
    INTEGER_TYPES,
    TIMESTAMP_TYPES,
    DataField,
    DataType,
    TypeRoot,
)

_MILLIS_FROM: Final = 10**12
_PER_SECOND: Final = {"ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """Rows whose `field` is before `before` (seconds since the epoch) are expired."""

    field: DataField
    before: int

    def keep(self, batch: pa.RecordBatch) -> BoolArray:
        """Return, for each row, whether it is not expired."""
        column = batch.column(self.field.name)
        kept: BoolArray = _seconds(column) >= self.before
        return kept | ~valid_rows(column) if column.null_count else kept

    def holds_expired(self, table: FileStoreTable, file: DataFileMeta) -> bool:
        """Return whether the file holds expired rows by its statistics; False if unknown."""
        written = table.schema_of(file.schema_id)
        old = next((f for f in written.fields if f.id == self.field.id), None)
        if old is None or not _comparable(old.type, self.field.type):
            return False
        range_of_old = column_stats(file, written).get(old.name)
        least = None if range_of_old is None else range_of_old[0]
        if not isinstance(least, int):
            return False
        return _in_seconds(least, old.type) < self.before


def record_expiry(table: FileStoreTable, *, now_millis: int) -> RecordExpiry | None:
    """Return the expiry at this time (milliseconds since the epoch); None if rows never expire.

    Raises InvalidArgument if the options do not fit the table.
    """
    duration = table.options.value(RECORD_LEVEL_EXPIRE_TIME)
    return None if duration is None else expiry_before(table, now_millis // 1000 - duration // 1000)


def expiry_before(table: FileStoreTable, seconds: int) -> RecordExpiry:
    """Return the expiry of rows before this time; InvalidArgument without a valid time field."""
    name = table.options.value(RECORD_LEVEL_TIME_FIELD)
    field = None if name is None else table.schema.row_type.get(name)
    if field is None or field.type.root not in (TypeRoot.INT, TypeRoot.BIGINT, *TIMESTAMP_TYPES):
        raise InvalidArgument(
            f"table {table.name} has {RECORD_LEVEL_EXPIRE_TIME.key}, but its "
            f"{RECORD_LEVEL_TIME_FIELD.key} ({name}) is not a column of type INT, BIGINT or TIMESTAMP",
            table=table.name,
            next_step=f"set {RECORD_LEVEL_TIME_FIELD.key}, or remove {RECORD_LEVEL_EXPIRE_TIME.key}",
        )
    return RecordExpiry(field, seconds)


def _seconds(column: pa.Array) -> npt.NDArray[np.int64]:
    t = column.type
    if pa.types.is_timestamp(t):
        values = fixed_values(column, np.int64)
        # First down to milliseconds, then to seconds towards zero, like Java's division.
        millis = values // (_PER_SECOND[t.unit] // 1000)
        seconds: npt.NDArray[np.int64] = np.sign(millis) * (np.abs(millis) // 1000)
        return seconds
    if pa.types.is_int32(t):
        return fixed_values(column, np.int32).astype(np.int64)
    values = fixed_values(column, np.int64)
    return np.where(values >= _MILLIS_FROM, values // 1000, values)


def _in_seconds(value: int, data_type: DataType) -> int:
    if data_type.root in TIMESTAMP_TYPES:
        millis = value // 1_000_000
        return -(-millis // 1000) if millis < 0 else millis // 1000
    return value // 1000 if value >= _MILLIS_FROM else value


def _comparable(old: DataType, new: DataType) -> bool:
    """Return whether statistics of the old type are valid for the new one."""
    return old.root == new.root or (old.root in INTEGER_TYPES and new.root in INTEGER_TYPES)
