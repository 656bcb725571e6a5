"""Queries: the Paimon tables of a statement become temporary views, the rest runs in Spark.

sqlglot finds the names; the text stays as it was written, apart from them, so that Spark parses and
names everything itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from paimon_core.catalog.views import View
from paimon_core.types.zones import zone_of
from paimon_spark.metadata_columns import FILE_PATH, metadata_columns_in
from paimon_spark.sql.errors import AnalysisError, SqlSyntaxError
from paimon_spark.sql.frames.dataframes import arrow_of, table_dataframe
from paimon_spark.sql.frames.pushdown import conditions_of
from paimon_spark.sql.query.catalog_functions import plain_call, replace_catalog_functions
from paimon_spark.sql.query.catalog_views import find_view, place_of
from paimon_spark.sql.query.grammar import selected
from paimon_spark.sql.query.sys_functions import plain_name, replace_sys_functions
from paimon_spark.sql.query.table_functions import blank_options, replace_functions
from paimon_spark.sql.query.time_travel import time_travel, words_from
from paimon_spark.sql.query.unparsed import alias_follows, relations
from paimon_spark.sql.result import Result
from paimon_spark.sql.session import (
    GLOBAL_TEMP,
    SYSTEM_DATABASE,
    ZONE_KEY,
    SqlSession,
    TableName,
    not_found,
)
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.parsed import parsed
from paimon_spark.sql.text.tokens import START, Words, with_quoted_names
from paimon_spark.sql.text.types import read_schema_text
from paimon_spark.sql.values import json_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_VIEW: Final = "__paimon_"
_PROCESS: Final = uuid4().hex[:8]
_NUMBERS: Final = count(1)
_PIPE: Final = "|>"
"""It begins an operator: the query has the columns and rows of the one before."""
_UNRESOLVED: Final = "[UNRESOLVED_COLUMN"
_INPUT_FILE: Final = ("INPUT_FILE_NAME", "(", ")")
_ALL_COLUMNS: Final = {"natural", "table", "pivot", "unpivot", "transform", "struct"}
"""Words of queries in which columns may be used without being named."""
_OPERANDS: Final = (
    TokenType.VAR,
    TokenType.NUMBER,
    TokenType.STRING,
    TokenType.IDENTIFIER,
    TokenType.R_PAREN,
    TokenType.R_BRACKET,
)
_ASSIGNED_STAR: Final = ("SET", "INSERT")
_BEFORE_STAR: Final = ("SELECT", "DISTINCT", "ALL")
_PLAIN_NAME: Final = re.compile(r"[\w$ -]+")
_EXISTS: Final = ["EXISTS", "(", "SELECT"]
"""Before a `*` that stands for no column."""


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


def collected(frame: DataFrame) -> Result:
    """The columns and rows of a DataFrame."""
    columns = [plain_call(plain_name(c)) for c in frame.columns]
    plain = frame.toDF(*(f"c{i}" for i in range(len(columns)))) if columns else frame
    shown = plain.selectExpr(*(_shown(f) for f in plain.schema.fields))
    zone = zone_of(frame.sparkSession.conf.get(ZONE_KEY) or "UTC")
    return Result(columns, json_rows(arrow_of(shown), zone))


def _shown(field: Any) -> str:
    """The SQL of a column in a type that Arrow has."""
    if field.dataType.typeName() == "variant":
        return f"to_json({field.name}) AS {field.name}"
    arrow = _arrow_type(field.dataType)
    return f"CAST({field.name} AS {arrow}) AS {field.name}" if arrow else str(field.name)


def _arrow_type(data_type: Any) -> str | None:
    """The type with texts in place of what Arrow lacks, at any depth; None if it has all."""
    match data_type.typeName():
        case "void":
            return "STRING"
        case name if "interval" in name:
            return "STRING"
        case "array":
            element = _arrow_type(data_type.elementType)
            return None if element is None else f"ARRAY<{element}>"
        case "map":
            parts = data_type.keyType, data_type.valueType
            if not any(map(_arrow_type, parts)):
                return None
            key, value = (_arrow_type(p) or p.simpleString() for p in parts)
            return f"MAP<{key}, {value}>"
        case "struct" if _renames(data_type) or any(
            _arrow_type(f.dataType) for f in data_type.fields
        ):
            fields = (
                f"c{i}: {_arrow_type(f.dataType) or f.dataType.simpleString()}"
                for i, f in enumerate(data_type.fields)
            )
            return f"STRUCT<{', '.join(fields)}>"
    return None


def _renames(data_type: Any) -> bool:
    """Whether Arrow needs other fields: some share a name, or cannot be null inside of a null."""
    names = {f.name for f in data_type.fields}
    return len(names) < len(data_type.fields) or not all(f.nullable for f in data_type.fields)


def register(session: SqlSession, frame: DataFrame) -> str:
    """The name of a new temporary view of the DataFrame.

    It is never used again: sessions on other threads share the views of Spark, and through Spark
    Connect a query finds its views by their names each time that it runs.
    """
    view = f"{_VIEW}{_PROCESS}_{next(_NUMBERS)}"
    frame.createOrReplaceTempView(view)
    session.registered.append(view)
    return view


def is_registered(view: str) -> bool:
    """Whether `register` gave the view its name."""
    return view.startswith(f"{_VIEW}{_PROCESS}_")


def drop_registered(session: SqlSession, since: int = 0) -> None:
    """Drop the views that were registered after this many, which no query needs again."""
    for view in session.registered[since:]:
        session.spark.catalog.dropTempView(view)
    del session.registered[since:]


# --- names --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Edits:
    """Replacements in a text, by their places."""

    text: str
    edits: list[tuple[int, int, str]] = field(default_factory=list)

    def put(self, start: int, end: int, new: str) -> None:
        self.edits.append((start, end, new))

    def applied(self) -> str:
        pieces, done = [], 0
        for start, end, new in sorted(self.edits):
            pieces += [self.text[done:start], new]
            done = end
        return "".join([*pieces, self.text[done:]])


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
    text = selected(text)
    tree = _parsed(text)
    edits = _Edits(text)
    views: dict[object, str] = {}
    known: set[tuple[str, str]] = set()
    if target is not None:
        known.add((target.database.lower(), target.table.lower()))
    hidden = metadata_columns_in(text)
    wanted = None if all_columns else columns_in(text)
    metadata = hidden | ({FILE_PATH} if _input_files(text) else set())
    lenient = FILE_PATH not in hidden
    for one in _named(session, text, tree):
        start, end, parts = one.start, one.end, list(one.parts)
        key = session.view_key(parts)
        if key:
            inner = rewritten_view(session, key, options)
            edits.put(start, end, f"({inner})" + one.alias())
            if len(parts) == 2:
                known.add((GLOBAL_TEMP, parts[1].lower()))
            continue
        name = _paimon_table(session, parts)
        if name is None:
            continue
        if isinstance(name, View):
            view_name = session.table_name(parts)
            known.add((view_name.database.lower(), parts[-1].lower()))
            with place_of(session, view_name):
                inner = _of_columns(session, name, rewritten(session, name.text(), options))
            edits.put(start, end, f"({inner})" + one.alias())
            continue
        known.add((name.database.lower(), parts[-1].lower()))
        travel, end = time_travel(session, text, end)
        alias = "" if travel and alias_follows(words_from(text, end)) else one.alias()
        chosen = {**(options or {}), **for_all, **for_one.get(start, {}), **travel}
        wants = _Wanted(metadata, lenient, None if one.renamed else wanted, one.conditions)
        view = _view_of(session, name, chosen, views, wants)
        edits.put(start, end, view + alias)
    if isinstance(tree, exp.Expr):
        _check_qualified(session, tree, known, target)
    stripped = _strip_databases(text, known, edits)
    if stripped and isinstance(tree, str) and len({t for _, t in known}) < len(known):
        raise _ambiguous(stripped[0])
    if metadata:
        _hide_metadata(text, metadata, edits)
    return edits.applied()


def rewritten_view(session: SqlSession, key: str, options: Mapping[str, str] | None = None) -> str:
    """The query of a temporary view, whose tables are those of the place where it was made."""
    view = session.views[key]
    with place_of(session, TableName(view.database, "", catalog=view.catalog)):
        return rewritten(session, view.query, options)


def _of_columns(session: SqlSession, view: View, query: str) -> str:
    """The query with the columns that the view was created with: by position, with their types.

    Java: `PaimonViewResolver`.  Tables may have got other columns since then.
    """
    found = session.spark.sql(query).schema.fields
    if len(found) < len(view.fields):
        return query
    wanted = [(f.name, read_schema_text(f.type)) for f in view.fields]
    if [(f.name, f.dataType.simpleString()) for f in found] == [
        (name, text.lower().replace(": ", ":").replace(", ", ",")) for name, text in wanted
    ]:
        return query
    columns = (f"CAST(c{i} AS {text}) AS {quoted(name)}" for i, (name, text) in enumerate(wanted))
    given = ", ".join(f"c{i}" for i in range(len(found)))
    return f"SELECT {', '.join(columns)} FROM ({query}) AS __view({given})"


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

    def alias(self) -> str:
        """The table's own name as alias, where the query gives none and may."""
        return "" if self.aliased else f" AS {quoted(self.parts[-1])}"


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
            () if _PIPE in text else tuple(conditions_of(node)),
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


