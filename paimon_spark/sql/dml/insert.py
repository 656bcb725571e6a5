"""INSERT INTO and OVERWRITE, CREATE TABLE AS SELECT."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from paimon_core.clustering.on_write import clustered
from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.snapshot.snapshot import Identity
from paimon_core.table.after_commit import AfterCommit
from paimon_core.table.format_table import FormatTable
from paimon_core.table.real_buckets import RealBuckets
from paimon_core.table.write_session import (
    write_rows,
)
from paimon_core.types.arrow import arrow_schema, column_from_internal
from paimon_core.types.data_types import AtomicType, DataField, RowType
from paimon_core.write.incoming_rows import Kinds
from paimon_spark.sql.ddl.partitions import read_spec, spec_values
from paimon_spark.sql.ddl.table_clauses import read_properties
from paimon_spark.sql.dml.by_name import (
    by_name,
    check_case,
    check_distinct,
    merged_schema,
    merges_schema,
)
from paimon_spark.sql.dml.format_writes import format_rows, write_format
from paimon_spark.sql.dml.large_writes import (
    rows_to_write,
    write_distributed,
    writes_distributed,
)
from paimon_spark.sql.dml.postpone import write_to_buckets
from paimon_spark.sql.dml.retry_updates import until_committed
from paimon_spark.sql.dml.upsert import upsert, upsert_keys, upsert_large
from paimon_spark.sql.errors import (
    AnalysisError,
    IncompatibleRows,
    WriteRefused,
)
from paimon_spark.sql.frames.characters import stored_column
from paimon_spark.sql.frames.dataframes import arrow_dataframe, arrow_of
from paimon_spark.sql.query.grammar import check_grammar
from paimon_spark.sql.query.queries import query_dataframe, rewritten
from paimon_spark.sql.query.sys_functions import with_descriptors
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import (
    CHARACTERS_AS_STRINGS,
    OVERWRITE_MODE,
    SqlSession,
    TableName,
)
from paimon_spark.sql.text.literals import literal_rows
from paimon_spark.sql.text.tokens import Words, opens_query, with_quoted_names
from paimon_spark.sql.text.types import read_schema_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DYNAMIC: Final = "dynamic-partition-overwrite"


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
    if words.looks_at("OVERWRITE") and _names_directory(words):
        words.need("OVERWRITE")
        return _to_directory(session, words, f"{ctes} " if ctes else source)
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
    if words.looks_at("OVERWRITE") and _names_directory(words):
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


def _names_directory(words: Words) -> bool:
    """Whether OVERWRITE [LOCAL] DIRECTORY comes next."""
    at = 1 + int(words.word(1) == "LOCAL")
    following = words.word(at + 1)
    return words.word(at) == "DIRECTORY" and following in ("", "USING", "ROW", "STORED", "OPTIONS")


def _to_directory(session: SqlSession, words: Words, before: str) -> Result:
    """INSERT OVERWRITE [LOCAL] DIRECTORY 'path' USING format query: files that Spark writes.

    `before` is the WITH or FROM clause before INSERT.
    """
    target = words.expression("SELECT", "VALUES", "WITH", "FROM", "TABLE")
    query = rewritten(session, before + words.rest())
    session.spark.sql(f"INSERT OVERWRITE {target} {query}")
    return NOTHING


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
    replaced = spec_values(session, table, spec)
    frame = query_dataframe(session, query)
    write_query(session, table, frame, overwrite=replaced, rows_at=session.read_at(table))


def _run(session: SqlSession, parsed: _Insert, query: str, statement: Words | None) -> None:
    table = session.described(parsed.name, to_write=True)
    if isinstance(table, FormatTable):
        _run_on_format(session, table, parsed, query, statement)
        return
    _check_partition_columns(table, parsed.spec)
    static = spec_values(session, table, parsed.spec) if parsed.spec else {}
    check_case(session, table, parsed.columns or ())
    dynamic = _is_dynamic(session, table, static)
    fields = _targets(table, static, parsed.columns)
    rows: pa.Table | None = None
    keys = [] if parsed.overwrite else upsert_keys(table)
    as_strings = session.conf.get(CHARACTERS_AS_STRINGS, "false").lower() == "true"
    by_position = not (parsed.by_name or (parsed.spec and not static and _has_names(query)))
    nested = any(map(_has_nested_default, fields)) and "DEFAULT" in query.upper()
    if by_position and not as_strings and not nested:
        rows = literal_rows(query, fields, session.zone)
    if rows is None:
        if statement is not None:
            check_grammar(session, statement)
        frame = query_dataframe(session, _without_default(query, fields))
        if parsed.columns is not None:
            _check_listed(table, parsed.columns, frame.columns)
        if parsed.by_name:
            check_case(session, table, frame.columns)
            merges = merges_schema(session, parsed.name)
            if merges:
                table = merged_schema(session, parsed.name, table, frame)
            fields, frame = by_name(table, static, frame, fill=merges)
        if parsed.spec and not static:
            fields = list(_in_order_of(frame, fields, parsed.spec))
        if len(frame.columns) == len(fields):
            given = {k: v for k, v in parsed.spec.items() if v is not None}
            replaced = static if parsed.overwrite else None
            large = writes_distributed(frame)
            if keys:
                made = partial(rows_to_write, table, frame, fields, given)
                if upsert_large(session, parsed.name, made, keys, large_rows=large):
                    return
            elif large:
                _write_by_executors(
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
        rows = _with_static(table, rows, static)
    else:
        rows = _with_static(table, rows, static)
        row_type = table.schema.row_type.project(rows.schema.names)
        made = partial(arrow_dataframe, session, rows, row_type)
        if keys and upsert_large(session, parsed.name, made, keys, large_rows=False):
            return
    if keys:
        null_checked(table, rows)
        upsert(session, parsed.name, rows, keys)
        return
    replaced = static if parsed.overwrite else None
    rows_at = session.read_at(table) if parsed.overwrite else None
    write(session, table, rows, overwrite=replaced, dynamic=dynamic, rows_at=rows_at)


def _run_on_format(
    session: SqlSession, table: FormatTable, parsed: _Insert, query: str, statement: Words | None
) -> None:
    """INSERT into a format table: Spark writes the files, whatever the number of rows."""
    _check_partition_columns(table, parsed.spec)
    static = spec_values(session, table, parsed.spec) if parsed.spec else {}
    check_case(session, table, parsed.columns or ())
    fields = _targets(table, static, parsed.columns)
    if statement is not None:
        check_grammar(session, statement)
    frame = query_dataframe(session, _without_default(query, fields))
    if parsed.columns is not None:
        _check_listed(table, parsed.columns, frame.columns)
    if parsed.by_name:
        check_case(session, table, frame.columns)
        fields, frame = by_name(table, static, frame, fill=False)
    elif parsed.spec and not static and _has_names(query):
        fields = list(_in_order_of(frame, fields, parsed.spec))
    check_width(table, frame, fields)
    given = {k: v for k, v in parsed.spec.items() if v is not None}
    write_format(
        table,
        format_rows(table, frame, fields, given),
        static=static,
        overwrite=parsed.overwrite,
        dynamic=_is_dynamic(session, table, static),
    )


def _check_partition_columns(
    table: FileStoreTable | FormatTable, spec: Mapping[str, str | None]
) -> None:
    """AnalysisError for a column in PARTITION (..) that is not a partition column."""
    keys = {k.lower() for k in table.schema.partition_keys}
    others = [column for column in spec if column.lower() not in keys]
    if others:
        raise AnalysisError(
            "[NON_PARTITION_COLUMN] PARTITION clause cannot contain the non-partition column: "
            f"`{others[0]}`",
            table=table.name,
            next_step=f"its partition columns are: {', '.join(table.schema.partition_keys) or 'none'}",
        )


def _check_listed(
    table: FileStoreTable | FormatTable, listed: Sequence[str], found: Sequence[str]
) -> None:
    """AnalysisError if the query has more or fewer columns than the statement lists."""
    if len(listed) == len(found):
        return
    kind = "TOO_MANY" if len(found) > len(listed) else "NOT_ENOUGH"
    raise AnalysisError(
        f"[INSERT_COLUMN_ARITY_MISMATCH.{kind}_DATA_COLUMNS] Cannot write to {table.name}, the "
        f"reason is {kind.lower().replace('_', ' ')} data columns: table columns: "
        f"{', '.join(f'`{c}`' for c in listed)}; data columns: "
        f"{', '.join(f'`{c}`' for c in found)}",
        table=table.name,
    )


def _has_names(query: str) -> bool:
    """Whether the columns of the query may have names, by which `_in_order_of` goes."""
    return query.lstrip()[:6].upper() != "VALUES"


def _in_order_of(
    frame: DataFrame, fields: Sequence[DataField], spec: Mapping[str, str | None]
) -> Sequence[DataField]:
    """The fields in Hive's order, partition columns last, if the query names them in this order."""
    by_name = {f.name.lower(): f for f in fields}
    last = [c.lower() for c in spec]
    hive = [*(n for n in by_name if n not in last), *last]
    if [c.lower() for c in frame.columns] != hive:
        return fields
    return [by_name[n] for n in hive]


