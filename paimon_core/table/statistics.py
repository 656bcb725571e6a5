"""Table statistics, written by ANALYZE (Java: `stats/Statistics`, `StatsFileHandler`).

::

    statistics/stat-UUID-0    JSON, named in `Snapshot.statistics` of the snapshots that carry it

They describe one snapshot (rows after merging, bytes, values by column) for query planners; reads
and maintenance do not depend on them.  Later snapshots keep the name until the schema changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, cast

from paimon_core.errors import UNREADABLE, CorruptTable, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.json_text import parse_json_object, to_pretty_json
from paimon_core.io.read_retry import read_whole
from paimon_core.schema.table_schema import TableSchema
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.cast_text import java_to_string, parse_text
from paimon_core.types.data_types import (
    BINARY_TYPES,
    CHARACTER_TYPES,
    AtomicType,
    DataType,
    TypeRoot,
)
from paimon_core.types.sql import type_to_sql

STATISTICS_PREFIX: Final = "stat-"

_PLAIN_INTEGERS: Final = (TypeRoot.DATE, TypeRoot.TIME)
_NUMBERS: Final = {
    "distinctCount": "distinct_count",
    "nullCount": "null_count",
    "avgLen": "avg_len",
    "maxLen": "max_len",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """The statistics of one column; None for unknown values.

    `column_id` is the field's id, `min` and `max` are internal values, lengths are bytes per value.
    """

    column_id: int
    distinct_count: int | None = None
    min: object = None
    max: object = None
    null_count: int | None = None
    avg_len: int | None = None
    max_len: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Rows and bytes of snapshot `snapshot_id` after merging, and column statistics by name."""

    snapshot_id: int
    schema_id: int
    merged_record_count: int | None
    merged_record_size: int | None
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)


def read_statistics(table: FileStoreTable, snapshot: Snapshot) -> Statistics | None:
    """Return the snapshot's statistics; None if it has none.

    Raises CorruptTable if the file is missing or unreadable.
    """
    name = snapshot.statistics
    if name is None:
        return None
    path = table.paths.statistics(name)
    try:
        obj = parse_json_object(read_whole(table.io, path))
        return statistics_from_object(obj, table.schema_of(_whole(obj, "schemaId")))
    except FileNotFoundError as e:
        raise _unreadable(table, snapshot, path, "is missing") from e
    except UNREADABLE as e:
        raise _unreadable(table, snapshot, path, f"cannot be read: {e}") from e


def _unreadable(table: FileStoreTable, snapshot: Snapshot, path: str, problem: str) -> CorruptTable:
    return CorruptTable(
        f"statistics file {path} of table {table.name} {problem}",
        table=table.name,
        file=path,
        snapshot=snapshot.id,
        next_step="rows are not affected; analyze the table again",
    )


def write_statistics(
    table: FileStoreTable, statistics: Statistics, *, new_uuid: Callable[[], str]
) -> str:
    """Write the file and return its name for a commit of kind ANALYZE.

    Raises InvalidArgument or KeyError for columns that are not in the schema of
    `statistics.schema_id`; UnsupportedFeature for a minimum of a type for which Java stores none.
    """
    schema = table.schema_of(statistics.schema_id)
    name = f"{STATISTICS_PREFIX}{new_uuid()}-0"
    text = to_pretty_json(statistics_to_object(statistics, schema))
    table.io.write_bytes(table.paths.statistics(name), text.encode())
    return name


# --- JSON ---------------------------------------------------------------------------------------


def statistics_to_object(statistics: Statistics, schema: TableSchema) -> dict[str, object]:
    """Return the JSON object as Java prints it."""
    result: dict[str, object] = {
        "snapshotId": statistics.snapshot_id,
        "schemaId": statistics.schema_id,
        "mergedRecordCount": statistics.merged_record_count,
        "mergedRecordSize": statistics.merged_record_size,
    }
    result = {k: v for k, v in result.items() if v is not None}
    result["colStats"] = columns_to_object(statistics, schema)
    return result


def columns_to_object(statistics: Statistics, schema: TableSchema) -> dict[str, object]:
    """Return the part `colStats` of the JSON: column -> statistics."""
    types = {f.name: f.type for f in schema.fields}
    return {name: _column_to_object(c, types[name]) for name, c in statistics.columns.items()}


def statistics_from_object(obj: Mapping[str, object], schema: TableSchema) -> Statistics:
    """Parse the JSON object; `schema` is the schema of its `schemaId`.

    Raises KeyError, TypeError or ValueError for other content.
    """
    types = {f.name: f.type for f in schema.fields}
    columns = cast("Mapping[str, Mapping[str, object]]", obj.get("colStats") or {})
    return Statistics(
        snapshot_id=_whole(obj, "snapshotId"),
        schema_id=_whole(obj, "schemaId"),
        merged_record_count=_optional_whole(obj, "mergedRecordCount"),
        merged_record_size=_optional_whole(obj, "mergedRecordSize"),
        columns={name: _column_from_object(c, types[name]) for name, c in columns.items()},
    )


def _column_to_object(column: ColumnStatistics, data_type: DataType) -> dict[str, object]:
    result: dict[str, object] = {
        "colId": column.column_id,
        "distinctCount": column.distinct_count,
        "min": None if column.min is None else value_to_text(column.min, data_type),
        "max": None if column.max is None else value_to_text(column.max, data_type),
        "nullCount": column.null_count,
        "avgLen": column.avg_len,
        "maxLen": column.max_len,
    }
    return {k: v for k, v in result.items() if v is not None}


def _column_from_object(obj: Mapping[str, object], data_type: DataType) -> ColumnStatistics:
    low, high = obj.get("min"), obj.get("max")
    numbers = {attribute: _optional_whole(obj, name) for name, attribute in _NUMBERS.items()}
    return ColumnStatistics(
        column_id=_whole(obj, "colId"),
        min=None if low is None else value_from_text(str(low), data_type),
        max=None if high is None else value_from_text(str(high), data_type),
        **numbers,
    )


def value_to_text(value: object, data_type: DataType) -> str:
    """Return a minimum or maximum as text (Java: `Serializer.serializeToString`).

    Dates and times of day are plain numbers.  Raises UnsupportedFeature for binary and nested
    types.
    """
    t = _with_text(data_type)
    if t.kind in _PLAIN_INTEGERS:
        return str(value)
    if t.kind in CHARACTER_TYPES:
        return str(value)
    if t.kind is TypeRoot.DECIMAL:
        return format(cast("Decimal", value), "f")
    return java_to_string(value, t)


def value_from_text(text: str, data_type: DataType) -> Any:
    """Parse a minimum or maximum into its internal value; ValueError if it is invalid."""
    t = _with_text(data_type)
    if t.kind in _PLAIN_INTEGERS:
        return int(text)
    if t.kind in CHARACTER_TYPES:
        return text
    return parse_text(text, t)


def _with_text(data_type: DataType) -> AtomicType:
    if not isinstance(data_type, AtomicType) or data_type.kind in BINARY_TYPES:
        raise UnsupportedFeature(f"minimum and maximum of {type_to_sql(data_type)} in statistics")
    return data_type


def _whole(obj: Mapping[str, object], name: str) -> int:
    value = obj[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is not a whole number: {value!r}")
    return value


def _optional_whole(obj: Mapping[str, object], name: str) -> int | None:
    return None if obj.get(name) is None else _whole(obj, name)
