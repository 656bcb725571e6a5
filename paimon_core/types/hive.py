"""Paimon's types as Hive's (Java: `hive/HiveTypeUtils`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.types.data_types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)

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
