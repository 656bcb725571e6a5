"""CREATE TABLE, with columns, LIKE or AS SELECT, and DROP TABLE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from paimon_core.ddl.create import Column, create_schema
from paimon_core.errors import AlreadyExists, InvalidArgument, PaimonError, UnsupportedFeature
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.format.format_table import FILE_FORMAT, FormatTable, is_format_table
from paimon_spark.sql.ddl.make_table import make_table, makes_format_table
from paimon_spark.sql.ddl.replace_table import replace_with
from paimon_spark.sql.ddl.table_clauses import TableClauses, read_clauses, read_column_or_constraint
from paimon_spark.sql.errors import AnalysisError, SqlSyntaxError
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName, check_no_system_table, not_found
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.tokens import QUERY_WORDS, Words

_NOT_COPIED = ("path", "provider", "location", "owner", "external", "is-managed-location")


AsSelect = Callable[[SqlSession, TableName, TableClauses, str, str], Result]
"""Makes and fills the table of a query; the last text is the operation as snapshots name it."""
CREATED: Final = "CREATE_TABLE_AS_SELECT"
REPLACED: Final = "REPLACE_TABLE_AS_SELECT"
CREATED_OR_REPLACED: Final = "CREATE_OR_REPLACE_TABLE_AS_SELECT"


def create_table(
    session: SqlSession,
    words: Words,
    as_select: AsSelect,
    *,
    external: bool = False,
    replace_table: bool = False,
    must_exist: bool = False,
) -> Result:
    """CREATE [OR REPLACE] [EXTERNAL] TABLE, or REPLACE TABLE if the table `must_exist`.

    With columns, LIKE another table, or AS a query.

    `as_select` creates and fills the table of a query, for which it may start Spark.
    """
    if_not_exists = words.eat("IF", "NOT", "EXISTS")
    name = session.table_name(words.name())
    if not (if_not_exists and session.has_table(name)):
        check_no_system_table(name)
        check_no_branch(name, "created")
    if words.eat("LIKE"):
        return _create_like(session, words, name, if_not_exists=if_not_exists)
    columns = words.items(lambda: read_column_or_constraint(words)) if words.looks_at("(") else []
    clauses = read_clauses(words)
    clauses.external = external
    if words.looks_at("STORED", "AS"):
        raise UnsupportedFeature(
            "STORED AS", next_step="use USING paimon and the option file.format"
        )
    query = None
    if words.eat("AS") or words.word() in QUERY_WORDS:
        query = words.rest()
    words.end()
    session.need_database(name.catalog, name.database)
    exists = session.has_table(name)
    if exists and not replace_table:
        if if_not_exists:
            return NOTHING
        raise _exists(name)
    if replace_table and must_exist and not exists:
        raise not_found(name)
    if query is not None:
        if columns:
            raise SqlSyntaxError(
                "Schema may not be specified in a Create Table As Select (CTAS) statement"
            )
        replaced = REPLACED if must_exist else CREATED_OR_REPLACED
        return as_select(session, name, clauses, query, replaced if replace_table else CREATED)
    if exists:
        replace_with(session, name, columns, clauses)
    else:
        try:
            make_table(session, name, columns, clauses)
        except AlreadyExists:
            # Another client may have been first.
            if not if_not_exists or not (session.has_table(name) or _hides_view(session, name)):
                raise
    return NOTHING


def _hides_view(session: SqlSession, name: TableName) -> bool:
    """Whether a view has the name and IF NOT EXISTS accepts that, as in Java's JDBC catalog.

    Java's Hive catalog refuses the table, and a REST server decides.
    """
    catalog = session.catalog_for(name)
    views = None if catalog.metastore == "hive" else catalog.views
    return views is not None and views.find(name.identifier) is not None


def drop_table(session: SqlSession, words: Words) -> Result:
    """DROP TABLE [IF EXISTS] name [PURGE]."""
    if_exists = words.eat("IF", "EXISTS")
    parts = words.name()
    purge = words.eat("PURGE")
    words.end()
    if session.view_key(parts):
        del session.views[session.view_key(parts)]
        return NOTHING
    name = session.table_name(parts)
    check_no_system_table(name)
    if session.drop_spark_view(parts):  # before a table of the same name, as in Spark
        return NOTHING
    if not session.has_table(name):
        if if_exists:
            return NOTHING
        raise not_found(name)
    check_no_branch(name, "dropped")
    if purge:
        raise UnsupportedFeature(
            "PURGE",
            "[UNSUPPORTED_FEATURE.PURGE_TABLE] The feature is not supported: Purge table",
            table=name.identifier,
            next_step="omit PURGE: the files are deleted at once",
        )
    session.drop(name)
    return NOTHING


def check_no_branch(name: TableName, what: str) -> None:
    """Refuse to create, drop or rename a table by the name of its branch.

    Java: `CatalogUtils.checkNotBranch`.
    """
    if name.branch is not None:
        raise InvalidArgument(
            f"{name.with_branch} is a branch, which cannot be {what} as a table",
            table=name.identifier,
            next_step="name the table; CALL sys.create_branch, delete_branch and rename_branch "
            "are for branches",
        )


def _create_like(
    session: SqlSession, words: Words, name: TableName, *, if_not_exists: bool
) -> Result:
    source = session.table_name(words.name())
    clauses = read_clauses(words, "PARTITIONED", "OPTIONS", "COMMENT")
    if words.looks_at("STORED", "AS"):
        raise UnsupportedFeature(
            "STORED AS", "CREATE TABLE LIKE ... STORED AS is not supported for SparkCatalog."
        )
    words.end()
    session.need_database(name.catalog, name.database)
    found = session.described(source)
    schema = found.schema if isinstance(found, FormatTable) else found.schemas.latest()
    if schema is None:
        raise not_found(source)
    if session.has_table(name):
        if if_not_exists:
            return NOTHING
        raise _exists(name)
    if isinstance(found, FormatTable) or makes_format_table(clauses):
        _create_format_like(session, name, schema, clauses)
        return NOTHING
    inherited = {k: v for k, v in schema.options.items() if k.lower() not in _NOT_COPIED}
    options = {**inherited, **clauses.properties}
    if schema.primary_keys and "primary-key" not in clauses.properties:
        options["primary-key"] = ",".join(schema.primary_keys)
    made = create_schema(
        [Column(f.name, f.type, f.description, f.default_value) for f in schema.fields],
        now_millis=session.env.now_millis(),
        partition_keys=schema.partition_keys,
        options=options,
        comment=schema.comment if clauses.comment is None else clauses.comment,
    )
    session.catalog_for(name).create_table(name.identifier, replace(made, id=0))
    return NOTHING


def _create_format_like(
    session: SqlSession, name: TableName, schema: TableSchema, clauses: TableClauses
) -> None:
    """LIKE, where one of the tables is a format table: one of another kind has its own options."""
    columns = [Column(f.name, f.type, f.description, f.default_value) for f in schema.fields]
    properties = dict(clauses.properties)
    provider = clauses.provider
    of_format = schema.options.get(FILE_FORMAT) if is_format_table(schema) else None
    if provider is None and not clauses.using_paimon:
        provider = of_format
    if provider == of_format:
        kept = {k: v for k, v in schema.options.items() if k.lower() not in _NOT_COPIED}
        properties = {**kept, **properties}
    comment = schema.comment if clauses.comment is None else clauses.comment
    made = replace(
        clauses,
        properties=properties,
        provider=provider,
        partitioned_by=list(schema.partition_keys),
        comment=comment,
    )
    make_table(session, name, columns, made)


def _exists(name: TableName) -> PaimonError:
    return AnalysisError(
        "[TABLE_OR_VIEW_ALREADY_EXISTS] Cannot create table or view "
        f"{quoted(name.database)}.{quoted(name.table)} because it already exists",
        table=name.identifier,
        next_step="choose another name, drop the existing table, or add IF NOT EXISTS",
    )
