"""CREATE and DROP of databases and tables, USE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from paimon_core.catalog.format_tables import FormatTables
from paimon_core.commit.commit_user import new_commit_user
from paimon_core.commit.message import CommitMessage
from paimon_core.commit.rewritten_schemas import OnlyOlder
from paimon_core.ddl.create import Column, create_schema, normalized, numbered_after
from paimon_core.ddl.validation import validate_schema
from paimon_core.environment import user_name
from paimon_core.errors import (
    AlreadyExists,
    CommitConflict,
    CommitStateUnknown,
    InvalidArgument,
    PaimonError,
    UnsupportedFeature,
)
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import Options, parse_bool
from paimon_core.scan.scan import scan_files
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.chain_overwrite import replace_partitions
from paimon_core.table.format_table import (
    FILE_FORMAT,
    FORMAT_TABLE,
    TYPE,
    FormatTable,
    check_format_table,
    is_format_table,
)
from paimon_core.table.open import under_schema
from paimon_core.table.write_session import delete_messages
from paimon_core.types.data_types import ArrayType, DataType, MapType, RowType
from paimon_spark.sql.ddl.special_columns import with_special_types
from paimon_spark.sql.ddl.table_clauses import (
    COMMENT_PROPERTY,
    EXTERNAL,
    OWNER,
    TableClauses,
    check_once,
    read_clauses,
    read_column_or_constraint,
    read_database_properties,
)
from paimon_spark.sql.errors import AnalysisError, SqlSyntaxError
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import (
    CASE_SENSITIVE,
    DEFAULT_DATABASE,
    SYSTEM_DATABASE,
    SqlSession,
    TableName,
    check_no_system_table,
    not_found,
)
from paimon_spark.sql.text.tokens import QUERY_WORDS, Words

_NOT_COPIED = ("path", "provider", "location", "owner", "external", "is-managed-location")
_RESERVED = ("provider", "location", "owner", "external", "is_managed_location")


# --- databases ----------------------------------------------------------------------------------


def create_database(session: SqlSession, words: Words) -> Result:
    """CREATE DATABASE [IF NOT EXISTS] name [COMMENT ..] [LOCATION ..] [WITH DBPROPERTIES (..)].

    A filesystem catalog keeps neither comment nor properties, and refuses a location, as in Java.
    """
    if_not_exists = words.eat("IF", "NOT", "EXISTS")
    catalog_name, database = session.database_name(words.name())
    _check_not_sys(database)
    properties: dict[str, str] = {}
    seen: list[str] = []
    while not words.done:
        check_once(seen, words)
        if words.eat("COMMENT"):
            properties["comment"] = words.string()
        elif words.eat("LOCATION"):
            properties["location"] = words.string()
        else:
            words.need("WITH")
            if not words.eat_any("DBPROPERTIES", "PROPERTIES"):
                words.fail("DBPROPERTIES")
            properties.update(read_database_properties(words))
    catalog = session.catalog_named(catalog_name)
    if catalog.metastore == "filesystem":
        if "location" in properties:
            raise InvalidArgument(
                "Cannot specify location for a database when using fileSystem catalog."
            )
        properties = {}
    else:
        properties[OWNER] = user_name()
    try:
        catalog.create_database(database, properties=properties, if_not_exists=if_not_exists)
    except AlreadyExists as e:
        raise AnalysisError(
            f"[SCHEMA_ALREADY_EXISTS] Cannot create schema `{database}` because it already exists"
        ) from e
    return NOTHING


def drop_database(session: SqlSession, words: Words) -> Result:
    """DROP DATABASE [IF EXISTS] name [RESTRICT | CASCADE]."""
    if_exists = words.eat("IF", "EXISTS")
    catalog_name, database = session.database_name(words.name())
    cascade = words.eat_any("CASCADE", "RESTRICT") == "CASCADE"
    words.end()
    _check_not_sys(database)
    if not session.has_database(catalog_name, database):
        if if_exists:
            return NOTHING
        session.need_database(catalog_name, database)
    catalog = session.catalog_named(catalog_name)
    if not cascade and catalog.list_tables(database):
        raise AnalysisError(
            f"[SCHEMA_NOT_EMPTY] Cannot drop a schema `{catalog_name}`.`{database}` "
            "because it contains objects",
            next_step="use DROP DATABASE ... CASCADE to drop the schema and all its objects",
        )
    catalog.drop_database(database, cascade=cascade)
    return NOTHING


def use(session: SqlSession, words: Words) -> Result:
    """USE [CATALOG | DATABASE] name: the current catalog or database from now on.

    The current catalog's name changes nothing (Spark: `CatalogManager.setCurrentCatalog`).
    """
    kind = None
    if len(words.tokens) > words.at + 1 and words.word(1) != ".":
        kind = words.eat_any("DATABASE", "SCHEMA", "NAMESPACE", "CATALOG")
    parts = words.name()
    words.end()
    if len(parts) == 1 and kind in (None, "CATALOG"):
        ref = session.find(parts[0])
        if ref is not None:
            if ref.name != session.current_catalog:
                session.current_catalog = ref.name
                session.database = DEFAULT_DATABASE
            return NOTHING
        if kind == "CATALOG":
            session.catalog_named(parts[0])
    catalog, database = session.database_name(parts)
    session.need_database(catalog, database)
    session.current_catalog, session.database = catalog, database
    return NOTHING


# --- tables -------------------------------------------------------------------------------------


Fill = Callable[[FileStoreTable], Sequence[CommitMessage] | None]
"""Writes the rows of a table that is replaced, under its new schema; None: there are none."""
Filled = tuple[FileStoreTable, Sequence[CommitMessage]]
"""A table that was replaced, under its new schema, and the rows that are to be committed to it."""
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


def make_table(
    session: SqlSession, name: TableName, columns: Sequence[Column], clauses: TableClauses
) -> None:
    """Create the table; SchemaError or UnsupportedFeature for what is refused."""
    catalog = session.catalog_for(name)
    if makes_format_table(clauses):
        format_tables_of(session, name, clauses).create(
            name.identifier, _format_schema(session, name, columns, clauses)
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
    catalog.create_table(name.identifier, _schema(session, name, columns, clauses))


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


def _format_schema(
    session: SqlSession, name: TableName, columns: Sequence[Column], clauses: TableClauses
) -> TableSchema:
    """The schema of a format table, whose options are not those of Paimon's own tables."""
    given = {k: v for k, v in clauses.properties.items() if k != TYPE}
    kind = clauses.provider or given.pop(FILE_FORMAT, None)
    given.pop(FILE_FORMAT, None)
    keys = given.pop("primary-key", None)
    rest = replace(clauses, properties={}, provider=None)
    made = _schema(session, name, columns, rest)
    options = {**made.options, **given, TYPE: FORMAT_TABLE}
    if kind is not None:
        options[FILE_FORMAT] = kind
    if keys is not None:
        options["primary-key"] = keys
    comment = options.pop(COMMENT_PROPERTY, None)
    return replace(
        made, options=Options(options), comment=comment if made.comment is None else made.comment
    )


