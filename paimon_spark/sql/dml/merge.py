"""MERGE INTO: what is matched, not matched, and not matched by the source, in one commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from paimon_core.errors import UnsupportedFeature
from paimon_core.options import DELETION_VECTORS_ENABLED
from paimon_core.read.data_evolution import has_data_evolution
from paimon_core.types.data_types import AtomicType, DataField, TypeRoot
from paimon_spark.sql.dml.by_name import (
    check_case,
    check_distinct,
    merged_schema,
    merges_schema,
    shaped,
)
from paimon_spark.sql.dml.kept_rows import gives_same_rows, is_deterministic, kept_rows, until_kept
from paimon_spark.sql.dml.large_changes import (
    DELETED,
    INSERTED,
    KEY,
    KIND,
    UPDATED,
    LargeTarget,
    cast_rows,
    check_keys,
    check_matched_once,
    matched_twice,
    open_large,
)
from paimon_spark.sql.dml.merge_clauses import Case, Clause, check_data_evolution, read_clauses
from paimon_spark.sql.dml.merge_source import MergeSource, read_source
from paimon_spark.sql.dml.refused_expressions import check_expressions
from paimon_spark.sql.dml.retry_updates import until_committed
from paimon_spark.sql.dml.row_level import (
    aligned,
    assigned_columns,
    cast_text,
    check_assignments,
    read_alias,
    shaped_assignments,
    unqualified,
)
from paimon_spark.sql.dml.targets import (
    NUMBER_FIELD,
    ROW_NUMBER,
    ChangedTable,
    Numbers,
    Target,
    open_target,
)
from paimon_spark.sql.dml.writes import fetched, null_checked
from paimon_spark.sql.errors import AnalysisError, IncompatibleRows
from paimon_spark.sql.query.column_names import columns_in
from paimon_spark.sql.query.grammar import check_grammar
from paimon_spark.sql.query.queries import names_table, query_dataframe_of
from paimon_spark.sql.query.registered import register
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.conditions import boolean, enclosed
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.tokens import Words
from paimon_spark.sql.text.types import null_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_core.file_store_table import FileStoreTable

_ACTION = DataField(id=0, name="__paimon_action", type=AtomicType(kind=TypeRoot.INT))
_CASE = DataField(id=0, name="__paimon_case", type=AtomicType(kind=TypeRoot.INT))
_UPDATE_AFTER = 2


@dataclass(slots=True)
class _Changes:
    """The changes of all clauses."""

    removed: list[Numbers] = field(default_factory=list)
    updated: list[pa.Table] = field(default_factory=list)
    inserted: list[pa.Table] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Merge:
    target: ChangedTable
    target_view: str
    target_alias: str
    source: str
    source_alias: str
    condition: str
    source_columns: Mapping[str, Any]
    """Spark's fields of the source by their names in lower case, if a clause needs them."""
    fill: bool
    """Whether the source may lack columns and fields (`write.merge-schema`)."""
    assigned: Sequence[str] = ()
    """The columns that updates assign, in any clause."""


def merge(session: SqlSession, words: Words) -> Result:
    """MERGE INTO target USING source ON condition WHEN ..."""
    name, target_alias, source, condition, clauses = read_merge(session, words)
    table = session.open(name, to_write=True)  # what it refuses needs no Spark
    check_grammar(session, words)
    source_columns: Mapping[str, Any] = {}
    merges = merges_schema(session, name)
    star = any(c.star for c in clauses)
    if star or merges:
        text = f"SELECT * FROM {source.text} AS {quoted(source.alias)}"
        frame = query_dataframe_of(session, text, name)
        if star:
            check_case(session, table, frame.columns)
        if merges:
            new = frame if star else frame.select(*_new_columns(table, frame, clauses))
            merged_schema(session, name, table, new)
        source_columns = {f.name.lower(): f for f in frame.schema.fields}

    inserts = any(clause.case is Case.NOT_MATCHED for clause in clauses)

    def change() -> None:
        large = open_large(session, name, "MERGE", words.text, all_columns=merges)
        target = large or open_target(session, name, "MERGE", text=words.text)
        target = replace(target, inserts=inserts)
        view = register(session, target.dataframe(words.text))
        with _same_source(session, name, source, condition, clauses) as text:
            plan = _Merge(
                target, view, target_alias, text, source.alias, condition, source_columns, merges
            )
            _merge(plan, clauses)

    until_kept(lambda: until_committed(session, name, change))
    return NOTHING


@contextmanager
def _same_source(
    session: SqlSession,
    name: TableName,
    source: MergeSource,
    condition: str,
    clauses: Sequence[Clause],
) -> Iterator[str]:
    """The source as SQL that gives the same rows in each query of the statement."""
    if source.parts and names_table(session, source.parts):
        yield source.text
        return
    query = f"SELECT * FROM {source.text} AS {quoted(source.alias)}"
    frame = query_dataframe_of(session, query, name)
    if gives_same_rows(frame):
        yield source.text
        return
    with kept_rows(_needed(frame, condition, clauses)) as kept:
        yield register(session, kept)


