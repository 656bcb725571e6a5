"""COMMENT ON TABLE | DATABASE name IS 'text' | NULL."""

from __future__ import annotations

from paimon_core.ddl.schema_change import UpdateTableComment
from paimon_spark.sql.ddl.table_clauses import COMMENT_PROPERTY
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import check_no_system_table, not_found
from paimon_spark.sql.text.tokens import Words


def comment_on(session: SqlSession, words: Words) -> Result:
    """Set a comment; NULL sets an empty one, as in Spark.

    UnsupportedFeature for a database whose catalog keeps no properties.
    """
    words.need("ON")
    kind = words.eat_any("TABLE", "DATABASE", "SCHEMA", "NAMESPACE")
    if kind is None:
        words.fail("TABLE or DATABASE")
    parts = words.name()
    words.need("IS")
    comment = "" if words.eat("NULL") else words.string()
    words.end()
    if kind != "TABLE":
        catalog, database = session.database_name(parts)
        session.need_database(catalog, database)
        changes = {COMMENT_PROPERTY: comment}
        session.catalog_named(catalog).alter_database(database, changes=changes)
        return NOTHING
    name = session.table_name(parts)
    if not session.has_table(name):
        raise not_found(name)
    check_no_system_table(name)
    session.change(name, [UpdateTableComment(comment)])
    return NOTHING
