"""The aggregate function that a field's options select (Java: `FieldAggregatorFactory`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from paimon_core.errors import InvalidArgument, SchemaError, UnsupportedFeature
from paimon_core.lsm.aggregates.functions import (
    ColumnFunction,
    Extreme,
    FirstNonNullValue,
    FirstValue,
    LastNonNull,
    LastValue,
    PrimaryKeyValue,
    ProductValues,
    ScalarFunction,
    SumValues,
)
from paimon_core.lsm.aggregates.java_hash import hash_of, hash_of_rows
from paimon_core.lsm.aggregates.operations import Operations
from paimon_core.lsm.aggregates.scalar import (
    Aggregate,
    Collect,
    IgnoreRetract,
    Listagg,
    MergeMap,
    MergeMapWithKeyTime,
    NestedPartialUpdate,
    NestedTable,
    NestedUpdate,
    NullKeys,
    RoaringBitmap32,
)
from paimon_core.lsm.aggregates.sketches import HllSketch, ThetaSketch
from paimon_core.lsm.java_rules import JavaRules
from paimon_core.lsm.key_order import comparable
from paimon_core.lsm.key_versions import Column
from paimon_core.options import Options
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    MapType,
    RowType,
    TypeRoot,
)
from paimon_core.types.sql import type_to_sql

PREFIX: Final = "fields."
DEFAULT_FUNCTION: Final = "fields.default-aggregate-function"
_NUMBERS: Final = frozenset(
    {
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
        TypeRoot.DECIMAL,
    }
)
_NAMES: Final = frozenset(
    {
        "bool_and",
        "bool_or",
        "collect",
        "first_non_null_value",
        "first_not_null_value",
        "first_value",
        "hll_sketch",
        "last_non_null_value",
        "last_value",
        "listagg",
        "max",
        "merge_map",
        "merge_map_with_keytime",
        "min",
        "nested_partial_update",
        "nested_update",
        "primary-key",
        "product",
        "rbm32",
        "rbm64",
        "sum",
        "theta_sketch",
    }
)
_EXTREMES: Final = {"max": True, "min": False, "bool_or": True, "bool_and": False}
_NOT_KNOWN: Final = frozenset({"rbm64"})
_LONGEST_LIST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Lenient:
    """A function whose field has `ignore-retract` set."""

    function: ColumnFunction

    def merge(self, column: pa.Array, operations: Operations) -> Column:
        return self.function.merge(column, operations.without_retracts())


def function_name(field: str, options: Options) -> str | None:
    """Return `fields.<field>.aggregate-function`, or the default for all fields."""
    return options.get(f"{PREFIX}{field}.aggregate-function") or options.get(DEFAULT_FUNCTION)


def check_aggregate_functions(schema: TableSchema) -> None:
    """Raise SchemaError if a column names a function that Java does not know."""
    default = schema.options.get(DEFAULT_FUNCTION)
    for name in schema.names:
        function = schema.options.get(f"{PREFIX}{name}.aggregate-function", default)
        if function is not None and function not in _NAMES:
            raise SchemaError(f"unknown aggregate function {function!r} (column {name!r})")


def column_function(
    name: str, field: DataField, options: Options, *, rules: JavaRules
) -> ColumnFunction:
    """Return the function of this name for a field.

    Raises InvalidArgument if it does not fit the field's type, UnsupportedFeature if it is unknown.
    """
    lenient = options.flag(f"{PREFIX}{field.name}.ignore-retract")
    function = _function(name, field, options, lenient=lenient, rules=rules)
    return _Lenient(function) if lenient else function


def _function(
    name: str, field: DataField, options: Options, *, lenient: bool, rules: JavaRules
) -> ColumnFunction:
    data_type = field.type
    match name:
        case "primary-key":
            return PrimaryKeyValue()
        case "last_value":
            return LastValue()
        case "last_non_null_value":
            return LastNonNull()
        case "first_value":
            return FirstValue()
        case "first_non_null_value" | "first_not_null_value":
            return FirstNonNullValue(data_type)
        case "max" | "min":
            _require(isinstance(data_type, AtomicType), name, field, "a simple type")
            return Extreme(name, _EXTREMES[name])
        case "bool_or" | "bool_and":
            _require(data_type.root is TypeRoot.BOOLEAN, name, field, "BOOLEAN")
            return Extreme(name, _EXTREMES[name])
        case "sum" | "product":
            if not isinstance(data_type, AtomicType) or data_type.root not in _NUMBERS:
                raise _misfit(name, field, "a number")
            exact = rules is JavaRules.JAVA_2_0
            of_numbers = SumValues if name == "sum" else ProductValues
            return of_numbers(data_type, exact=exact)
    scalar = _scalar(name, field, options, newer=rules is JavaRules.JAVA_2_0)
    return ScalarFunction(IgnoreRetract(scalar) if lenient else scalar, data_type)


def _scalar(name: str, field: DataField, options: Options, *, newer: bool) -> Aggregate:
    data_type = field.type

    def option(key: str) -> str | None:
        return options.get(f"{PREFIX}{field.name}.{key}")

    distinct = options.flag(f"{PREFIX}{field.name}.distinct")
    match name:
        case "listagg":
            _require(data_type.root is TypeRoot.VARCHAR, name, field, "STRING")
            delimiter = option("list-agg-delimiter")
            return Listagg(
                "," if delimiter is None else delimiter, distinct=distinct, skips_blank=newer
            )
        case "collect":
            if not isinstance(data_type, ArrayType):
                raise _misfit(name, field, "ARRAY")
            return Collect(distinct=distinct, hash_of=hash_of(data_type.element))
        case "merge_map":
            _require(isinstance(data_type, MapType), name, field, "MAP")
            return MergeMap()
        case "merge_map_with_keytime":
            if not isinstance(data_type, MapType) or not isinstance(data_type.value, RowType):
                raise _misfit(name, field, "MAP of ROWs")
            names = data_type.value.names
            time_field = option("ts-field")
            return MergeMapWithKeyTime(
                len(names) - 1 if time_field is None else _position(time_field, names, field)
            )
        case "nested_update" | "nested_partial_update":
            return _nested(name, field, option, newer=newer)
        case "rbm32":
            _require(data_type.root is TypeRoot.VARBINARY, name, field, "VARBINARY")
            return RoaringBitmap32()
        case "hll_sketch" | "theta_sketch":
            _require(data_type.root is TypeRoot.VARBINARY, name, field, "VARBINARY")
            return HllSketch() if name == "hll_sketch" else ThetaSketch()
    if name in _NOT_KNOWN:
        raise UnsupportedFeature(f"aggregate function {name}")
    raise InvalidArgument(f"unknown aggregate function {name!r} of field {field.name}")


def _nested(
    name: str, field: DataField, option: Callable[[str], str | None], *, newer: bool
) -> Aggregate:
    element = field.type.element if isinstance(field.type, ArrayType) else None
    if not isinstance(element, RowType):
        raise _misfit(name, field, "ARRAY of ROWs")

    def positions(key: str) -> list[int]:
        text = option(key)
        names = [n.strip() for n in text.split(",")] if text else []
        return [_position(n, element.names, field) for n in names]

    keys = positions("nested-key")
    null_keys = NullKeys((option("nested-key-null-strategy") or "merge").lower())
    table = NestedTable(keys, hash_of_rows([element.types[p] for p in keys]), null_keys)
    if name == "nested_partial_update":
        if not keys:
            raise InvalidArgument(f"{PREFIX}{field.name}.nested-key is missing")
        return NestedPartialUpdate(table, cleans_first=newer)
    limit = option("count-limit")
    sequence = positions("nested-sequence-field")
    types = [element.types[p].with_nullable(nullable=True) for p in sequence]
    return NestedUpdate(
        table,
        count_limit=int(limit) if limit else _LONGEST_LIST,
        newer=newer or bool(sequence) or null_keys is not NullKeys.MERGE,
        sequence_of=lambda row: tuple(
            comparable(row[p], t, signed_zeros=newer) for p, t in zip(sequence, types, strict=True)
        ),
    )


def _position(name: str, names: tuple[str, ...], field: DataField) -> int:
    if name not in names:
        raise InvalidArgument(f"field {field.name} has no nested field {name}")
    return names.index(name)


def _require(fits: bool, name: str, field: DataField, wanted: str) -> None:  # noqa: FBT001
    if not fits:
        raise _misfit(name, field, wanted)


def _misfit(name: str, field: DataField, wanted: str) -> InvalidArgument:
    return InvalidArgument(
        f"aggregate function {name!r} needs {wanted}, but field {field.name} is "
        f"{type_to_sql(field.type)}"
    )
