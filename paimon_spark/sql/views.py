"""Views, temporary ones here and others in `catalog_views`; ANALYZE."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.types.data_types import AtomicType, DataField
from paimon_spark.sql.call import call_procedure
from paimon_spark.sql.ddl.make_table import check_names
from paimon_spark.sql.ddl.table_clauses import read_properties
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.query.catalog_views import (
    being_read,
    create_catalog_view,
    drop_catalog_view,
    find_view,
)
from paimon_spark.sql.query.column_names import columns_in
from paimon_spark.sql.query.grammar import check_grammar
from paimon_spark.sql.query.queries import query_dataframe
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import GLOBAL_TEMP, SqlSession
from paimon_spark.sql.table_name import not_found
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.tokens import START, Words
from paimon_spark.sql.text.types import read_type, simple_text


def create_view(session: SqlSession, words: Words, *, replace: bool) -> Result:
    """CREATE [OR REPLACE] [TEMPORARY] VIEW name [(columns)] AS query.

    The session keeps the text of a temporary view: each use reads the current tables.
    """
    is_global = words.eat("GLOBAL")
    temporary = words.eat_any("TEMPORARY", "TEMP")
    words.need("VIEW")
    if not temporary:
        return create_catalog_view(
            session, words, lambda query: _fields(session, query), replace_view=replace
        )
    if_not_exists = words.eat("IF", "NOT", "EXISTS")
    parts = words.name()
    if len(parts) != 1:
        raise AnalysisError(
            f"[TEMP_VIEW_NAME_TOO_MANY_NAME_PARTS] {'.'.join(parts)}: a temporary view has no "
            "database"
        )
    at = words.at
    if words.looks_at("("):
        words.parenthesized()
    if words.looks_at("USING"):
        # Spark keeps it, and its columns have types.
        session.spark.sql(words.text[len(START) :])
        return NOTHING
    words.at = at
    columns = words.items(lambda: _column(words)) if words.looks_at("(") else []
    if words.eat("COMMENT"):
        words.string()
    words.need("AS")
    query = words.rest()
    key = f"{GLOBAL_TEMP}." * is_global + parts[0].lower()
    if key in session.views and not replace:
        if if_not_exists:
            return NOTHING
        raise _already_there(parts[0])
    if not if_not_exists:  # which Spark does not have for temporary views
        check_grammar(session, words)
    _keep(session, key, query, columns)
    return NOTHING


def alter_view(session: SqlSession, words: Words) -> Result:
    """ALTER VIEW name AS query | RENAME TO name, of a temporary view.

    AnalysisError for views of a catalog, which Spark cannot alter in catalogs of its own kind.
    """
    parts = words.name()
    key = session.view_key(parts)
    if not key:
        name = session.table_name(parts)
        if find_view(session, name) is None:
            raise not_found(name)
        raise AnalysisError(
            f"[UNSUPPORTED_FEATURE.CATALOG_OPERATION] Catalog `{name.catalog}` does not support "
            "ALTER VIEW",
            next_step="use CREATE OR REPLACE VIEW",
        )
    if words.eat("RENAME", "TO"):
        new = words.identifier().lower()
        words.end()
        if new in session.views:
            raise _already_there(new)
        session.views[new] = session.views.pop(key)
        return NOTHING
    if words.word() in ("SET", "UNSET"):
        raise AnalysisError(
            f"[EXPECT_PERMANENT_VIEW_NOT_TEMP] '{parts[0]}' is a temporary view: it has no properties"
        )
    words.eat("AS")
    query = words.rest()
    check_grammar(session, words)
    _keep(session, key, query)
    return NOTHING


def refresh(session: SqlSession, words: Words) -> Result:
    """REFRESH TABLE name: nothing is cached; AnalysisError for a table that is not there."""
    if words.eat("TABLE"):
        parts = words.name()
        words.end()
        name = session.table_name(parts)
        if not session.view_key(parts) and not session.has_table(name):
            raise not_found(name)
        return NOTHING
    if words.eat("FUNCTION"):
        words.name()
    else:
        words.string()  # a path
    words.end()
    return NOTHING


def uncache(words: Words) -> Result:
    """UNCACHE TABLE [IF EXISTS] name, CLEAR CACHE: nothing is cached."""
    if words.eat("CLEAR"):
        words.need("CACHE")
    else:
        words.need("UNCACHE", "TABLE")
        words.eat("IF", "EXISTS")
        words.name()
    words.end()
    return NOTHING


def cache(session: SqlSession, words: Words) -> Result:
    """CACHE [LAZY] TABLE name [OPTIONS (..)] [[AS] query]: nothing is cached; a query makes a
    temporary view, as in Spark.
    """
    words.eat("LAZY")
    words.need("TABLE")
    parts = words.name()
    if words.eat("OPTIONS"):
        read_properties(words)
    words.eat("AS")
    query = words.rest()
    if not query:
        name = session.table_name(parts)
        if not session.view_key(parts) and not session.has_table(name):
            raise not_found(name)
        return NOTHING
    if session.view_key(parts):
        raise _already_there(parts[0])
    check_grammar(session, words)
    _keep(session, parts[0].lower(), query)
    return NOTHING


def _keep(session: SqlSession, key: str, query: str, columns: Sequence[str] = ()) -> None:
    """Make the temporary view, under these names of its columns if there are any.

    AnalysisError for a query that reads the view, for another number of columns, and for columns of
    one name.
    """
    with being_read(key):
        found = query_dataframe(session, query).columns
    names = list(columns or found)
    if len(names) != len(found):
        raise AnalysisError(
            f"[CREATE_VIEW_COLUMN_ARITY_MISMATCH] view {key}: {len(names)} columns are named, the "
            f"query has {len(found)}"
        )
    check_names(names, key, case_sensitive=session.case_sensitive)
    session.views[key] = session.new_view(_of_columns(query, found, names))


def _of_columns(query: str, found: list[str], names: list[str]) -> str:
    """The query with the columns that it has now, under these names.

    Spark keeps the columns of a view, whatever columns its tables get later.
    """
    if columns_in(query) is None and len({c.lower() for c in found}) == len(found):
        named = zip(found, names, strict=True)
        columns = (quoted(c) + (f" AS {quoted(n)}" if c != n else "") for c, n in named)
        return f"SELECT {', '.join(columns)} FROM ({query})"
    if names != found:
        return f"SELECT * FROM ({query}) AS __view({', '.join(quoted(n) for n in names)})"
    return query


def _already_there(name: str) -> AnalysisError:
    return AnalysisError(
        f"[TEMP_TABLE_OR_VIEW_ALREADY_EXISTS] Cannot create the temporary view `{name}` because it "
        "already exists"
    )


def _fields(session: SqlSession, query: str) -> tuple[DataField, ...]:
    """The columns of a query in Paimon's types."""
    fields = query_dataframe(session, query).schema.fields
    return tuple(
        DataField(
            id=i,
            name=f.name,
            type=read_type(Words(f.dataType.simpleString())).with_nullable(f.nullable),
        )
        for i, f in enumerate(fields)
    )


