"""Passes each statement to the module that runs it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from paimon_core.environment import Environment, system_environment
from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_spark.sql import call, functions, settings, show, views
from paimon_spark.sql.catalogs import CATALOG
from paimon_spark.sql.ddl import alter, databases, format_partitions, partitions, tables
from paimon_spark.sql.ddl import tags as tag_statements
from paimon_spark.sql.ddl.comments import comment_on
from paimon_spark.sql.dml import copy_into, insert, merge, row_level
from paimon_spark.sql.dml.as_select import create_as_select
from paimon_spark.sql.dml.common_tables import common_tables, end_of_common_tables
from paimon_spark.sql.dml.multi_insert import multi_insert
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.explain import explain
from paimon_spark.sql.immediate import plain_statement
from paimon_spark.sql.procedures import Procedures
from paimon_spark.sql.query.queries import query_dataframe, rewritten, rewritten_view, run_query
from paimon_spark.sql.query.registered import drop_registered
from paimon_spark.sql.result import Result
from paimon_spark.sql.session import SqlSession, settings_that_count
from paimon_spark.sql.system_tables import is_system_table
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.splitter import split_statements
from paimon_spark.sql.text.tokens import START, Words, with_quoted_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Run = Callable[[SqlSession, Words], Result]
_DATABASE: Final = ("DATABASE", "SCHEMA", "NAMESPACE")
_WAREHOUSE: Final = f"spark.sql.catalog.{CATALOG}.warehouse"
_ARROW_TYPES: Final = {
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "STRING": pa.string(),
}
"""The types of the answers of statements without a query."""
_LEGACY_TIMESTAMPS: Final = "spark.paimon.legacy-timestamp-mapping.enabled"

_SHOW: Final[tuple[tuple[tuple[str, ...], Run], ...]] = (
    (("CATALOGS",), show.show_catalogs),
    (("DATABASES",), show.show_databases),
    (("SCHEMAS",), show.show_databases),
    (("NAMESPACES",), show.show_databases),
    (("TABLES",), show.show_tables),
    (("VIEWS",), show.show_views),
    (("TABLE", "EXTENDED"), show.show_table_extended),
    (("CREATE", "TABLE"), show.show_create_table),
    (("PARTITIONS",), partitions.show_partitions),
    (("COLUMNS",), show.show_columns),
    (("TBLPROPERTIES",), show.show_table_properties),
    (("TAGS",), tag_statements.show_tags),
    (("PROCEDURES",), call.show_procedures),
)


def execute(session: SqlSession, statement: str) -> Result:
    """Run one statement.  Raises PaimonError, or Spark's errors."""
    before = len(session.registered)
    try:
        with session.one_statement():
            statement = plain_statement(session, statement)
            own = _own_result(session, statement)
            return run_query(session, statement) if own is None else own
    finally:
        drop_registered(session, before)


def _own_result(session: SqlSession, statement: str) -> Result | None:
    """The result of a statement that is not a query, None for a query."""
    long = insert.insert_long_values(session, statement)
    return _own(session, Words(with_quoted_names(statement))) if long is None else long


def _own(session: SqlSession, words: Words) -> Result | None:
    match words.word():
        case "USE":
            return databases.use(session, _after(words, 1))
        case "SET":
            if words.word(1) == "CATALOG" and words.word(2) not in ("", "="):
                return databases.use(session, _after(words, 1))
            return settings.set_statement(session, _after(words, 1).rest())
        case "RESET":
            return settings.reset_statement(session, _after(words, 1).rest())
        case _ if session.conf.get(_LEGACY_TIMESTAMPS, "").lower() == "true":
            raise UnsupportedFeature(
                _LEGACY_TIMESTAMPS,
                f"{_LEGACY_TIMESTAMPS}=true, which maps TIMESTAMP to columns without time zone, is not supported",
                next_step=f"RESET `{_LEGACY_TIMESTAMPS}`, and use TIMESTAMP_NTZ",
            )
        case "SHOW":
            return _show(session, _after(words, 1))
        case "DESCRIBE" | "DESC":
            return _describe(session, _after(words, 1))
        case "CREATE" | "REPLACE":
            return _create(session, words)
        case "DROP":
            return _drop(session, _after(words, 1))
        case "ALTER":
            return _alter(session, _after(words, 1))
        case "INSERT":
            return insert.insert(session, _after(words, 1))
        case "TRUNCATE":
            return partitions.truncate(session, _after(words, 1))
        case "UPDATE":
            return row_level.update(session, _after(words, 1))
        case "DELETE":
            return row_level.delete(session, _after(words, 1))
        case "MERGE":
            return merge.merge(session, _after(words, 1))
        case "COPY":
            return copy_into.copy_into(session, _after(words, 1))
        case "CALL":
            return call.call_statement(session, _after(words, 1))
        case "ANALYZE":
            return views.analyze(session, _after(words, 1))
        case "COMMENT" if words.word(1) == "ON":
            return comment_on(session, _after(words, 1))
        case "REFRESH":
            return views.refresh(session, _after(words, 1))
        case "MSCK" | "REPAIR":
            return format_partitions.repair(session, words)
        case "LOAD":
            raise AnalysisError(
                "[NOT_SUPPORTED_COMMAND_FOR_V2_TABLE] LOAD DATA is not supported for v2 tables"
            )
        case "EXPLAIN":
            return explain(session, _after(words, 1))
        case "CACHE":
            return views.cache(session, _after(words, 1))
        case "UNCACHE" | "CLEAR":
            return views.uncache(words)
        case "BEGIN":
            raise UnsupportedFeature(
                "SQL scripts",
                "scripts (BEGIN ... END) are not supported",
                next_step="write the statements one after the other",
            )
        case "WITH":
            return _with(session, words)
        case "FROM":
            return multi_insert(session, words)
    return None


