"""Decides by a file's statistics whether it may hold rows that satisfy a predicate.

Java: `LeafFunction.test(type, rowCount, min, max, nullCount, literals)`.  A positive result may be
wrong, a negative one never: unknown statistics count as yes.  Bounds need not be actual values
(long strings are truncated, java-rules G5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from paimon_core.predicate.nodes import And, Leaf, Op, Or, Predicate, like_prefix, order_of

Stats = tuple[Any, Any, int | None]
"""Minimum and maximum (internal values, None if unknown), null count (None if unknown)."""


def may_match(predicate: Predicate, row_count: int, stats: Callable[[str], Stats | None]) -> bool:
    """Return whether one of `row_count` rows may match; `stats` returns None if unknown."""
    match predicate:
        case And(children):
            return row_count > 0 and all(may_match(c, row_count, stats) for c in children)
        case Or(children):
            return any(may_match(c, row_count, stats) for c in children)
        case Leaf():
            return row_count > 0 and _leaf_may_match(predicate, row_count, stats(predicate.field))


def _leaf_may_match(leaf: Leaf, row_count: int, stats: Stats | None) -> bool:
    if stats is None:
        # Without statistics, but a comparison with null is never true.
        return not _never_true(leaf)
    low, high, nulls = stats
    if leaf.op is Op.IS_NULL:
        return nulls is None or nulls > 0
    if nulls is not None and nulls >= row_count:
        return False
    if leaf.op is Op.IS_NOT_NULL:
        return True
    if _never_true(leaf):
        return False
    if low is None or high is None:
        return True
    if isinstance(low, float):
        return _float_may_match(leaf.op, low, high, leaf.literals)
    return _BOUNDS_TESTS[leaf.op](low, high, leaf.literals)


def _float_may_match(op: Op, low: float, high: float, literals: tuple[Any, ...]) -> bool:
    """Test FLOAT and DOUBLE bounds; some writers omit NaN or mix up the zeros.

    NaN is the greatest number, so any condition that NaN satisfies may match.
    """
    if _is_nan(low):
        return True
    if op in (Op.EQ, Op.IN, Op.LT, Op.LE, Op.BETWEEN) and not any(map(_is_nan, literals)):
        bounds = (low or -0.0, high or 0.0)
        return _BOUNDS_TESTS[op](*bounds, literals)
    return True


def _never_true(leaf: Leaf) -> bool:
    match leaf.op:
        case Op.IS_NULL | Op.IS_NOT_NULL:
            return False
        case Op.IN:
            return all(v is None for v in leaf.literals)
        case Op.NOT_BETWEEN:
            return leaf.literals == (None, None)
        case _:
            return None in leaf.literals


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value  # noqa: PLR0124 - NaN


def _cmp_le(a: Any, b: Any) -> bool:
    return bool(order_of(a) <= order_of(b))


def _cmp_lt(a: Any, b: Any) -> bool:
    return bool(order_of(a) < order_of(b))


def _contains(low: Any, high: Any, value: Any) -> bool:
    return _cmp_le(low, value) and _cmp_le(value, high)


def _only(low: Any, high: Any, value: Any) -> bool:
    """Return whether the bounds allow only this value (truncated bounds are never equal)."""
    return bool(order_of(low) == order_of(value) == order_of(high))


def _prefix_may_match(low: Any, high: Any, prefix: Any) -> bool:
    return bool((low <= prefix or low.startswith(prefix)) and high >= prefix)


def _not_between(low: Any, high: Any, literals: tuple[Any, ...]) -> bool:
    first, last = literals
    return (first is not None and _cmp_lt(low, first)) or (last is not None and _cmp_lt(last, high))


_BOUNDS_TESTS: Final[Mapping[Op, Callable[[Any, Any, tuple[Any, ...]], bool]]] = {
    Op.EQ: lambda low, high, v: _contains(low, high, v[0]),
    Op.NE: lambda low, high, v: not _only(low, high, v[0]),
    Op.LT: lambda low, _, v: _cmp_lt(low, v[0]),
    Op.LE: lambda low, _, v: _cmp_le(low, v[0]),
    Op.GT: lambda _, high, v: _cmp_lt(v[0], high),
    Op.GE: lambda _, high, v: _cmp_le(v[0], high),
    Op.IN: lambda low, high, v: any(x is not None and _contains(low, high, x) for x in v),
    Op.NOT_IN: lambda low, high, v: not any(_only(low, high, x) for x in v),
    Op.BETWEEN: lambda low, high, v: _cmp_le(low, v[1]) and _cmp_le(v[0], high),
    Op.NOT_BETWEEN: _not_between,
    Op.STARTS_WITH: lambda low, high, v: _prefix_may_match(low, high, v[0]),
    Op.ENDS_WITH: lambda *_: True,
    Op.CONTAINS: lambda *_: True,
    Op.LIKE: lambda low, high, v: _prefix_may_match(low, high, like_prefix(v[0])),
    Op.NOT_LIKE: lambda *_: True,
}
