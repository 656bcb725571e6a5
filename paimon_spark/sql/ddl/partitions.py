"""Partitions in SQL: specs, SHOW PARTITIONS, ADD and DROP PARTITION, TRUNCATE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import cast

import pyarrow as pa

from paimon_core.commit.commit_user import new_commit_user
from paimon_core.commit.overwrite import static_partition_test
from paimon_core.commit.registered_partitions import registry_of
from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import PARTITION_DEFAULT_NAME
from paimon_core.paths import escape_path_name
from paimon_core.retention.registered_partitions import unregistered
from paimon_core.scan.scan import scan_files
from paimon_core.table.chain.overwrite import replace_partitions
from paimon_core.table.format.files import known_partitions
from paimon_core.table.format.format_table import FormatTable
from paimon_core.types.binary_row import decode_row, encode_row
from paimon_core.types.casts.text import java_to_string, parse_text
from paimon_core.types.data_types import TIMESTAMP_TYPES, TypeRoot
from paimon_core.types.datetimes import iso_date, parse_sql_date
from paimon_core.types.java_numbers import double_text
from paimon_spark.sql.ddl.format_partitions import add_to_catalog, drop_from_catalog
from paimon_spark.sql.errors import AnalysisError, SqlSyntaxError
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.system_tables import check_has_partitions
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.literals import on_calendar
from paimon_spark.sql.text.tokens import Words

Spec = Mapping[str, str | None]
"""Column -> the literal's SQL text, None for a column without a value (dynamic)."""


def read_spec(words: Words, *, dynamic: bool = False) -> dict[str, str | None]:
    """(a = 1, b = 'x', c), after the word PARTITION; columns without values only if `dynamic`.

    The values are literals, as in Spark's grammar: what follows one would be ignored.
    """

    def one() -> tuple[str, str | None]:
        column = words.identifier()
        if words.eat("=") or words.eat("=="):
            return column, words.constant()
        if not dynamic:
            raise SqlSyntaxError(
                f"[INVALID_SQL_SYNTAX.EMPTY_PARTITION_VALUE] Partition key `{column}` must set value"
            )
        return column, None

    found = words.items(one)
    lowered = [column.lower() for column, _ in found]
    repeated = sorted({c for c in lowered if lowered.count(c) > 1})
    if repeated:
        raise SqlSyntaxError(f"[DUPLICATE_KEY] Found duplicate keys `{'`, `'.join(repeated)}`")
    return dict(found)


def spec_values(
    session: SqlSession, table: FileStoreTable | FormatTable, spec: Spec
) -> dict[str, object]:
    """The internal values of a spec's columns, those without a value left out.

    AnalysisError for a table without partitions, or a column that is not one of them.
    """
    keys = table.schema.partition_keys
    if not keys:
        raise AnalysisError(
            f"[INVALID_PARTITION_OPERATION.PARTITION_SCHEMA_IS_EMPTY] table {table.name} is not "
            "partitioned",
            table=table.name,
        )
    names = {k.lower(): k for k in keys}
    values: dict[str, object] = {}
    for column, text in spec.items():
        key = names.get(column.lower())
        if key is None:
            raise AnalysisError(
                f"[PARTITIONS_NOT_FOUND] {column} is not a partition column of {table.name} "
                f"({', '.join(keys)})",
                table=table.name,
            )
        if text is not None:
            values[key] = _value(session, table, key, text)
    return values


def chosen_values(
    table: FileStoreTable | FormatTable, values: Mapping[str, object]
) -> dict[str, object]:
    """The values of `spec_values` that choose partitions: the name of the default one means null.

    Java: `PartitionPredicate.createPartitionPredicate` with a spec of texts.
    """
    null = table.schema.options.value(PARTITION_DEFAULT_NAME)
    return {k: None if v == null else v for k, v in values.items()}


def _value(session: SqlSession, table: FileStoreTable | FormatTable, key: str, text: str) -> object:
    field = table.schema.row_type.get(key)
    assert field is not None
    try:
        literal = _plain_text(text)
        if literal is None:
            return None
        if field.type.root in TIMESTAMP_TYPES and "-" in literal[1:] and not on_calendar(literal):
            raise ValueError(literal)
        return parse_text(literal, field.type.with_nullable(True), session.zone)
    except (ValueError, ArithmeticError, pa.ArrowException) as e:
        raise AnalysisError(
            f"[CAST_INVALID_INPUT] {text} is not a value of the partition column {key}"
        ) from e


