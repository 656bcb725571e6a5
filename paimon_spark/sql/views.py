"""Views, temporary ones here and others in `catalog_views`; EXPLAIN and ANALYZE."""

from __future__ import annotations

from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.types.data_types import AtomicType, DataField
from paimon_spark.sql.call import call_procedure
from paimon_spark.sql.catalog_views import create_catalog_view, drop_catalog_view
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.queries import collected, query_dataframe, rewritten
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.tokens import Words
from paimon_spark.sql.types import read_type, simple_text


def create_view(session: SqlSession, words: Words, *, replace: bool) -> Result:
    """CREATE [OR REPLACE] [TEMPORARY] VIEW name [(columns)] AS query.

    The session keeps the text of a temporary view: each use reads the current tables.
    """
    words.eat("GLOBAL")
    temporary = words.eat_any("TEMPORARY", "TEMP")
    words.need("VIEW")
    if not temporary:
        return create_catalog_view(
            session, words, lambda query: _fields(session, query), replace=replace
        )
    if_not_exists = words.eat("IF", "NOT", "EXISTS")
    parts = words.name()
    if len(parts) != 1:
        raise AnalysisError(
            f"[TEMP_VIEW_NAME_TOO_MANY_NAME_PARTS] {'.'.join(parts)}: a temporary view has no "
            "database"
        )
    columns = words.items(lambda: _column(words)) if words.looks_at("(") else []
    if words.eat("COMMENT"):
        words.string()
    words.need("AS")
    query = words.rest()
    key = parts[0].lower()
    if key in session.views and not replace:
        if if_not_exists:
            return NOTHING
        raise AnalysisError(
            f"[TEMP_TABLE_OR_VIEW_ALREADY_EXISTS] Cannot create the temporary view `{parts[0]}` "
            "because it already exists"
        )
    found = query_dataframe(session, query).columns
    if columns:
        if len(columns) != len(found):
            raise AnalysisError(
                f"[CREATE_VIEW_COLUMN_ARITY_MISMATCH] view {parts[0]}: {len(columns)} columns are "
                f"named, the query has {len(found)}"
            )
        names = ", ".join("`" + c.replace("`", "``") + "`" for c in columns)
        query = f"SELECT * FROM ({query}) AS __view({names})"
    session.views[key] = query
    return NOTHING


def _fields(session: SqlSession, query: str) -> tuple[DataField, ...]:
    """The columns of a query in Paimon's types."""
    fields = query_dataframe(session, query).schema.fields
    return tuple(
        DataField(id=i, name=f.name, type=read_type(Words(f.dataType.simpleString())))
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
    if len(parts) == 1 and session.views.pop(parts[0].lower(), None) is not None:
        return NOTHING
    return drop_catalog_view(session, session.table_name(parts), if_exists=if_exists)


def explain(session: SqlSession, words: Words) -> Result:
    """EXPLAIN of a query."""
    mode = words.eat_any("EXTENDED", "CODEGEN", "COST", "FORMATTED") or ""
    return collected(session.spark.sql(f"EXPLAIN {mode} {rewritten(session, words.rest())}"))


def analyze(session: SqlSession, words: Words) -> Result:
    """ANALYZE TABLE name COMPUTE STATISTICS [NOSCAN] [FOR COLUMNS a, b | FOR ALL COLUMNS]."""
    words.need("TABLE")
    name = session.table_name(words.name())
    if words.looks_at("PARTITION"):
        raise UnsupportedFeature(
            "ANALYZE TABLE ... PARTITION",
            "Analyze table partition is not supported",
            table=name.identifier,
        )
    words.need("COMPUTE", "STATISTICS")
    given: list[tuple[str | None, object]] = [("table", name.identifier)]
    columns: list[str] = []
    if words.eat("FOR", "ALL", "COLUMNS"):
        given.append(("all_columns", True))
    elif words.eat("FOR", "COLUMNS"):
        columns.append(words.identifier())
        while words.eat(","):
            columns.append(words.identifier())
        given.append(("columns", ",".join(columns)))
    elif words.eat("NOSCAN"):
        raise UnsupportedFeature(
            "ANALYZE TABLE ... NOSCAN", "NOSCAN is ineffective with paimon", table=name.identifier
        )
    words.end()
    table = session.open(name)
    _check_columns(table, columns)
    if table.snapshots.latest() is None:
        return NOTHING
    call_procedure(session, "analyze", given)
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
            )
