"""EXPLAIN of queries, INSERT, UPDATE, DELETE and MERGE: the plan of the rows that they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.data_evolution import has_data_evolution
from paimon_spark.sql.dml.common_tables import common_tables, end_of_common_tables
from paimon_spark.sql.dml.insert import explained_insert
from paimon_spark.sql.dml.merge import checked_clause, read_merge
from paimon_spark.sql.dml.merge_clauses import Case
from paimon_spark.sql.dml.row_level import (
    aligned,
    cast_text,
    checked_assignments,
    read_delete,
    read_update,
)
from paimon_spark.sql.dml.targets import check_target
from paimon_spark.sql.query.collected import collected
from paimon_spark.sql.query.queries import rewritten
from paimon_spark.sql.result import Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.conditions import enclosed
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.tokens import Words

_MODES: Final = ("EXTENDED", "CODEGEN", "COST", "FORMATTED")
_QUERIES: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")


def explain(session: SqlSession, words: Words) -> Result:
    """The plan of a statement, which is not run; UnsupportedFeature for DDL and procedures."""
    mode = words.eat_any(*_MODES) or ""
    if words.looks_at("WITH"):
        at = end_of_common_tables(words)
        following = "" if at is None else words.word(at - words.at)
        if following in ("DELETE", "UPDATE", "MERGE"):
            with common_tables(session, words):
                return _change(session, words, mode)
        if at is not None and following == "INSERT":
            ctes = words.text[words.tokens[words.at].start : words.tokens[at].start]
            words.at = at
            return _change(session, words, mode, ctes=ctes)
    if words.word() in ("INSERT", "UPDATE", "DELETE", "MERGE"):
        return _change(session, words, mode)
    if words.word() not in _QUERIES:
        raise UnsupportedFeature(f"EXPLAIN {words.word()}", next_step="explain its query")
    return collected(session.spark.sql(f"EXPLAIN {mode} {rewritten(session, words.rest())}"))


@dataclass(frozen=True, slots=True)
class _Explained:
    """A table that is not changed."""

    session: SqlSession
    name: TableName
    table: FileStoreTable

    def dataframe(self, text: str = "") -> NoReturn:
        raise AssertionError(text)  # its query names the table


def _change(session: SqlSession, words: Words, mode: str, *, ctes: str = "") -> Result:
    match words.eat_any("INSERT", "UPDATE", "DELETE", "MERGE"):
        case "INSERT":
            name, query, overwrite = explained_insert(session, words)
            command, query = (
                "OverwritePaimonTable" if overwrite else "WriteIntoPaimonTable",
                ctes + query,
            )
        case "UPDATE":
            name, command, query = _update(session, words)
        case "DELETE":
            name, command, query = _delete(session, words)
        case _:
            name, command, query = _merge(session, words)
    plain = rewritten(session, query, target=name)
    plan = collected(session.spark.sql(f"EXPLAIN {mode} {plain}"))
    text = "\n".join(row[0] for row in plan.rows)  # an error has a row for each line
    return Result(plan.columns, [[f"{command} {name.shown}\n\n{text}"]])


def _opened(session: SqlSession, name: TableName, what: str) -> _Explained:
    """The table; UnsupportedFeature if it does not allow the statement."""
    table = session.open(name, to_write=True)
    check_target(table, what)
    return _Explained(session, name, table)


def _update(session: SqlSession, words: Words) -> tuple[TableName, str, str]:
    read = read_update(session, words)
    target = _opened(session, read.name, "UPDATE")
    evolves = has_data_evolution(target.table)
    assignments = checked_assignments(target, read.given, read.alias)
    values = aligned(target, assignments, read.alias)
    columns = ", ".join(f"{value} AS {quoted(n)}" for n, value in values.items())
    command = "UpdatePaimonDataEvolutionTable" if evolves else "UpdatePaimonTable"
    source = _source(read.name, read.alias)
    return read.name, command, f"SELECT {columns} FROM {source} WHERE {enclosed(read.condition)}"


def _delete(session: SqlSession, words: Words) -> tuple[TableName, str, str]:
    read = read_delete(session, words)
    _opened(session, read.name, "DELETE")
    query = f"SELECT * FROM {_source(read.name, read.alias)} WHERE {enclosed(read.condition)}"
    return read.name, "DeleteFromPaimonTable", query


def _merge(session: SqlSession, words: Words) -> tuple[TableName, str, str]:
    name, alias, source, condition, clauses = read_merge(session, words)
    target = _opened(session, name, "MERGE")
    fields = {f.name.lower(): f for f in target.table.schema.fields}
    columns = []
    for clause in (checked_clause(target, c, alias) for c in clauses):
        columns.append(enclosed(clause.condition))
        for path, value in clause.assignments or ():
            whole = len(path) == 1 and path[0].lower() in fields
            columns.append(cast_text(value, fields[path[0].lower()]) if whole else value)
    cases = {c.case for c in clauses}
    side = {
        (True, True): "FULL OUTER ",
        (True, False): "RIGHT OUTER ",
        (False, True): "LEFT OUTER ",
    }.get((Case.NOT_MATCHED in cases, Case.NOT_MATCHED_BY_SOURCE in cases), "")
    evolves = has_data_evolution(target.table)
    command = "MergeIntoPaimonDataEvolutionTable" if evolves else "MergeIntoPaimonTable"
    joined = f"{_source(name, alias)} {side}JOIN {source.text} AS {quoted(source.alias)}"
    return name, command, f"SELECT {', '.join(columns)} FROM {joined} ON {enclosed(condition)}"


def _source(name: TableName, alias: str) -> str:
    table = name.table if name.branch is None else f"{name.table}$branch_{name.branch}"
    parts = (name.catalog, name.database, table)
    return f"{'.'.join(quoted(p) for p in parts)} AS {quoted(alias)}"
