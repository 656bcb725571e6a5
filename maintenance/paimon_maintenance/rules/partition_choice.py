"""Selects partitions by the arguments of a job: by values or by a condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.predicate import (
    Leaf,
    Op,
    Predicate,
    conjunction,
    disjunction,
    fields_of,
    parse_where,
)
from paimon_core.types.partition_text import parse_partition_text


def chosen_partitions(table: FileStoreTable, arguments: Mapping[str, object]) -> Predicate | None:
    """The predicate of a job's arguments `partitions` and `where` (`partition_predicate`)."""
    specs = cast("Sequence[Mapping[str, str]]", arguments["partitions"])
    return partition_predicate(table, specs, cast("str | None", arguments["where"]))


def partition_predicate(
    table: FileStoreTable, specs: Sequence[Mapping[str, str]], where: str | None
) -> Predicate | None:
    """The predicate on partitions; None selects all partitions.

    InvalidArgument if both arguments are set, the table is not partitioned, or a column is not a
    partition key.
    """
    if specs and where:
        raise InvalidArgument("partition and where cannot be used together", table=table.name)
    if not specs and not where:
        return None
    if not table.schema.partition_keys:
        raise InvalidArgument(
            f"table {table.name} is not partitioned, so partition and where do not apply",
            table=table.name,
        )
    if where:
        predicate = parse_where(where, table.schema.row_type)
        unknown = sorted(set(fields_of(predicate)) - set(table.schema.partition_keys))
        if unknown:
            raise InvalidArgument(
                f"Only partition predicate is supported, not {', '.join(unknown)} of table "
                f"{table.name} (partition keys: {', '.join(table.schema.partition_keys)})",
                table=table.name,
            )
        return predicate
    return disjunction(_spec_predicate(table, spec) for spec in specs)


def _spec_predicate(table: FileStoreTable, spec: Mapping[str, str]) -> Predicate:
    keys = table.schema.partition_keys
    unknown = sorted(set(spec) - set(keys))
    if unknown:
        raise InvalidArgument(
            f"Partition keys [{', '.join(unknown)}] are invalid. Available partition keys are [{', '.join(keys)}]",
            table=table.name,
        )
    return conjunction(_equals(table, key, text) for key, text in spec.items())


def _equals(table: FileStoreTable, key: str, text: str) -> Predicate:
    value = partition_value(table, key, text)
    return Leaf(Op.IS_NULL, key) if value is None else Leaf(Op.EQ, key, (value,))


def partition_value(table: FileStoreTable, key: str, text: str) -> Any:
    """The internal value of a partition value in text form; None for the default name.

    InvalidArgument names the key and the table.
    """
    if text == table.paths.partition_default_name:
        return None
    field = table.schema.partition_type.get(key)
    if field is None:
        raise InvalidArgument(
            f"{key} is not a partition key of table {table.name}", table=table.name
        )
    try:
        return parse_partition_text(text, field.type)
    except InvalidArgument as e:
        raise InvalidArgument(
            f"partition {key}={text} of table {table.name}: {e.message}", table=table.name
        ) from e
