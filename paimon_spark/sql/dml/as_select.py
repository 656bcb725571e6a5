"""CREATE TABLE ... AS SELECT, and REPLACE TABLE ... AS SELECT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paimon_core.catalog.rest.rest_catalog import RestCatalog
from paimon_core.clustering.on_write import clustered
from paimon_core.commit.commit_user import new_commit_user
from paimon_core.commit.message import CommitMessage
from paimon_core.commit.rewritten_schemas import OnlyOlder
from paimon_core.ddl.create import Column
from paimon_core.errors import CommitStateUnknown, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.confined import ConfinedFileIO
from paimon_core.io.local import LocalFileIO
from paimon_core.names import Boundary
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.format.format_table import FormatTable
from paimon_core.table.sink.after_commit import AfterCommit
from paimon_core.table.sink.real_buckets import RealBuckets
from paimon_core.table.sink.write_session import commit_overwrite, prepare_rows
from paimon_spark.sql.ddl.make_table import (
    format_schema,
    format_tables_of,
    make_table,
    makes_format_table,
    table_schema,
)
from paimon_spark.sql.ddl.replace_table import replace_with
from paimon_spark.sql.ddl.table_clauses import TableClauses
from paimon_spark.sql.ddl.tables import CREATED
from paimon_spark.sql.dml.format_writes import check_writable, format_rows, write_format
from paimon_spark.sql.dml.large_writes import rows_to_write, writes_distributed, written_files
from paimon_spark.sql.dml.postpone import prepare_in_buckets
from paimon_spark.sql.dml.writes import fetched, null_checked, overwriting, write_query
from paimon_spark.sql.errors import SqlSyntaxError, null_refused, own_error
from paimon_spark.sql.frames.characters import CHARACTERS, COMMENT
from paimon_spark.sql.query.queries import query_dataframe
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.tokens import Words
from paimon_spark.sql.text.types import read_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def create_as_select(
    session: SqlSession,
    name: TableName,
    clauses: TableClauses,
    query: str,
    operation: str,
) -> Result:
    """CREATE TABLE AS: the table with the query's columns, then its rows.

    `operation` is the statement as snapshots name it.
    """
    replace_table = operation != CREATED
    if makes_format_table(clauses):
        if clauses.partitioned_by:
            raise UnsupportedFeature(
                "CREATE TABLE AS SELECT of a partitioned format table",
                "Using CTAS with partitioned format table is not supported yet.",
                table=name.identifier,
                next_step="create the table, then INSERT the rows",
            )
        format_tables_of(session, name, clauses)  # what it refuses needs no Spark
    frame = query_dataframe(session, query)
    columns = [
        Column(
            f.name,
            read_type(Words(f.metadata.get(CHARACTERS) or _type_text(f.dataType))),
            f.metadata.get(COMMENT),
        )
        for f in frame.schema.fields
    ]
    if any(not isinstance(c, str) for c in clauses.partitioned_by):
        raise SqlSyntaxError("partition columns of CREATE TABLE AS SELECT have no type")
    exists = replace_table and session.has_table(name)
    if makes_format_table(clauses) or session.known_format(name) is not None:
        _fill_new(session, name, columns, clauses, frame, exists=exists)
        return NOTHING
    if exists:
        _replace(session, name, columns, clauses, frame, operation)
        return NOTHING
    make_table(session, name, columns, clauses)
    table = session.open(name, to_write=True)
    # Spark truncates a replaced table once more when it writes, also without rows.
    overwrite: Mapping[str, object] | None = {} if replace_table else None
    write_query(session, table, frame, overwrite=overwrite, operation=operation)
    return NOTHING


def _fill_new(
    session: SqlSession,
    name: TableName,
    columns: Sequence[Column],
    clauses: TableClauses,
    frame: DataFrame,
    *,
    exists: bool,
) -> None:
    """Create the table of the rows, one of both kinds of tables; first drop one that `exists`."""
    old = session.known_format(name)
    if exists:
        # The query may read the table.
        frame = _kept_twice(frame) if writes_distributed(frame) else _fetched(session, frame)
        if makes_format_table(clauses):
            planned = _planned(session, name, columns, clauses)
            replaced = old or session.catalog_for(name).get_table(name.identifier)
            place = clauses.location or replaced.root
            check_writable(planned, format_rows(planned, frame, planned.schema.fields, {}), place)
        else:
            _check_nulls(name, table_schema(session, name, columns, clauses), frame)
        replace_with(session, name, columns, clauses)
    else:
        make_table(session, name, columns, clauses)
    try:
        table = session.described(name, to_write=True)
        if isinstance(table, FormatTable):
            rows = format_rows(table, frame, table.schema.fields, {})
            # The files of an external table are still there.
            write_format(table, rows, overwrite=old is not None and old.root == table.root)
        else:
            write_query(session, table, frame, overwrite=None)
    except Exception as e:
        if not exists:
            raise
        raise CommitStateUnknown(
            f"table {name.identifier} was dropped and created again, but its new rows could not be "
            f"written: {own_error(e)}",
            table=name.identifier,
            next_step=f"its old files are in {old.location}"
            if old is not None and old.external
            else "the old rows are gone unless the table was external: fill the table from another "
            "source",
        ) from e


def _check_nulls(name: TableName, schema: TableSchema, frame: DataFrame) -> None:
    """WriteRefused for a null in a column that the table will have as NOT NULL."""
    needed = [f.name for f in schema.fields if not f.type.nullable]
    if not needed:
        return
    columns = [quoted(n) for n in needed]
    found = frame.where(" OR ".join(f"{c} IS NULL" for c in columns)).select(*columns).head(1)
    if found:
        column = next(n for n, value in zip(needed, found[0], strict=True) if value is None)
        raise null_refused(name.identifier, column)


def _planned(
    session: SqlSession, name: TableName, columns: Sequence[Column], clauses: TableClauses
) -> FormatTable:
    """The format table as it will be; it has no files."""
    root = f"/{name.identifier}"
    return FormatTable(
        name=name.identifier,
        schema=format_schema(session, name, columns, clauses),
        location=root,
        io=ConfinedFileIO(LocalFileIO(), Boundary(root)),
        root=root,
    )


def _type_text(data_type: Any) -> str:
    """The SQL of a type of Spark, whose `simpleString` does not quote the names of fields."""
    match data_type.typeName():
        case "struct":
            fields = (f"{quoted(f.name)}: {_type_text(f.dataType)}" for f in data_type.fields)
            return f"STRUCT<{', '.join(fields)}>"
        case "array":
            return f"ARRAY<{_type_text(data_type.elementType)}>"
        case "map":
            return f"MAP<{_type_text(data_type.keyType)}, {_type_text(data_type.valueType)}>"
    return str(data_type.simpleString())


def _kept_twice(frame: DataFrame) -> DataFrame:
    """The rows of the query, on the disks of two executors: one that is lost loses none of them.

    Where there is only one executor, it has them alone.
    """
    from pyspark import StorageLevel  # noqa: PLC0415 - only with a session

    return frame.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY_2)


def _fetched(session: SqlSession, frame: DataFrame) -> DataFrame:
    """The rows of the query, which the driver holds."""
    schema = frame.schema
    return session.spark.createDataFrame(frame.toArrow(), schema=schema)


def _replace(
    session: SqlSession,
    name: TableName,
    columns: Sequence[Column],
    clauses: TableClauses,
    frame: DataFrame,
    operation: str,
) -> None:
    """Put the rows of the query in place of the table, whose rows it may read."""
    env = session.env.doing(operation)
    user = new_commit_user(session.open(name, to_write=True), env)
    large = writes_distributed(frame)
    if isinstance(session.catalog_for(name), RestCatalog) or not large:
        large, frame = False, _fetched(session, frame)

    def fill(coming: FileStoreTable) -> Sequence[CommitMessage] | None:
        fields = coming.schema.fields
        if large:
            rows = rows_to_write(coming, frame, fields)
            return written_files(session, coming, rows, user=user)
        fresh = clustered(coming, fetched(coming, frame, fields))
        null_checked(coming, fresh)
        buckets = RealBuckets.for_rows(coming, fresh, replaced=True, emptied=True)
        if buckets is None:
            return prepare_rows(coming, fresh, env=env, user=user, overwrite=True)
        return prepare_in_buckets(coming, fresh, None, buckets, env=env, user=user, overwrite=True)

    filled = replace_with(session, name, columns, clauses, fill)
    if filled is None:
        table = session.open(name, to_write=True)
        write_query(session, table, frame, overwrite={}, operation=operation)
        return
    table, written = filled  # not opened again: there may be another table of the name
    after = AfterCommit(table, env=env, of_engine=True)
    commit_overwrite(
        overwriting(table, dynamic=False),
        written,
        env=env,
        user=user,
        after=after,
        check=OnlyOlder(table, table.schema),
    )
