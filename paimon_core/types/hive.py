"""Paimon's types as Hive's, and back (Java: `hive/HiveTypeUtils`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.types.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from paimon_core.types.sql import parse_type

_MAX_CHAR: Final = 255
_MAX_VARCHAR: Final = 65_535
_PLAIN_TYPES: Final[Mapping[TypeRoot, str]] = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "tinyint",
    TypeRoot.SMALLINT: "smallint",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "bigint",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.BINARY: "binary",
    TypeRoot.VARBINARY: "binary",
    TypeRoot.BLOB: "binary",
    TypeRoot.DATE: "date",
    TypeRoot.TIME: "string",
    TypeRoot.TIMESTAMP: "timestamp",
    TypeRoot.TIMESTAMP_LTZ: "timestamp",
    TypeRoot.VARIANT: "struct<value:binary,metadata:binary>",
}
"""TIMESTAMP_LTZ as Java writes it with Hive 2, which has no such type."""
_WORD: Final = re.compile(
    r"\s*(timestamp with local time zone|[a-z]+)(\([\d, ]+\))?\s*", re.IGNORECASE
)
_OF_HIVE: Final = {
    "binary": "BYTES",
    "timestamp": "TIMESTAMP(6)",
    "timestamp with local time zone": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
}
_SAME_NAME: Final = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal"),
    *("char", "varchar", "string", "date"),
)


def hive_type(data_type: DataType) -> str:
    """The name of Hive's type; UnsupportedFeature for a type that Java does not map either."""
    match data_type:
        case ArrayType(element=element):
            return f"array<{hive_type(element)}>"
        case MapType(key=key, value=value):
            return f"map<{hive_type(key)},{hive_type(value)}>"
        case MultisetType(element=element):
            return f"map<{hive_type(element)},int>"
        case RowType(fields=fields):
            return f"struct<{','.join(f'{f.name}:{hive_type(f.type)}' for f in fields)}>"
        case AtomicType(kind=TypeRoot.DECIMAL, precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case AtomicType(kind=TypeRoot.CHAR, length=length):
            return f"char({length})" if (length or 0) <= _MAX_CHAR else "string"
        case AtomicType(kind=TypeRoot.VARCHAR, length=length):
            return f"varchar({length})" if (length or 0) <= _MAX_VARCHAR else "string"
        case AtomicType(kind=kind) if kind in _PLAIN_TYPES:
            return _PLAIN_TYPES[kind]
    raise UnsupportedFeature(
        f"data type {data_type.root}",
        f"a Hive metastore has no type for columns of type {data_type.root}",
    )


def type_of_hive(text: str) -> DataType:
    """Paimon's type for Hive's; UnsupportedFeature for one that Java does not map either."""
    found, rest = _read(text.strip())
    if rest:
        raise _unknown(text)
    return found


def _read(text: str) -> tuple[DataType, str]:
    """The type at the start of a text, and what follows it."""
    match = _WORD.match(text)
    if match is None:
        raise _unknown(text)
    name, rest = match[1].lower(), text[match.end() :]
    match name:
        case "array" if rest.startswith("<"):
            element, rest = _read(rest[1:])
            return ArrayType(element=element), _after(">", rest, text)
        case "map" if rest.startswith("<"):
            key, rest = _read(rest[1:])
            value, rest = _read(_after(",", rest, text))
            return MapType(key=key, value=value), _after(">", rest, text)
        case "struct" if rest.startswith("<"):
            fields: list[DataField] = []
            while rest[:1] in ("<", ","):
                field_name, _, rest = rest[1:].partition(":")
                of_field, rest = _read(rest)
                fields.append(DataField(id=len(fields), name=field_name, type=of_field))
            return RowType(fields=tuple(fields)), _after(">", rest, text)
    own = _OF_HIVE.get(name, name if name in _SAME_NAME else None)
    if own is None:
        raise _unknown(text)
    return parse_type(own + (match[2] or "")), rest


def _after(sign: str, rest: str, text: str) -> str:
    if not rest.startswith(sign):
        raise _unknown(text)
    return rest[1:]


def _unknown(text: str) -> UnsupportedFeature:
    return UnsupportedFeature(f"Hive's type {text}", f"Paimon has no type for Hive's type {text}")
