"""CHAR and VARCHAR, which are STRING in DataFrames: Spark keeps their types in the columns' metadata.

With it, comparisons with CHAR pad their literal, and CREATE TABLE AS keeps the type.
"""

from __future__ import annotations

from typing import Final

from paimon_core.types.data_types import MAX_LENGTH, AtomicType, DataType, TypeRoot
from paimon_spark.sql.session import SqlSession

CHARACTERS: Final = "__CHAR_VARCHAR_TYPE_STRING"
_READ_PADDING: Final = "spark.sql.readSideCharPadding"


def characters_metadata(data_type: DataType) -> dict[str, str]:
    """The metadata of a column; empty for one that is neither CHAR nor VARCHAR(n)."""
    match data_type:
        case AtomicType(kind=TypeRoot.CHAR | TypeRoot.VARCHAR, length=length) if (
            length != MAX_LENGTH
        ):
            return {CHARACTERS: f"{data_type.kind.lower()}({length})"}
    return {}


def pads(session: SqlSession) -> bool:
    """Whether reads give CHAR its length, whatever the file holds."""
    return session.conf.get(_READ_PADDING, "true").lower() != "false"
