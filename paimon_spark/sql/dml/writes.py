"""Commit rows to a table: those at hand by this process, those of large queries by executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from paimon_core.clustering.on_write import clustered
from paimon_core.file_store_table import FileStoreTable
from paimon_core.snapshot.snapshot import Identity
from paimon_core.table.format.format_table import FormatTable
from paimon_core.table.sink.after_commit import AfterCommit
from paimon_core.table.sink.real_buckets import RealBuckets
from paimon_core.table.sink.write_session import write_rows
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import DataField, RowType
from paimon_core.write.incoming_rows import Kinds
from paimon_spark.sql.dml.large_writes import rows_to_write, write_distributed, writes_distributed
from paimon_spark.sql.dml.postpone import write_to_buckets
from paimon_spark.sql.errors import IncompatibleRows, null_refused
from paimon_spark.sql.frames.characters import stored_column
from paimon_spark.sql.frames.dataframes import arrow_of
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.types import read_schema_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DYNAMIC: Final = "dynamic-partition-overwrite"


def write(
    session: SqlSession,
    table: FileStoreTable,
    rows: pa.Table,
    kinds: Kinds | None = None,
    *,
    overwrite: Mapping[str, object] | None = None,
    dynamic: bool = False,
    operation: str | None = None,
    rows_at: Identity | None = None,
) -> None:
    """Commit the rows; with `overwrite`, they replace the partitions that match it.

    A `dynamic` overwrite replaces the partitions of the new rows.  The snapshot says that it is for
    `operation` (default: WRITE or OVERWRITE).  `rows_at` is the snapshot of the table from whose
    rows those of an overwrite were computed: RowsChanged if others changed them since.
    WriteRefused for a null in a NOT NULL column.
    """
    null_checked(table, rows)
    rows = clustered(table, rows)
    env = session.env.doing(operation or ("WRITE" if overwrite is None else "OVERWRITE"))
    if overwrite is not None:
        table = overwriting(table, dynamic=dynamic)
    buckets = RealBuckets.for_rows(table, rows, replaced=overwrite is not None)
    if buckets is not None:
        write_to_buckets(table, rows, kinds, buckets, env=env, partition=overwrite, rows_at=rows_at)
        return
    after = AfterCommit(table, env=env, of_engine=True)
    if overwrite is None:
        write_rows(table, rows, kinds, env=env, after=after)
    else:
        partition = dict(overwrite)
        write_rows(table, rows, env=env, partition=partition, after=after, rows_at=rows_at)


def write_by_executors(
    session: SqlSession,
    table: FileStoreTable,
    frame: DataFrame,
    fields: Sequence[DataField],
    static: Mapping[str, str] | None = None,
    *,
    overwrite: Mapping[str, object] | None,
    dynamic: bool = False,
    operation: str | None = None,
    rows_at: Identity | None = None,
) -> None:
    """As `write`, for the rows of a query; arguments as in `rows_to_write`."""
    if overwrite is not None:
        table = overwriting(table, dynamic=dynamic)
    rows = rows_to_write(table, frame, fields, static)
    write_distributed(
        session, table, rows, overwrite=overwrite, operation=operation, rows_at=rows_at
    )


def write_query(
    session: SqlSession,
    table: FileStoreTable,
    frame: DataFrame,
    *,
    overwrite: Mapping[str, object] | None,
    operation: str | None = None,
    rows_at: Identity | None = None,
) -> None:
    """Commit the rows of a query, whose columns are those of the table, as `write` does."""
    fields = table.schema.fields
    if len(frame.columns) == len(fields) and writes_distributed(frame):
        write_by_executors(
            session,
            table,
            frame,
            fields,
            overwrite=overwrite,
            operation=operation,
            rows_at=rows_at,
        )
    else:
        rows = fetched(table, frame, fields)
        write(session, table, rows, overwrite=overwrite, operation=operation, rows_at=rows_at)


def fetched(
    table: FileStoreTable,
    frame: DataFrame,
    fields: Sequence[DataField],
    *,
    as_strings: bool = False,
) -> pa.Table:
    """The rows of a DataFrame, its columns cast by position to the types of the fields.

    With `as_strings`, CHAR and VARCHAR are neither padded nor checked.
    IncompatibleRows if the numbers of columns differ.
    """
    check_width(table, frame, fields)
    plain = frame.toDF(*(f"c{i}" for i in range(len(fields))))
    cast = plain.selectExpr(
        *(f"CAST(c{i} AS {read_schema_text(f.type)}) AS c{i}" for i, f in enumerate(fields))
    )
    found = arrow_of(cast)
    schema = arrow_schema(RowType(fields=tuple(fields)))
    columns = [
        (found.column(i) if as_strings else stored_column(found.column(i), f)).cast(
            schema.field(i).type, safe=False
        )
        for i, f in enumerate(fields)
    ]
    return pa.table(columns, names=[f.name for f in fields])


def check_width(
    table: FileStoreTable | FormatTable, frame: DataFrame, fields: Sequence[DataField]
) -> None:
    """IncompatibleRows if the rows have more or fewer columns than there are fields."""
    if len(frame.columns) != len(fields):
        raise IncompatibleRows(
            f"Cannot write incompatible data for the table `{table.name}`, the number of data "
            f"columns ({len(frame.columns)}) doesn't match the table schema's ({len(fields)})",
            table=table.name,
        )


def overwriting(table: FileStoreTable, *, dynamic: bool) -> FileStoreTable:
    """The table under a mode of overwrites, whatever its own is."""
    return replace(table, schema=table.schema.with_options({_DYNAMIC: str(dynamic).lower()}))


def null_checked(table: FileStoreTable, rows: pa.Table) -> None:
    """WriteRefused for a null in a NOT NULL column, IncompatibleRows if the column is missing."""
    for field in table.schema.fields:
        if field.type.nullable:
            continue
        if field.name not in rows.schema.names:
            if field.default_value is None:
                raise IncompatibleRows(
                    f"Cannot write incompatible data for the table `{table.name}`, due to "
                    f"non-nullable column `{field.name}` has no specified value.",
                    table=table.name,
                )
        elif rows.column(field.name).null_count and field.default_value is None:
            raise null_refused(table.name, field.name)
