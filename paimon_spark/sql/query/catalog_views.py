"""Views of a catalog: CREATE, DROP, SHOW and DESCRIBE; all but filesystem catalogs have them.

Java: `spark/execution/PaimonViewExec`.  A filesystem catalog refuses them, as in Java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Final

from paimon_core.catalog.views import SPARK, View, Views
from paimon_core.errors import AlreadyExists, PaimonError, UnsupportedFeature
from paimon_core.types.data_types import DataField
from paimon_core.types.sql import type_to_sql
from paimon_spark.sql.ddl.make_table import check_names
from paimon_spark.sql.ddl.table_clauses import read_properties
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName, not_found
from paimon_spark.sql.text.tokens import Words

_MOST_NESTED: Final = 100
"""As in Spark: `spark.sql.view.maxNestedViewDepth`."""
_READ: Final[ContextVar[tuple[str, ...]]] = ContextVar("views that are being read", default=())
_SCHEMA_MODES: Final = ("BINDING", "COMPENSATION", "EVOLUTION")


def views_of(session: SqlSession, catalog: str) -> Views | None:
    """The views of a catalog; None if the catalog does not support views."""
    return session.catalog_named(catalog).views


def find_view(session: SqlSession, name: TableName) -> View | None:
    """The view of this name, None if there is none."""
    if name.system is not None or name.branch is not None:
        return None
    views = views_of(session, name.catalog)
    return None if views is None else views.find(name.identifier)


@contextmanager
def place_of(session: SqlSession, name: TableName) -> Iterator[None]:
    """The catalog and database of a view as the current ones, in which its query names tables."""
    before = session.current_catalog, session.database
    session.current_catalog, session.database = name.catalog, name.database
    try:
        yield
    finally:
        session.current_catalog, session.database = before


@contextmanager
def being_read(name: str) -> Iterator[None]:
    """The text of a view or function is read in the block; AnalysisError if that would not end."""
    above = _READ.get()
    if name in above:
        raise AnalysisError(
            f"[RECURSIVE_VIEW] Recursive view {name} detected (cycle: {' -> '.join((*above, name))})",
            table=name,
            next_step="create one of them again, with a query that does not lead back to it",
        )
    if len(above) >= _MOST_NESTED:
        raise AnalysisError(
            f"[VIEW_EXCEED_MAX_NESTED_DEPTH] The depth of view {name} exceeds {_MOST_NESTED}",
            table=name,
        )
    before = _READ.set((*above, name))
    try:
        yield
    finally:
        _READ.reset(before)


def create_catalog_view(
    session: SqlSession,
    words: Words,
    fields_of: Callable[[str], tuple[DataField, ...]],
    *,
    replace_view: bool,
) -> Result:
    """What follows CREATE [OR REPLACE] VIEW; `fields_of` gives the columns of a query.

    AnalysisError for a query that reads the view, and for columns of one name.  A view that cannot
    be created leaves the one that it was to replace.
    """
    if_not_exists = words.eat("IF", "NOT", "EXISTS")
    name = session.table_name(words.name())
    views = views_of(session, name.catalog)
    if views is None:
        raise UnsupportedFeature(
            "views in a filesystem catalog",
            f"a {session.catalog_named(name.catalog).metastore} catalog does not support views",
            next_step="create a TEMPORARY view",
        )
    named = words.items(lambda: _column(words)) if words.looks_at("(") else []
    comment, options = None, {}
    while not words.looks_at("AS"):
        if words.eat("COMMENT"):
            comment = words.string()
        elif words.eat("TBLPROPERTIES"):
            options = read_properties(words)
        elif words.eat("WITH", "SCHEMA"):  # as in Java, it changes nothing
            if words.eat("TYPE"):
                words.need("EVOLUTION")
            elif words.eat_any(*_SCHEMA_MODES) is None:
                words.fail(", ".join(_SCHEMA_MODES))
        else:
            words.fail("AS")
    words.need("AS")
    query = words.rest()
    session.need_database(name.catalog, name.database)
    old = views.find(name.identifier)
    if old is not None:
        if if_not_exists:
            return NOTHING
        if not replace_view:
            raise AnalysisError(
                f"[TABLE_OR_VIEW_ALREADY_EXISTS] Cannot create view {name.shown} because it "
                "already exists",
                table=name.identifier,
                next_step="choose another name, or add OR REPLACE",
            )
    with being_read(f"{name.catalog}.{name.identifier}"):
        fields = _named(fields_of(query), named)
    # Names may differ in case, as in Java, whose row types refuse equal ones.
    check_names([f.name for f in fields], name.identifier, case_sensitive=True)
    view = View(
        name=name.identifier,
        fields=fields,
        query=query,
        dialects={SPARK: query},
        comment=comment,
        options=options,
    )
    if old is not None:
        _replace(views, old, view)
        return NOTHING
    try:
        views.create(view)
    except AlreadyExists:
        # Of a table.  Java: a Hive catalog refuses it.
        if not if_not_exists or session.catalog_named(name.catalog).metastore == "hive":
            raise
    return NOTHING


def _replace(views: Views, old: View, new: View) -> None:
    """Put a view in place of another one, which comes back if the catalog refuses the new one.

    As in Java, these are two steps.
    """
    views.drop(old.name)
    try:
        views.create(new)
    except PaimonError:
        with suppress(PaimonError):
            views.create(old)
        raise


def _column(words: Words) -> tuple[str, str | None]:
    """A column's name and comment."""
    return words.identifier(), words.string() if words.eat("COMMENT") else None


