"""Tables of one name in several databases, which a query tells apart as DB.TABLE.COLUMN.

The views in their places have no database.  So each of these tables gets an alias with its
database in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from paimon_core.catalog.views import View
from paimon_core.errors import PaimonError
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.query.registered import is_registered
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.edits import Edits
from paimon_spark.sql.text.names import quoted

_STAR: Final = "*"


@dataclass(frozen=True, slots=True)
class Namesake:
    """A table without an alias, whose name another table of the query has too."""

    names: tuple[str, ...]
    """Catalog, database and table in lower case."""
    alias: str
    columns: Collection[str]
    """Its columns in lower case."""

    def may_have(self, column: str) -> bool:
        return column in (_STAR, *self.columns) or not self.columns


def namesakes_of(
    session: SqlSession,
    tree: exp.Expr,
    named: Mapping[int, TableName | View],
    target: TableName | None,
) -> dict[int, Namesake]:
    """Those of the tables `named`, by the places of their names in the text.

    `target` is the table that a registered view stands for.
    """
    found = {
        node.parts[0].meta["start"]: full_name(session, node, target)
        for node in tree.find_all(exp.Table)
        if isinstance(node.this, exp.Identifier) and not node.alias and "start" in node.this.meta
    }
    tables = {place: names for place, names in found.items() if place in named}
    all_names = {*tables.values()}
    if not any(_has_database(column, all_names) for column in tree.find_all(exp.Column)):
        return {}
    if target is not None:
        all_names.add(_lower([target.catalog, target.database, target.table]))
    aliases = {n.alias.lower() for n in tree.find_all(exp.Table, exp.Subquery, exp.CTE)}
    shared = [*(n[-1] for n in all_names), *aliases]
    return {
        place: Namesake(names, ".".join(names), _columns(session, named[place]))
        for place, names in tables.items()
        if shared.count(names[-1]) > 1
    }


def _has_database(column: exp.Column, tables: Collection[tuple[str, ...]]) -> bool:
    """Whether one of the tables stands before the column with its database."""
    names = _lower(p.name for p in column.parts)
    return any(names[:2] == t[1:] or names[:3] == t for t in tables) and len(names) > 2


def tell_apart(
    session: SqlSession,
    tree: exp.Expr,
    namesakes: Mapping[int, Namesake],
    target: TableName | None,
    edits: Edits,
) -> None:
    """Put the aliases of `namesakes` in place of their names before columns."""
    for column in tree.find_all(exp.Column):
        parts = _parts(column)
        start = parts[0].meta.get("start")
        if len(parts) < 2 or start is None:
            continue
        names = _lower(p.name for p in parts)
        for sources in _scopes(session, column, namesakes, target):
            width, chosen = _meant(names, sources)
            if width:
                if chosen:
                    quoted_aliases = [quoted(n.alias) for n in chosen]
                    end = parts[width - 1].meta["end"] + 1
                    edits.put(start, end, f".{_STAR}, ".join(quoted_aliases))
                break


def _meant(
    names: Sequence[str], sources: Sequence[tuple[tuple[str, ...], Namesake | None]]
) -> tuple[int, list[Namesake]]:
    """How many parts of a column's name are its table's, 0 for none of these; and the namesakes.

    AnalysisError if the table alone stands there, and several have the column.
    """
    for width in range(min(3, len(names) - 1), 0, -1):
        qualifier, column = tuple(names[:width]), names[width]
        found = [(full, n) for full, n in sources if full[-width:] == qualifier]
        found = [(full, n) for full, n in found if n is None or n.may_have(column)]
        others = sum(n is None for _, n in found)
        mine = list({n.alias: n for _, n in found if n is not None}.values())
        if len(mine) > 1 and column != _STAR:
            raise ambiguous(names)
        if found:
            return width, [] if others else mine
    return 0, []


def _scopes(
    session: SqlSession,
    node: exp.Expr,
    namesakes: Mapping[int, Namesake],
    target: TableName | None,
) -> Iterator[list[tuple[tuple[str, ...], Namesake | None]]]:
    """The tables of each query around the node, from the inner to the outer one."""
    select = node.find_ancestor(exp.Select)
    while select is not None:
        found: list[tuple[tuple[str, ...], Namesake | None]] = []
        for source in sources_of(select):
            place = source.parts[0].meta.get("start") if isinstance(source, exp.Table) else None
            namesake = None if place is None else namesakes.get(place)
            if namesake is not None:
                found.append((namesake.names, namesake))
            elif source.alias_or_name:
                full = full_name(session, source, target) if not source.alias else ()
                found.append((full or (source.alias_or_name.lower(),), None))
        yield found
        select = select.find_ancestor(exp.Select)


def sources_of(node: exp.Expr) -> Iterator[exp.Expr]:
    """What the FROM clause of a query names or contains, joins in parentheses too."""
    clauses = [node.args.get("from_") or node.args.get("from"), *(node.args.get("joins") or [])]
    for clause in clauses:
        if clause is None:
            continue
        source = clause.this
        if isinstance(source, exp.Subquery) and not source.alias:
            inner = source.this
            if isinstance(inner, exp.Table):
                yield inner
                yield from sources_of(inner)
                continue
        yield source
        if isinstance(source, exp.Table):
            yield from sources_of(source)


def full_name(session: SqlSession, source: exp.Expr, target: TableName | None) -> tuple[str, ...]:
    """Catalog, database and table that a FROM clause has, in lower case; empty for a query."""
    if not isinstance(source, exp.Table):
        return ()
    parts = [p.name for p in source.parts]
    if target is not None and is_registered(parts[-1].lower()):
        parts = [target.catalog, target.database, target.table]
    place = [session.current_catalog, session.database]
    return _lower([*place[: max(0, 3 - len(parts))], *parts])


def ambiguous(names: Sequence[str]) -> AnalysisError:
    """The error for a name of a column that several tables have."""
    return AnalysisError(
        f"[AMBIGUOUS_REFERENCE] Reference {'.'.join(names)} is ambiguous: several tables of the "
        "query have this name in different databases",
        next_step="give them aliases, or write their database too",
    )


def _columns(session: SqlSession, table: TableName | View) -> Collection[str]:
    """The columns in lower case; empty if only a query finds them."""
    if isinstance(table, View):
        return _lower(f.name for f in table.fields)
    try:
        return () if table.system else _lower(session.described(table).schema.row_type.names)
    except PaimonError:
        return ()  # the query reports it


def _parts(column: exp.Column) -> list[exp.Expr]:
    """The identifiers of a column's name, and the star behind a table's."""
    return [p for p in column.parts if isinstance(p, exp.Identifier | exp.Star)]


def _lower(names: Iterator[str] | Sequence[str]) -> tuple[str, ...]:
    return tuple(n.lower() for n in names)
