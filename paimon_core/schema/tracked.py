"""The columns of row ids and sequence numbers (Java: `table/SpecialFields`; java-rules L1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paimon_core.schema.table_schema import SEQUENCE_NUMBER, SEQUENCE_NUMBER_ID, TableSchema
from paimon_core.types.data_types import DataField
from paimon_core.types.sql import parse_type

ROW_ID: Final = "_ROW_ID"
_ROW_ID_FIELD: Final = DataField(id=2**31 - 1 - 5, name=ROW_ID, type=parse_type("BIGINT NOT NULL"))
_NUMBER_FIELD: Final = DataField(
    id=SEQUENCE_NUMBER_ID, name=SEQUENCE_NUMBER, type=parse_type("BIGINT NOT NULL")
)


def tracked_schema(
    schema: TableSchema, *, nullable: bool = False, new_numbers: bool = False
) -> TableSchema:
    """Return the schema with the columns of row ids and sequence numbers at the end.

    `nullable` is for reading.  With `new_numbers`, only the sequence numbers may be null: such rows
    get that of the commit that adds their file.
    """
    extra = (_ROW_ID_FIELD, _NUMBER_FIELD)
    if new_numbers:
        extra = (_ROW_ID_FIELD, replace(_NUMBER_FIELD, type=_NUMBER_FIELD.type.with_nullable(True)))
    if nullable:
        extra = tuple(replace(f, type=f.type.with_nullable(True)) for f in extra)  # type: ignore[assignment]
    return replace(schema, fields=(*schema.fields, *extra))
