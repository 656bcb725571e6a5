"""Converts single values to and from text like Java's casts to and from STRING."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import Any, Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.types import datetimes
from paimon_core.types.arrow import map_types
from paimon_core.types.data_types import (
    INTEGER_BOUNDS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from paimon_core.types.decimals import fit
from paimon_core.types.java_numbers import parse_decimal, parse_float
from paimon_core.types.partition_text import epoch_to_nanos, is_numeric, parse_boolean, sql_text
from paimon_core.types.sql import type_to_sql

_INTEGER: Final = re.compile(r"([+-]?)(\d*)(?:\.\d*)?", re.ASCII)


class NotParsable(ValueError):
    """Java's cast refuses the text."""


# --- to text ------------------------------------------------------------------------------------


def java_to_string(value: Any, data_type: DataType, zone: tzinfo = UTC) -> str:
    """Return the text of a non-null internal value; LTZ uses the clock of `zone`."""
    match data_type:
        case AtomicType(kind=TypeRoot.TIMESTAMP_LTZ):
            return sql_text(datetimes.utc_to_local(value, zone), data_type)
        case AtomicType():
            return sql_text(value, data_type)
        case ArrayType():
            return f"[{', '.join(_element(v, data_type.element, zone) for v in value)}]"
        case MapType():
            key, item = map_types(data_type)
            pairs = (f"{_element(k, key, zone)} -> {_element(v, item, zone)}" for k, v in value)
            return "{" + ", ".join(pairs) + "}"
        case RowType():
            parts = (
                _element(v, f.type, zone) for v, f in zip(value, data_type.fields, strict=True)
            )
            return "{" + ", ".join(parts) + "}"
    raise UnsupportedFeature(f"casts from {type_to_sql(data_type)} to STRING")


def _element(value: Any, data_type: DataType, zone: tzinfo) -> str:
    return "null" if value is None else java_to_string(value, data_type, zone)


# --- from text ----------------------------------------------------------------------------------


def parse_text(text: str, data_type: DataType, zone: tzinfo = UTC) -> Any:
    """Parse a text; None if Java's cast returns null, NotParsable if it fails."""
    match data_type:
        case AtomicType():
            return _parse_atomic(text, data_type, zone)
        case ArrayType():
            return _parse_array(text, data_type, zone)
        case MapType():
            return _parse_map(text, data_type, zone)
        case RowType():
            return _parse_row(text, data_type, zone)
    raise UnsupportedFeature(f"casts from STRING to {type_to_sql(data_type)}")


def _parse_atomic(text: str, t: AtomicType, zone: tzinfo) -> Any:
    match t.kind:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return character_string(text, t)
        case TypeRoot.BOOLEAN:
            return _or_fail(parse_boolean(text), text)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return binary_string(text.encode(), t)
        case TypeRoot.DECIMAL:
            number = _or_fail(parse_decimal(text), text)
            return fit(number, t.precision or 0, t.scale or 0)
        case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INT | TypeRoot.BIGINT:
            return _parse_integer(text, INTEGER_BOUNDS[t.kind])
        case TypeRoot.FLOAT:
            return _or_fail(parse_float(text, single=True), text)
        case TypeRoot.DOUBLE:
            return _or_fail(parse_float(text, single=False), text)
        case TypeRoot.DATE:
            if is_numeric(text):
                return _parse_integer(text, 2**31)
            return _or_fail(datetimes.parse_sql_date(text), text)
        case TypeRoot.TIME:
            if is_numeric(text):
                return _parse_integer(text, 2**31)
            return _or_fail(datetimes.parse_sql_time(text), text)
        case TypeRoot.TIMESTAMP if is_numeric(text):
            return epoch_to_nanos(_parse_integer(text, 2**63), t.precision or 0)
        case TypeRoot.TIMESTAMP:
            return datetimes.parse_sql_timestamp(text, t.precision or 0)
        case TypeRoot.TIMESTAMP_LTZ:
            local = datetimes.parse_sql_timestamp(text, t.precision or 0)
            return datetimes.local_to_utc(local, zone)
    raise UnsupportedFeature(f"casts from STRING to {type_to_sql(t)}")


def _or_fail(value: Any, text: str) -> Any:
    if value is None:
        raise NotParsable(text)
    return value


