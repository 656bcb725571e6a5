"""Paimon's schemas as Iceberg's (Java: `iceberg/metadata/IcebergSchema`, `IcebergDataField`).

Field ids are Paimon's.  Elements of arrays and maps have the ids that Paimon writes into Parquet
files (Java: `SpecialFields`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.arrow import map_types
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
from paimon_core.types.sql import type_to_sql

FIRST_PARTITION_FIELD: Final = 1000
SPEC_ID: Final = 0
_NESTED_ID_BASE: Final = (2**31 - 1) // 4
_NESTED_IDS_OF_FIELD: Final = 1 << 10
_PLAIN: Final = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.DATE: "date",
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "binary",
    TypeRoot.VARBINARY: "binary",
}
_LONGEST_TIME: Final = 3
_SHORTEST_TIMESTAMP: Final = 3
_NANOS: Final = 7
_AVRO_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def iceberg_schema(schema: TableSchema) -> dict[str, Any]:
    """Return the JSON object of a schema; UnsupportedFeature for a type that Iceberg lacks."""
    fields = [_field(f) for f in schema.fields]
    return {"type": "struct", "schema-id": schema.id, "fields": fields}


def highest_field_id(schema: TableSchema) -> int:
    """Return the greatest id of the columns, as Java puts it into `last-column-id`."""
    return max((f.id for f in schema.fields), default=0)


def partition_spec(schema: TableSchema) -> dict[str, Any]:
    """Return the JSON object of the one partition spec: each key as it is."""
    ids = {f.name: f.id for f in schema.fields}
    fields = [
        {
            "name": key,
            "transform": "identity",
            "source-id": ids[key],
            "field-id": FIRST_PARTITION_FIELD + i,
        }
        for i, key in enumerate(schema.partition_keys)
    ]
    return {"spec-id": SPEC_ID, "fields": fields}


def unpublishable(schema: TableSchema) -> Iterator[str]:
    """Yield the columns that Iceberg metadata cannot describe; Java fails after the commit."""
    for f in schema.fields:
        try:
            _field(f)
        except UnsupportedFeature as e:
            yield f"column {f.name}: {e.feature}"
    for key in schema.partition_keys:
        if not _AVRO_NAME.fullmatch(key):
            yield f"partition key {key!r}, which is not a valid name in Avro"


def _field(f: DataField) -> dict[str, Any]:
    found = {
        "id": f.id,
        "name": f.name,
        "required": not f.type.nullable,
        "type": _type(f.type, f.id, 0),
    }
    return found if f.description is None else {**found, "doc": f.description}


def _type(t: DataType, field_id: int, depth: int) -> Any:
    depth += 1
    nested = field_id * _NESTED_IDS_OF_FIELD + depth
    after, before = _wrapped(_NESTED_ID_BASE + nested), _wrapped(_NESTED_ID_BASE - nested)
    match t:
        case AtomicType():
            return _atomic(t)
        case RowType():
            return {"type": "struct", "fields": [_field(f) for f in t.fields]}
        case ArrayType():
            return {
                "type": "list",
                "element-id": after,
                "element-required": not t.element.nullable,
                "element": _type(t.element, field_id, depth),
            }
        case MapType() | MultisetType():
            key, value = map_types(t)
            return {
                "type": "map",
                "key-id": before,
                "key": _type(key, field_id, depth),
                "value-id": after,
                "value-required": not value.nullable,
                "value": _type(value, field_id, depth),
            }
    raise UnsupportedFeature(f"{type_to_sql(t)} in Iceberg metadata")


def _wrapped(number: int) -> int:
    """The number in Java's 32-bit arithmetic."""
    return (number + 2**31) % 2**32 - 2**31


def _atomic(t: AtomicType) -> str:
    precision = t.precision or 0
    match t.kind:
        case kind if kind in _PLAIN:
            return _PLAIN[kind]
        case TypeRoot.DECIMAL:
            return f"decimal({precision}, {t.scale or 0})"
        case TypeRoot.TIME if precision <= _LONGEST_TIME:
            return "time"
        case TypeRoot.TIMESTAMP if precision >= _SHORTEST_TIMESTAMP:
            return "timestamp_ns" if precision >= _NANOS else "timestamp"
        case TypeRoot.TIMESTAMP_LTZ if precision >= _SHORTEST_TIMESTAMP:
            return "timestamptz_ns" if precision >= _NANOS else "timestamptz"
    raise UnsupportedFeature(f"{type_to_sql(t)} in Iceberg metadata")


def last_partition_id(spec: Sequence[Any]) -> int:
    """Return the greatest id of the partition fields; 999 without any."""
    return FIRST_PARTITION_FIELD + len(spec) - 1
