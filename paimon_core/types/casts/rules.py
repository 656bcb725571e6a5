"""The allowed type changes (Java: `DataTypeCasts`, `CastExecutors`).

Java has two tables: `DataTypeCasts` defines what is allowed, `CastExecutors` what is implemented; a
column's type may change if both agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Final

from paimon_core.types.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)

R = TypeRoot

_CHARACTERS: Final = frozenset({R.CHAR, R.VARCHAR})
_BINARIES: Final = frozenset({R.BINARY, R.VARBINARY})
_INTEGERS: Final = frozenset({R.TINYINT, R.SMALLINT, R.INT, R.BIGINT})
_APPROXIMATE: Final = frozenset({R.FLOAT, R.DOUBLE})
_NUMERIC: Final = _INTEGERS | _APPROXIMATE | {R.DECIMAL}
_TIMESTAMPS: Final = frozenset({R.TIMESTAMP, R.TIMESTAMP_LTZ})
_DATETIME: Final = _TIMESTAMPS | {R.DATE, R.TIME}
_CONSTRUCTED: Final = frozenset({R.ARRAY, R.VECTOR, R.MULTISET, R.MAP, R.ROW})
_ALL: Final = frozenset(R)

# --- DataTypeCasts: target -> sources -----------------------------------------------------------

_IMPLICIT: Final[dict[TypeRoot, frozenset[TypeRoot]]] = {
    **{root: frozenset({root}) for root in R},
    R.VARCHAR: _CHARACTERS,
    R.VARBINARY: _BINARIES,
    R.DECIMAL: _NUMERIC,
    R.SMALLINT: frozenset({R.TINYINT, R.SMALLINT}),
    R.INT: frozenset({R.TINYINT, R.SMALLINT, R.INT}),
    R.BIGINT: _INTEGERS,
    R.FLOAT: _INTEGERS | {R.FLOAT, R.DECIMAL},
    R.DOUBLE: _NUMERIC,
    R.DATE: frozenset({R.DATE, R.TIMESTAMP}),
    R.TIME: frozenset({R.TIME, R.TIMESTAMP}),
    R.TIMESTAMP: _TIMESTAMPS,
    R.TIMESTAMP_LTZ: _TIMESTAMPS,
}
_TO_NUMBER: Final = _NUMERIC | _CHARACTERS | _TIMESTAMPS | {R.BOOLEAN}
_EXPLICIT: Final[dict[TypeRoot, frozenset[TypeRoot]]] = {
    R.CHAR: _ALL,
    R.VARCHAR: _ALL,
    R.BOOLEAN: _CHARACTERS | _INTEGERS,
    R.BINARY: _CHARACTERS | {R.VARBINARY},
    R.VARBINARY: _CHARACTERS | {R.BINARY},
    R.DECIMAL: _CHARACTERS | _TIMESTAMPS | {R.BOOLEAN},
    R.TINYINT: _TO_NUMBER,
    R.SMALLINT: _TO_NUMBER,
    R.INT: _TO_NUMBER,
    R.BIGINT: _TO_NUMBER,
    R.FLOAT: _TO_NUMBER,
    R.DOUBLE: _CHARACTERS | _TIMESTAMPS | {R.BOOLEAN},
    R.DATE: _TIMESTAMPS | _CHARACTERS,
    R.TIME: _TIMESTAMPS | _CHARACTERS | {R.TIME},
    R.TIMESTAMP: _DATETIME | _CHARACTERS | _NUMERIC,
    R.TIMESTAMP_LTZ: _DATETIME | _CHARACTERS | _NUMERIC,
}


def can_cast(source: DataType, target: DataType, *, explicit: bool) -> bool:
    """Return whether SQL allows the cast, explicitly or implicitly (widening)."""
    if source.nullable and not target.nullable and not explicit:
        return False
    if source.with_nullable(True) == target.with_nullable(True):
        return True
    if source.root in _IMPLICIT.get(target.root, ()):
        return True
    return explicit and source.root in _EXPLICIT.get(target.root, ())


# --- CastExecutors ------------------------------------------------------------------------------


class Rule(StrEnum):
    """A conversion between types; named like Java's rules."""

    IDENTITY = "identity"
    DECIMAL_TO_DECIMAL = "DecimalToDecimal"
    NUMBER_TO_DECIMAL = "NumericPrimitiveToDecimal"
    DECIMAL_TO_NUMBER = "DecimalToNumericPrimitive"
    NUMBER_TO_NUMBER = "NumericPrimitive"
    NUMBER_TO_TIMESTAMP = "NumericPrimitiveToTimestamp"
    BOOLEAN_TO_NUMBER = "BooleanToNumeric"
    NUMBER_TO_BOOLEAN = "NumericToBoolean"
    TO_STRING = "ToString"
    STRING_TO_STRING = "StringToString"
    FROM_STRING = "FromString"
    TIMESTAMP_TO_TIMESTAMP = "TimestampToTimestamp"
    TIMESTAMP_TO_DATE = "TimestampToDate"
    TIMESTAMP_TO_TIME = "TimestampToTime"
    DATE_TO_TIMESTAMP = "DateToTimestamp"
    TIME_TO_TIMESTAMP = "TimeToTimestamp"
    TIMESTAMP_TO_NUMBER = "TimestampToNumericPrimitive"
    STRING_TO_BINARY = "StringToBinary"
    BINARY_TO_BINARY = "BinaryToBinary"
    BINARY_TO_STRING = "BinaryToString"