def _targets(
    table: FileStoreTable | FormatTable, static: Mapping[str, object], columns: Sequence[str] | None
) -> list[DataField]:
    """The columns that the query's columns go to, by position."""
    if columns is None:
        return [f for f in table.schema.fields if f.name not in static]
    check_distinct(table)
    by_name = {f.name.lower(): f for f in table.schema.fields}
    found = []
    for column in columns:
        field = by_name.get(column.lower())
        if field is None:
            raise AnalysisError(
                f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `{column}` cannot be "
                f"resolved. Did you mean one of {', '.join(table.schema.names)}",
                table=table.name,
            )
        if field in found:
            raise AnalysisError(
                f"[COLUMN_ALREADY_EXISTS] The column `{column}` already exists in the list",
                next_step="name each column once",
            )
        if field.name in static:
            raise AnalysisError(
                f"[STATIC_PARTITION_COLUMN_IN_INSERT_COLUMN_LIST] Static partition column "
                f"{column} is also specified in the column list"
            )
        found.append(field)
    return found


def check_width(
    table: FileStoreTable | FormatTable, frame: DataFrame, fields: Sequence[DataField]
) -> None:
    """IncompatibleRows if the rows have more or fewer columns than there are fields."""
    if len(frame.columns) != len(fields):
        raise IncompatibleRows(
            f"Cannot write incompatible data for the table `{table.name}`, the number of data "
            f"columns ({len(frame.columns)}) doesn't match the table schema's ({len(fields)})",
            table=table.name,
        )


