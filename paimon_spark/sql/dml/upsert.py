"""INSERT into an append table with `upsert-key`: rows replace those with the same key.

Java: `PaimonSparkWriter` with `upsert-key`, docs/spark/sql-upsert.md.  Nulls are equal in keys.
With `sequence.field`, the row with the greater sequence remains, and the new rows are deduplicated
too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from paimon_core.errors import SchemaError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import SEQUENCE_FIELD, UPSERT_KEY
from paimon_core.snapshot.snapshot import NO_SNAPSHOT
from paimon_spark.sql.dml.kept_rows import kept_rows, until_kept
from paimon_spark.sql.dml.large_changes import DELETED, INSERTED, KIND, LargeTarget, open_large
from paimon_spark.sql.dml.large_writes import write_distributed
from paimon_spark.sql.dml.retry_updates import until_committed
from paimon_spark.sql.dml.targets import ROW_NUMBER, open_target
from paimon_spark.sql.query.registered import register
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.types import null_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ARRIVAL: Final = "__paimon_arrival"
_RANK: Final = "__paimon_rank"


def upsert_keys(table: FileStoreTable) -> list[str]:
    """The columns of `upsert-key`, none if the table has no such option."""
    keys = list(table.options.value(UPSERT_KEY))
    if keys and table.has_primary_key:
        raise SchemaError(f"{UPSERT_KEY.key} cannot be used together with a primary key")
    return keys


def upsert(session: SqlSession, name: TableName, rows: pa.Table, keys: list[str]) -> None:
    """Replace the rows with the same keys by these rows, in one commit."""
    until_committed(session, name, lambda: _upsert(session, name, rows, keys))


def _upsert(session: SqlSession, name: TableName, rows: pa.Table, keys: list[str]) -> None:
    target = replace(open_target(session, name, "MERGE"), operation="WRITE", inserts=True)
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


def upsert_large(
    session: SqlSession,
    name: TableName,
    rows: Callable[[], DataFrame],
    keys: Sequence[str],
    *,
    large_rows: bool,
) -> bool:
    """Do the same on executors; False if the driver should, as table and rows are small.

    `rows` returns some of the table's columns, `large_rows` says whether they are many.
    """
    on_executors = large_rows
    done = False

    def change() -> None:
        nonlocal done, on_executors
        large, on_executors = on_executors, True  # also again, if the table is small by then
        done = _upsert_large(session, name, rows, keys, large_rows=large)

    until_committed(session, name, change)
    return done


def _upsert_large(
    session: SqlSession,
    name: TableName,
    rows: Callable[[], DataFrame],
    keys: Sequence[str],
    *,
    large_rows: bool,
) -> bool:
    table = session.open(name, to_write=True)
    sequence = list(table.options.value(SEQUENCE_FIELD))
    read = ", ".join(quoted(c) for c in (*keys, *sequence))
    if large_rows and table.snapshots.latest() is None:
        new = _newest(rows(), keys, sequence)
        write_distributed(session, table, new, overwrite=None, rows_at=NO_SNAPSHOT)
        return True
    found = open_large(session, name, "MERGE", read, large_source=large_rows)
    if found is None:
        return False
    target = replace(found, operation="WRITE", inserts=True)

    def change() -> None:
        # What is removed and what is added must come from the same rows.
        new = _newest(_with_nulls(rows(), target.table), keys, sequence)
        with kept_rows(new) as kept, target.changes(_changes(target, kept, keys, sequence)) as made:
            target.commit(made)

    until_kept(change)
    return True


def _with_nulls(rows: DataFrame, table: FileStoreTable) -> DataFrame:
    """The columns of the table, null where the rows have none."""
    return rows.selectExpr(
        *(
            quoted(f.name) if f.name in rows.columns else f"{null_text(f.type)} AS {quoted(f.name)}"
            for f in table.schema.fields
        )
    )


def _changes(
    target: LargeTarget, new: DataFrame, keys: Sequence[str], sequence: Sequence[str]
) -> list[DataFrame]:
    """The rows that go, and those that come."""
    session, fields = target.session, target.table.schema.fields
    source, known = register(session, new), register(session, target.dataframe())
    same = " AND ".join(f"s.{quoted(k)} <=> t.{quoted(k)}" for k in keys)
    newer = "false"
    if sequence:
        of_table, of_rows = (
            f"struct({', '.join(f'{side}.{quoted(c)}' for c in sequence)})" for side in "ts"
        )
        newer = f"{of_table} > {of_rows}"
    nothing = ", ".join(f"{null_text(f.type)} {quoted(f.name)}" for f in fields)
    all_columns = ", ".join(f"s.{quoted(f.name)}" for f in fields)
    removed = session.spark.sql(
        f"SELECT {ROW_NUMBER}, {nothing}, {DELETED} AS {KIND} FROM {known} t "
        f"LEFT SEMI JOIN {source} s ON {same} AND NOT ({newer})"
    )
    added = session.spark.sql(
        f"SELECT CAST(NULL AS BIGINT) AS {ROW_NUMBER}, {all_columns}, {INSERTED} AS {KIND} "
        f"FROM {source} s LEFT ANTI JOIN {known} t ON {same} AND {newer}"
    )
    return [removed, added]


def _newest(rows: DataFrame, keys: Sequence[str], sequence: Sequence[str]) -> DataFrame:
    """The row of each key with the greatest sequence; all rows without sequence fields."""
    if not sequence:
        return rows
    from pyspark.sql import Window  # noqa: PLC0415 - only with a session
    from pyspark.sql.functions import col, monotonically_increasing_id, row_number, struct  # noqa: PLC0415 - same

    order = struct(*(col(quoted(c)) for c in sequence)).desc()
    window = Window.partitionBy(*(col(quoted(k)) for k in keys)).orderBy(
        order, col(_ARRIVAL).desc()
    )
    numbered = rows.withColumn(_ARRIVAL, monotonically_increasing_id()).withColumn(
        _RANK, row_number().over(window)
    )
    return numbered.filter(f"{_RANK} = 1").drop(_ARRIVAL, _RANK)


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
