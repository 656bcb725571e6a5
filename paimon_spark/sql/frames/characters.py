"""What Spark keeps in the metadata of columns: comments, CHAR and VARCHAR, which are STRING there.

With it, comparisons with CHAR pad their literal, and CREATE TABLE AS keeps type and comment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from paimon_core.types.data_types import MAX_LENGTH, AtomicType, DataField, DataType, TypeRoot
from paimon_spark.sql.session import READ_PADDING, SqlSession
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.types import read_schema_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHARACTERS: Final = "__CHAR_VARCHAR_TYPE_STRING"
COMMENT: Final = "comment"


def characters_metadata(data_type: DataType) -> dict[str, str]:
    """The metadata of a column; empty for one that is neither CHAR nor VARCHAR(n)."""
    match data_type:
        case AtomicType(kind=TypeRoot.CHAR | TypeRoot.VARCHAR, length=length) if (
            length != MAX_LENGTH
        ):
            return {CHARACTERS: f"{data_type.kind.lower()}({length})"}
    return {}


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

    known = {f.name: f for f in fields if column_metadata(f)}
    if not known:
        return frame
    shown = []
    for name in frame.columns:
        text, metadata = quoted(name), {}
        if name in known:
            data_type = known[name].type
            metadata = column_metadata(known[name])
            if data_type.root is TypeRoot.CHAR and pads(session):
                text = f"rpad({text}, {getattr(data_type, 'length', 1)})"
        shown.append(expr(text).alias(name, metadata=metadata))
    return frame.select(*shown)


def stored_text(value: str, field: DataField) -> str:
    """The SQL of a value as a column stores it: cast, CHAR padded.

    Texts that are longer than CHAR or VARCHAR(n) allow, apart from spaces at their end, fail.
    """
    text = f"CAST({value} AS {read_schema_text(field.type)})"
    length = getattr(field.type, "length", None)
    if not characters_metadata(field.type):
        return text
    message = (
        f"[EXCEED_LIMIT_LENGTH] Exceeds char/varchar type length limitation: {length} "
        f"(column {field.name})"
    ).replace("'", "\\'")
    checked = (
        f"CASE WHEN {text} IS NULL OR length({text}) <= {length} THEN {text} "
        f"WHEN length(rtrim({text})) <= {length} THEN substring({text}, 1, {length}) "
        f"ELSE raise_error('{message}') END"
    )
    return f"rpad({checked}, {length})" if field.type.root is TypeRoot.CHAR else checked
