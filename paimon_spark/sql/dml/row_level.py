"""UPDATE and DELETE."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.commit.commit_user import new_commit_user
from paimon_core.errors import PaimonError, UnsupportedFeature
from paimon_core.predicate import evaluate
from paimon_core.schema.tracked import ROW_ID
from paimon_core.table.chain.overwrite import replace_partitions
from paimon_core.types.data_types import DataField, DataType, RowType
from paimon_spark.sql.ddl.upcast import field_at
from paimon_spark.sql.dml.by_name import check_case, check_distinct, has_rows, named_alike, shaped
from paimon_spark.sql.dml.large_changes import (
    DELETED,
    KIND,
    UPDATED,
    LargeTarget,
    cast_rows,
    open_large,
)
from paimon_spark.sql.dml.partition_deletes import delete_partitions
from paimon_spark.sql.dml.refused_expressions import check_expressions
from paimon_spark.sql.dml.retry_updates import until_committed
from paimon_spark.sql.dml.targets import (
    NUMBER_FIELD,
    ROW_NUMBER,
    ChangedTable,
    Numbers,
    Target,
    check_deletable,
    open_target,
)
from paimon_spark.sql.dml.writes import fetched, null_checked
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.frames.pushdown import plain_condition
from paimon_spark.sql.query.grammar import check_grammar
from paimon_spark.sql.query.queries import query_dataframe_of
from paimon_spark.sql.query.registered import register
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.conditions import boolean, enclosed
from paimon_spark.sql.text.literals import literal_rows
from paimon_spark.sql.text.names import quoted, quoted_text
from paimon_spark.sql.text.tokens import Words
from paimon_spark.sql.text.types import null_text, read_schema_text, simple_text

Assignments = Sequence[tuple[Sequence[str], str]]
"""Column paths and the SQL of their new values."""
_UPDATE_AFTER = 2
_NO_ALIASES: Final = (
    *("ANTI", "CROSS", "EXCEPT", "FULL", "INNER", "INTERSECT", "JOIN", "LATERAL", "LEFT", "MINUS"),
    *("NATURAL", "ON", "RIGHT", "SEMI", "UNION", "USING"),
)
"""Words of Spark's grammar that name no table (`strictNonReserved`)."""


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE FROM table [alias] [WHERE condition]."""

    name: TableName
    alias: str
    condition: str


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE table [alias] SET column = value, ... [WHERE condition]."""

    name: TableName
    alias: str
    given: Assignments
    condition: str


def read_delete(session: SqlSession, words: Words) -> Delete:
    """The statement behind DELETE; SqlSyntaxError for other words, as after a misspelt WHERE."""
    words.need("FROM")
    name = session.target_name(words.name())
    alias = read_alias(words, "WHERE") or name.table
    return Delete(name, alias, _read_condition(words))


def read_update(session: SqlSession, words: Words) -> Update:
    """The statement behind UPDATE."""
    name = session.target_name(words.name())
    alias = read_alias(words, "SET") or name.table
    words.need("SET")
    given = read_assignments(words, "WHERE")
    return Update(name, alias, given, _read_condition(words))


def _read_condition(words: Words) -> str:
    condition = boolean(words.expression()) if words.eat("WHERE") else "true"
    words.end()
    return condition


def delete(session: SqlSession, words: Words) -> Result:
    """Delete the rows, again where another commit changed them first.

    None is read if all of the table or of partitions go.
    """
    read = read_delete(session, words)
    name, alias, condition = read.name, read.alias, read.condition
    target_table = session.open(name, to_write=True)
    check_deletable(target_table)
    if condition.strip().lower() == "true":
        if target_table.snapshots.latest() is not None:
            user = new_commit_user(target_table, session.env)
            truncating = session.env.doing("TRUNCATE")
            replace_partitions(target_table, None, user=user, env=truncating)
        return NOTHING
    if delete_partitions(session, name, alias, condition, words):
        return NOTHING
    until_committed(session, name, lambda: _delete(session, read, words))
    return NOTHING


