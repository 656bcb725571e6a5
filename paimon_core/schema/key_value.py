"""The layout of key-value batches inside the core, and of key-value files.

A batch has `_SEQUENCE_NUMBER`, `_VALUE_KIND` and then the fields of the table, with keys once and
under their own names.  A file (Java: `KeyValue.schema`) starts with the keys as `_KEY_x` and
repeats them among the values; in thin mode it has no `_KEY_x`.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import Final

import pyarrow as pa

from paimon_core.schema.table_schema import (
    KEY_FIELD_ID_START,
    KEY_PREFIX,
    SEQUENCE_NUMBER,
    SEQUENCE_NUMBER_ID,
    VALUE_KIND,
    VALUE_KIND_ID,
)
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import AtomicType, DataField, RowType, TypeRoot


class RowKind(IntEnum):
    """The effect of a row on its key (Java: `types/RowKind`)."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3


SEQUENCE_FIELD: Final = DataField(
    id=SEQUENCE_NUMBER_ID,
    name=SEQUENCE_NUMBER,
    type=AtomicType(kind=TypeRoot.BIGINT, nullable=False),
)
KIND_FIELD: Final = DataField(
    id=VALUE_KIND_ID,
    name=VALUE_KIND,
    type=AtomicType(kind=TypeRoot.TINYINT, nullable=False),
)


def kv_row_type(row_type: RowType) -> RowType:
    """Return the fields of a key-value batch for these fields of a table."""
    return RowType(nullable=False, fields=(SEQUENCE_FIELD, KIND_FIELD, *row_type.fields))


def kv_schema(row_type: RowType) -> pa.Schema:
    """Return the Arrow schema of a key-value batch for these fields of a table."""
    return arrow_schema(kv_row_type(row_type))


def key_field(field: DataField) -> DataField:
    """Return the field as a key column of a file: `_KEY_x` with its own id."""
    return replace(field, id=field.id + KEY_FIELD_ID_START, name=KEY_PREFIX + field.name)


def file_row_type(key_type: RowType, value_type: RowType, *, thin: bool) -> RowType:
    """Return the columns of a key-value file in order."""
    keys = () if thin else tuple(key_field(f) for f in key_type.fields)
    return RowType(nullable=False, fields=(*keys, SEQUENCE_FIELD, KIND_FIELD, *value_type.fields))