def columns_in(text: str, *, of_change: bool = False) -> frozenset[str] | None:
    """All words of a query in lower case, among them its columns; None if it wants all columns.

    `of_change`: the text is of UPDATE, DELETE or MERGE, whose `SET *` and `INSERT *` name none.
    """
    words = Words(text)
    found = {t.text.lower() for t in words.tokens}
    if found & _ALL_COLUMNS or _PIPE in text or ("select" not in found and not of_change):
        return None
    for i, token in enumerate(words.tokens):
        if token.token_type is TokenType.IDENTIFIER and not _PLAIN_NAME.fullmatch(token.text):
            return None  # it may be a pattern (spark.sql.parser.quotedRegexColumnNames)
        if token.text != "*":
            continue
        before, opens = words.tokens[i - 1], words.tokens[max(0, i - 2)].text.upper()
        counts = before.text == "(" and opens == "COUNT"
        product = before.token_type in _OPERANDS and before.text.upper() not in _BEFORE_STAR
        assigned = of_change and before.text.upper() in _ASSIGNED_STAR
        exists = [t.text.upper() for t in words.tokens[max(0, i - 3) : i]] == _EXISTS
        if not counts and not product and not exists and not assigned:
            return None
    return frozenset(found)


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


def names_table(session: SqlSession, parts: Sequence[str]) -> bool:
    """Whether a name in a query means a Paimon table, and no view."""
    known = session.view_key(parts)
    return not known and isinstance(_paimon_table(session, list(parts)), TableName)