def _delete(session: SqlSession, read: Delete, words: Words) -> None:
    name, alias, condition = read.name, read.alias, read.condition
    large = open_large(session, name, "DELETE", condition, condition)
    if large is None:
        target = open_target(session, name, "DELETE", condition, text=words.text)
        target.commit(_chosen(target, alias, condition, words))
        return
    check_grammar(session, words)
    fields = large.table.schema.fields
    columns = ", ".join(f"{unassigned(large, alias, f)} AS {quoted(f.name)}" for f in fields)
    what = f"{ROW_NUMBER}, {columns}, {DELETED} AS {KIND}"
    view = register(session, large.dataframe())
    _change(large, view, alias, what, condition, only_deletes=True)


def update(session: SqlSession, words: Words) -> Result:
    """Update the rows, again where another commit changed them first."""
    read = read_update(session, words)
    until_committed(session, read.name, lambda: _update(session, read, words))
    return NOTHING


def _update(session: SqlSession, read: Update, words: Words) -> None:
    name, alias, given, condition = read.name, read.alias, read.given, read.condition
    large = open_large(session, name, "UPDATE", words.text, condition)
    if large is not None:
        check_grammar(session, words)
        assignments = checked_assignments(large, given, alias)
        view = register(session, large.dataframe())
        assignments = shaped_assignments(large, assignments, f"{view} AS {quoted(alias)}")
        values = ", ".join(
            f"{value} AS {quoted(n)}" for n, value in aligned(large, assignments, alias).items()
        )
        ids = f", {ROW_ID}" if large.keeps_ids else ""
        what = f"{ROW_NUMBER}, {values}, {UPDATED} AS {KIND}{ids}"
        columns = assigned_columns(large, assignments)
        _change(large, view, alias, what, condition, columns=columns)
        return
    target = open_target(session, name, "UPDATE", condition, text=words.text)
    assignments = checked_assignments(target, given, alias)
    made = _updated_literally(target, assignments, condition)
    if made is None:
        check_grammar(session, words)
        made = _updated_by_spark(target, alias, assignments, condition)
    numbers, rows = made
    null_checked(target.table, rows)
    if target.table.has_primary_key:
        kinds = np.full(rows.num_rows, _UPDATE_AFTER, np.int8)
        target.commit(np.empty(0, np.int64), rows, kinds)
    else:
        columns = assigned_columns(target, assignments)
        target.commit(numbers, rows, origins=numbers, columns=columns)


def checked_assignments(target: ChangedTable, given: Assignments, alias: str) -> Assignments:
    """The assignments of an UPDATE with bare names; errors as in `check_assignments`."""
    assignments = unqualified(target, given, alias)
    check_assignments(target, assignments)
    keys = {k.lower() for k in target.table.schema.primary_keys}
    if any(path[0].lower() in keys for path, _ in assignments):
        raise UnsupportedFeature(
            "updates of primary keys",
            "Can't update the primary key column.",
            table=target.table.name,
            next_step="delete the rows, and insert them with their new keys",
        )
    return assignments


def _change(
    target: LargeTarget,
    view: str,
    alias: str,
    what: str,
    condition: str,
    *,
    columns: Collection[str] = (),
    only_deletes: bool = False,
) -> None:
    """Commit what becomes of the view's rows that meet a condition; `columns` as in `commit`."""
    query = f"SELECT {what} FROM {view} AS {quoted(alias)} WHERE {enclosed(condition)}"
    frame = query_dataframe_of(target.session, query, target.name)
    check_expressions(frame)
    rows = cast_rows(target, frame)
    with target.changes([rows]) as changes:
        target.commit(changes, columns=columns, only_deletes=only_deletes)


def assigned_columns(target: ChangedTable, assignments: Assignments) -> list[str]:
    """The table's columns that are assigned."""
    given = {path[0].lower() for path, _ in assignments}
    return [n for n in target.table.schema.names if n.lower() in given]


def read_alias(words: Words, *stops: str) -> str | None:
    """[AS] alias, unless one of these words follows."""
    if not words.eat("AS") and (words.done or words.word() in stops):
        return None
    if words.word() in _NO_ALIASES:
        words.fail("an alias")
    return words.identifier()


def read_assignments(words: Words, *stops: str) -> list[tuple[list[str], str]]:
    """A = 1, b.c = 2 up to one of the words."""
    found = []
    while True:
        path = words.name()
        if not words.eat("=") and not words.eat("=="):
            words.fail("=")
        found.append((path, words.expression(",", *stops)))
        if not words.eat(","):
            return found


# --- the rows concerned -------------------------------------------------------------------------


