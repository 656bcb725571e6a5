"""Which partitions a job is about, as its arguments say: by values, or by a condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
from paimon_core.types.text import parse_partition_text


def partition_predicate(
    table: FileStoreTable, specs: Sequence[Mapping[str, str]], where: str | None
) -> Predicate | None:
    """The condition that a partition has to meet; None if every partition does.

    InvalidArgument if both ways are used, the table has no partitions, or a column is no
    partition key.
    """
    if specs and where:
        raise InvalidArgument("partition and where cannot be used together", table=table.name)
    if not specs and not where:
        return None
    if not table.schema.partition_keys:
        raise InvalidArgument(
            f"table {table.name} is not partitioned, so partitions cannot be chosen",
            table=table.name,
        )
    if where:
        predicate = parse_where(where, table.schema.row_type)
        _only_partition_keys(table, fields_of(predicate))
        return predicate
    return disjunction(_spec_predicate(table, spec) for spec in specs)


def _spec_predicate(table: FileStoreTable, spec: Mapping[str, str]) -> Predicate:
    _only_partition_keys(table, spec)
    return conjunction(_equals(table, key, text) for key, text in spec.items())


def _equals(table: FileStoreTable, key: str, text: str) -> Predicate:
    value = partition_value(table, key, text)
    return Leaf(Op.IS_NULL, key) if value is None else Leaf(Op.EQ, key, (value,))


def partition_value(table: FileStoreTable, key: str, text: str) -> Any:
    """The internal value that a partition's text stands for; None for the default name.

    InvalidArgument names the key and the table.
    """
    if text == table.paths.partition_default_name:
        return None
    field = table.schema.partition_type.get(key)
    if field is None:
        raise InvalidArgument(f"{key} is no partition key of table {table.name}", table=table.name)
    try:
        return parse_partition_text(text, field.type)
    except InvalidArgument as e:
        raise InvalidArgument(
            f"partition {key}={text} of table {table.name}: {e.message}", table=table.name
        ) from e


def _only_partition_keys(table: FileStoreTable, names: Iterable[str]) -> None:
    keys = table.schema.partition_keys
    unknown = sorted(set(names) - set(keys))
    if unknown:
        raise InvalidArgument(
            f"only partition keys can be asked for: {', '.join(unknown)} of table {table.name} "
            f"{'is' if len(unknown) == 1 else 'are'} none (partition keys: {', '.join(keys)})",
            table=table.name,
        )