def _named(
    fields: tuple[DataField, ...], named: Sequence[tuple[str, str | None]]
) -> tuple[DataField, ...]:
    """The columns of the query under the names of the statement, as Java 2.0 takes them."""
    if not named:
        return fields
    if len(named) != len(fields):
        raise UnsupportedFeature(
            "column names of views",
            f"The number of column aliases ({len(named)}) must match the number of columns "
            f"({len(fields)})",
            next_step="name all columns of the query",
        )
    return tuple(
        replace(f, name=name, description=comment)
        for f, (name, comment) in zip(fields, named, strict=True)
    )


def drop_catalog_view(session: SqlSession, name: TableName, *, if_exists: bool) -> Result:
    """Drop a view of a catalog."""
    views = views_of(session, name.catalog)
    if views is None or views.find(name.identifier) is None:
        if if_exists:
            return NOTHING
        raise not_found(name)
    views.drop(name.identifier)
    return NOTHING


def show_create_view(view: View) -> Result:
    """SHOW CREATE TABLE of a view."""
    text = f"CREATE VIEW {view.name} "
    if view.fields:
        names = (
            f.name + ("" if f.description is None else f" COMMENT '{f.description}'")
            for f in view.fields
        )
        text += _lines(names)
    if view.comment is not None:
        text += f"COMMENT '{view.comment}'\n"
    if view.options:
        text += "TBLPROPERTIES " + _lines(f"'{k}' = '{v}'" for k, v in sorted(view.options.items()))
    return Result(("createtab_stmt",), [[f"{text}AS\n{view.text()}\n"]])


def _lines(items: Iterator[str]) -> str:
    return "(\n  " + ",\n  ".join(items) + ")\n"


def describe_view(view: View, *, extended: bool) -> Result:
    """DESCRIBE [EXTENDED] of a view; types as Paimon names them."""
    rows: list[list[str | None]] = [
        [f.name, type_to_sql(f.type), f.description] for f in view.fields
    ]
    if extended:
        names = ", ".join(f.name for f in view.fields)
        options = ", ".join(f"{k}={v}" for k, v in sorted(view.options.items()))
        rows += [
            ["", "", ""],
            ["# Detailed View Information", "", ""],
            ["Name", view.name, ""],
            ["Comment", view.comment or "", ""],
            ["View Text", view.text(), ""],
            ["View Query Output Columns", f"[{names}]", ""],
            ["View Properties", f"[{options}]", ""],
        ]
    return Result(("col_name", "data_type", "comment"), rows)