def _parse_integer(text: str, limit: int) -> int:
    """Parse digits with a sign; a fraction is dropped (even "." is valid, as 0)."""
    match = _INTEGER.fullmatch(text)
    if not match or text in ("", "+", "-"):
        raise NotParsable(text)
    number = int(match.group(2) or "0")
    number = -number if match.group(1) == "-" else number
    if not -limit <= number < limit:
        raise NotParsable(text)
    return number


def character_string(text: str, t: AtomicType) -> str:
    """Truncate the text to the length of CHAR or VARCHAR; pad CHAR with blanks."""
    length = t.length or 0
    if len(text) > length:
        return text[:length]
    return text.ljust(length) if t.kind is TypeRoot.CHAR else text


def binary_string(data: bytes, t: AtomicType) -> bytes:
    """Truncate the bytes to the length of BINARY or VARBINARY; pad BINARY with zeros."""
    length = t.length or 0
    if len(data) > length:
        return data[:length]
    return data.ljust(length, b"\0") if t.kind is TypeRoot.BINARY else data


# --- nested values from text --------------------------------------------------------------------

_FLAGS: Final = re.ASCII | re.IGNORECASE
_ARRAY: Final = re.compile(r"\s*\[(.*)\]\s*|\s*ARRAY\s*\((.*)\)\s*", _FLAGS)
_MAP_ARROWS: Final = re.compile(r"\s*\{(.*)\}\s*", _FLAGS)
_MAP_CALL: Final = re.compile(r"\s*MAP\s*\((.*)\)\s*", _FLAGS)
_ROW: Final = re.compile(r"\s*\{(.*)\}\s*|\s*STRUCT\s*\((.*)\)\s*", _FLAGS)
_ENTRY: Final = re.compile(r"(.+?)\s*->\s*(.+)", re.ASCII)


def _content(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.fullmatch(text)
    if not match:
        raise NotParsable(text)
    return next(g for g in match.groups() if g is not None).strip()


def _parse_element(text: str, t: DataType, zone: tzinfo) -> Any:
    text = text.strip()
    return None if text == "null" else parse_text(text, t, zone)


def _parse_array(text: str, t: ArrayType, zone: tzinfo) -> list[Any]:
    content = _content(_ARRAY, text.strip())
    return [_parse_element(part, t.element, zone) for part in _split(content)]


def _parse_row(text: str, t: RowType, zone: tzinfo) -> tuple[Any, ...]:
    content = _content(_ROW, text.strip())
    if not content:
        return (None,) * len(t.fields)
    parts = _split(content)
    if len(parts) != len(t.fields):
        raise NotParsable(text)
    return tuple(
        _parse_element(part, f.type, zone) for part, f in zip(parts, t.fields, strict=True)
    )


def _parse_map(text: str, t: MapType, zone: tzinfo) -> list[tuple[Any, Any]] | None:
    text = text.strip()
    if text.upper() == "NULL":
        return None
    arrows = _MAP_ARROWS.fullmatch(text)
    if arrows:
        entries = []
        for part in _split(arrows.group(1).strip(), drop_quotes=True):
            match = _ENTRY.fullmatch(part.strip())
            if not match:
                raise NotParsable(text)
            entries.append(match.groups())
    else:
        parts = _split(_content(_MAP_CALL, text), drop_quotes=True)
        if len(parts) % 2:
            raise NotParsable(text)
        entries = list(zip(parts[::2], parts[1::2], strict=True))
    pairs = [(_parse_element(k, t.key, zone), _parse_element(v, t.value, zone)) for k, v in entries]
    last: dict[Any, tuple[Any, Any]] = {}
    for key, value in pairs:
        last[repr(key)] = (key, value)
    return list(last.values())


def _split(content: str, *, drop_quotes: bool = False) -> Sequence[str]:
    """Split at commas outside brackets and double quotes; empty parts are skipped.

    Backslashes and quotes stay in the parts, unless `drop_quotes` (for map entries, where Java
    drops them and the escaped character).
    """
    parts: list[str] = []
    current = ""
    depth = 0
    quoted = escaped = False
    for char in content:
        keep = True
        if escaped:
            escaped, keep = False, not drop_quotes
        elif char == "\\":
            escaped, keep = True, not drop_quotes
        elif char == '"':
            quoted, keep = not quoted, not drop_quotes
        elif not quoted:
            if char in "[{(":
                depth += 1
            elif char in ")}]" and depth:
                depth -= 1
            elif char == "," and not depth:
                if current:
                    parts.append(current)
                current = ""
                keep = False
        if keep:
            current += char
    if current:
        parts.append(current)
    return parts
