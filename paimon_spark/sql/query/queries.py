"""Queries: the Paimon tables of a statement become temporary views, the rest runs in Spark.

sqlglot finds the names; the text stays as it was written, apart from them, so that Spark parses and
names everything itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from paimon_core.catalog.views import View
from paimon_spark.metadata_columns import FILE_PATH, metadata_columns_in
from paimon_spark.sql.frames.dataframes import table_dataframe
from paimon_spark.sql.frames.pushdown import conditions_of
from paimon_spark.sql.query.catalog_functions import replace_catalog_functions
from paimon_spark.sql.query.catalog_views import being_read, find_view, place_of
from paimon_spark.sql.query.collected import collected
from paimon_spark.sql.query.column_names import PIPE, check_qualified, columns_in, strip_databases
from paimon_spark.sql.query.grammar import selected
from paimon_spark.sql.query.hidden_columns import hide_metadata, input_files
from paimon_spark.sql.query.namesakes import Namesake, ambiguous, namesakes_of, tell_apart
from paimon_spark.sql.query.registered import PREFIX, register
from paimon_spark.sql.query.sys_functions import replace_sys_functions
from paimon_spark.sql.query.table_functions import blank_options, replace_functions
from paimon_spark.sql.query.temporary_functions import define_called
from paimon_spark.sql.query.time_travel import check_no_travel, time_travel, words_from
from paimon_spark.sql.query.unparsed import alias_follows, relations
from paimon_spark.sql.result import Result
from paimon_spark.sql.session import GLOBAL_TEMP, SqlSession
from paimon_spark.sql.table_name import SYSTEM_DATABASE, TableName, not_found
from paimon_spark.sql.text.edits import Edits
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.parsed import parsed
from paimon_spark.sql.text.tokens import with_quoted_names
from paimon_spark.sql.text.types import read_schema_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_UNRESOLVED: Final = "[UNRESOLVED_COLUMN"
_OF_SPARK: Final = "spark_catalog"
"""Spark's own catalog, unless a catalog of Paimon has its name."""


def query_dataframe(session: SqlSession, text: str) -> DataFrame:
    """The query as a DataFrame, not yet run."""
    plain = rewritten(session, text)  # first: what it refuses needs no Spark
    try:
        return session.spark.sql(plain)
    except Exception as e:
        if _UNRESOLVED not in str(e):
            raise
        # Spark suggests columns that the tables have.
        return session.spark.sql(rewritten(session, text, all_columns=True))


def query_dataframe_of(session: SqlSession, text: str, target: TableName) -> DataFrame:
    """A query over views of the target of a change, whose columns may be named DB.TABLE.COLUMN."""
    return session.spark.sql(rewritten(session, text, target=target))


def run_query(session: SqlSession, text: str) -> Result:
    """The query's rows."""
    return collected(query_dataframe(session, text))


# --- names --------------------------------------------------------------------------------------