def fetched(
    table: FileStoreTable,
    frame: DataFrame,
    fields: Sequence[DataField],
    *,
    as_strings: bool = False,
) -> pa.Table:
    """The rows of a DataFrame, its columns cast by position to the types of the fields.

    With `as_strings`, CHAR and VARCHAR are neither padded nor checked.
    IncompatibleRows if the numbers of columns differ.
    """
    check_width(table, frame, fields)
    plain = frame.toDF(*(f"c{i}" for i in range(len(fields))))
    cast = plain.selectExpr(
        *(f"CAST(c{i} AS {read_schema_text(f.type)}) AS c{i}" for i, f in enumerate(fields))
    )
    found = arrow_of(cast)
    schema = arrow_schema(RowType(fields=tuple(fields)))
    columns = [
        (found.column(i) if as_strings else stored_column(found.column(i), f)).cast(
            schema.field(i).type, safe=False
        )
        for i, f in enumerate(fields)
    ]
    return pa.table(columns, names=[f.name for f in fields])


def _with_static(table: FileStoreTable, rows: pa.Table, static: Mapping[str, object]) -> pa.Table:
    for name, value in static.items():
        field = table.schema.row_type.get(name)
        assert field is not None
        column = column_from_internal([value] * rows.num_rows, field.type.with_nullable(True))
        rows = rows.append_column(name, column)
    return rows


def _without_default(query: str, fields: Sequence[DataField]) -> str:
    """The query without DEFAULT.

    A null gets the default when it is written, so that NULL stands for it.  The default of an
    array, a map or a struct is its SQL, as in Spark: writers read the texts in it otherwise.
    """
    words = Words(query)
    pieces, done, places = [], 1, [0]
    for i, token in enumerate(words.tokens):
        words.at = i
        match words.word():
            case "(":
                places.append(0)
            case ")" if len(places) > 1:
                places.pop()
            case ",":
                places[-1] += 1
            case "DEFAULT" if words.word(1) in (",", ")"):
                field = fields[places[-1]] if places[-1] < len(fields) else None
                pieces += [words.text[done : token.start], _default(field)]
                done = token.end + 1
    return "".join([*pieces, words.text[done:]])


def _default(field: DataField | None) -> str:
    if field is None or not _has_nested_default(field):
        return "NULL"
    return f"({field.default_value})"


def _has_nested_default(field: DataField) -> bool:
    return field.default_value is not None and not isinstance(field.type, AtomicType)


