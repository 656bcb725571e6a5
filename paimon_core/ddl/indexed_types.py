"""Validates the columns with a file index (Java 2.0: `SchemaValidation.validateFileIndex`).

Java 1.4.2 lets a column with an index be dropped, renamed or changed to any type, and fails when
the next row is written.  Java 2.0 cannot open such a table, so it must not be created.
"""

from __future__ import annotations

import re
from typing import Final

from paimon_core.errors import InvalidArgument
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.data_types import MapType, TypeRoot
from paimon_core.types.sql import type_to_sql

_NUMBERS: Final = frozenset(
    {
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.DATE,
        TypeRoot.TIME,
        TypeRoot.TIMESTAMP,
        TypeRoot.TIMESTAMP_LTZ,
    }
)
_PLAIN: Final = _NUMBERS | {TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.CHAR, TypeRoot.VARCHAR}
_TYPES: Final = {
    "bitmap": _PLAIN | {TypeRoot.BOOLEAN},
    "bloom-filter": _PLAIN | {TypeRoot.BINARY, TypeRoot.VARBINARY},
    "bsi": _NUMBERS | {TypeRoot.DECIMAL},
    "range-bitmap": _PLAIN | {TypeRoot.BOOLEAN, TypeRoot.DECIMAL},
}
_MAP_KEY: Final = re.compile(r"(.+?)\[.*\]")


def check_indexed_types(schema: TableSchema) -> None:
    """Raise InvalidArgument for a missing column, or one whose type has no such index."""
    for kind, columns in schema.options.matching("file-index.", ".columns").items():
        for name in map(str.strip, columns.split(",")):
            of_map = _MAP_KEY.fullmatch(name)
            column = schema.row_type.get(of_map[1] if of_map else name)
            if column is None:
                raise InvalidArgument(
                    f"file-index.{kind}.columns names the column {name}, which does not exist",
                    next_step=f"set or remove file-index.{kind}.columns in the same change",
                )
            if kind not in _TYPES:
                continue
            data_type = column.type
            if of_map and isinstance(data_type, MapType):
                data_type = data_type.value
            if data_type.root not in _TYPES[kind]:
                raise InvalidArgument(
                    f"column {name} of type {type_to_sql(data_type)} cannot have a {kind} index",
                    next_step=f"take it out of file-index.{kind}.columns",
                )
