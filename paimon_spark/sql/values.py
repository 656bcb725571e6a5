"""Values of answers as JSON.

Timestamps `2024-01-31 12:34:56.123` on the session's clock, without trailing zeros; dates ISO;
decimals as text with all digits; binary as hex; arrays and structs as lists; maps as lists of pairs;
NaN and infinities as text.
"""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any

import pyarrow as pa

from paimon_core.types.java_numbers import float_text
from paimon_core.types.variant import variant_json
from paimon_core.types.variant_parts import METADATA, VALUE


def json_rows(table: pa.Table, zone: tzinfo) -> list[list[Any]]:
    """The rows of a collected DataFrame; `zone` is the session's."""
    columns = [
        [json_value(v, column.type, zone) for v in _python(column)]
        for column in table.itercolumns()
    ]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def _python(column: pa.ChunkedArray) -> list[Any]:
    return list(column.to_pylist())


def json_value(value: Any, arrow: pa.DataType, zone: tzinfo) -> Any:
    """The JSON value of a Python value of an Arrow column."""
    if value is None:
        return None
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return [json_value(v, arrow.value_type, zone) for v in value]
    if pa.types.is_map(arrow):
        return sorted_pairs(
            [
                [json_value(k, arrow.key_type, zone), json_value(v, arrow.item_type, zone)]
                for k, v in value
            ]
        )
    if pa.types.is_struct(arrow) and _is_variant(arrow):
        return variant_json(value[VALUE], value[METADATA])
    if pa.types.is_struct(arrow):
        return [json_value(value[f.name], f.type, zone) for f in arrow.fields]
    if pa.types.is_float32(arrow):
        return _float(float(float_text(value)) if math.isfinite(value) else value)
    match value:
        case bool() | int() | str():
            return value
        case float():
            return _float(value)
        case Decimal():
            return f"{value:f}"
        case bytes():
            return value.hex()
        case datetime():
            return timestamp_text(value if value.tzinfo is None else value.astimezone(zone))
        case date():
            return value.isoformat()
        case timedelta():
            return str(value)
    return str(value)


def _is_variant(arrow: pa.StructType) -> bool:
    """Whether Spark marks the struct as a VARIANT."""
    return any((f.metadata or {}).get(b"variant") == b"true" for f in arrow.fields)


def sorted_pairs(pairs: list[list[Any]]) -> list[list[Any]]:
    """The entries of a map, ordered by their JSON text, so that the order does not depend on the
    file.
    """
    return sorted(pairs, key=json.dumps)


def timestamp_text(value: datetime) -> str:
    """A timestamp as Spark prints it."""
    text = value.replace(tzinfo=None).isoformat(sep=" ")
    return text.rstrip("0") if "." in text else text


def _float(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
