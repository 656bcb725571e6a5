"""Schemas that share no column: `CREATE OR REPLACE TABLE` has come between them.

Data files of the one have no value of any column of the other.  All columns would be null, also
keys, and Java cannot read nulls in a NOT NULL column.
"""

from __future__ import annotations

from paimon_core.schema.table_schema import TableSchema


def shares_no_column(one: TableSchema, other: TableSchema) -> bool:
    """Whether no field id is in both."""
    return {f.id for f in one.fields}.isdisjoint(f.id for f in other.fields)