def rewritten(
    session: SqlSession,
    text: str,
    options: Mapping[str, str] | None = None,
    *,
    target: TableName | None = None,
    all_columns: bool = False,
) -> str:
    """The query with views in place of Paimon tables; Spark's own names stay.

    `options` hold for all tables of the query; `target` is the table that a registered view stands
    for, whose name may qualify columns; `all_columns` reads also those that it does not need.
    """
    text = with_quoted_names(text)
    text, for_all, for_one = blank_options(text)
    text = replace_functions(session, text, lambda n, o: _view_of(session, n, o, {}))
    text = replace_sys_functions(session, text)
    text = replace_catalog_functions(session, text, lambda body: rewritten(session, body))
    define_called(session, text, lambda body: rewritten(session, body))
    text = selected(text)
    tree = _parsed(text)
    edits = Edits(text)
    views: dict[object, str] = {}
    known: set[tuple[str, str]] = set()
    if target is not None:
        known.add((target.database.lower(), target.table.lower()))
    hidden = metadata_columns_in(text)
    wanted = None if all_columns else columns_in(text)
    metadata = hidden | ({FILE_PATH} if input_files(text) else set())
    lenient = FILE_PATH not in hidden
    found = [(one, *_meant(session, list(one.parts))) for one in _named(session, text, tree)]
    namesakes: Mapping[int, Namesake] = {}
    if isinstance(tree, exp.Expr) and PIPE not in text:
        tables = {one.start: name for one, _, name in found if name is not None}
        namesakes = namesakes_of(session, tree, tables, target)
        tell_apart(session, tree, namesakes, target, edits)
    for named, key, name in found:
        start, end, parts = named.start, named.end, list(named.parts)
        one = replace(named, own=namesakes[start].alias) if start in namesakes else named
        if key:
            check_no_travel(text, end, parts)
            inner = rewritten_view(session, key, options)
            edits.put(start, end, _enclosed(inner) + one.alias())
            if len(parts) == 2:
                known.add((GLOBAL_TEMP, parts[1].lower()))
            continue
        if name is None:
            continue
        if isinstance(name, View):
            check_no_travel(text, end, parts)
            view_name = session.table_name(parts)
            known.add((view_name.database.lower(), parts[-1].lower()))
            shown = f"{view_name.catalog}.{view_name.identifier}"
            with place_of(session, view_name), being_read(shown):
                inner = _of_columns(session, name, rewritten(session, name.text(), options))
            edits.put(start, end, _enclosed(inner) + one.alias())
            continue
        known.add((name.database.lower(), parts[-1].lower()))
        travel, end = time_travel(session, text, end, lambda query: rewritten(session, query))
        alias = "" if travel and alias_follows(words_from(text, end)) else one.alias()
        chosen = {**(options or {}), **for_all, **for_one.get(start, {}), **travel}
        wants = _Wanted(metadata, lenient, None if one.renamed else wanted, one.conditions)
        view = _view_of(session, name, chosen, views, wants)
        edits.put(start, end, view + alias)
    if isinstance(tree, exp.Expr):
        check_qualified(session, tree, known, target, namesakes, edits)
    stripped = strip_databases(text, known, edits)
    if stripped and isinstance(tree, str) and len({t for _, t in known}) < len(known):
        raise ambiguous(stripped[0])
    if metadata:
        hide_metadata(text, metadata, edits, case_sensitive=session.case_sensitive)
    return edits.applied()


def rewritten_view(session: SqlSession, key: str, options: Mapping[str, str] | None = None) -> str:
    """The query of a temporary view, whose tables are those of the place where it was made."""
    view = session.views[key]
    place = TableName(view.database, "", catalog=view.catalog)
    with place_of(session, place), being_read(key):
        return rewritten(session, view.query, options)


def _enclosed(query: str) -> str:
    """The query as a part of another one, also if its text ends with a comment."""
    return f"({query}\n)"


def _of_columns(session: SqlSession, view: View, query: str) -> str:
    """The query with the columns that the view was created with: by position, with their types.

    Java: `PaimonViewResolver`.  Tables may have got other columns since then.
    """
    # In parentheses: others wrote the text, and Spark would run a statement that is no query.
    found = session.spark.sql(f"SELECT * FROM {_enclosed(query)}").schema.fields
    if not view.fields or len(found) < len(view.fields):
        return query
    wanted = [(f.name, read_schema_text(f.type)) for f in view.fields]
    if [(f.name, f.dataType.simpleString()) for f in found] == [
        (name, text.lower().replace(": ", ":").replace(", ", ",")) for name, text in wanted
    ]:
        return query
    columns = (f"CAST(c{i} AS {text}) AS {quoted(name)}" for i, (name, text) in enumerate(wanted))
    given = ", ".join(f"c{i}" for i in range(len(found)))
    return f"SELECT {', '.join(columns)} FROM {_enclosed(query)} AS __view({given})"


@dataclass(frozen=True, slots=True)
class _Name:
    """A name in place of a table, and the conditions on its rows."""

    parts: Sequence[str]
    start: int
    end: int
    aliased: bool
    renamed: bool = False
    """Whether the alias names the columns too."""
    conditions: tuple[str, ...] = ()
    own: str = ""
    """The alias of a namesake."""

    def alias(self) -> str:
        """The table's own name as alias, where the query gives none and may."""
        return "" if self.aliased else f" AS {quoted(self.own or self.parts[-1])}"


def _parsed(text: str) -> exp.Expr | str:
    """The query as a tree, or what sqlglot says about it."""
    try:
        tree = parsed(text)
    except SqlglotError as e:
        return _first_line(str(e))
    if isinstance(tree, exp.Column | exp.Alias):
        return f"Syntax error at or near '{tree.name}'"
    return tree


