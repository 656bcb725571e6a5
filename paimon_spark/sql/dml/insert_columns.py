"""The columns of an INSERT: those it names, those it leaves out, and their defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.format.format_table import FormatTable
from paimon_core.types.arrow import column_from_internal
from paimon_core.types.data_types import AtomicType, DataField
from paimon_spark.sql.dml.by_name import check_distinct
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.text.tokens import Words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_partition_columns(
    table: FileStoreTable | FormatTable, spec: Mapping[str, str | None]
) -> None:
    """AnalysisError for a column in PARTITION (..) that is not a partition column."""
    keys = {k.lower() for k in table.schema.partition_keys}
    others = [column for column in spec if column.lower() not in keys]
    if others:
        raise AnalysisError(
            "[NON_PARTITION_COLUMN] PARTITION clause cannot contain the non-partition column: "
            f"`{others[0]}`",
            table=table.name,
            next_step=f"its partition columns are: {', '.join(table.schema.partition_keys) or 'none'}",
        )


def check_listed(
    table: FileStoreTable | FormatTable, listed: Sequence[str], found: Sequence[str]
) -> None:
    """AnalysisError if the query has more or fewer columns than the statement lists."""
    if len(listed) == len(found):
        return
    kind = "TOO_MANY" if len(found) > len(listed) else "NOT_ENOUGH"
    raise AnalysisError(
        f"[INSERT_COLUMN_ARITY_MISMATCH.{kind}_DATA_COLUMNS] Cannot write to {table.name}, the "
        f"reason is {kind.lower().replace('_', ' ')} data columns: table columns: "
        f"{', '.join(f'`{c}`' for c in listed)}; data columns: "
        f"{', '.join(f'`{c}`' for c in found)}",
        table=table.name,
    )


def has_names(query: str) -> bool:
    """Whether the columns of the query may have names, by which `in_order_of` goes."""
    return query.lstrip()[:6].upper() != "VALUES"


def in_order_of(
    frame: DataFrame, fields: Sequence[DataField], spec: Mapping[str, str | None]
) -> Sequence[DataField]:
    """The fields in Hive's order, partition columns last, if the query names them in this order."""
    by_name = {f.name.lower(): f for f in fields}
    last = [c.lower() for c in spec]
    hive = [*(n for n in by_name if n not in last), *last]
    if [c.lower() for c in frame.columns] != hive:
        return fields
    return [by_name[n] for n in hive]


def targets(
    table: FileStoreTable | FormatTable, static: Mapping[str, object], columns: Sequence[str] | None
) -> list[DataField]:
    """The columns that the query's columns go to, by position."""
    if columns is None:
        return [f for f in table.schema.fields if f.name not in static]
    check_distinct(table)
    by_name = {f.name.lower(): f for f in table.schema.fields}
    found = []
    for column in columns:
        field = by_name.get(column.lower())
        if field is None:
            raise AnalysisError(
                f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `{column}` cannot be "
                f"resolved. Did you mean one of {', '.join(table.schema.names)}",
                table=table.name,
            )
        if field in found:
            raise AnalysisError(
                f"[COLUMN_ALREADY_EXISTS] The column `{column}` already exists in the list",
                next_step="name each column once",
            )
        if field.name in static:
            raise AnalysisError(
                f"[STATIC_PARTITION_COLUMN_IN_INSERT_COLUMN_LIST] Static partition column "
                f"{column} is also specified in the column list"
            )
        found.append(field)
    return found


def with_static(table: FileStoreTable, rows: pa.Table, static: Mapping[str, object]) -> pa.Table:
    for name, value in static.items():
        field = table.schema.row_type.get(name)
        assert field is not None
        column = column_from_internal([value] * rows.num_rows, field.type.with_nullable(True))
        rows = rows.append_column(name, column)
    return rows


def without_default(query: str, fields: Sequence[DataField]) -> str:
    """The query without DEFAULT.

    A null gets the default when it is written, so that NULL stands for it.  The default of an
    array, a map or a struct is its SQL, as in Spark: writers read the texts in it otherwise.
    """
    words = Words(query)
    pieces, done, places = [], 1, [0]
    for i, token in enumerate(words.tokens):
        words.at = i
        match words.word():
            case "(":
                places.append(0)
            case ")" if len(places) > 1:
                places.pop()
            case ",":
                places[-1] += 1
            case "DEFAULT" if words.word(1) in (",", ")"):
                field = fields[places[-1]] if places[-1] < len(fields) else None
                pieces += [words.text[done : token.start], _default(field)]
                done = token.end + 1
    return "".join([*pieces, words.text[done:]])


def _default(field: DataField | None) -> str:
    if field is None or not has_nested_default(field):
        return "NULL"
    return f"({field.default_value})"


def has_nested_default(field: DataField) -> bool:
    return field.default_value is not None and not isinstance(field.type, AtomicType)