def _drop(session: SqlSession, name: TableName) -> None:
    """Drop the table that the statement has found."""
    catalog = session.catalog_for(name)
    if session.known_format(name) is not None and catalog.format_tables is not None:
        catalog.format_tables.drop(name.identifier)
    else:
        catalog.drop_table(name.identifier)
    session.forget_format(name)


def replace_with(
    session: SqlSession,
    name: TableName,
    columns: Sequence[Column],
    clauses: TableClauses,
    fill: Fill = lambda _: None,
) -> Filled | None:
    """Empty the table and give it another schema; its snapshots stay.

    Java 2.0: `AbstractCatalog.replaceTable`, two steps as there, but field ids go on.  A snapshot
    with the new schema tells writers of the old one that the table was replaced.  `fill` writes
    files for the new schema before the table is emptied: if it fails, nothing has changed.
    Returns what is left to commit; None without `fill`, and for a REST server, which does it in its
    own way.  If another client changes the schema or replaces the table first, what is there then
    is replaced; rows that others write with the new schema stay.  UnsupportedFeature for other
    partition columns, CommitStateUnknown if the store fails once the rows may be removed.
    """
    old = session.known_format(name)
    if old is not None or makes_format_table(clauses):
        # Java's catalogs cannot replace these either: it drops and creates the table.
        if makes_format_table(clauses):
            check_format_table(_format_schema(session, name, columns, clauses))
            format_tables_of(session, name, clauses)
        else:
            validate_schema(normalized(_schema(session, name, columns, clauses)))
        _drop(session, name)
        make_table(session, name, columns, clauses)
        return None
    new = normalized(_schema(session, name, columns, clauses))
    validate_schema(new)
    table = session.open(name, to_write=True)
    if session.catalog_for(name).replace_table(name.identifier, new):
        return None
    emptied = table.snapshots.latest() is None
    while True:
        before = table.schemas.latest()
        if before is None:
            raise not_found(name)
        if before.id != table.schema.id:
            table = table.refreshed()  # under the old schema, nothing of a new table can be removed
        _check_partitions(name, before, new)
        schema = numbered_after(new, before)
        coming = under_schema(table, schema)
        written = fill(coming)
        only_older = OnlyOlder(table, schema)
        made = replaced = False
        try:
            if emptied:
                _empty_again(table, session, only_older)
            else:
                _truncate(table, session, only_older)
                emptied = True
            made = table.commit_schema(schema)
            if made:
                _empty_again(table, session, only_older)
                if written is None:  # else their commit is the first snapshot with the new schema
                    _truncate(coming, session, only_older)
                replaced = True
        except CommitConflict:
            if not only_older.found:
                raise
            replaced = made  # what others wrote since then is theirs
        except (OSError, CommitStateUnknown) as e:
            raise _half_replaced(name, e) from e
        finally:
            if not replaced:
                delete_messages(coming, written or ())
        if replaced:
            return None if written is None else (coming, written)