# --- writing ------------------------------------------------------------------------------------


def write(
    session: SqlSession,
    table: FileStoreTable,
    rows: pa.Table,
    kinds: Kinds | None = None,
    *,
    overwrite: Mapping[str, object] | None = None,
    dynamic: bool = False,
    operation: str | None = None,
    rows_at: Identity | None = None,
) -> None:
    """Commit the rows; with `overwrite`, they replace the partitions that match it.

    A `dynamic` overwrite replaces the partitions of the new rows.  The snapshot says that it is for
    `operation` (default: WRITE or OVERWRITE).  `rows_at` is the snapshot of the table from whose
    rows those of an overwrite were computed: RowsChanged if others changed them since.
    WriteRefused for a null in a NOT NULL column.
    """
    null_checked(table, rows)
    rows = clustered(table, rows)
    env = session.env.doing(operation or ("WRITE" if overwrite is None else "OVERWRITE"))
    if overwrite is not None:
        table = overwriting(table, dynamic=dynamic)
    buckets = RealBuckets.for_rows(table, rows, replaced=overwrite is not None)
    if buckets is not None:
        write_to_buckets(table, rows, kinds, buckets, env=env, partition=overwrite, rows_at=rows_at)
        return
    after = AfterCommit(table, env=env, of_engine=True)
    if overwrite is None:
        write_rows(table, rows, kinds, env=env, after=after)
    else:
        partition = dict(overwrite)
        write_rows(table, rows, env=env, partition=partition, after=after, rows_at=rows_at)


def _write_by_executors(
    session: SqlSession,
    table: FileStoreTable,
    frame: DataFrame,
    fields: Sequence[DataField],
    static: Mapping[str, str] | None = None,
    *,
    overwrite: Mapping[str, object] | None,
    dynamic: bool = False,
    operation: str | None = None,
    rows_at: Identity | None = None,
) -> None:
    """As `write`, for the rows of a query; arguments as in `rows_to_write`."""
    if overwrite is not None:
        table = overwriting(table, dynamic=dynamic)
    rows = rows_to_write(table, frame, fields, static)
    write_distributed(
        session, table, rows, overwrite=overwrite, operation=operation, rows_at=rows_at
    )


def write_query(
    session: SqlSession,
    table: FileStoreTable,
    frame: DataFrame,
    *,
    overwrite: Mapping[str, object] | None,
    operation: str | None = None,
    rows_at: Identity | None = None,
) -> None:
    """Commit the rows of a query, whose columns are those of the table, as `write` does."""
    fields = table.schema.fields
    if len(frame.columns) == len(fields) and writes_distributed(frame):
        _write_by_executors(
            session,
            table,
            frame,
            fields,
            overwrite=overwrite,
            operation=operation,
            rows_at=rows_at,
        )
    else:
        rows = fetched(table, frame, fields)
        write(session, table, rows, overwrite=overwrite, operation=operation, rows_at=rows_at)


def _is_dynamic(
    session: SqlSession, table: FileStoreTable | FormatTable, static: Collection[str]
) -> bool:
    """Whether an INSERT OVERWRITE with these static partitions replaces those of its rows only.

    Spark: `ResolveInsertInto`.  A partition that is wholly named is replaced even without rows.
    """
    dynamic = session.conf.get(OVERWRITE_MODE, "static").lower() == "dynamic"
    return dynamic and len(static) < len(table.schema.partition_keys)


def overwriting(table: FileStoreTable, *, dynamic: bool) -> FileStoreTable:
    """The table under a mode of overwrites, whatever its own is."""
    return replace(table, schema=table.schema.with_options({_DYNAMIC: str(dynamic).lower()}))


def null_checked(table: FileStoreTable, rows: pa.Table) -> None:
    """WriteRefused for a null in a NOT NULL column, IncompatibleRows if the column is missing."""
    for field in table.schema.fields:
        if field.type.nullable:
            continue
        if field.name not in rows.schema.names:
            if field.default_value is None:
                raise IncompatibleRows(
                    f"Cannot write incompatible data for the table `{table.name}`, due to "
                    f"non-nullable column `{field.name}` has no specified value.",
                    table=table.name,
                )
        elif rows.column(field.name).null_count and field.default_value is None:
            raise WriteRefused(
                f"Cannot write null to non-null column({field.name}): "
                "[NOT_NULL_ASSERT_VIOLATION] NULL value appeared in non-nullable field",
                table=table.name,
            )
