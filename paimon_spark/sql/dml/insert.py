"""INSERT INTO and INSERT OVERWRITE."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.format.format_table import FormatTable
from paimon_core.types.data_types import DataField
from paimon_spark.sql.ddl.partitions import chosen_values, read_spec, spec_values
from paimon_spark.sql.ddl.table_clauses import read_properties
from paimon_spark.sql.dml.by_name import by_name, check_case, merged_schema, merges_schema
from paimon_spark.sql.dml.directories import names_directory, to_directory
from paimon_spark.sql.dml.format_writes import format_rows, write_format
from paimon_spark.sql.dml.insert_columns import (
    check_listed,
    check_partition_columns,
    has_names,
    has_nested_default,
    in_order_of,
    targets,
    with_static,
    without_default,
)
from paimon_spark.sql.dml.large_writes import rows_to_write, writes_distributed
from paimon_spark.sql.dml.retry_updates import until_committed
from paimon_spark.sql.dml.upsert import upsert, upsert_keys, upsert_large
from paimon_spark.sql.dml.writes import (
    check_width,
    fetched,
    null_checked,
    write,
    write_by_executors,
    write_query,
)
from paimon_spark.sql.errors import IncompatibleRows
from paimon_spark.sql.frames.dataframes import arrow_dataframe
from paimon_spark.sql.query.grammar import check_grammar
from paimon_spark.sql.query.queries import query_dataframe
from paimon_spark.sql.query.sys_functions import with_descriptors
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.spark_settings import CHARACTERS_AS_STRINGS, OVERWRITE_MODE
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.literals import literal_rows
from paimon_spark.sql.text.tokens import Words, opens_query, with_quoted_names


@dataclass(frozen=True, slots=True, kw_only=True)
class _Insert:
    """The parts of an INSERT before its query."""

    name: TableName
    overwrite: bool
    spec: Mapping[str, str | None]
    columns: Sequence[str] | None
    by_name: bool
    options: Mapping[str, str]
    """Dynamic options of the table, from a WITH clause behind its name."""
    condition: str | None = None
    """That of REPLACE WHERE."""


_LONG: Final = 64 * 1024
_HEAD: Final = re.compile(r"\s*INSERT\s[^;]{0,4000}?\bVALUES(?=\s*\()", re.IGNORECASE)
_IN_HEAD: Final = re.compile(r"--|/\*|\b(?:SELECT|WITH|FROM)\b", re.IGNORECASE)


def insert_long_values(session: SqlSession, statement: str) -> Result | None:
    """Run a long INSERT ... VALUES, whose rows no tokenizer has to go through.

    None for other statements.
    """
    head = _HEAD.match(statement) if len(statement) > _LONG else None
    if head is None or _IN_HEAD.search(head[0]) or any(head[0].count(q) % 2 for q in "'\"`"):
        return None
    words = Words(with_quoted_names(head[0]))
    words.at += 1
    return insert(session, words, values=statement[head.end() :])


def insert(
    session: SqlSession, words: Words, *, ctes: str = "", source: str = "", values: str = ""
) -> Result:
    """INSERT INTO | OVERWRITE; `ctes` is the WITH clause before it, `source` the FROM clause.

    `values` are the rows that follow the last of the words.
    """
    if words.looks_at("OVERWRITE") and names_directory(words):
        words.need("OVERWRITE")
        return to_directory(session, words, f"{ctes} " if ctes else source)
    parsed = _read_head(session, words)
    if words.done and parsed.condition is None:
        words.fail("a query")
    query = f"{ctes} {words.rest()}" if ctes else source + words.rest() + values
    statement = None if values else words
    with session.with_options(parsed.name, parsed.options):
        if parsed.condition is not None:
            condition = parsed.condition
            until_committed(
                session,
                parsed.name,
                lambda: _replace_where(session, parsed.name, condition, query, statement),
            )
            return NOTHING
        if query.lstrip()[:6].upper() == "VALUES":
            query = with_descriptors(session, query)
        if parsed.overwrite:
            until_committed(session, parsed.name, lambda: _run(session, parsed, query, statement))
        else:
            _run(session, parsed, query, statement)
        return NOTHING


def explained_insert(session: SqlSession, words: Words) -> tuple[TableName, str, bool]:
    """The table and query of an INSERT that is only planned, and whether it overwrites."""
    if words.looks_at("OVERWRITE") and names_directory(words):
        raise UnsupportedFeature("EXPLAIN INSERT OVERWRITE DIRECTORY")
    parsed = _read_head(session, words)
    session.described(parsed.name, to_write=True)
    return parsed.name, words.rest() or words.fail("a query"), parsed.overwrite


def _read_head(session: SqlSession, words: Words) -> _Insert:
    """What stands before the query."""
    words.eat("WITH", "SCHEMA", "EVOLUTION")  # as in MERGE, the option write.merge-schema decides
    overwrite = words.eat("OVERWRITE")
    if not overwrite:
        words.need("INTO")
    words.eat("TABLE")
    name = session.target_name(words.name())
    options: dict[str, str] = {}
    if words.looks_at("WITH", "("):
        words.need("WITH")
        options = read_properties(words)
    if not overwrite and words.eat("REPLACE", "WHERE"):
        condition = words.expression("SELECT", "VALUES", "WITH", "FROM", "TABLE")
        return _Insert(
            name=name,
            overwrite=False,
            spec={},
            columns=None,
            by_name=False,
            options=options,
            condition=condition,
        )
    if words.word() == "REPLACE" and words.word(1) in ("USING", "ON"):
        raise UnsupportedFeature(
            f"INSERT ... REPLACE {words.word(1)}",
            next_step="use REPLACE WHERE on partition columns, or MERGE INTO",
        )
    spec = read_spec(words, dynamic=True) if words.eat("PARTITION") else {}
    if words.eat("IF", "NOT", "EXISTS"):
        raise UnsupportedFeature("INSERT OVERWRITE ... IF NOT EXISTS")
    columns: list[str] | None = None
    by_name = words.eat("BY", "NAME")
    if not by_name and words.looks_at("(") and not opens_query(words):
        columns = words.items(words.identifier)
    return _Insert(
        name=name,
        overwrite=overwrite,
        spec=spec,
        columns=columns,
        by_name=by_name,
        options=options,
    )


def _replace_where(
    session: SqlSession, name: TableName, condition: str, query: str, statement: Words | None
) -> None:
    """INSERT INTO t REPLACE WHERE condition query: rows in place of the partitions of a condition.

    Java: `BaseWriteBuilder.failIfCanNotOverwrite`.  IncompatibleRows for other conditions.
    """
    table = session.open(name, to_write=True)
    words, spec = Words(condition), {}
    only_equal = IncompatibleRows(
        f"Only support Overwrite filters with Equal and EqualNullSafe, but got: {condition}"
    )
    while condition.strip().lower() != "true":
        column = words.identifier()
        if not words.eat("=") and not words.eat("==") and not words.eat("<=>"):
            raise only_equal
        if column.lower() not in {k.lower() for k in table.schema.partition_keys}:
            raise IncompatibleRows(
                f"Only support Overwrite filters on partition column "
                f"{', '.join(table.schema.partition_keys)}, but got {condition}."
            )
        if column in spec:
            raise only_equal
        spec[column] = words.constant()
        if words.done:
            break
        if not words.eat("AND"):
            raise only_equal
    if statement is not None:
        check_grammar(session, statement)
    replaced = chosen_values(table, spec_values(session, table, spec))
    frame = query_dataframe(session, query)
    write_query(session, table, frame, overwrite=replaced, rows_at=session.read_at(table))


def _run(session: SqlSession, parsed: _Insert, query: str, statement: Words | None) -> None:
    table = session.described(parsed.name, to_write=True)
    if isinstance(table, FormatTable):
        _run_on_format(session, table, parsed, query, statement)
        return
    static, fields = _filled_columns(session, table, parsed)
    replaced = chosen_values(table, static) if parsed.overwrite else None
    dynamic = _is_dynamic(session, table, static)
    rows: pa.Table | None = None
    keys = [] if parsed.overwrite else upsert_keys(table)
    as_strings = session.conf.get(CHARACTERS_AS_STRINGS, "false").lower() == "true"
    by_position = not (parsed.by_name or (parsed.spec and not static and has_names(query)))
    nested = any(map(has_nested_default, fields)) and "DEFAULT" in query.upper()
    if by_position and not as_strings and not nested:
        rows = literal_rows(query, fields, session.zone)
    if rows is None:
        if statement is not None:
            check_grammar(session, statement)
        frame = query_dataframe(session, without_default(query, fields))
        if parsed.columns is not None:
            check_listed(table, parsed.columns, frame.columns)
        if parsed.by_name:
            check_case(session, table, frame.columns)
            merges = merges_schema(session, parsed.name)
            if merges:
                table = merged_schema(session, parsed.name, table, frame)
            fields, frame = by_name(table, static, frame, fill=merges)
        if parsed.spec and not static:
            fields = list(in_order_of(frame, fields, parsed.spec))
        if len(frame.columns) == len(fields):
            given = {k: v for k, v in parsed.spec.items() if v is not None}
            large = writes_distributed(frame)
            if keys:
                made = partial(rows_to_write, table, frame, fields, given)
                if upsert_large(session, parsed.name, made, keys, large_rows=large):
                    return
            elif large:
                write_by_executors(
                    session,
                    table,
                    frame,
                    fields,
                    given,
                    overwrite=replaced,
                    dynamic=dynamic,
                    rows_at=session.read_at(table) if parsed.overwrite else None,
                )
                return
        rows = fetched(table, frame, fields, as_strings=as_strings)
        rows = with_static(table, rows, static)
    else:
        rows = with_static(table, rows, static)
        row_type = table.schema.row_type.project(rows.schema.names)
        made = partial(arrow_dataframe, session, rows, row_type)
        if keys and upsert_large(session, parsed.name, made, keys, large_rows=False):
            return
    if keys:
        null_checked(table, rows)
        upsert(session, parsed.name, rows, keys)
        return
    rows_at = session.read_at(table) if parsed.overwrite else None
    write(session, table, rows, overwrite=replaced, dynamic=dynamic, rows_at=rows_at)


def _run_on_format(
    session: SqlSession, table: FormatTable, parsed: _Insert, query: str, statement: Words | None
) -> None:
    """INSERT into a format table: Spark writes the files, whatever the number of rows."""
    static, fields = _filled_columns(session, table, parsed)
    if statement is not None:
        check_grammar(session, statement)
    frame = query_dataframe(session, without_default(query, fields))
    if parsed.columns is not None:
        check_listed(table, parsed.columns, frame.columns)
    if parsed.by_name:
        check_case(session, table, frame.columns)
        fields, frame = by_name(table, static, frame, fill=False)
    elif parsed.spec and not static and has_names(query):
        fields = list(in_order_of(frame, fields, parsed.spec))
    check_width(table, frame, fields)
    given = {k: v for k, v in parsed.spec.items() if v is not None}
    write_format(
        table,
        format_rows(table, frame, fields, given),
        static=chosen_values(table, static),
        overwrite=parsed.overwrite,
        dynamic=_is_dynamic(session, table, static),
        reads=session.format_reads(table),
    )


def _filled_columns(
    session: SqlSession, table: FileStoreTable | FormatTable, parsed: _Insert
) -> tuple[dict[str, object], list[DataField]]:
    """The values of the partition columns that the statement gives, and what its query fills."""
    check_partition_columns(table, parsed.spec)
    static = spec_values(session, table, parsed.spec) if parsed.spec else {}
    check_case(session, table, parsed.columns or ())
    return static, targets(table, static, parsed.columns)


def _is_dynamic(
    session: SqlSession, table: FileStoreTable | FormatTable, static: Collection[str]
) -> bool:
    """Whether an INSERT OVERWRITE with these static partitions replaces those of its rows only.

    Spark: `ResolveInsertInto`.  A partition that is wholly named is replaced even without rows.
    """
    dynamic = session.conf.get(OVERWRITE_MODE, "static").lower() == "dynamic"
    return dynamic and len(static) < len(table.schema.partition_keys)
