"""DELETE of whole partitions: an overwrite that empties them, for which no row is read.

Java: `spark/catalyst/optimizer/OptimizeMetadataOnlyDeleteFromPaimonTable`.  Tables whose merge
engine takes no deletes lose partitions in this way, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from paimon_core.features import check_rows_changeable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.predicate import Predicate, evaluate, fields_of
from paimon_core.types.arrow import column_from_internal
from paimon_core.types.data_types import AtomicType, DataField, RowType, TypeRoot
from paimon_spark.sql.ddl.partitions import live_partitions, remove_partitions
from paimon_spark.sql.frames.dataframes import arrow_dataframe
from paimon_spark.sql.frames.pushdown import plain_condition
from paimon_spark.sql.query.grammar import check_grammar
from paimon_spark.sql.query.queries import query_dataframe_of
from paimon_spark.sql.query.registered import register
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.conditions import enclosed
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.parsed import parsed
from paimon_spark.sql.text.tokens import Words

_FORCE_CHANGELOG: Final = "delete.force-produce-changelog"
_NUMBER: Final = DataField(id=0, name="__paimon_partition", type=AtomicType(kind=TypeRoot.INT))
Partitions = Sequence[Mapping[str, object]]


def delete_partitions(
    session: SqlSession, name: TableName, alias: str, condition: str, words: Words
) -> bool:
    """Empty the partitions that a condition on partition columns alone chooses.

    False, and nothing is done, for other conditions, and where deletes have to be in the changelog.
    """
    table = session.open(name, to_write=True)
    if table.options.flag(_FORCE_CHANGELOG) or not table.schema.partition_keys:
        return False
    check_rows_changeable(table)
    predicate = _of_partitions(table, condition)
    chosen: Partitions | None = None
    if predicate is not None:
        there = live_partitions(table)
        mask = evaluate(predicate, _rows(table.schema.partition_type, there))
        chosen = [p for p, meets in zip(there, mask.to_pylist(), strict=True) if meets]
    elif _asks_partitions(table, condition):
        check_grammar(session, words)
        chosen = _by_spark(session, name, table, live_partitions(table), alias, condition)
    if chosen:
        remove_partitions(session, table, chosen)
    return chosen is not None


def _of_partitions(table: FileStoreTable, condition: str) -> Predicate | None:
    """A plain condition on partition columns; None for others."""
    predicate = plain_condition(table, condition)
    if predicate is None:
        return None
    fields = fields_of(predicate)
    return predicate if fields and fields <= set(table.schema.partition_keys) else None


def _asks_partitions(table: FileStoreTable, condition: str) -> bool:
    """Whether a condition compares only partition columns, with literals and subqueries."""
    try:
        tree = parsed(f"SELECT 1 WHERE {enclosed(condition)}")
    except SqlglotError:
        return False
    where: Any = tree.args.get("where")
    if where is None:
        return False
    keys = {k.lower() for k in table.schema.partition_keys}
    outside = list(where.walk(prune=lambda n: isinstance(n, exp.Query)))
    columns = [n.name.lower() for n in outside if isinstance(n, exp.Column)]
    called = any(isinstance(n, exp.Func) and not isinstance(n, _COMPARED) for n in outside)
    return bool(columns) and keys.issuperset(columns) and not called


_COMPARED: Final = (exp.And, exp.Or, exp.Exists, exp.Cast)
"""What sqlglot takes for functions in a condition without any."""


def _by_spark(
    session: SqlSession,
    name: TableName,
    table: FileStoreTable,
    there: Partitions,
    alias: str,
    condition: str,
) -> Partitions | None:
    """The partitions for which Spark finds the condition true.

    None if a subquery asks for another column of the row.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - only once Spark runs

    row_type = table.schema.partition_type
    numbers = pa.array(np.arange(len(there), dtype=np.int32))
    rows = _rows(row_type, there).add_column(0, _NUMBER.name, numbers)
    frame = arrow_dataframe(session, rows, RowType(fields=(_NUMBER, *row_type.fields)))
    query = (
        f"SELECT {_NUMBER.name} FROM {register(session, frame)} AS {quoted(alias)} "
        f"WHERE {enclosed(condition)}"
    )
    try:
        found = query_dataframe_of(session, query, name).collect()
    except AnalysisException:
        return None
    return [there[row[0]] for row in found]


def _rows(row_type: RowType, there: Partitions) -> pa.Table:
    columns = [column_from_internal([p[f.name] for p in there], f.type) for f in row_type.fields]
    return pa.table(columns, names=list(row_type.names))