def _named(session: SqlSession, text: str, tree: exp.Expr | str) -> Iterator[_Name]:
    """Yield the names of tables that the query does not define itself."""
    if isinstance(tree, str):
        for r in relations(session, text, tree):
            yield _Name(r.parts, r.start, r.end, r.aliased, r.renamed)
        return
    for node in tree.find_all(exp.Table):
        if isinstance(node.this, exp.Dot):
            session.table_name([p.name for p in node.parts])  # it reports the error
        if not isinstance(node.this, exp.Identifier) or node.find_ancestor(exp.Hint):
            continue
        parts = [p.name for p in node.parts]
        if len(parts) == 1 and _is_cte(node, parts[0]):
            continue
        yield _Name(
            parts,
            node.parts[0].meta["start"],
            node.parts[-1].meta["end"] + 1,
            bool(node.args.get("alias") or node.args.get("sample")),
            bool(node.alias_column_names),
            () if PIPE in text else tuple(conditions_of(node)),
        )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The part of a table that a query needs, as arguments of `table_dataframe`."""

    metadata: Collection[str] = ()
    lenient: bool = False
    columns: Collection[str] | None = None
    conditions: tuple[str, ...] = ()


def _view_of(
    session: SqlSession,
    name: TableName,
    options: Mapping[str, str],
    views: dict[object, str],
    wants: _Wanted = _Wanted(),
) -> str:
    key = (name, tuple(sorted(options.items())), wants.conditions, wants.columns)
    if key not in views:
        frame = table_dataframe(
            session,
            name,
            dict(options),
            metadata=wants.metadata,
            lenient=wants.lenient,
            wanted=wants.columns,
            conditions=wants.conditions,
        )
        views[key] = register(session, frame)
    return views[key]


def _is_cte(node: exp.Expr, name: str) -> bool:
    """Whether a WITH in whose scope the node lies defines the name."""
    inside: exp.Expr | None = node
    while inside is not None:
        parent = inside.parent
        with_ = None if parent is None else parent.args.get("with_") or parent.args.get("with")
        names = with_.expressions if with_ is not None and with_ is not inside else ()
        if any(c.alias.lower() == name.lower() for c in names):
            return True
        if isinstance(parent, exp.With):
            earlier = parent.expressions
            at = next((i for i, c in enumerate(earlier) if c is inside), 0)
            visible = earlier[: at + 1] if parent.args.get("recursive") else earlier[:at]
            if any(c.alias.lower() == name.lower() for c in visible):
                return True
            # What the WITH belongs to does not see its names from in here.
            inside = parent.parent
            continue
        inside = parent
    return False


def _meant(session: SqlSession, parts: list[str]) -> tuple[str, TableName | View | None]:
    """The key of a temporary view, or the Paimon table or view of this name."""
    key = session.view_key(parts)
    return key, None if key else _paimon_table(session, parts)


def names_table(session: SqlSession, parts: Sequence[str]) -> bool:
    """Whether a name in a query means a Paimon table, and no view."""
    known = session.view_key(parts)
    return not known and isinstance(_paimon_table(session, list(parts)), TableName)


def _paimon_table(session: SqlSession, parts: list[str]) -> TableName | View | None:
    """The table or view of this name, None if Spark resolves it; AnalysisError if unknown."""
    if len(parts) == 1 and parts[0].startswith(PREFIX):
        return None
    if len(parts) == 3 and parts[0].lower() == _OF_SPARK and session.find(parts[0]) is None:
        return None
    if session.has_spark_view(parts):
        return None
    if len(parts) == 2 and not session.has_database(session.current_catalog, parts[0]):
        if session.has_spark or parts[0].lower() in ("parquet", "csv", "json", "orc", "text"):
            return None
        session.need_database(session.current_catalog, parts[0])
    name = session.data_name(parts)
    if name.database == SYSTEM_DATABASE or session.has_table(name):
        return name
    view = find_view(session, name)
    if view is not None:
        return view
    plain = len(parts) == 1 and "$" not in parts[0]
    if plain and session.has_spark and session.spark.catalog.tableExists(parts[0]):
        return None
    raise not_found(name)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
