"""Which columns of a batch read have no nulls.

Java shows a column as the schema declares it, and Spark then reads values without looking for
nulls.  Here a column is NOT NULL only if no row can have a null in it.
"""

from __future__ import annotations

from paimon_core.errors import NotFound
from paimon_core.read.hidden_rows import shows_stored_rows
from paimon_core.table.source.batch_scan import BatchScan


def never_null(scan: BatchScan) -> frozenset[str]:
    """The columns that are NOT NULL, and were so since the first schema.

    Where rows are combined, as by partial updates, only those of the primary key.
    """
    table = scan.table
    if scan.between is not None or scan.diff is not None or scan.then or scan.chain:
        return frozenset()
    keys = frozenset(table.schema.primary_keys)
    declared = {f.id: f.name for f in table.schema.fields if not f.type.nullable}
    if not shows_stored_rows(table) or keys.issuperset(declared.values()):
        return keys
    for schema_id in range(table.schema.id):
        try:
            fields = table.schema_of(schema_id).fields
        except NotFound:
            return keys
        before = {f.id for f in fields if not f.type.nullable}
        declared = {i: n for i, n in declared.items() if i in before}
    return keys | frozenset(declared.values())