def _after(words: Words, count: int) -> Words:
    words.at += count
    return words


def _show(session: SqlSession, words: Words) -> Result:
    for first, run in _SHOW:
        if words.eat(*first):
            return run(session, words)
    scope = words.word() if words.word() in ("USER", "SYSTEM", "ALL") else ""
    if (scope and words.eat(scope, "FUNCTIONS")) or words.eat("FUNCTIONS"):
        return functions.show_functions(session, words, scope or "ALL")
    if words.eat("CURRENT"):
        if words.eat_any(*_DATABASE) is None:
            words.fail("NAMESPACE")
        words.end()
        return Result(("catalog", "namespace"), [[session.current_catalog, session.database]])
    return _by_spark(session, "SHOW " + words.rest())


def _describe(session: SqlSession, words: Words) -> Result:
    if words.eat_any(*_DATABASE):
        return show.describe_database(session, words)
    from_query = words.looks_at("FROM") and len(words.tokens) > words.at + 1
    if from_query or words.word() in ("FUNCTION", "QUERY", "SELECT", "WITH", "VALUES"):
        if not words.eat("QUERY") and words.eat("FUNCTION"):
            return functions.describe_function(session, words)
        return _by_spark(session, "DESCRIBE QUERY " + rewritten(session, words.rest()))
    words.eat("TABLE")
    at = words.at
    words.eat_any("EXTENDED", "FORMATTED")  # of a temporary view Spark shows the columns only
    parts = words.name()
    key = session.view_key(parts)
    if key and words.done:
        return _by_spark(session, "DESCRIBE QUERY " + rewritten_view(session, key))
    if words.done and is_system_table(session.table_name(parts)):
        query = f"SELECT * FROM {'.'.join(quoted(p) for p in parts)}"
        return _by_spark(session, "DESCRIBE QUERY " + rewritten(session, query))
    words.at = at
    return show.describe_table(session, words)


def _by_spark(session: SqlSession, text: str) -> Result:
    from paimon_spark.sql.query.collected import collected  # noqa: PLC0415 - one use

    return collected(session.spark.sql(text))


def _create(session: SqlSession, words: Words) -> Result:
    must_exist = words.eat("REPLACE")
    replace = must_exist or words.eat("CREATE", "OR", "REPLACE")
    if not replace:
        words.need("CREATE")
    external = words.eat("EXTERNAL")
    if words.eat_any(*_DATABASE):
        return databases.create_database(session, words)
    if words.eat("TABLE"):
        return tables.create_table(
            session,
            words,
            create_as_select,
            external=external,
            replace_table=replace,
            must_exist=must_exist,
        )
    if not must_exist and "FUNCTION" in (words.word(), words.word(1)):
        return functions.create_function(session, words, replace=replace)
    if not must_exist and words.word() in ("VIEW", "TEMPORARY", "TEMP", "GLOBAL"):
        return views.create_view(session, words, replace=replace)
    _check_no_index(words)
    return words.fail("DATABASE, TABLE or VIEW")


def _check_no_index(words: Words) -> None:
    if words.word() == "INDEX":
        raise UnsupportedFeature(
            "INDEX statements",
            "CREATE INDEX and DROP INDEX are not supported",
            next_step="CALL sys.create_global_index, or set file-index options",
        )