def _needed(source: DataFrame, condition: str, clauses: Sequence[Clause]) -> DataFrame:
    """The columns of the source that the statement may name."""
    texts = [condition]
    for clause in clauses:
        texts += [clause.condition, *(value for _, value in clause.assignments or ())]
    named = columns_in("SELECT " + " ".join(texts))
    columns = [c.lower() for c in source.columns]
    if named is None or any(c.star for c in clauses) or len(set(columns)) < len(columns):
        return source
    chosen = [quoted(c) for c in source.columns if c.lower() in named]
    return source.select(*chosen) if chosen else source


def read_merge(
    session: SqlSession, words: Words
) -> tuple[TableName, str, MergeSource, str, list[Clause]]:
    """The target and its alias, the source, the condition and the clauses."""
    words.eat("WITH", "SCHEMA", "EVOLUTION")
    words.need("INTO")
    name = session.target_name(words.name())
    target_alias = read_alias(words, "USING") or name.table
    words.need("USING")
    source = read_source(words, target_alias)
    source = source.beside(name.database, target_alias, session.current_catalog)
    words.need("ON")
    condition = source.requalified(boolean(words.expression("WHEN")))
    return (
        name,
        target_alias,
        source,
        condition,
        [_requalified(c, source) for c in read_clauses(words)],
    )


def _merge(plan: _Merge, clauses: Sequence[Clause]) -> None:
    target, alias = plan.target, plan.target_alias
    if has_data_evolution(target.table):
        check_data_evolution(target.table, clauses)
    clauses = [checked_clause(target, clause, alias) for clause in clauses]
    plan = replace(plan, assigned=_updated_columns(target, clauses))
    all_cases = {case: [c for c in clauses if c.case is case] for case in Case}
    by_case = {case: mine for case, mine in all_cases.items() if mine}
    if isinstance(target, LargeTarget):
        _merge_large(target, plan, by_case)
        return
    assert isinstance(target, Target)
    changes = _Changes()
    _collect(target, plan, by_case, changes)
    _commit(target, changes, plan.assigned)


def _merge_large(
    target: LargeTarget, plan: _Merge, by_case: Mapping[Case, Sequence[Clause]]
) -> None:
    """Run the queries of all cases on the executors, and commit what they change."""
    matched = by_case.get(Case.MATCHED, ())
    if not _change_all(matched):
        _check_matched_once(plan)
    parts = [_large_changes(target, plan, case, mine) for case, mine in by_case.items()]
    with target.changes(parts) as rows:
        if matched:
            check_matched_once(rows, target.table)
        check_keys(rows, target.table)
        target.commit(rows, columns=plan.assigned)


def _large_changes(
    target: LargeTarget, plan: _Merge, case: Case, clauses: Sequence[Clause]
) -> DataFrame:
    """The changes of one case with their kind, and with the primary key as it was."""
    alias = quoted(plan.target_alias)
    fields = [target.table.schema.row_type.get(k) for k in target.table.schema.primary_keys]
    keys = [
        f"{null_text(f.type)} AS {KEY}{i}"
        if case is Case.NOT_MATCHED
        else f"{alias}.{quoted(f.name)} AS {KEY}{i}"
        for i, f in enumerate(fields)
        if f is not None
    ]
    rows = _changed_rows(plan, case, clauses, keys)
    kind = f"CAST({INSERTED} AS INT)"
    if case is not Case.NOT_MATCHED:
        deletes = [str(i) for i, c in enumerate(clauses) if c.assignments is None]
        kind = f"IF({_ACTION.name} IN ({', '.join(deletes) or '-1'}), {DELETED}, {UPDATED})"
    columns = [quoted(c) for c in rows.columns if c != _ACTION.name]
    return cast_rows(target, rows.selectExpr(*columns, f"{kind} AS {KIND}"))


def _change_all(clauses: Sequence[Clause]) -> bool:
    """Whether the clauses of a case change every row of it, so that their rows show all matches."""
    return not clauses or any(c.condition == "true" for c in clauses)


def _check_matched_once(plan: _Merge) -> None:
    """WriteRefused if a row matches several of the source, whatever the clauses do with it.

    Java: `MergeIntoPaimonTable.checkMatchRationality`.
    """
    query = (
        f"SELECT {ROW_NUMBER} FROM {_join(plan, Case.MATCHED)} ON {enclosed(plan.condition)} "
        f"GROUP BY {ROW_NUMBER} HAVING count(*) > 1 LIMIT 1"
    )
    target = plan.target
    if query_dataframe_of(target.session, query, target.name).collect():
        raise matched_twice(target.table)