def _mask(target: Target, condition: str) -> Numbers | None:
    """The numbers of the rows that match a plain condition; None if Spark is needed."""
    if condition == "true":
        return np.arange(target.rows.num_rows, dtype=np.int64)
    predicate = plain_condition(target.table, condition)
    if predicate is None:
        return None
    try:
        mask = evaluate(predicate, target.rows)
    except (PaimonError, pa.ArrowException, ValueError, TypeError):
        return None
    return np.flatnonzero(np.asarray(mask)).astype(np.int64)


def _chosen(target: Target, alias: str, condition: str, words: Words) -> Numbers:
    plain = _mask(target, condition)
    if plain is not None:
        return plain
    check_grammar(target.session, words)
    view = register(target.session, target.dataframe(condition))
    query = f"SELECT {ROW_NUMBER} FROM {view} AS {quoted(alias)} WHERE {enclosed(condition)}"
    frame = query_dataframe_of(target.session, query, target.name)
    check_expressions(frame)
    return np.asarray(frame.toArrow().column(0)).astype(np.int64)


def _updated_literally(
    target: Target, assignments: Assignments, condition: str
) -> tuple[Numbers, pa.Table] | None:
    """The updated rows if all new values are literals; None if Spark is needed."""
    fields = {f.name.lower(): f for f in target.table.schema.fields}
    if any(len(path) != 1 for path, _ in assignments):
        return None
    assigned = [fields[path[0].lower()] for path, _ in assignments]
    values = ", ".join(
        _default_text(value, f) for (_, value), f in zip(assignments, assigned, strict=True)
    )
    literals = literal_rows(f"VALUES ({values})", assigned, target.session.zone)
    numbers = None if literals is None else _mask(target, condition)
    if literals is None or numbers is None:
        return None
    rows = target.rows.take(pa.array(numbers))
    for i, field in enumerate(assigned):
        at = rows.schema.get_field_index(field.name)
        value = literals.column(i).combine_chunks()
        column = value.take(pa.array(np.zeros(len(numbers), np.int64)))
        rows = rows.set_column(at, pa.field(field.name, column.type), column)
    return numbers, rows


def _updated_by_spark(
    target: Target, alias: str, assignments: Assignments, condition: str
) -> tuple[Numbers, pa.Table]:
    text = " ".join([condition, *(value for _, value in assignments)])
    view = register(target.session, target.dataframe(text))
    source = f"{view} AS {quoted(alias)}"
    assignments = shaped_assignments(target, assignments, source)
    values = ", ".join(
        f"{text} AS {quoted(name)}" for name, text in aligned(target, assignments, alias).items()
    )
    query = f"SELECT {ROW_NUMBER}, {values} FROM {source} WHERE {enclosed(condition)}"
    frame = query_dataframe_of(target.session, query, target.name)
    check_expressions(frame)
    rows = fetched(target.table, frame, (NUMBER_FIELD, *target.table.schema.fields))
    return np.asarray(rows.column(0)).astype(np.int64), rows.drop_columns([ROW_NUMBER])


# --- assignments --------------------------------------------------------------------------------


def unqualified(
    target: ChangedTable, assignments: Assignments, alias: str
) -> list[tuple[Sequence[str], str]]:
    """The assignments without the alias, or the table's name, before a column: `SET t.a = 1`."""
    names = {n.lower() for n in target.table.schema.names}
    qualifiers = [[alias.lower()], [target.name.database.lower(), target.name.table.lower()]]
    qualifiers.append([target.name.catalog.lower(), *qualifiers[1]])

    def bare(path: Sequence[str]) -> Sequence[str]:
        lowered = [p.lower() for p in path]
        for qualifier in qualifiers:
            width = len(qualifier)
            if lowered[:width] == qualifier and len(path) > width and lowered[width] in names:
                return path[width:]
        return path

    return [(bare(path), value) for path, value in assignments]