def _drop(session: SqlSession, words: Words) -> Result:
    if words.eat_any(*_DATABASE):
        return databases.drop_database(session, words)
    if words.eat("TABLE"):
        return tables.drop_table(session, words)
    if words.eat("VIEW"):
        return views.drop_view(session, words)
    if words.word() in ("FUNCTION", "TEMPORARY", "TEMP"):
        if words.word() == "FUNCTION" or words.word(1) == "FUNCTION":
            return functions.drop_function(session, words)
        return _by_spark(session, "DROP " + words.rest())
    _check_no_index(words)
    return words.fail("DATABASE, TABLE or VIEW")


def _alter(session: SqlSession, words: Words) -> Result:
    if words.eat_any(*_DATABASE):
        return alter.alter_database(session, words)
    if words.eat("VIEW"):
        return views.alter_view(session, words)
    words.need("TABLE")
    return alter.alter_table(session, words)


def _with(session: SqlSession, words: Words) -> Result | None:
    """WITH ... INSERT, DELETE, UPDATE, MERGE or FROM ... INSERT; None for a query."""
    at = end_of_common_tables(words)
    following = "" if at is None else words.word(at - words.at)
    if following in ("DELETE", "UPDATE", "MERGE"):
        with common_tables(session, words):
            return _own(session, words)
    if at is not None and following == "INSERT":
        ctes = words.text[len(START) : words.tokens[at].start]
        words.at = at + 1
        return insert.insert(session, words, ctes=ctes)
    return multi_insert(session, words) if following == "FROM" else None


def sql(
    spark: SparkSession,
    text: str,
    *,
    warehouse: str | None = None,
    session: SqlSession | None = None,
    procedures: Procedures | None = None,
    env: Environment | None = None,
) -> DataFrame:
    """Run statements in a Spark session; the last one's answer as a DataFrame.

    `warehouse` is that of the catalog `paimon` (default: Spark's
    spark.sql.catalog.paimon.warehouse).  Pass the same `session` to keep the current database, SET
    and temporary views from call to call.  InvalidArgument if no warehouse is known.
    """
    if session is None:
        found = warehouse or spark.conf.get(_WAREHOUSE, None)
        if not found:
            raise InvalidArgument("no warehouse was given", next_step=f"set {_WAREHOUSE}")
        session = SqlSession(
            warehouse=found,
            start_spark=lambda: spark,
            env=env or system_environment(),
            procedures=procedures,
            conf=settings_that_count(spark),
        )
    session.spark  # noqa: B018 - Spark runs already: statements see its temporary views
    frame: DataFrame | None = None
    for statement in split_statements(text):
        session.take_settings()
        before = len(session.registered)
        with session.one_statement():
            plain = plain_statement(session, statement)
            own = _own_result(session, plain)
            frame = query_dataframe(session, plain) if own is None else _frame_of(session, own)
        if own is not None or hasattr(spark, "_jsparkSession"):
            # A DataFrame of Spark Connect finds its views by their names when it runs.
            drop_registered(session, before)
    if frame is None:
        raise InvalidArgument("there is no statement in the text")
    return frame


def _frame_of(session: SqlSession, result: Result) -> DataFrame:
    """The answer of a statement without a query: booleans and whole numbers, the rest as text."""
    names = result.columns or ("result",)
    columns = [[row[i] for row in result.rows] for i in range(len(names))]
    types = [
        result.types.get(name) or _type_of(values)
        for name, values in zip(names, columns, strict=True)
    ]
    arrays = [
        pa.array([_text_of(v) for v in values] if t == "STRING" else values, _ARROW_TYPES[t])
        for values, t in zip(columns, types, strict=True)
    ]
    # The plan holds rows from Arrow, so that Spark needs no job to show them.
    spark: Any = session.spark  # whose overloads do not know Arrow tables
    frame: DataFrame = spark.createDataFrame(
        pa.Table.from_arrays(arrays, names=list(names)),
        schema=", ".join(f"{quoted(name)} {t}" for name, t in zip(names, types, strict=True)),
    )
    return frame


def _type_of(values: Sequence[Any]) -> str:
    kinds = {type(v) for v in values if v is not None}
    return (
        {bool: "BOOLEAN", int: "BIGINT"}.get(kinds.pop(), "STRING") if len(kinds) == 1 else "STRING"
    )


def _text_of(value: Any) -> str | None:
    return (
        value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    )