def _pairs(
    sources: Iterable[TypeRoot], targets: Iterable[TypeRoot], rule: Rule
) -> dict[tuple[TypeRoot, TypeRoot], Rule]:
    wanted = tuple(targets)
    return {(source, target): rule for source in sources for target in wanted}


_RULES: Final[dict[tuple[TypeRoot, TypeRoot], Rule]] = {
    **_pairs([R.DECIMAL], [R.DECIMAL], Rule.DECIMAL_TO_DECIMAL),
    **_pairs(_INTEGERS | _APPROXIMATE, [R.DECIMAL], Rule.NUMBER_TO_DECIMAL),
    **_pairs([R.DECIMAL], _INTEGERS | _APPROXIMATE, Rule.DECIMAL_TO_NUMBER),
    **_pairs(_INTEGERS | _APPROXIMATE, _INTEGERS | _APPROXIMATE, Rule.NUMBER_TO_NUMBER),
    **_pairs([R.INT, R.BIGINT], _TIMESTAMPS, Rule.NUMBER_TO_TIMESTAMP),
    **_pairs([R.BOOLEAN], _NUMERIC, Rule.BOOLEAN_TO_NUMBER),
    **_pairs(_INTEGERS, [R.BOOLEAN], Rule.NUMBER_TO_BOOLEAN),
    **_pairs(_NUMERIC | {R.BOOLEAN, R.ARRAY, R.MAP, R.ROW}, _CHARACTERS, Rule.TO_STRING),
    **_pairs(_DATETIME, [R.VARCHAR], Rule.TO_STRING),
    **_pairs(_CHARACTERS, _CHARACTERS, Rule.STRING_TO_STRING),
    **_pairs(
        _CHARACTERS,
        _NUMERIC | _DATETIME | {R.BOOLEAN, R.ARRAY, R.MAP, R.ROW},
        Rule.FROM_STRING,
    ),
    **_pairs(_CHARACTERS, _BINARIES, Rule.STRING_TO_BINARY),
    **_pairs(_TIMESTAMPS, _TIMESTAMPS, Rule.TIMESTAMP_TO_TIMESTAMP),
    **_pairs(_TIMESTAMPS, [R.DATE], Rule.TIMESTAMP_TO_DATE),
    **_pairs(_TIMESTAMPS, [R.TIME], Rule.TIMESTAMP_TO_TIME),
    **_pairs([R.DATE], _TIMESTAMPS, Rule.DATE_TO_TIMESTAMP),
    **_pairs([R.TIME], _TIMESTAMPS, Rule.TIME_TO_TIMESTAMP),
    **_pairs(_TIMESTAMPS, [R.INT, R.BIGINT], Rule.TIMESTAMP_TO_NUMBER),
    **_pairs(_BINARIES, _BINARIES, Rule.BINARY_TO_BINARY),
    **_pairs(_BINARIES, _CHARACTERS, Rule.BINARY_TO_STRING),
}


def rule_for(source: DataType, target: DataType) -> Rule | None:
    """Return the cast rule from source to target; None if Java has none.

    `paimon_core.types.casts.cast` matches the fields of nested types: there
    is no rule for ROW to ROW.
    """
    rule = _RULES.get((source.root, target.root))
    if rule is None:
        return None
    if rule is Rule.TO_STRING and source.root in _DATETIME:
        # Only STRING itself: no CHAR(n), no VARCHAR(n).
        return rule if _is_string(target) else None
    if rule is Rule.TO_STRING and source.root in _CONSTRUCTED:
        return rule if all(rule_for(c, STRING) for c in _children(source)) else None
    if rule is Rule.FROM_STRING and target.root in _CONSTRUCTED:
        return rule if all(rule_for(STRING, c) for c in _children(target)) else None
    return rule


STRING: Final = AtomicType(kind=TypeRoot.VARCHAR, length=MAX_LENGTH)


def _is_string(t: DataType) -> bool:
    return t.with_nullable(True) == STRING


def _children(t: DataType) -> tuple[DataType, ...]:
    match t:
        case ArrayType() | VectorType() | MultisetType():
            return (t.element,)
        case MapType():
            return (t.key, t.value)
        case RowType():
            return t.types
    return ()


def can_evolve(source: DataType, target: DataType, *, explicit: bool = True) -> bool:
    """Return whether `ALTER TABLE` may change a column from the source to the target type.

    Java: `SchemaManager` on `UpdateColumnType`.  Both types are given as in the schema: with the
    old nullability, unless it changes too.  `explicit` is false under the table option
    `disable-explicit-type-casting`.
    """
    if not can_cast(source, target, explicit=explicit):
        return False
    if target.root is TypeRoot.VARCHAR and source.root in _DATETIME:
        # Java's rule is registered only for the nullable STRING.
        return target == STRING
    return _resolves(source, target)


def _resolves(source: DataType, target: DataType) -> bool:
    """Return whether `CastExecutors.resolve` finds an executor; it only checks outermost types."""
    return _RULES.get((source.root, target.root)) is not None


@lru_cache(maxsize=1024)
def same_but_nullable(a: DataType, b: DataType) -> bool:
    """Return whether two types are equal except for their own nullability."""
    return a.with_nullable(True) == b.with_nullable(True)