def _paimon_table(session: SqlSession, parts: list[str]) -> TableName | View | None:
    """The table or view of this name, None if Spark resolves it; AnalysisError if unknown."""
    if len(parts) == 1 and parts[0].startswith(_VIEW):
        return None
    if len(parts) == 3 and parts[0].lower() == "spark_catalog":
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


def _check_qualified(
    session: SqlSession,
    tree: exp.Expr,
    known: Collection[tuple[str, str]],
    target: TableName | None,
) -> None:
    """AnalysisError for DB.TABLE.COLUMN where TABLE.COLUMN means a column of another table.

    Arguments as in `rewritten` and `_strip_databases`.
    """
    for column in tree.find_all(exp.Column):
        names = [p.name.lower() for p in column.parts]
        if tuple(names[1:3]) in known and len(names) > 3:
            qualifier = names[:3]
        elif tuple(names[:2]) in known and len(names) > 2:
            qualifier = names[:2]
        else:
            continue
        select = column.find_ancestor(exp.Select)
        found: list[exp.Expr] = []
        while select is not None and not found:
            found = [s for s in _sources(select) if s.alias_or_name.lower() == qualifier[-1]]
            select = select.find_ancestor(exp.Select)
        if any(_source_name(session, s, target)[-len(qualifier) :] != qualifier for s in found):
            raise _ambiguous(names)


