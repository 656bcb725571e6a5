"""Filters: text like a SQL WHERE clause, or predicates built from Python values.

Java: `predicate/PredicateBuilder`; the names of the methods are pypaimon's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from paimon_core.api.rows import check_whole
from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.predicate import (
    Leaf,
    Op,
    Predicate,
    conjunction,
    disjunction,
    fields_of,
    negate,
    parse_where,
)
from paimon_core.types.arrow import arrow_type, column_to_internal
from paimon_core.types.data_types import AtomicType, DataField, DataType, RowType
from paimon_core.types.partition_text import parse_partition_text
from paimon_core.types.sql import type_to_sql

Filter = Predicate | str
"""A predicate, or the text of one: "dt = '2024-01-01' AND amount > 5"."""


def predicate_of(filter_: Filter | None, row_type: RowType) -> Predicate | None:
    """Return the predicate, parsed if it is text; None without a filter.

    Raises InvalidArgument for an unknown column, or text that is not a condition.
    """
    if filter_ is None:
        return None
    if isinstance(filter_, str):
        return parse_where(filter_, row_type)
    unknown = sorted(n for n in fields_of(filter_) if row_type.get(n) is None)
    if unknown:
        raise no_column(unknown[0], row_type)
    return filter_


@dataclass(frozen=True, slots=True)
class PredicateBuilder:
    """Builds predicates on the columns of a table (Java: `predicate/PredicateBuilder`).

    Literals are Python values: int, float, str, bytes, bool, Decimal, date, datetime or time.  Text
    for a column of another type is parsed.  As in SQL, a comparison with a null value is not true.
    Methods raise InvalidArgument for an unknown column, or a literal that does not fit its column.
    """

    row_type: RowType

    def equal(self, field: str, literal: object) -> Predicate:
        """`field = literal`."""
        return self._leaf(Op.EQ, field, literal)

    def not_equal(self, field: str, literal: object) -> Predicate:
        """`field <> literal`."""
        return self._leaf(Op.NE, field, literal)

    def less_than(self, field: str, literal: object) -> Predicate:
        """`field < literal`."""
        return self._leaf(Op.LT, field, literal)

    def less_or_equal(self, field: str, literal: object) -> Predicate:
        """`field <= literal`."""
        return self._leaf(Op.LE, field, literal)

    def greater_than(self, field: str, literal: object) -> Predicate:
        """`field > literal`."""
        return self._leaf(Op.GT, field, literal)

    def greater_or_equal(self, field: str, literal: object) -> Predicate:
        """`field >= literal`."""
        return self._leaf(Op.GE, field, literal)

    def is_null(self, field: str) -> Predicate:
        """`field IS NULL`."""
        return self._leaf(Op.IS_NULL, field)

    def is_not_null(self, field: str) -> Predicate:
        """`field IS NOT NULL`."""
        return self._leaf(Op.IS_NOT_NULL, field)

    def startswith(self, field: str, literal: object) -> Predicate:
        """The text of the column starts with the literal."""
        return self._leaf(Op.STARTS_WITH, field, literal)

    def endswith(self, field: str, literal: object) -> Predicate:
        """The text of the column ends with the literal."""
        return self._leaf(Op.ENDS_WITH, field, literal)

    def contains(self, field: str, literal: object) -> Predicate:
        """The text of the column contains the literal."""
        return self._leaf(Op.CONTAINS, field, literal)

    def like(self, field: str, pattern: object) -> Predicate:
        """`field LIKE pattern`, with the wildcards % and _."""
        return self._leaf(Op.LIKE, field, pattern)

    def is_in(self, field: str, literals: Iterable[object]) -> Predicate:
        """`field IN (literals)`."""
        return self._leaf(Op.IN, field, *literals)

    def is_not_in(self, field: str, literals: Iterable[object]) -> Predicate:
        """`field NOT IN (literals)`."""
        return self._leaf(Op.NOT_IN, field, *literals)

    def between(self, field: str, lower: object, upper: object) -> Predicate:
        """`field BETWEEN lower AND upper`: both bounds are included."""
        return self._leaf(Op.BETWEEN, field, lower, upper)

    def not_between(self, field: str, lower: object, upper: object) -> Predicate:
        """`field NOT BETWEEN lower AND upper`."""
        return negate(self.between(field, lower, upper))

    @staticmethod
    def and_predicates(predicates: Iterable[Predicate]) -> Predicate:
        """All of the predicates (SQL's AND)."""
        return conjunction(predicates)

    @staticmethod
    def or_predicates(predicates: Iterable[Predicate]) -> Predicate:
        """At least one of the predicates (SQL's OR)."""
        return disjunction(predicates)

    @staticmethod
    def not_predicate(predicate: Predicate) -> Predicate:
        """SQL's NOT.  For a row with a null, neither the predicate nor its NOT may be true."""
        return negate(predicate)

    def _leaf(self, op: Op, name: str, *literals: object) -> Predicate:
        field = self.row_type.get(name)
        if field is None:
            raise no_column(name, self.row_type)
        return Leaf(op, name, tuple(internal_value(v, field) for v in literals))


def internal_value(value: object, field: DataField) -> Any:
    """Return a Python value as the core stores it (dates and times as integers).

    Raises InvalidArgument if the value does not fit the column.
    """
    if value is None:
        return None
    data_type = field.type
    wanted = arrow_type(data_type)
    if isinstance(value, str) and not pa.types.is_string(wanted):
        if pa.types.is_binary(wanted):
            raise _does_not_fit(value, field, data_type)
        return parse_partition_text(value, data_type)
    if isinstance(value, bool) is not pa.types.is_boolean(wanted) and isinstance(
        data_type, AtomicType
    ):
        raise _does_not_fit(value, field, data_type)
    try:
        check_whole([value], wanted)
        return column_to_internal(pa.array([value], wanted), data_type)[0]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
        raise _does_not_fit(value, field, data_type) from e


def partition_values(table: FileStoreTable, partition: Mapping[str, object]) -> dict[str, Any]:
    """Return the values of partition columns as the core stores them.

    The text of `partition.default-name` is null, as in Java's specs of partitions.  Raises
    InvalidArgument for a column by which the table is not partitioned.
    """
    row_type = table.schema.partition_type
    values = {}
    for name, value in partition.items():
        field = row_type.get(name)
        if field is None:
            raise InvalidArgument(
                f"table {table.name} is not partitioned by {name}"
                + (f" (partition columns: {', '.join(row_type.names)})" if row_type.names else ""),
                table=table.name,
            )
        null = value == table.paths.partition_default_name
        values[name] = None if null else internal_value(value, field)
    return values


def no_column(name: str, row_type: RowType) -> InvalidArgument:
    """Return the error for a column that the table does not have."""
    return InvalidArgument(f"there is no column {name} (columns: {', '.join(row_type.names)})")


def _does_not_fit(value: object, field: DataField, data_type: DataType) -> InvalidArgument:
    return InvalidArgument(
        f"{value!r} does not fit column {field.name}, which is {type_to_sql(data_type)}"
    )