def _requalified(clause: Clause, source: MergeSource) -> Clause:
    assignments = clause.assignments
    if assignments is not None:
        assignments = [
            (path, source.requalified(value, clause.case)) for path, value in assignments
        ]
    condition = source.requalified(clause.condition, clause.case)
    return replace(clause, condition=condition, assignments=assignments)


def _updated_columns(target: ChangedTable, clauses: Sequence[Clause]) -> list[str]:
    updates = [c for c in clauses if c.case is not Case.NOT_MATCHED]
    if any(c.star for c in updates):
        return list(target.table.schema.names)
    return assigned_columns(target, [a for c in updates for a in c.assignments or ()])


def _new_columns(table: FileStoreTable, frame: DataFrame, clauses: Sequence[Clause]) -> list[str]:
    """The columns of the source that clauses assign although the table does not have them.

    Fields of the table's columns are none, whatever the source calls its columns.
    """
    known = {n.lower() for n in table.schema.names}
    paths = [path for c in clauses for path, _ in c.assignments or () if len(path) <= 2]
    given = {path[-1].lower() for path in paths if path[0].lower() not in known}
    return [quoted(c) for c in frame.columns if c.lower() in given and c.lower() not in known]


def checked_clause(target: ChangedTable, clause: Clause, alias: str) -> Clause:
    """The clause with bare column names; errors as in `check_assignments`."""
    if not clause.assignments:
        if clause.star:
            check_distinct(target.table)
        return clause
    bare = unqualified(target, clause.assignments, alias)
    check_assignments(target, bare)
    nested = [".".join(path) for path, _ in bare if len(path) > 1]
    if clause.case is Case.NOT_MATCHED and nested:
        raise IncompatibleRows(
            f"INSERT assignment keys cannot be nested fields: {', '.join(nested)}",
            table=target.table.name,
            next_step="insert the whole column",
        )
    return replace(clause, assignments=bare)


def _changed_rows(
    plan: _Merge, case: Case, clauses: Sequence[Clause], more: Sequence[str] = ()
) -> DataFrame:
    """The rows of one case with the number of their clause; `more` is the SQL of other columns."""
    target = plan.target
    actions = " ".join(f"WHEN {c.condition} THEN {i}" for i, c in enumerate(clauses))
    values = [_values(plan, c) for c in clauses]
    columns = ", ".join(
        "CASE "
        + " ".join(
            f"WHEN {c.condition} THEN {v[f.name]}" for c, v in zip(clauses, values, strict=True)
        )
        + f" END AS {quoted(f.name)}"
        for f in target.table.schema.fields
    )
    number = "CAST(NULL AS BIGINT)" if case is Case.NOT_MATCHED else ROW_NUMBER
    query = (
        f"SELECT {number} AS {ROW_NUMBER}, CASE {actions} END AS {_ACTION.name}, "
        f"{', '.join([columns, *more])} FROM {_join(plan, case)} ON {enclosed(plan.condition)}"
    )
    frame = query_dataframe_of(target.session, query, target.name)
    check_expressions(frame)
    if not is_deterministic(frame, 1):
        raise AnalysisError(
            "[INVALID_NON_DETERMINISTIC_EXPRESSIONS] the conditions of MERGE must be deterministic",
            next_step="compute the value in the source, as a column",
        )
    return frame.filter(f"{_ACTION.name} IS NOT NULL")


def _collect(
    target: Target, plan: _Merge, by_case: Mapping[Case, Sequence[Clause]], changes: _Changes
) -> None:
    """Run the queries of all cases as one, at one current time, and note what their rows do."""
    if not _change_all(by_case.get(Case.MATCHED, ())):
        _check_matched_once(plan)
    cases = list(by_case.items())
    parts = [
        _changed_rows(plan, case, clauses, [f"{i} AS {_CASE.name}"])
        for i, (case, clauses) in enumerate(cases)
    ]
    fields = (NUMBER_FIELD, _ACTION, *target.table.schema.fields, _CASE)
    found = fetched(target.table, reduce(lambda a, b: a.unionAll(b), parts), fields)
    of_case = np.asarray(found.column(_CASE.name)).astype(np.int64)
    for i, (case, clauses) in enumerate(cases):
        rows = found.filter(pa.array(of_case == i)).drop_columns([_CASE.name])
        _note(target, case, clauses, rows, changes)