def _ambiguous(names: Sequence[str]) -> AnalysisError:
    return AnalysisError(
        f"[AMBIGUOUS_REFERENCE] Reference {'.'.join(names)} is ambiguous: several tables of the "
        "query have this name in different databases",
        next_step="give them aliases",
    )


def _sources(select: exp.Select) -> list[exp.Expr]:
    """What the FROM clause of a SELECT names or contains."""
    clauses = [select.args.get("from_") or select.args.get("from")]
    clauses += select.args.get("joins") or []
    return [c.this for c in clauses if c is not None]


def _source_name(session: SqlSession, source: exp.Expr, target: TableName | None) -> list[str]:
    """Catalog, database and table that a FROM clause has, in lower case; empty for a query."""
    if not isinstance(source, exp.Table):
        return []
    parts = [p.name.lower() for p in source.parts]
    if target is not None and is_registered(parts[-1]):
        parts = [target.catalog, target.database, target.table]
    place = [session.current_catalog, session.database]
    return [p.lower() for p in [*place[: max(0, 3 - len(parts))], *parts]]


def _strip_databases(text: str, known: set[tuple[str, str]], edits: _Edits) -> list[list[str]]:
    """Remove the database (and catalog) from the names of columns: views have neither.

    `known` are databases and tables in lower case.  The parts of the names, in lower case.
    """
    stripped = []
    words = Words(text)
    tables = {start for start, *_ in edits.edits}
    while not words.done:
        first = words.at
        try:
            words.identifier()
        except SqlSyntaxError:
            words.at += 1
            continue
        places = [first]
        while words.eat("."):
            places.append(words.at)
            try:
                words.identifier()
            except SqlSyntaxError:
                break  # db.t.*
        start = words.tokens[first].start - len(START)
        if len(places) < 3 or start in tables or words.looks_at("("):
            continue
        names = [words.tokens[at].text.lower() for at in places]
        for skipped in (1, 0):
            if tuple(names[skipped : skipped + 2]) in known and len(places) > skipped + 2:
                edits.put(start, words.tokens[places[skipped + 1]].start - len(START), "")
                stripped.append(names)
                break
    return stripped


def _hide_metadata(text: str, metadata: Collection[str], edits: _Edits) -> None:
    """`*` means the table's own columns, not the hidden ones; input_file_name() is a hidden one."""
    words = Words(text)
    hidden = ", ".join(sorted(metadata))
    for i, token in enumerate(words.tokens):
        before = words.tokens[i - 1].text.upper()
        if (
            token.text == "*"
            and before in ("SELECT", ",", "DISTINCT", ".")
            and _from_name(words, i)
        ):
            words.at = i + 1
            own = words.eat("EXCEPT", "(")
            end = words.tokens[words.at - 1].end + 1 - len(START)
            edits.put(end, end, f"{hidden}, " if own else f" EXCEPT ({hidden})")
    for start, end in _input_files(text):
        edits.put(start, end, FILE_PATH)


def _input_files(text: str) -> list[tuple[int, int]]:
    """Where input_file_name() is called, but not where a text has it."""
    if _INPUT_FILE[0].lower() not in text.lower():
        return []
    words, found = Words(text), []
    while not words.done:
        if words.looks_at(*_INPUT_FILE):
            first, last = words.tokens[words.at], words.tokens[words.at + 2]
            found.append((first.start - len(START), last.end + 1 - len(START)))
        words.at += 1
    return found


def _from_name(words: Words, star: int) -> bool:
    """Whether the FROM of this `*` begins with a name, and not with a subquery."""
    depth = 0
    for i in range(star + 1, len(words.tokens)):
        word = words.tokens[i].text.upper()
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth < 0:
            return False
        if depth == 0 and word == "FROM":
            return i + 1 < len(words.tokens) and words.tokens[i + 1].text != "("
    return False


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
