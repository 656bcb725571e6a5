"""The row types of metadata files, as in Java (the `SCHEMA` of each class).

The written layout is that of 1.4.2; 2.0.0 differs only in one field of global indexes.  Field ids
count from 0 in each record; they matter only for metadata files in ORC or Parquet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_core.types.data_types import ArrayType, DataField, DataType, RowType
from paimon_core.types.sql import parse_type


def _row(fields: Mapping[str, str | DataType], *, nullable: bool = False) -> RowType:
    return RowType(
        nullable=nullable,
        fields=tuple(
            DataField(id=i, name=n, type=parse_type(t) if isinstance(t, str) else t)
            for i, (n, t) in enumerate(fields.items())
        ),
    )


def _versioned(row: RowType) -> RowType:
    version = DataField(id=-1, name="_VERSION", type=parse_type("INT NOT NULL"))
    return RowType(nullable=False, fields=(version, *row.fields))


STATS: Final = _row(
    {
        "_MIN_VALUES": "BYTES NOT NULL",
        "_MAX_VALUES": "BYTES NOT NULL",
        "_NULL_COUNTS": "ARRAY<BIGINT>",
    }
)

DATA_FILE: Final = _row(
    {
        "_FILE_NAME": "STRING NOT NULL",
        "_FILE_SIZE": "BIGINT NOT NULL",
        "_ROW_COUNT": "BIGINT NOT NULL",
        "_MIN_KEY": "BYTES NOT NULL",
        "_MAX_KEY": "BYTES NOT NULL",
        "_KEY_STATS": STATS,
        "_VALUE_STATS": STATS,
        "_MIN_SEQUENCE_NUMBER": "BIGINT NOT NULL",
        "_MAX_SEQUENCE_NUMBER": "BIGINT NOT NULL",
        "_SCHEMA_ID": "BIGINT NOT NULL",
        "_LEVEL": "INT NOT NULL",
        "_EXTRA_FILES": "ARRAY<STRING NOT NULL> NOT NULL",
        "_CREATION_TIME": "TIMESTAMP(3)",
        "_DELETE_ROW_COUNT": "BIGINT",
        "_EMBEDDED_FILE_INDEX": "BYTES",
        "_FILE_SOURCE": "TINYINT",
        "_VALUE_STATS_COLS": "ARRAY<STRING NOT NULL>",
        "_EXTERNAL_PATH": "STRING",
        "_FIRST_ROW_ID": "BIGINT",
        "_WRITE_COLS": "ARRAY<STRING NOT NULL>",
    }
)

MANIFEST_ENTRY: Final = _versioned(
    _row(
        {
            "_KIND": "TINYINT NOT NULL",
            "_PARTITION": "BYTES NOT NULL",
            "_BUCKET": "INT NOT NULL",
            "_TOTAL_BUCKETS": "INT NOT NULL",
            "_FILE": DATA_FILE,
        }
    )
)

MANIFEST: Final = _versioned(
    _row(
        {
            "_FILE_NAME": "STRING NOT NULL",
            "_FILE_SIZE": "BIGINT NOT NULL",
            "_NUM_ADDED_FILES": "BIGINT NOT NULL",
            "_NUM_DELETED_FILES": "BIGINT NOT NULL",
            "_PARTITION_STATS": STATS,
            "_SCHEMA_ID": "BIGINT NOT NULL",
            "_MIN_BUCKET": "INT",
            "_MAX_BUCKET": "INT",
            "_MIN_LEVEL": "INT",
            "_MAX_LEVEL": "INT",
            "_MIN_ROW_ID": "BIGINT",
            "_MAX_ROW_ID": "BIGINT",
        }
    )
)

DELETION_VECTOR_RANGE: Final = _row(
    {
        "f0": "STRING NOT NULL",
        "f1": "INT NOT NULL",
        "f2": "INT NOT NULL",
        "_CARDINALITY": "BIGINT",
    },
    nullable=True,
)

GLOBAL_INDEX: Final = _row(
    {
        "_ROW_RANGE_START": "BIGINT NOT NULL",
        "_ROW_RANGE_END": "BIGINT NOT NULL",
        "_INDEX_FIELD_ID": "INT NOT NULL",
        "_EXTRA_FIELD_IDS": "ARRAY<INT NOT NULL>",
        "_INDEX_META": "BYTES",
        "_SOURCE_META": "BYTES",
    },
    nullable=True,
)

INDEX_ENTRY: Final = _versioned(
    _row(
        {
            "_KIND": "TINYINT NOT NULL",
            "_PARTITION": "BYTES NOT NULL",
            "_BUCKET": "INT NOT NULL",
            "_INDEX_TYPE": "STRING NOT NULL",
            "_FILE_NAME": "STRING NOT NULL",
            "_FILE_SIZE": "BIGINT NOT NULL",
            "_ROW_COUNT": "BIGINT NOT NULL",
            "_DELETIONS_VECTORS_RANGES": ArrayType(element=DELETION_VECTOR_RANGE),
            "_EXTERNAL_PATH": "STRING",
            "_GLOBAL_INDEX": GLOBAL_INDEX,
        }
    )
)