def _note(
    target: Target, case: Case, clauses: Sequence[Clause], rows: pa.Table, changes: _Changes
) -> None:
    """Note what the rows of a case do."""
    if case is Case.NOT_MATCHED:
        changes.inserted.append(rows.drop_columns([ROW_NUMBER, _ACTION.name]))
        return
    action = np.asarray(rows.column(_ACTION.name)).astype(np.int64)
    numbers = np.asarray(rows.column(ROW_NUMBER)).astype(np.int64)
    deletes = np.array([c.assignments is None for c in clauses])[action]
    if case is Case.MATCHED and len(np.unique(numbers)) != len(numbers):
        raise matched_twice(target.table)
    changes.removed.append(np.unique(numbers[deletes]))
    updated = rows.filter(pa.array(~deletes)).drop_columns([_ACTION.name])
    changes.updated.append(updated)


def _values(plan: _Merge, clause: Clause) -> dict[str, str]:
    """The SQL of each column's value under a clause."""
    fields = plan.target.table.schema.fields
    if clause.star:
        return {f.name: _star_value(plan, clause, f) for f in fields}
    rows = f"{_join(plan, clause.case)} ON {enclosed(plan.condition)}"
    assignments = shaped_assignments(plan.target, clause.assignments or (), rows, fill=plan.fill)
    if clause.case is not Case.NOT_MATCHED:
        return dict(aligned(plan.target, assignments, plan.target_alias, plan.assigned))
    given = {path[0].lower(): v for path, v in assignments}
    return {f.name: cast_text(given.get(f.name.lower(), "DEFAULT"), f) for f in fields}


def _join(plan: _Merge, case: Case) -> str:
    """The rows of a case: those of target and source that match, or of one of them."""
    ours = f"{plan.target_view} AS {quoted(plan.target_alias)}"
    theirs = f"{plan.source} AS {quoted(plan.source_alias)}"
    return {
        Case.MATCHED: f"{ours} JOIN {theirs}",
        Case.NOT_MATCHED: f"{theirs} LEFT ANTI JOIN {ours}",
        Case.NOT_MATCHED_BY_SOURCE: f"{ours} LEFT ANTI JOIN {theirs}",
    }[case]


def _star_value(plan: _Merge, clause: Clause, target: DataField) -> str:
    """The SQL of a column under UPDATE SET * or INSERT *: the source's column of the same name."""
    source = plan.source_columns.get(target.name.lower())
    if source is not None:
        text = f"{quoted(plan.source_alias)}.{quoted(source.name)}"
        current = None
        if plan.fill and clause.case is not Case.NOT_MATCHED:
            current = f"{quoted(plan.target_alias)}.{quoted(target.name)}"
        value = shaped(text, source.dataType, target.type, fill=plan.fill, current=current)
        return cast_text(value, target)
    if not plan.fill:
        raise IncompatibleRows(
            f"cannot resolve {target.name} from Project: the source of the MERGE has no such column",
            table=plan.target.table.name,
        )
    if clause.case is Case.NOT_MATCHED:
        return cast_text("DEFAULT", target)
    return f"{quoted(plan.target_alias)}.{quoted(target.name)}"


def _commit(target: Target, changes: _Changes, columns: Sequence[str]) -> None:
    keys = target.table.schema.primary_keys
    removed = np.concatenate([np.empty(0, np.int64), *changes.removed])
    updates = pa.concat_tables(changes.updated) if changes.updated else None
    parts: list[pa.Table] = []
    origins: list[Numbers] = []
    kinds: list[np.ndarray[tuple[int], np.dtype[np.int8]]] = []
    if updates is not None:
        numbers = np.asarray(updates.column(ROW_NUMBER)).astype(np.int64)
        parts.append(updates.drop_columns([ROW_NUMBER]))
        kinds.append(np.full(len(numbers), _UPDATE_AFTER, np.int8))
        if keys:
            _check_keys(target, numbers, parts[0])
        else:
            removed = np.concatenate([removed, numbers])
        # Java keeps the ids of updated rows only where it rewrites their files, or only columns.
        moves = target.evolved is None and target.table.options.value(DELETION_VECTORS_ENABLED)
        origins.append(np.full(len(numbers), -1, np.int64) if moves else numbers)
    for inserted in changes.inserted:
        parts.append(inserted)
        origins.append(np.full(inserted.num_rows, -1, np.int64))
        kinds.append(np.zeros(inserted.num_rows, np.int8))
    added = pa.concat_tables(parts) if parts else None
    if added is not None:
        null_checked(target.table, added)
    if added is None:
        target.commit(removed)
    else:
        target.commit(removed, added, np.concatenate(kinds), np.concatenate(origins), columns)


def _check_keys(target: Target, numbers: Numbers, rows: pa.Table) -> None:
    before = target.rows.take(pa.array(numbers))
    for key in target.table.schema.primary_keys:
        if not before.column(key).combine_chunks().equals(rows.column(key).combine_chunks()):
            raise UnsupportedFeature(
                "updates of primary keys",
                f"Can't update the primary key column {key} in update clause.",
                table=target.table.name,
                next_step="delete the rows, and insert them with their new keys",
            )