def _plain_text(text: str) -> str | None:
    """A literal as Spark casts it to STRING, None for NULL: `007` is `7`, `X'41'` is `A`."""
    words = Words(text)
    words.constant()
    words.end()
    words.at = 1
    if words.eat("NULL"):
        return None
    if words.eat_any("TRUE", "FALSE"):
        return text.lower()
    is_date = bool(words.eat("DATE"))
    if is_date or words.eat_any("TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ") or words.is_string():
        value = words.string()
        day = parse_sql_date(value) if is_date and on_calendar(value) else None
        return value if day is None else iso_date(day)
    if words.is_literal():
        return bytes.fromhex(words.tokens[words.at].text).decode()
    number = text.replace(" ", "").upper()
    digits = number.rstrip("BDFLSY")
    if "E" in digits or (number.endswith(("D", "F")) and not number.endswith("BD")):
        return double_text(float(digits))
    return f"{Decimal(digits):f}"


def live_partitions(table: FileStoreTable | FormatTable) -> list[dict[str, object]]:
    """The internal values of each partition that has files, sorted by their folder.

    Of a format table, of each that has a folder or that its catalog keeps.
    """
    if isinstance(table, FormatTable):
        found = known_partitions(table) if table.schema.partition_keys else []
        return [dict(zip(table.schema.partition_keys, p.values, strict=True)) for p in found]
    latest = table.snapshots.latest()
    if latest is None or not table.schema.partition_keys:
        return []
    live = {e.partition for e in scan_files(table, latest)}
    types = table.schema.partition_type.types
    keys = table.schema.partition_keys
    ordered = sorted(live, key=table.paths.partition_path)
    return [dict(zip(keys, decode_row(p, types), strict=True)) for p in ordered]


def partition_names(
    session: SqlSession, table: FileStoreTable | FormatTable, values: Mapping[str, object]
) -> str:
    """`dt=2024-01-01/hh=8`: values as Spark casts them to STRING, escaped as in its paths."""
    parts = []
    for field in table.schema.partition_type:
        value = values[field.name]
        shown = "null"
        if value is not None:
            shown = java_to_string(value, field.type, session.zone)
            if field.type.root in TIMESTAMP_TYPES and "." in shown:
                shown = shown.rstrip("0").rstrip(".")
            if field.type.root is TypeRoot.DATE:
                shown = iso_date(cast("int", value))  # java_to_string cuts years beyond 9999
        parts.append(f"{_escaped(field.name)}={_escaped(shown)}")
    return "/".join(parts)


def _escaped(text: str) -> str:
    """Spark escapes `{`, but not `}`."""
    return escape_path_name(text).replace("%7D", "}")


def matching(
    partitions: Sequence[Mapping[str, object]], values: Mapping[str, object]
) -> list[Mapping[str, object]]:
    """The partitions that match the values."""
    return [p for p in partitions if all(p[k] == v for k, v in values.items())]


def show_partitions(session: SqlSession, words: Words) -> Result:
    """SHOW PARTITIONS table [PARTITION (..)]."""
    name = session.data_name(words.name())
    check_has_partitions(name)
    table = session.described(name)
    spec = read_spec(words) if words.eat("PARTITION") else {}
    words.end()
    values = spec_values(session, table, spec)
    found = matching(live_partitions(table), values)
    return Result(("partition",), sorted([partition_names(session, table, p)] for p in found))


def add_partitions(session: SqlSession, name: TableName, words: Words) -> Result:
    """ALTER TABLE ADD [IF NOT EXISTS] PARTITION (..) PARTITION (..).

    Partitions come with their rows, as in Java: they are only checked, and added to the metastore
    if it keeps them.
    """
    words.need("ADD")
    if_not_exists = words.eat("IF", "NOT", "EXISTS")
    specs = []
    while words.eat("PARTITION"):
        specs.append(read_spec(words))
        if words.looks_at("LOCATION"):
            raise UnsupportedFeature("locations of partitions", table=name.identifier)
    words.end()
    of_format = session.known_format(name)
    if of_format is not None:
        wanted = [_complete_values(session, of_format, spec) for spec in specs]
        add_to_catalog(of_format, wanted, if_not_exists=if_not_exists)
        return NOTHING
    table = session.open(name, to_write=True)
    there = live_partitions(table)
    added = []
    for spec in specs:
        values = _complete_values(session, table, spec)
        if matching(there, values) and not if_not_exists:
            raise AnalysisError(
                f"[PARTITIONS_ALREADY_EXIST] Cannot ADD the partition(s) PARTITION "
                f"({_shown(spec)}) in table {table.name} because they already exist",
                table=table.name,
            )
        row = encode_row(
            [values[k] for k in table.schema.partition_keys], table.schema.partition_type.types
        )
        added.append(table.paths.partition_values(row))
    registry = registry_of(table)
    if registry is not None:
        registry.add(added)
    return NOTHING


