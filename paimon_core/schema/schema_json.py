"""The JSON of schema files, as Java prints it (Java: `schema/SchemaSerializer`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.io.json_text import parse_json_object, to_pretty_json
from paimon_core.names import checked_long, checked_millis, shown
from paimon_core.options import Options
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.sql import field_to_json, row_from_json

NEWEST_VERSION: Final = 3
_VERSION_OF_0_7: Final = 1
_VERSION_OF_0_8: Final = 2
_FIELDS: Final = frozenset(
    {
        "version",
        "id",
        "fields",
        "highestFieldId",
        "partitionKeys",
        "primaryKeys",
        "options",
        "comment",
        "timeMillis",
    }
)


def schema_from_json(text: bytes | str) -> TableSchema:
    """Parse the JSON text of a schema.

    Schemas of Paimon 0.7 and 0.8 get the option that was the default then.  Raises ValueError,
    KeyError or TypeError for other content; UnsupportedFeature for an unknown data type or a newer
    schema version.
    """
    obj = parse_json_object(text)
    version = checked_long(obj.get("version", _VERSION_OF_0_7), "version")
    if version > NEWEST_VERSION:
        raise UnsupportedFeature(f"schema version {version}")
    options = {k: _option_text(v) for k, v in _object(obj["options"], "options").items()}
    if version <= _VERSION_OF_0_7:
        options.setdefault("bucket", "1")
    if version <= _VERSION_OF_0_8:
        options.setdefault("file.format", "orc")
    comment = obj.get("comment")
    time_millis = obj.get("timeMillis")
    fields = row_from_json(_object(f, "fields") for f in _list(obj["fields"], "fields")).fields
    partition_keys = _names(obj["partitionKeys"], "partitionKeys")
    primary_keys = _names(obj["primaryKeys"], "primaryKeys")
    strangers = {*partition_keys, *primary_keys} - {f.name for f in fields}
    if strangers:
        raise ValueError(f"keys that are not columns: {', '.join(sorted(strangers))}")
    return TableSchema(
        version=version,
        id=checked_long(obj["id"], "id"),
        fields=fields,
        highest_field_id=checked_long(obj["highestFieldId"], "highestFieldId"),
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=Options(options),
        comment=None if comment is None else str(comment),
        time_millis=None
        if time_millis is None
        else checked_millis(checked_long(time_millis, "timeMillis"), "timeMillis"),
        extra={k: v for k, v in obj.items() if k not in _FIELDS},
    )


def schema_to_json(schema: TableSchema) -> str:
    """Return the text of `schema/schema-N`, byte for byte as Java prints it."""
    return to_pretty_json(schema_to_object(schema))


def schema_to_object(schema: TableSchema) -> dict[str, object]:
    """Return the JSON object, fields in Java's order, unknown ones at the end."""
    result: dict[str, object] = {
        "version": schema.version,
        "id": schema.id,
        "fields": [field_to_json(f) for f in schema.fields],
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    if schema.comment is not None:
        result["comment"] = schema.comment
    # Java has no unknown time: a schema without a time is from 1970.
    result["timeMillis"] = schema.time_millis or 0
    result.update(schema.extra)
    return result


def _list(value: object, name: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise TypeError(f"{name} is not an array: {shown(value)}")
    return value


def _object(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} is not an object: {shown(value)}")
    return value


def _names(value: object, name: str) -> tuple[str, ...]:
    names = tuple(str(v) for v in _list(value, name))
    if len(set(names)) < len(names):
        raise ValueError(f"{name} names a column twice: {', '.join(names)}")
    return names


def _option_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
