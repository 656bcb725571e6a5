"""Create a table of Paimon or of files in another format, from the clauses of its statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paimon_core.catalog.format_tables import FormatTables
from paimon_core.ddl.create import Column, create_schema
from paimon_core.ddl.special_columns import with_special_types
from paimon_core.environment import user_name
from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.options import Options
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.format.format_table import FILE_FORMAT, FORMAT_TABLE, TYPE
from paimon_core.types.data_types import ArrayType, DataType, MapType, RowType
from paimon_spark.sql.ddl.table_clauses import COMMENT_PROPERTY, EXTERNAL, OWNER, TableClauses
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName

_RESERVED = ("provider", "location", "owner", "external", "is_managed_location")


def make_table(
    session: SqlSession, name: TableName, columns: Sequence[Column], clauses: TableClauses
) -> None:
    """Create the table; SchemaError or UnsupportedFeature for what is refused."""
    catalog = session.catalog_for(name)
    if makes_format_table(clauses):
        format_tables_of(session, name, clauses).create(
            name.identifier, format_schema(session, name, columns, clauses)
        )
        return
    if catalog.metastore == "filesystem" and clauses.location is not None:
        raise UnsupportedFeature(
            "LOCATION",
            f"The current catalog {name.catalog} does not support specifying the table path when "
            "creating a table.",
            table=name.identifier,
            next_step="omit LOCATION: the catalog determines the path",
        )
    catalog.create_table(name.identifier, table_schema(session, name, columns, clauses))


def makes_format_table(clauses: TableClauses) -> bool:
    """Whether the clauses are those of a format table."""
    kind = clauses.properties.get(TYPE, "").lower().replace("_", "-")
    return clauses.provider is not None or kind == FORMAT_TABLE


def format_tables_of(session: SqlSession, name: TableName, clauses: TableClauses) -> FormatTables:
    """The format tables of the table's catalog; UnsupportedFeature if it has none, as in Java."""
    catalog = session.catalog_for(name)
    if catalog.format_tables is not None:
        return catalog.format_tables
    using = f"USING {clauses.provider}" if clauses.provider else f"{TYPE}={FORMAT_TABLE}"
    raise UnsupportedFeature(
        "format tables",
        f"a {catalog.metastore} catalog does not support format tables: {using}",
        table=name.identifier,
        next_step="use USING paimon, or create the table in a REST or Hive catalog",
    )


def format_schema(
    session: SqlSession, name: TableName, columns: Sequence[Column], clauses: TableClauses
) -> TableSchema:
    """The schema of a format table, whose options are not those of Paimon's own tables."""
    given = {k: v for k, v in clauses.properties.items() if k != TYPE}
    kind = clauses.provider or given.pop(FILE_FORMAT, None)
    given.pop(FILE_FORMAT, None)
    keys = given.pop("primary-key", None)
    rest = replace(clauses, properties={}, provider=None)
    made = table_schema(session, name, columns, rest)
    options = {**made.options, **given, TYPE: FORMAT_TABLE}
    if kind is not None:
        options[FILE_FORMAT] = kind
    if keys is not None:
        options["primary-key"] = keys
    comment = options.pop(COMMENT_PROPERTY, None)
    return replace(
        made, options=Options(options), comment=comment if made.comment is None else made.comment
    )


def table_schema(
    session: SqlSession, name: TableName, columns: Sequence[Column], clauses: TableClauses
) -> TableSchema:
    """The schema of a table of Paimon; AnalysisError, SchemaError or UnsupportedFeature."""
    columns = list(columns)
    keys: list[str] = []
    names = {c.name.lower(): c.name for c in columns}
    for part in clauses.partitioned_by:
        if isinstance(part, Column):
            columns.append(part)
            keys.append(part.name)
        elif part.lower() not in names:
            raise AnalysisError(
                f"Couldn't find column {part} in: {', '.join(names.values())}",
                table=name.identifier,
                next_step="partition by columns of the table",
            )
        else:
            keys.append(names[part.lower()])
    if clauses.properties.get("type", "").lower() == "object-table":
        raise UnsupportedFeature("object tables", table=name.identifier)
    if not columns and clauses.location is None:  # a table in that folder would have some
        raise UnsupportedFeature("tables without columns", table=name.identifier)
    sensitive = session.case_sensitive
    check_names([c.name for c in columns], name.identifier, case_sensitive=sensitive)
    for column in columns:
        if not isinstance(column.type, str):
            _check_fields(name.identifier, column.name, column.type, case_sensitive=sensitive)
    options = {k: v for k, v in clauses.properties.items() if k.lower() not in _RESERVED}
    options[OWNER] = user_name()
    if clauses.external:
        options[EXTERNAL] = "true"
    comment = options.pop(COMMENT_PROPERTY, None)
    if clauses.location is not None:
        options["path"] = clauses.location
    columns = with_special_types(columns, options)
    if options.get("upsert-key") and options.get("primary-key"):
        raise InvalidArgument(
            f"Cannot define 'upsert-key' [{options['upsert-key']}] with 'primary-key' "
            f"[{options['primary-key']}]."
        )
    return create_schema(
        columns,
        now_millis=session.env.now_millis(),
        partition_keys=keys,
        options=options,
        comment=clauses.comment if clauses.comment is not None else comment,
    )


def _check_fields(table: str, path: str, data_type: DataType, *, case_sensitive: bool) -> None:
    """As `check_names`, for the fields of structs at any depth."""

    def check(below: str, kind: DataType) -> None:
        _check_fields(table, f"{path}`.`{below}", kind, case_sensitive=case_sensitive)

    match data_type:
        case RowType():
            names = [f.name for f in data_type.fields]
            check_names(names, table, case_sensitive=case_sensitive, inside=f"`{path}`.")
            for field in data_type.fields:
                check(field.name, field.type)
        case ArrayType():
            check("element", data_type.element)
        case MapType():
            check("key", data_type.key)
            check("value", data_type.value)


def check_names(
    columns: Sequence[str], table: str, *, case_sensitive: bool, inside: str = ""
) -> None:
    """AnalysisError if two columns of the table or view share a name."""
    known = set()
    for column in columns:
        key = column if case_sensitive else column.lower()
        if key in known:
            raise AnalysisError(
                f"[COLUMN_ALREADY_EXISTS] The column {inside}`{key}` already exists",
                table=table,
                next_step="choose another name for the column",
            )
        known.add(key)