def _half_replaced(name: TableName, failure: Exception) -> CommitStateUnknown:
    """The error for a store that failed after the removal of the rows had begun."""
    return CommitStateUnknown(
        f"table {name.identifier} may be empty, or replaced without rows: {failure}",
        table=name.identifier,
        next_step="look at the table; its snapshots from before are still there (`VERSION AS OF`). "
        "Run the statement again to finish it",
    )


def _check_partitions(name: TableName, old: TableSchema, new: TableSchema) -> None:
    if tuple(new.partition_keys) != tuple(old.partition_keys):
        raise UnsupportedFeature(
            "REPLACE TABLE with other partition columns",
            f"replaceTable does not support changing partition keys "
            f"(old=[{', '.join(old.partition_keys)}], "
            f"new=[{', '.join(new.partition_keys)}]). Drop and re-create the table instead.",
            table=name.identifier,
            next_step="drop the table, and create it again",
        )


def _empty_again(table: FileStoreTable, session: SqlSession, only_older: OnlyOlder) -> None:
    """Remove the rows that were committed with the old schema since the table was emptied."""
    latest = table.snapshots.latest()
    if latest is not None and next(iter(scan_files(table, latest)), None) is not None:
        _truncate(table, session, only_older)


def _truncate(table: FileStoreTable, session: SqlSession, only_older: OnlyOlder) -> None:
    user, env = new_commit_user(table, session.env), session.env.doing("TRUNCATE")
    replace_partitions(table, None, user=user, env=env, check=only_older)


def _schema(
    session: SqlSession, name: TableName, columns: Sequence[Column], clauses: TableClauses
) -> TableSchema:
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
    _check_names(session, name, [c.name for c in columns])
    for column in columns:
        if not isinstance(column.type, str):
            _check_fields(session, name, column.name, column.type)
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


def _check_fields(session: SqlSession, name: TableName, path: str, data_type: DataType) -> None:
    """As `_check_names`, for the fields of structs at any depth."""
    match data_type:
        case RowType():
            _check_names(session, name, [f.name for f in data_type.fields], f"`{path}`.")
            for field in data_type.fields:
                _check_fields(session, name, f"{path}`.`{field.name}", field.type)
        case ArrayType():
            _check_fields(session, name, f"{path}`.`element", data_type.element)
        case MapType():
            _check_fields(session, name, f"{path}`.`key", data_type.key)
            _check_fields(session, name, f"{path}`.`value", data_type.value)


def _check_names(
    session: SqlSession, name: TableName, columns: Sequence[str], inside: str = ""
) -> None:
    """AnalysisError if two columns share a name, ignoring case unless Spark distinguishes it."""
    sensitive = parse_bool(session.conf.get(CASE_SENSITIVE, "false"))
    known = set()
    for column in columns:
        key = column if sensitive else column.lower()
        if key in known:
            raise AnalysisError(
                f"[COLUMN_ALREADY_EXISTS] The column {inside}`{key}` already exists",
                table=name.identifier,
                next_step="choose another name for the column",
            )
        known.add(key)


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
    _drop(session, name)
    return NOTHING


def _check_not_sys(database: str) -> None:
    if database == SYSTEM_DATABASE:
        raise AnalysisError(f"the database {database} is the catalog's own, it cannot be changed")


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
    if provider is None and of_format is not None:
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
        f"[TABLE_OR_VIEW_ALREADY_EXISTS] Cannot create table or view {name.shown} "
        "because it already exists",
        table=name.identifier,
        next_step="choose another name, drop the existing table, or add IF NOT EXISTS",
    )
