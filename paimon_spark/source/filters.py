"""Spark's filters as predicates of the core.

Both compare strings and binary values by bytes, and a null makes every comparison false.  They
differ in one place: for Spark -0.0 and 0.0 are equal, so a comparison with zero is widened to both.
Filters on TIMESTAMPs of more than 6 digits stay with Spark, which sees 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from pyspark.sql import datasource as ds

from paimon_core.predicate import And, Leaf, Op, Or, Predicate, conjunction, negate
from paimon_core.types.data_types import (
    BINARY_TYPES,
    CHARACTER_TYPES,
    FLOAT_TYPES,
    INTEGER_TYPES,
    AtomicType,
    RowType,
    TypeRoot,
)

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - wall clock times
_COMPARISONS: Final[dict[type[ds.Filter], Op]] = {
    ds.EqualTo: Op.EQ,
    ds.GreaterThan: Op.GT,
    ds.GreaterThanOrEqual: Op.GE,
    ds.LessThan: Op.LT,
    ds.LessThanOrEqual: Op.LE,
}
_TEXTS: Final[dict[type[ds.Filter], Op]] = {
    ds.StringStartsWith: Op.STARTS_WITH,
    ds.StringEndsWith: Op.ENDS_WITH,
    ds.StringContains: Op.CONTAINS,
}
_MICRO: Final = timedelta(microseconds=1)


class _Untranslated(Exception):
    """No predicate is equal to the filter."""


def push(
    filters: Sequence[ds.Filter], row_type: RowType
) -> tuple[Predicate | None, list[ds.Filter]]:
    """The conjunction of all translated filters, and the filters left to Spark."""
    pushed: list[Predicate] = []
    left: list[ds.Filter] = []
    for f in filters:
        predicate = predicate_of(f, row_type)
        if predicate is None:
            left.append(f)
        else:
            pushed.append(predicate)
    return (conjunction(pushed) if pushed else None), left


def predicate_of(f: ds.Filter, row_type: RowType) -> Predicate | None:
    """The predicate that selects exactly the rows of Spark's filter; None without filters."""
    try:
        return _predicate(f, row_type)
    except _Untranslated:
        return None


def _predicate(f: ds.Filter, row_type: RowType) -> Predicate:
    if isinstance(f, ds.Not):
        return _negated(f.child, row_type)
    name, data_type = _column(f, row_type)
    if isinstance(f, ds.IsNull):
        return Leaf(Op.IS_NULL, name)
    if isinstance(f, ds.IsNotNull):
        return Leaf(Op.IS_NOT_NULL, name)
    if not isinstance(data_type, AtomicType):
        raise _Untranslated
    if isinstance(f, ds.In):
        values = [v for v in f.value if v is not None]
        equal = [_compared(Op.EQ, name, _literal(v, data_type)) for v in values]
        if any(isinstance(e, And) for e in equal):
            return Or(tuple(equal))
        return Leaf(Op.IN, name, tuple(_literal(v, data_type) for v in values))
    if isinstance(f, ds.EqualNullSafe):
        if f.value is None:
            return Leaf(Op.IS_NULL, name)
        return _compared(Op.EQ, name, _literal(f.value, data_type))
    text = _TEXTS.get(type(f))
    if text is not None and data_type.kind in CHARACTER_TYPES:
        return Leaf(text, name, (_literal(getattr(f, "value", None), data_type),))
    op = _COMPARISONS.get(type(f))
    if op is None:
        raise _Untranslated
    return _compared(op, name, _literal(getattr(f, "value", None), data_type))


def _negated(f: ds.Filter, row_type: RowType) -> Predicate:
    """`NOT f`, which is also not true where `f` is null."""
    if isinstance(f, ds.Not):
        return _predicate(f.child, row_type)
    if isinstance(f, ds.EqualNullSafe) and f.value is not None:
        name, _ = _column(f, row_type)
        differs = negate(_predicate(f, row_type))
        return Or((Leaf(Op.IS_NULL, name), differs))
    if type(f) in _TEXTS or (isinstance(f, ds.In) and None in f.value):
        raise _Untranslated
    return negate(_predicate(f, row_type))


def _column(f: ds.Filter, row_type: RowType) -> tuple[str, Any]:
    attribute: tuple[str, ...] = getattr(f, "attribute", ())
    field = row_type.get(attribute[0]) if len(attribute) == 1 else None
    if field is None:
        raise _Untranslated
    return field.name, field.type


def _compared(op: Op, name: str, literal: Any) -> Predicate:
    if not isinstance(literal, float) or literal != 0.0:
        return Leaf(op, name, (literal,))
    match op:
        case Op.EQ:
            return And((Leaf(Op.GE, name, (-0.0,)), Leaf(Op.LE, name, (0.0,))))
        case Op.GE | Op.LT:
            return Leaf(op, name, (-0.0,))
    return Leaf(op, name, (0.0,))


def _literal(value: Any, t: AtomicType) -> Any:
    """The value in internal form; raises _Untranslated if it is not a value of the type."""
    is_int = isinstance(value, int) and not isinstance(value, bool)
    if t.kind in INTEGER_TYPES and is_int:
        return value
    if t.kind is TypeRoot.TIME and is_int:
        return value
    if t.kind in FLOAT_TYPES and isinstance(value, float):
        return value
    if t.kind in CHARACTER_TYPES and isinstance(value, str):
        return value
    if t.kind in BINARY_TYPES and isinstance(value, bytes | bytearray):
        return bytes(value)
    if t.kind is TypeRoot.BOOLEAN and isinstance(value, bool):
        return value
    if t.kind is TypeRoot.DATE and isinstance(value, date) and not isinstance(value, datetime):
        return (value - _EPOCH.date()).days
    if t.kind is TypeRoot.DECIMAL and isinstance(value, Decimal):
        return _decimal(value, t)
    if (t.precision or 0) <= 6 and isinstance(value, datetime):
        if t.kind is TypeRoot.TIMESTAMP and value.tzinfo is None:
            return (value - _EPOCH) // _MICRO * 1000
        if t.kind is TypeRoot.TIMESTAMP_LTZ and value.tzinfo is not None:
            return (value - _EPOCH.replace(tzinfo=UTC)) // _MICRO * 1000
    raise _Untranslated


def _decimal(value: Decimal, t: AtomicType) -> Decimal:
    """With exactly the digits of the type's scale."""
    try:
        scaled = value.quantize(Decimal(1).scaleb(-(t.scale or 0)))
    except InvalidOperation:
        raise _Untranslated from None
    if scaled != value:
        raise _Untranslated
    return scaled
