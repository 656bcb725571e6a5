"""CREATE and DROP DATABASE, USE."""

from __future__ import annotations

from paimon_core.environment import user_name
from paimon_core.errors import AlreadyExists, InvalidArgument
from paimon_spark.sql.ddl.table_clauses import OWNER, check_once, read_database_properties
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import SYSTEM_DATABASE
from paimon_spark.sql.text.tokens import Words


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
                session.enter(ref.name)
            return NOTHING
        if kind == "CATALOG":
            session.catalog_named(parts[0])
    catalog, database = session.database_name(parts)
    session.need_database(catalog, database)
    session.current_catalog, session.database = catalog, database
    return NOTHING


def _check_not_sys(database: str) -> None:
    if database == SYSTEM_DATABASE:
        raise AnalysisError(f"the database {database} is the catalog's own, it cannot be changed")