def check_assignments(target: ChangedTable, assignments: Assignments) -> None:
    """AnalysisError for an unknown column, UnsupportedFeature for one assigned twice."""
    check_distinct(target.table)
    check_case(target.session, target.table, (path[0] for path, _ in assignments))
    names = {n.lower() for n in target.table.schema.names}
    for path, _ in assignments:
        if path[0].lower() not in names:
            raise AnalysisError(
                f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `{'.'.join(path)}` cannot "
                f"be resolved. Did you mean one of {', '.join(target.table.schema.names)}",
                table=target.table.name,
            )
        _check_field(target, path)
    lowered = [tuple(p.lower() for p in path) for path, _ in assignments]
    for i, one in enumerate(lowered):
        for other in lowered[i + 1 :]:
            shorter = min(len(one), len(other))
            if one[:shorter] == other[:shorter]:
                names_of = ", ".join(dict.fromkeys([".".join(one), ".".join(other)]))
                raise UnsupportedFeature(
                    "conflicting updates",
                    f"Conflicting update/insert on attrs: {names_of}. "
                    f"{'Multiple' if one == other else 'Conflicting'} assignments for "
                    f"'{'.'.join(one[:shorter])}'",
                    table=target.table.name,
                    next_step="assign each column once",
                )


def _check_field(target: ChangedTable, path: Sequence[str]) -> None:
    """AnalysisError for a field that the struct does not have."""
    for i in range(1, len(path)):
        parent = field_at(target.table.schema.row_type, path[:i])
        known = parent.type if parent is not None else None
        if isinstance(known, RowType) and field_at(known, path[i : i + 1]) is None:
            raise AnalysisError(
                f"[FIELD_NOT_FOUND] No such struct field `{path[i]}` in "
                f"{', '.join(f'`{n}`' for n in known.names)}",
                table=target.table.name,
            )


def shaped_assignments(
    target: ChangedTable, assignments: Assignments, rows: str, *, fill: bool = False
) -> Assignments:
    """The assignments with the fields of structs, at any depth, in the order of the table's.

    `rows` is the SQL of the tables that the values name; `fill` as in `shaped`.
    """
    found = list(assignments)
    kinds = {}
    for i, (path, value) in enumerate(found):
        field = field_at(target.table.schema.row_type, path)
        if field is not None and has_rows(field.type) and value.strip().upper() != "DEFAULT":
            kinds[i] = field.type
    if not kinds:
        return found
    values = ", ".join(f"{found[i][1]} AS c{i}" for i in kinds)
    query = query_dataframe_of(target.session, f"SELECT {values} FROM {rows}", target.name)
    for (i, kind), column in zip(kinds.items(), query.schema.fields, strict=True):
        path, value = found[i]
        if named_alike(column.dataType, kind):
            found[i] = (path, shaped(f"({value})", column.dataType, kind, fill=fill))
    return found


def aligned(
    target: ChangedTable,
    assignments: Assignments,
    alias: str,
    assigned: Collection[str] | None = None,
) -> Mapping[str, str]:
    """The SQL of each column's new value: the assigned one, else the column itself.

    A column that no clause of the statement assigns may be NULL instead (`LargeTarget.patches`):
    `assigned` are those that one does, by default those of the assignments.
    """
    if assigned is None:
        assigned = assigned_columns(target, assignments)
    return {
        field.name: _aligned(field, f"{quoted(alias)}.{quoted(field.name)}", assignments)
        if field.name in assigned
        else unassigned(target, alias, field)
        for field in target.table.schema.fields
    }


def unassigned(target: ChangedTable, alias: str, field: DataField) -> str:
    """The SQL of a column that a change leaves as it is."""
    if isinstance(target, LargeTarget) and target.patches:
        return null_text(field.type)
    return f"{quoted(alias)}.{quoted(field.name)}"


def _aligned(field: DataField, reference: str, assignments: Assignments) -> str:
    mine = [(path[1:], v) for path, v in assignments if path[0].lower() == field.name.lower()]
    if not mine:
        return reference
    if not mine[0][0]:
        return cast_text(mine[0][1], field)
    if not isinstance(field.type, RowType):
        raise AnalysisError(
            f"Updating nested fields is only supported for StructType but '{field.name}' is of "
            f"type {simple_text(field.type)}"
        )
    parts = ", ".join(
        f"{quoted_text(inner.name)}, {_aligned(inner, f'{reference}.{quoted(inner.name)}', mine)}"
        for inner in field.type.fields
    )
    return f"named_struct({parts})"


def cast_text(value: str, field: DataField) -> str:
    """The value in the column's type; DEFAULT is the column's default."""
    data_type: DataType = field.type
    return f"CAST({_default_text(value, field)} AS {read_schema_text(data_type)})"


def _default_text(value: str, field: DataField) -> str:
    """The value, for DEFAULT that of the column."""
    return field.default_value or "NULL" if value.strip().upper() == "DEFAULT" else value
