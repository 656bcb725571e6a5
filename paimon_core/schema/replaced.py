"""Schemas that share no column: `CREATE OR REPLACE TABLE` has come between them.

Data files of the one have no value of any column of the other.  All columns would be null, also
keys, and Java cannot read nulls in a NOT NULL column.  No live file is older than the replacement,
unless a writer or a rollback of Java came after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from paimon_core.errors import UnsupportedFeature
from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema


def shares_no_column(one: TableSchema, other: TableSchema) -> bool:
    """Whether no field id is in both."""
    return {f.id for f in one.fields}.isdisjoint(f.id for f in other.fields)


def older_than_replacement(
    schemas: SchemaStore, written: Iterable[int], schema: TableSchema
) -> list[int]:
    """Return which of the schemas `written` were replaced before this one came, in order.

    Columns that were dropped one by one are no replacement: two neighbouring schemas share some.
    """
    apart = sorted(i for i in set(written) if i < schema.id)
    apart = [i for i in apart if shares_no_column(schemas.get(i), schema)]
    if not apart:
        return []
    between = [schemas.get(i) for i in schemas.ids() if apart[0] <= i <= schema.id]
    replaced = [old.id for old, new in pairwise(between) if shares_no_column(old, new)]
    return [i for i in apart if replaced and i <= replaced[-1]]


def check_not_older_than_replacement(
    schemas: SchemaStore, written: Iterable[int], schema: TableSchema
) -> None:
    """Raise UnsupportedFeature if files of the schemas `written` lose all values in a rewrite.

    The new files have the columns of `schema` only.
    """
    old = older_than_replacement(schemas, written, schema)
    if old:
        table = schemas.table
        raise UnsupportedFeature(
            "rewriting rows from before CREATE OR REPLACE TABLE",
            f"table {table} was replaced, but a Java writer or rollback has left files from before: "
            f"schema {schema.id} has none of the columns of schema {old[0]}, so all values of these "
            f"rows would be lost",
            table=table,
            next_step="copy the rows to a new table with VERSION AS OF a snapshot from before, then "
            "roll back to the newest snapshot without these files, or truncate the table",
        )
