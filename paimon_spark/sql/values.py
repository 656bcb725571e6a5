"""Values of answers as JSON.

Timestamps `2024-01-31 12:34:56.123` on the session's clock, without trailing zeros; dates ISO;
decimals as text with all digits; binary as hex; arrays and structs as lists; maps as lists of
pairs; VARIANT as its JSON text; NaN and infinities as text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import tzinfo
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.types.datetimes import iso_date, utc_to_local
from paimon_core.types.java_numbers import float_text
from paimon_core.types.variants.parts import METADATA, VALUE
from paimon_core.types.variants.variant import variant_json

_MICROS_OF_DAY: Final = 86_400_000_000


def json_rows(table: pa.Table, zone: tzinfo) -> list[list[Any]]:
    """The rows of a collected DataFrame; `zone` is the session's."""
    columns = [
        [v for chunk in column.chunks for v in json_values(chunk, zone)]
        for column in table.itercolumns()
    ]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def json_values(array: pa.Array, zone: tzinfo) -> list[Any]:
    """The JSON values of an Arrow array.

    Dates and times are read as numbers: Spark's years go beyond those of Python.
    """
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = json_values(array.values, zone)
        return _cut(array, items)
    if pa.types.is_map(kind):
        keys, items = json_values(array.keys, zone), json_values(array.items, zone)
        pairs = [[k, v] for k, v in zip(keys, items, strict=True)]
        return [None if p is None else sorted_pairs(p) for p in _cut(array, pairs)]
    if pa.types.is_struct(kind):
        return _structs(array, zone)
    if pa.types.is_date(kind):
        return [None if v is None else iso_date(v) for v in _numbers(array, pa.int32())]
    if pa.types.is_timestamp(kind):
        micros = array.cast(pa.timestamp("us", kind.tz), safe=False)
        clock = None if kind.tz is None else zone
        return [None if v is None else _timestamp(v, clock) for v in _numbers(micros, pa.int64())]
    if pa.types.is_float32(kind):
        return [None if v is None else _float(_shortest(v)) for v in array.to_pylist()]
    if pa.types.is_floating(kind):
        return [None if v is None else _float(v) for v in array.to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if v is None else f"{v:f}" for v in array.to_pylist()]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [None if v is None else v.hex() for v in array.to_pylist()]
    plain = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_string(kind)
    return [v if v is None or plain else str(v) for v in array.to_pylist()]


def _numbers(array: pa.Array, kind: pa.DataType) -> list[int | None]:
    found: list[int | None] = array.cast(kind).to_pylist()
    return found


def _cut(array: pa.Array, items: Sequence[Any]) -> list[list[Any] | None]:
    """The items of each list or map; `items` are those of all of them."""
    offsets = array.offsets.to_pylist()
    valid = pc.is_valid(array).to_pylist()
    return [
        list(items[start:end]) if there else None
        for start, end, there in zip(offsets[:-1], offsets[1:], valid, strict=True)
    ]


def _structs(array: pa.Array, zone: tzinfo) -> list[Any]:
    """Structs as lists: their fields may share a name."""
    valid = pc.is_valid(array).to_pylist()
    if _is_variant(array.type):
        parts = zip(array.field(VALUE).to_pylist(), array.field(METADATA).to_pylist(), strict=True)
        return [variant_json(*p) if there else None for p, there in zip(parts, valid, strict=True)]
    children = [json_values(child, zone) for child in array.flatten()]
    rows = zip(*children, strict=True) if children else iter([()] * len(array))
    return [list(row) if there else None for row, there in zip(rows, valid, strict=True)]


def _is_variant(arrow: pa.StructType) -> bool:
    """Whether Spark marks the struct as a VARIANT."""
    return any((f.metadata or {}).get(b"variant") == b"true" for f in arrow.fields)


def sorted_pairs(pairs: list[list[Any]]) -> list[list[Any]]:
    """The entries of a map, ordered by their JSON text, so that the order does not depend on the
    file.
    """
    return sorted(pairs, key=json.dumps)


def _timestamp(micros: int, zone: tzinfo | None) -> str:
    """As Spark prints a timestamp; with a zone, `micros` is an instant."""
    local = micros if zone is None else utc_to_local(micros * 1000, zone) // 1000
    days, rest = divmod(local, _MICROS_OF_DAY)
    seconds, micro = divmod(rest, 1_000_000)
    text = f"{iso_date(days)} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{micro:06}".rstrip("0") if micro else text


def _shortest(value: float) -> float:
    """The double that prints like the FLOAT."""
    return float(float_text(value)) if math.isfinite(value) else value


def _float(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