def _complete_values(
    session: SqlSession, table: FileStoreTable | FormatTable, spec: Spec
) -> dict[str, object]:
    """As `spec_values`; AnalysisError if a partition column is missing."""
    values = spec_values(session, table, spec)
    if set(values) != set(table.schema.partition_keys):
        raise AnalysisError(
            f"[INVALID_PARTITION_OPERATION] Partition spec is invalid. The spec ({', '.join(values)}) "
            f"must match the partition columns ({', '.join(table.schema.partition_keys)})",
            table=table.name,
        )
    return values


def drop_partitions(session: SqlSession, name: TableName, words: Words) -> Result:
    """ALTER TABLE DROP [IF EXISTS] PARTITION (..), PARTITION (..): one commit."""
    words.need("DROP")
    if_exists = words.eat("IF", "EXISTS")
    specs = []
    while True:
        words.need("PARTITION")
        specs.append(read_spec(words))
        if not words.eat(","):
            break
    purge = words.eat("PURGE")
    words.end()
    of_format = session.known_format(name)
    if of_format is not None:
        wanted = [spec_values(session, of_format, spec) for spec in specs]
        drop_from_catalog(of_format, wanted, if_exists=if_exists, purge=purge)
        return NOTHING
    table = session.open(name, to_write=True)
    there = live_partitions(table)
    chosen: list[Mapping[str, object]] = []
    for spec in specs:
        values = spec_values(session, table, spec)
        if tuple(values) != table.schema.partition_keys[: len(values)] and set(values) != set(
            table.schema.partition_keys[: len(values)]
        ):
            raise AnalysisError(
                f"Partition spec is invalid. The spec ({', '.join(values)}) must begin with the "
                f"first of the partition columns ({', '.join(table.schema.partition_keys)})",
                table=table.name,
            )
        whole = len(values) == len(table.schema.partition_keys)
        # Java looks for a partition that is wholly named by its values, not by a spec of texts.
        found = matching(there, values if whole else chosen_values(table, values))
        if not found and whole and not if_exists:
            raise AnalysisError(
                f"[PARTITIONS_NOT_FOUND] The partition(s) PARTITION ({_shown(spec)}) cannot be "
                f"found in table {table.name}",
                table=table.name,
            )
        chosen += found
    if chosen:
        remove_partitions(session, table, chosen)
    return NOTHING


def remove_partitions(
    session: SqlSession, table: FileStoreTable, chosen: Sequence[Mapping[str, object]]
) -> None:
    """Commit an overwrite that empties these partitions."""
    tests = [t for t in (static_partition_test(table, dict(values)) for values in chosen) if t]

    def is_going(partition: bytes) -> bool:
        return any(test(partition) for test in tests)

    latest = table.snapshots.latest()
    going: set[bytes] = set()
    if latest is not None and table.partition_registry is not None:
        found = scan_files(table, latest, keep_partition=is_going)
        going = {entry.partition for entry in found}
    with unregistered(table, going):
        replace_partitions(
            table,
            is_going,
            user=new_commit_user(table, session.env),
            env=session.env.doing("TRUNCATE"),
        )


def truncate(session: SqlSession, words: Words) -> Result:
    """TRUNCATE TABLE name [PARTITION (..)]."""
    words.need("TABLE")
    name = session.target_name(words.name())
    table = session.open(name, to_write=True)
    spec = read_spec(words) if words.eat("PARTITION") else None
    words.end()
    if spec is None:
        if table.snapshots.latest() is not None:
            user = new_commit_user(table, session.env)
            replace_partitions(table, None, user=user, env=session.env.doing("TRUNCATE"))
        return NOTHING
    values = spec_values(session, table, spec)
    if len(values) == len(table.schema.partition_keys):
        # Java looks for partitions that are named in part by their values, not by a spec of texts.
        values = chosen_values(table, values)
    remove_partitions(session, table, [values])
    return NOTHING


def _shown(spec: Spec) -> str:
    return ", ".join(f"`{k}` = {v}" for k, v in spec.items())
