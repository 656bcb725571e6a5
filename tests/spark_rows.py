"""What Java prints of a row, as the Python values that Spark gives for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from paimon_core.types.data_types import (
    ArrayType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from paimon_core.types.sql import parse_type


def spark_values(rows: Sequence[Sequence[Any]], types: Sequence[str]) -> list[str]:
    """The rows [kind, value, ...] without their kinds, as sorted texts."""
    parsed = [parse_type(t) for t in types]
    return sorted(
        repr([_value(v, t) for v, t in zip(row[1:], parsed, strict=True)]) for row in rows
    )


def frame_values(frame: Any) -> list[str]:
    """The rows of a DataFrame, as sorted texts of the same form."""
    table = frame.toArrow()
    columns = [table.column(i).to_pylist() for i in range(table.num_columns)]
    return sorted(repr([_plain(v) for v in row]) for row in zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {k: _plain(v) for k, v in value.items()}
        case list():
            plain = [_plain(v) for v in value]
            is_map = bool(plain) and all(isinstance(v, tuple) for v in plain)
            return sorted(plain, key=repr) if is_map else plain
        case tuple():
            return tuple(_plain(v) for v in value)
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).replace(tzinfo=UTC)
    return value


def _value(value: Any, t: DataType) -> Any:
    if value is None:
        return None
    match t:
        case ArrayType():
            return [_value(v, t.element) for v in value]
        case MapType():
            pairs = [(_value(k, t.key), _value(v, t.value)) for k, v in value]
            return sorted(pairs, key=repr)
        case MultisetType():
            return sorted([(_value(k, t.element), v) for k, v in value], key=repr)
        case RowType():
            return {f.name: _value(value[f.name], f.type) for f in t.fields}
    match t.root:
        case TypeRoot.FLOAT:
            return np.float32(value).item()
        case TypeRoot.DOUBLE:
            return float(value)
        case TypeRoot.DECIMAL:
            return Decimal(value)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return bytes.fromhex(value)
        case TypeRoot.DATE:
            return date.fromisoformat(value)
        case TypeRoot.TIME:
            clock = datetime.fromisoformat(f"2000-01-01T{value}")
            seconds = (clock.hour * 60 + clock.minute) * 60 + clock.second
            return seconds * 1000 + clock.microsecond // 1000
        case TypeRoot.TIMESTAMP:
            return _moment(value)
        case TypeRoot.TIMESTAMP_LTZ:
            return _moment(value.removesuffix("Z")).replace(tzinfo=UTC)
    return value


def _moment(text: str) -> datetime:
    whole, _, digits = text.partition(".")
    return datetime.fromisoformat(f"{whole}.{digits[:6].ljust(6, '0')}")