def _column(words: Words) -> str:
    name = words.identifier()
    if words.eat("COMMENT"):
        words.string()
    return name


def drop_view(session: SqlSession, words: Words) -> Result:
    """DROP VIEW [IF EXISTS] name."""
    if_exists = words.eat("IF", "EXISTS")
    parts = words.name()
    words.end()
    if session.views.pop(session.view_key(parts), None) is not None:
        return NOTHING
    if session.drop_spark_view(parts):
        return NOTHING
    return drop_catalog_view(session, session.table_name(parts), if_exists=if_exists)


def analyze(session: SqlSession, words: Words) -> Result:
    """ANALYZE TABLE name COMPUTE STATISTICS [NOSCAN] [FOR COLUMNS a, b | FOR ALL COLUMNS]."""
    if words.eat("TABLES"):
        raise AnalysisError(
            "[NOT_SUPPORTED_COMMAND_FOR_V2_TABLE] ANALYZE TABLES is not supported for v2 tables",
            next_step="ANALYZE TABLE, once for each table",
        )
    words.need("TABLE")
    name = session.data_name(words.name())
    if words.looks_at("PARTITION"):
        raise UnsupportedFeature(
            "ANALYZE TABLE ... PARTITION",
            "Analyze table partition is not supported",
            table=name.identifier,
            next_step="analyze the whole table",
        )
    words.need("COMPUTE", "STATISTICS")
    given: list[tuple[str | None, object]] = [("table", name.with_branch)]
    columns: list[str] = []
    if words.eat("FOR", "ALL", "COLUMNS"):
        given.append(("all_columns", True))
    elif words.eat("FOR", "COLUMNS"):
        columns.append(words.identifier())
        while words.eat(","):
            columns.append(words.identifier())
        given.append(("columns", ",".join(columns)))
    elif words.eat("NOSCAN"):
        raise InvalidArgument("NOSCAN is ineffective with paimon", table=name.identifier)
    words.end()
    table = session.open(name, to_write=True)
    _check_columns(table, columns)
    if table.snapshots.latest() is None:
        return NOTHING
    call_procedure(session, "analyze", given, catalog=name.catalog)
    return NOTHING


def _check_columns(table: FileStoreTable, columns: list[str]) -> None:
    """AnalysisError for unknown columns, UnsupportedFeature for those without statistics."""
    fields = {f.name.lower(): f for f in table.schema.fields}
    for column in columns:
        field = fields.get(column.lower())
        if field is None:
            raise AnalysisError(
                f"[COLUMN_NOT_FOUND] Column {column} not found in {table.name}", table=table.name
            )
        if not isinstance(field.type, AtomicType):
            raise UnsupportedFeature(
                f"statistics of {field.type.root}",
                f"column {field.name} of type {simple_text(field.type)}: the statistics of this "
                "type are not supported",
                table=table.name,
                next_step="name other columns, or use FOR ALL COLUMNS",
            )
