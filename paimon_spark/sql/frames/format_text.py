"""The columns of CSV, JSON and text files as SQL: their values are texts there.

Java casts each value to text and back (`format/csv/CsvParser`, `format/json/JsonFileReader`), and
so do these expressions, whatever the session's settings.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.table.format.format_table import FormatTable
from paimon_core.types.data_types import (
    INTEGER_TYPES,
    TIMESTAMP_TYPES,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from paimon_spark.sql.text.names import quoted, quoted_text
from paimon_spark.sql.text.types import read_schema_text

TEXT_FORMATS: Final = ("csv", "json", "text")
_BINARY: Final = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_CHARACTERS: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_INTEGER: Final = "^[+-]?[0-9]+$"


class Unreadable(Enum):
    """What becomes of a value that its type does not have: null, or the end of the query."""

    NULL = "null"
    FAIL = "fail"


def check_columns(table: FormatTable) -> None:
    """UnsupportedFeature for columns that files of the table's format cannot hold."""
    fields = data_fields(table)
    if table.format == "text" and [f.type.root for f in fields] not in ([r] for r in _CHARACTERS):
        raise UnsupportedFeature(
            "text files with other columns than one STRING",
            f"the columns of format table {table.name} are {', '.join(f.name for f in fields)}",
            table=table.name,
            next_step="use CSV or JSON",
        )
    for field in fields:
        if table.format == "csv" and not isinstance(field.type, AtomicType):
            raise UnsupportedFeature(
                f"CSV files with columns of type {read_schema_text(field.type)}",
                f"column {field.name} of format table {table.name}",
                table=table.name,
                next_step="use JSON, Parquet or ORC",
            )


def data_fields(table: FormatTable) -> list[DataField]:
    """The columns that the files hold: all but those of partitions."""
    return [f for f in table.schema.fields if f.name not in table.schema.partition_keys]


def by_python(table: FormatTable) -> bool:
    """Whether Python tasks have to read and write the files (`source/orc_files`)."""
    return table.format == "orc" and any(_has_timestamp(f.type) for f in data_fields(table))


def _has_timestamp(data_type: DataType) -> bool:
    match data_type:
        case ArrayType(element=element):
            return _has_timestamp(element)
        case MapType(key=key, value=value):
            return _has_timestamp(key) or _has_timestamp(value)
        case RowType(types=types):
            return any(map(_has_timestamp, types))
    return data_type.root in TIMESTAMP_TYPES


def text_type(data_type: DataType) -> str:
    """The type with STRING in place of each value, as a file of JSON is read."""
    match data_type:
        case ArrayType(element=element):
            return f"ARRAY<{text_type(element)}>"
        case MapType(value=value):
            return f"MAP<STRING, {text_type(value)}>"
        case RowType(fields=fields):
            inner = ", ".join(f"{quoted(f.name)}: {text_type(f.type)}" for f in fields)
            return f"STRUCT<{inner}>"
    return "STRING"


def typed(text: str, data_type: DataType, unreadable: Unreadable) -> str:
    """The SQL of a value of `text_type` as a value of its type."""

    def one(value: str, t: DataType) -> str:
        root = t.root
        if root in _CHARACTERS:
            return value
        if root is TypeRoot.BOOLEAN:
            return f"IF({value} IS NULL, NULL, lower({value}) = 'true')"
        if root in _BINARY:
            found = f"try_to_binary({value}, 'base64')"
        else:
            found = f"try_cast({value} AS {read_schema_text(t)})"
        if root in INTEGER_TYPES:  # Spark also takes blanks around them
            found = f"IF({value} RLIKE '{_INTEGER}', {found}, NULL)"
        if unreadable is Unreadable.NULL:
            return found
        message = quoted_text(f"a value of a file is no {read_schema_text(t)}: ")
        return (
            f"IF({value} IS NOT NULL AND {found} IS NULL, "
            f"raise_error(concat({message}, {value})), {found})"
        )

    return _each(text, data_type, one)


def as_text(value: str, data_type: DataType) -> str:
    """The SQL of a value as `text_type`."""

    def one(value: str, t: DataType) -> str:
        if t.root in _BINARY:  # Spark's base64 has lines of 76 signs
            return f"translate(base64({value}), '\\r\\n', '')"
        return f"CAST({value} AS STRING)"

    return _each(value, data_type, one)


def _each(
    value: str, data_type: DataType, one: Callable[[str, DataType], str], depth: int = 0
) -> str:
    """The SQL of the value with each value in it changed."""
    name = f"x{depth}"
    match data_type:
        case ArrayType(element=element):
            return f"transform({value}, {name} -> {_each(name, element, one, depth + 1)})"
        case MapType(key=key, value=inner):
            key_text = _each(f"{name}.key", key, one, depth + 1)
            value_text = _each(f"{name}.value", inner, one, depth + 1)
            pair = f"struct({key_text} AS key, {value_text} AS value)"
            return f"map_from_entries(transform(map_entries({value}), {name} -> {pair}))"
        case RowType(fields=fields):
            inside = ", ".join(
                f"{quoted_text(f.name)}, "
                + _each(f"{value}.{quoted(f.name)}", f.type, one, depth + 1)
                for f in fields
            )
            return f"IF({value} IS NULL, NULL, named_struct({inside}))"
    return one(value, data_type)
