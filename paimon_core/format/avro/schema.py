"""Avro schemas of Paimon rows (Java: `format/avro/AvroSchemaConverter`).

Paimon differs from Avro in two points: TIMESTAMP is written as `timestamp-*` and TIMESTAMP LTZ as
`local-timestamp-*`, the reverse of Avro's specification; and a map whose keys are not strings is an
array of records `key`, `value`.
"""

from __future__ import annotations

from typing import Any, Final

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.names import shown
from paimon_core.types.arrow import map_types
from paimon_core.types.data_types import (
    CHARACTER_TYPES,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from paimon_core.types.sql import type_to_sql

NAMESPACE: Final = "org.apache.paimon.avro.generated"

_PLAIN: Final = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "bytes",
    TypeRoot.VARBINARY: "bytes",
}
_PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
_LONGEST_FIXED: Final = 1 << 20
_MILLIS: Final = 3
_MICROS: Final = 6


def file_schema(row_type: RowType) -> Any:
    """Return the schema that Java writes for these columns; UnsupportedFeature if it has none."""
    record = _bare_schema(row_type, "record")
    return {"type": "record", "name": "record", "namespace": NAMESPACE, "fields": record["fields"]}


def check_schema(schema: Any) -> None:
    """Raise CorruptTable for a schema that is not a record or cannot be decoded safely.

    A type that refers to another by name may contain itself, and an array of values that take no
    bytes may have any length: decoding might not end.  No Paimon writer creates such schemas.
    """
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise CorruptTable(f"the schema of an Avro file is not that of a record: {shown(schema)}")
    _takes_bytes(schema)


def _takes_bytes(schema: Any) -> bool:
    """Return whether every value of the type takes at least a byte."""
    match schema:
        case str() if schema in _PRIMITIVES:
            return schema != "null"
        case list() if schema and not any(isinstance(branch, list) for branch in schema):
            for branch in schema:
                _takes_bytes(branch)
            return True
        case {"type": "record", "name": str(), "fields": list(fields)}:
            if not all(isinstance(f, dict) and isinstance(f.get("name"), str) for f in fields):
                raise CorruptTable(f"an Avro schema has a record of {shown(fields)}")
            taken = [_takes_bytes(f.get("type")) for f in fields]  # all are checked
            return any(taken)
        case {"type": "array", "items": items}:
            if not _takes_bytes(items):
                raise CorruptTable("an Avro schema has an array of values without bytes")
            return True
        case {"type": "map", "values": values}:
            _takes_bytes(values)
            return True
        case {"type": "fixed", "name": str(), "size": int(size)} if 0 < size <= _LONGEST_FIXED:
            return True
        case {"type": "enum", "name": str(), "symbols": [*symbols]} if symbols:
            return True
        case {"type": str() | list() | dict() as inner} if inner not in (
            "record", "array", "map", "fixed", "enum"
        ):  # fmt: skip
            return _takes_bytes(inner)
    raise CorruptTable(f"an Avro schema has the type {shown(schema)}, which no table has")


def _schema(t: DataType, name: str) -> Any:
    schema = _bare_schema(t, name)
    return ["null", schema] if t.nullable else schema


def physical_schema(schema: Any) -> Any:
    """Return the schema without logical types, for the values as stored."""
    match schema:
        case list():
            return [physical_schema(s) for s in schema]
        case {"type": "record"}:
            fields = [
                {"name": f["name"], "type": physical_schema(f["type"])} for f in schema["fields"]
            ]
            return {"type": "record", "name": schema["name"], "fields": fields}
        case {"type": "array"}:
            return {"type": "array", "items": physical_schema(schema["items"])}
        case {"type": "map"}:
            return {"type": "map", "values": physical_schema(schema["values"])}
        case {"type": "fixed" | "enum"}:
            return schema
        case {"type": inner}:
            return physical_schema(inner)
    return schema


def without_null(schema: Any) -> Any:
    """Return the non-null branch of a nullable union; any other schema unchanged."""
    if isinstance(schema, list):
        branches = [s for s in schema if s != "null"]
        return branches[0] if len(branches) == 1 else schema
    return schema


def is_string_keyed(t: MapType | MultisetType) -> bool:
    """Return whether the type is written as an Avro map (which has only string keys)."""
    return map_types(t)[0].root in CHARACTER_TYPES


def _bare_schema(t: DataType, name: str) -> Any:
    match t:
        case AtomicType():
            return _atomic_schema(t)
        case RowType():
            return {
                "type": "record",
                "name": name,
                "fields": [_field(f.name, f.type, f"{name}_{f.name}") for f in t.fields],
            }
        case MultisetType() if not is_string_keyed(t):
            raise UnsupportedFeature(
                f"{type_to_sql(t)} in Avro files (Java cannot write it either)"
            )
        case MapType() | MultisetType():
            key, value = map_types(t)
            if isinstance(t, MultisetType):
                value = value.with_nullable(True)
            if is_string_keyed(t):
                return {"type": "map", "values": _schema(value, name)}
            entry = {
                "type": "record",
                "name": name,
                "fields": [
                    {"name": "key", "type": _schema(key, f"{name}_key")},
                    _field("value", value, f"{name}_value"),
                ],
            }
            return {"type": "array", "items": entry, "logicalType": "map"}
        case ArrayType():
            return {"type": "array", "items": _schema(t.element, name)}
    raise UnsupportedFeature(f"{type_to_sql(t)} in Avro files")


def _field(name: str, t: DataType, record_name: str) -> dict[str, Any]:
    field: dict[str, Any] = {"name": name, "type": _schema(t, record_name)}
    if t.nullable:
        field["default"] = None
    return field


def _atomic_schema(t: AtomicType) -> Any:
    if t.kind in _PLAIN:
        return _PLAIN[t.kind]
    precision = t.precision or 0
    match t.kind:
        case TypeRoot.DATE:
            return {"type": "int", "logicalType": "date"}
        case TypeRoot.TIME if precision <= _MILLIS:
            return {"type": "int", "logicalType": "time-millis"}
        case TypeRoot.DECIMAL:
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": precision,
                "scale": t.scale or 0,
            }
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if precision <= _MICROS:
            prefix = "timestamp" if t.kind is TypeRoot.TIMESTAMP else "local-timestamp"
            unit = "millis" if precision <= _MILLIS else "micros"
            return {"type": "long", "logicalType": f"{prefix}-{unit}"}
    raise UnsupportedFeature(f"{type_to_sql(t)} in Avro files (Java cannot write it either)")
