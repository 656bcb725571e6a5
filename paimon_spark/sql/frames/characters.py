"""What Spark keeps in the metadata of columns: comments, CHAR and VARCHAR, which are STRING there.

With it, comparisons with CHAR pad their literal, and CREATE TABLE AS keeps type and comment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.format.arrow_conversion import with_children
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
from paimon_spark.sql.errors import WriteRefused
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.spark_settings import READ_PADDING
from paimon_spark.sql.text.names import quoted, quoted_text
from paimon_spark.sql.text.types import read_schema_text, simple_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHARACTERS: Final = "__CHAR_VARCHAR_TYPE_STRING"
COMMENT: Final = "comment"


def characters_metadata(data_type: DataType) -> dict[str, str]:
    """The metadata of a column; empty for one without CHAR and VARCHAR(n), also within it."""
    text = simple_text(data_type)
    return {CHARACTERS: text} if "char(" in text else {}


def column_metadata(field: DataField) -> dict[str, str]:
    """The metadata of a column; empty for one without a comment whose type Spark has."""
    comment = {} if field.description is None else {COMMENT: field.description}
    return {**comment, **characters_metadata(field.type)}


def pads(session: SqlSession) -> bool:
    """Whether reads give CHAR its length, whatever the file holds."""
    return session.conf.get(READ_PADDING, "true").lower() != "false"


def with_metadata(session: SqlSession, frame: DataFrame, fields: Sequence[DataField]) -> DataFrame:
    """The rows with CHAR in its length, and the columns of these fields with their metadata."""
    from pyspark.sql.functions import expr  # noqa: PLC0415 - only with a session

    known = {f.name: f for f in fields}
    shown, changed = [], False
    for name in frame.columns:
        text, metadata = quoted(name), {}
        if name in known:
            metadata = column_metadata(known[name])
            if pads(session):
                text = _each_text(text, known[name].type, _padded)
        changed = changed or bool(metadata) or text != quoted(name)
        shown.append(expr(text).alias(name, metadata=metadata))
    return frame.select(*shown) if changed else frame


def stored_text(value: str, field: DataField) -> str:
    """The SQL of a value as a column stores it: cast, CHAR padded, also those within it.

    Texts that are longer than CHAR or VARCHAR(n) allow, apart from spaces at their end, fail.
    """

    def checked(text: str, data_type: AtomicType) -> str:
        length = data_type.length
        message = _too_long(length, field).replace("'", "\\'")
        fitting = (
            f"CASE WHEN {text} IS NULL OR length({text}) <= {length} THEN {text} "
            f"WHEN length(rtrim({text})) <= {length} THEN substring({text}, 1, {length}) "
            f"ELSE raise_error('{message}') END"
        )
        return _padded(fitting, data_type)

    return _each_text(f"CAST({value} AS {read_schema_text(field.type)})", field.type, checked)


def stored_column(column: pa.ChunkedArray, field: DataField) -> pa.ChunkedArray:
    """The values as a column stores them, as `stored_text`; WriteRefused for texts too long."""

    def checked(texts: pa.Array, data_type: AtomicType) -> pa.Array:
        length = data_type.length or 0
        if _longest(texts) > length:
            if _longest(pc.utf8_rtrim(texts, characters=" ")) > length:
                raise WriteRefused(_too_long(length, field))
            texts = pc.utf8_slice_codeunits(texts, 0, length)
        return _padded_texts(texts, data_type)

    return _each_chunk(column, field.type, checked)


def padded_column(column: pa.ChunkedArray, data_type: DataType) -> pa.ChunkedArray:
    """The values with each CHAR in its length."""
    return _each_chunk(column, data_type, _padded_texts)


_Change = Callable[[pa.Array, AtomicType], pa.Array]


def _each_chunk(column: pa.ChunkedArray, data_type: DataType, change: _Change) -> pa.ChunkedArray:
    if not characters_metadata(data_type):
        return column
    chunks = [_each_array(chunk, data_type, change) for chunk in column.chunks]
    return pa.chunked_array(chunks, type=column.type)


def _each_array(array: pa.Array, data_type: DataType, change: _Change) -> pa.Array:
    """The values with each CHAR and VARCHAR(n) in them changed."""
    match data_type:
        case AtomicType() if characters_metadata(data_type):
            return change(array, data_type)
        case ArrayType(element=element):
            children = [_each_array(array.values, element, change)]
        case MapType() | MultisetType():
            key, value = map_types(data_type)
            children = [
                _each_array(array.keys, key, change),
                _each_array(array.items, value, change),
            ]
        case RowType(types=types):
            children = [_each_array(array.field(i), t, change) for i, t in enumerate(types)]
        case _:
            return array
    return with_children(array, array.type, children)


def _padded_texts(texts: pa.Array, data_type: AtomicType) -> pa.Array:
    return pc.utf8_rpad(texts, width=data_type.length) if data_type.kind is TypeRoot.CHAR else texts


def _longest(array: pa.Array) -> int:
    return int(pc.max(pc.utf8_length(array)).as_py() or 0)


def _too_long(length: int | None, field: DataField) -> str:
    return (
        f"[EXCEED_LIMIT_LENGTH] Exceeds char/varchar type length limitation: {length} "
        f"(column {field.name})"
    )


def _padded(text: str, data_type: AtomicType) -> str:
    return f"rpad({text}, {data_type.length})" if data_type.kind is TypeRoot.CHAR else text


def _each_text(text: str, data_type: DataType, change: Callable[[str, AtomicType], str]) -> str:
    """The SQL of the value with each CHAR and VARCHAR(n) in it changed."""
    match data_type:
        case AtomicType() if characters_metadata(data_type):
            return change(text, data_type)
        case ArrayType(element=element):
            value = _each_text("x", element, change)
            return text if value == "x" else f"transform({text}, x -> {value})"
        case MapType() | MultisetType():
            key, value = (
                _each_text(n, t, change) for n, t in zip("kv", map_types(data_type), strict=True)
            )
            if key != "k":
                text = f"transform_keys({text}, (k, v) -> {key})"
            return text if value == "v" else f"transform_values({text}, (k, v) -> {value})"
        case RowType(fields=fields):
            parts = {f.name: f"{text}.{quoted(f.name)}" for f in fields}
            changed = {f.name: _each_text(parts[f.name], f.type, change) for f in fields}
            if changed == parts:
                return text
            made = ", ".join(f"{quoted_text(name)}, {part}" for name, part in changed.items())
            return f"IF({text} IS NULL, NULL, named_struct({made}))"
    return text
