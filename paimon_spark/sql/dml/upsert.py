"""INSERT into an append table with `upsert-key`: rows replace those with the same key.

Java: `PaimonSparkWriter` with `upsert-key`, docs/spark/sql-upsert.md.  Nulls are equal in keys.
With `sequence.field`, the row with the greater sequence remains, and the new rows are deduplicated
too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_core.errors import SchemaError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import SEQUENCE_FIELD
from paimon_spark.sql.dml.targets import open_target
from paimon_spark.sql.session import SqlSession, TableName

UPSERT_KEY: Final = "upsert-key"


def upsert_keys(table: FileStoreTable) -> list[str]:
    """The columns of `upsert-key`, none if the table has no such option."""
    text = table.options.get(UPSERT_KEY, "")
    keys = [k.strip() for k in text.split(",") if k.strip()]
    if keys and table.has_primary_key:
        raise SchemaError(f"{UPSERT_KEY} cannot be used together with a primary key")
    return keys


def upsert(session: SqlSession, name: TableName, rows: pa.Table, keys: list[str]) -> None:
    """Replace the rows with the same keys by these rows, in one commit."""
    target = replace(open_target(session, name, "MERGE"), operation="WRITE")
    sequence = list(target.table.options.value(SEQUENCE_FIELD))
    columns = [*keys, *sequence]
    rows = _with_all(target.rows.schema, rows)
    wanted = np.arange(rows.num_rows)
    new = _tuples(rows, columns)
    width = len(keys)
    if sequence:
        best: dict[Any, int] = {}
        for i, row in enumerate(new):
            known = best.get(row[:width])
            if known is None or _order(row[width:]) >= _order(new[known][width:]):
                best[row[:width]] = i
        wanted = np.array(sorted(best.values()), dtype=np.int64)
    incoming: dict[Any, list[int]] = {}
    for i in wanted:
        incoming.setdefault(new[i][:width], []).append(int(i))
    removed: list[int] = []
    refused: set[int] = set()
    for at, row in enumerate(_tuples(target.rows, columns)):
        mine = incoming.get(row[:width])
        if mine is None:
            continue
        if sequence and _order(row[width:]) > _order(new[mine[0]][width:]):
            refused.update(mine)
        else:
            removed.append(at)
    kept = [int(i) for i in wanted if int(i) not in refused]
    target.commit(np.array(removed, dtype=np.int64), rows.take(pa.array(kept, pa.int64())))


def _with_all(schema: pa.Schema, rows: pa.Table) -> pa.Table:
    columns = [
        rows.column(f.name).cast(f.type)
        if f.name in rows.schema.names
        else pa.nulls(rows.num_rows, f.type)
        for f in schema
    ]
    return pa.table(columns, names=schema.names)


def _tuples(rows: pa.Table, columns: list[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(rows.column(c).to_pylist() for c in columns), strict=True))


def _order(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sequences in order, nulls first."""
    return tuple((v is not None, v) if v is not None else (False, 0) for v in values)
