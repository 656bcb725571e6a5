"""Which columns of a query have no nulls.

Java shows a column as the schema declares it, and Spark then reads values without looking for nulls.
Here a column is NOT NULL only if no row can have a null in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from paimon_core.errors import NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.hidden_rows import shows_stored_rows
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.batch_scan import BatchScan
from paimon_core.types.data_types import RowType


def never_null(scan: BatchScan) -> frozenset[str]:
    """The columns that are NOT NULL, and were so since the first schema.

    Where rows are combined, as by partial updates, only those of the primary key.
    """
    table = scan.table
    if scan.whole is None or scan.then is not None or scan.chain is not None:
        return frozenset()
    keys = frozenset(table.schema.primary_keys)
    declared = {f.id: f.name for f in table.schema.fields if not f.type.nullable}
    if declared.keys() <= {f.id for f in table.schema.fields if f.name in keys}:
        return keys
    if table.has_primary_key and not shows_stored_rows(table):
        return keys
    for schema in _earlier(table):
        before = {f.id for f in schema.fields if not f.type.nullable}
        declared = {i: n for i, n in declared.items() if i in before}
    return keys | frozenset(declared.values())


def _earlier(table: FileStoreTable) -> Iterator[TableSchema]:
    """Yield the schemas before the table's; an empty one in place of one that is gone."""
    for schema_id in range(table.schema.id):
        try:
            yield table.schema_of(schema_id)
        except NotFound:
            yield table.schema.with_row_type(RowType(fields=()))
