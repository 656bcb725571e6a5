"""Evaluates predicates over Arrow columns.

Arrow's comparisons are correct for most types (strings and binary by unsigned bytes).  Floats are
compared as integers in Java's order.  A literal that the column's type cannot represent (a finer
timestamp, more decimals, a number out of range) lies between two of its values, and the comparison
is adjusted.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import InvalidArgument
from paimon_core.predicate.nodes import And, Leaf, Op, Or, Predicate, like_regex, order_of
from paimon_core.types.arrow import UNIT_NANOS, arrow_type
from paimon_core.types.data_types import RowType
from paimon_core.types.decimals import unscaled

Mask: TypeAlias = Any
"""A boolean Array or ChunkedArray (pyarrow ships no types)."""


def _match_like(column: Any, pattern: str) -> Any:
    return pc.match_substring_regex(column, pattern=rf"\A{like_regex(pattern)}\z")


_STRING_TESTS: Final[Mapping[Op, Callable[[Any, str], Any]]] = {
    Op.STARTS_WITH: lambda column, text: pc.starts_with(column, pattern=text),
    Op.ENDS_WITH: lambda column, text: pc.ends_with(column, pattern=text),
    Op.CONTAINS: lambda column, text: pc.match_substring(column, pattern=text),
    Op.LIKE: _match_like,
    Op.NOT_LIKE: lambda column, text: pc.invert(_match_like(column, text)),
}
_COMPARE: Final[Mapping[Op, Callable[[Any, Any], Any]]] = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}


def evaluate(predicate: Predicate, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
    """Return a mask of the rows that satisfy the predicate, without nulls."""
    mask = _evaluate(predicate, batch)
    if isinstance(mask, pa.ChunkedArray):
        mask = mask.combine_chunks()
    return pc.fill_null(mask, False)


def _evaluate(predicate: Predicate, batch: pa.RecordBatch | pa.Table) -> Mask:
    match predicate:
        case And(children):
            return _join(pc.and_, children, batch, empty=True)
        case Or(children):
            return _join(pc.or_, children, batch, empty=False)
        case Leaf():
            if batch.schema.get_field_index(predicate.field) < 0:
                raise InvalidArgument(
                    f"no column {predicate.field!r} among {batch.schema.names} to filter on"
                )
            return pc.fill_null(_leaf(predicate, batch.column(predicate.field)), False)


def _join(
    both: Callable[[Any, Any], Any],
    children: Sequence[Predicate],
    batch: pa.RecordBatch | pa.Table,
    *,
    empty: bool,
) -> Mask:
    if not children:
        return _constant(batch.num_rows, value=empty)
    return reduce(both, (_evaluate(c, batch) for c in children))


def _constant(rows: int, *, value: bool) -> pa.BooleanArray:
    return pa.array(np.full(rows, value))


def _leaf(leaf: Leaf, column: pa.Array | pa.ChunkedArray) -> Mask:
    match leaf.op:
        case Op.IS_NULL:
            return column.is_null()
        case Op.IS_NOT_NULL:
            return column.is_valid()
        case Op.IN | Op.NOT_IN:
            return _in(column, leaf.literals, negated=leaf.op is Op.NOT_IN)
        case Op.BETWEEN:
            low, high = leaf.literals
            return pc.and_(_compare(Op.GE, column, low), _compare(Op.LE, column, high))
        case Op.NOT_BETWEEN:
            low, high = leaf.literals
            return pc.or_(
                pc.fill_null(_compare(Op.LT, column, low), False),
                pc.fill_null(_compare(Op.GT, column, high), False),
            )
        case op if op in _STRING_TESTS:
            (text,) = leaf.literals
            if text is None:
                return _constant(len(column), value=False)
            return _STRING_TESTS[op](_decoded(column), text)
        case op:
            (literal,) = leaf.literals
            return _compare(op, column, literal)


def _decoded(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _in(column: pa.Array | pa.ChunkedArray, literals: Sequence[Any], *, negated: bool) -> Mask:
    known = [v for v in literals if v is not None]
    if negated and len(known) < len(literals):
        return _constant(len(column), value=False)
    numbers = _ordered(column)
    keys = {order_of(v) for v in known} if pa.types.is_floating(column.type) else None
    if keys is not None:
        values = pa.array(sorted(_float_keys(column.type, known)), numbers.type)
    else:
        exact = [_exact(numbers.type, v) for v in known]
        values = pa.array([v for v, is_exact in exact if is_exact], numbers.type)
    found = pc.is_in(numbers, value_set=values)
    mask = pc.invert(found) if negated else found
    return pc.and_(mask, column.is_valid())


def _compare(op: Op, column: pa.Array | pa.ChunkedArray, literal: Any) -> Mask:
    if literal is None:
        return _constant(len(column), value=False)
    numbers = _ordered(column)
    if pa.types.is_floating(column.type):
        return _compare_floats(op, column.type, numbers, float(literal))
    value, exact = _exact(numbers.type, literal)
    if not exact:
        # The literal lies above `value`, if there is one, and below its successor.
        if op in (Op.EQ, Op.NE):
            return _where_valid(column, value=op is Op.NE)
        below = op in (Op.LT, Op.LE)
        if value is None:
            return _where_valid(column, value=below == _beyond_is_above(literal))
        op = Op.LE if below else Op.GT
    return _COMPARE[op](numbers, pa.scalar(value, numbers.type))


def _where_valid(column: pa.Array | pa.ChunkedArray, *, value: bool) -> Mask:
    return column.is_valid() if value else _constant(len(column), value=False)


def _beyond_is_above(literal: Any) -> bool:
    """Return whether a literal outside the column's range lies above it (else below)."""
    return bool(literal > 0)


def _ordered(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the column in a form that Arrow compares in Java's order."""
    column = _decoded(column)
    t = column.type
    if isinstance(column, pa.ChunkedArray):
        if pa.types.is_floating(t) or pa.types.is_boolean(t) or pa.types.is_temporal(t):
            return pa.chunked_array(
                [_ordered(c) for c in column.iterchunks()], _ordered(pa.array([], t)).type
            )
        return column
    if pa.types.is_floating(t):
        return _float_column_keys(column)
    if pa.types.is_boolean(t):
        return column.cast(pa.int8())
    return column


def _exact(t: pa.DataType, literal: Any) -> tuple[Any, bool]:
    """Return the value to compare with, and whether it equals the literal.

    If not, it is the next lower value of the type, or None if the type has none.
    """
    if pa.types.is_timestamp(t):
        value, rest = divmod(literal, UNIT_NANOS[t.unit])
        return (value, rest == 0) if -(2**63) <= value < 2**63 else (None, False)
    if pa.types.is_decimal(t):
        return _exact_decimal(t, literal)
    if pa.types.is_integer(t):
        number = int(literal)
        bound = 1 << (t.bit_width - 1)
        return (number, True) if -bound <= number < bound else (None, False)
    if pa.types.is_temporal(t):
        return (literal, True) if -(2**31) <= literal < 2**31 else (None, False)
    return literal, True


def _exact_decimal(t: pa.DataType, literal: Decimal) -> tuple[Any, bool]:
    exponent = int(literal.as_tuple().exponent)
    number = unscaled(literal, max(t.scale, -exponent))
    value, rest = divmod(number, 10 ** max(0, -exponent - t.scale))
    if abs(value) >= 10**t.precision:
        return None, False
    return Decimal(value).scaleb(-t.scale) if abs(value) < 10**28 else _wide(value, t.scale), (
        rest == 0
    )


def _wide(number: int, scale: int) -> Decimal:
    sign, digits = (1, str(-number)) if number < 0 else (0, str(number))
    return Decimal((sign, tuple(map(int, digits)), -scale))


# --- floats -------------------------------------------------------------------------------------


def _float_column_keys(column: pa.Array) -> pa.Array:
    """Return integers that sort like the floats in Java; nulls stay null."""
    floats = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
    keys = pa.array(_keys(floats))
    if not column.null_count:
        return keys
    return pc.if_else(column.is_valid(), keys, pa.scalar(None, keys.type))


def _keys(floats: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    integer = np.dtype(f"i{floats.dtype.itemsize}")
    top = np.iinfo(integer).max
    bits = np.ascontiguousarray(floats).view(integer)
    keys = np.where(bits < 0, bits ^ top, bits)
    keys[np.isnan(floats)] = top
    return keys


def _float_keys(t: pa.DataType, literals: Sequence[float]) -> set[int]:
    """Return the keys of the literals that the float type represents exactly."""
    floats = [v for v in literals if v != v or float(np.asarray(v, t.to_pandas_dtype())) == v]  # noqa: PLR0124 - NaN
    return set(_keys(np.array(floats, t.to_pandas_dtype())).tolist()) if floats else set()


def _compare_floats(op: Op, t: pa.DataType, keys: Any, literal: float) -> Mask:
    with np.errstate(over="ignore"):
        nearest = np.asarray(literal, t.to_pandas_dtype())
    key = int(_keys(nearest.reshape(1))[0])
    held = literal != literal or float(nearest) == literal  # noqa: PLR0124 - NaN
    if not held:
        if op in (Op.EQ, Op.NE):
            return _where_valid(keys, value=op is Op.NE)
        # `nearest` is one of the two adjacent floats: compare with the lower one.
        if float(nearest) > literal:
            key -= 1
        op = Op.LE if op in (Op.LT, Op.LE) else Op.GT
    return _COMPARE[op](keys, pa.scalar(key, keys.type))


# --- expressions --------------------------------------------------------------------------------


_OPERATORS: Final[Mapping[Op, Callable[[Any, Any], Any]]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


def to_arrow_expression(predicate: Predicate, row_type: RowType) -> pc.Expression | None:
    """Return an Arrow expression that is true for all matching rows, maybe for more; None for all.

    For readers that skip parts of a file; `evaluate` must follow.  Conditions that Arrow evaluates
    differently (floats, LIKE, ...) are left out.
    """
    match predicate:
        case And(children):
            known = [e for c in children if (e := to_arrow_expression(c, row_type)) is not None]
            return reduce(operator.and_, known) if known else None
        case Or(children):
            parts = [to_arrow_expression(c, row_type) for c in children]
            if not parts:
                return pc.scalar(False)
            if any(p is None for p in parts):
                return None
            return reduce(operator.or_, parts)
        case Leaf():
            return _leaf_expression(predicate, row_type)


def _leaf_expression(leaf: Leaf, row_type: RowType) -> pc.Expression | None:
    field = row_type.get(leaf.field)
    if field is None:
        return None
    column = pc.field(leaf.field)
    if leaf.op is Op.IS_NULL:
        return column.is_null()
    if leaf.op is Op.IS_NOT_NULL:
        return column.is_valid()
    t = arrow_type(field.type)
    if pa.types.is_floating(t) or pa.types.is_nested(t) or pa.types.is_boolean(t):
        return None
    if None in leaf.literals:
        return None
    literals = [_exact(t, v) for v in leaf.literals]
    if not all(exact for _, exact in literals):
        return None
    scalars = [pa.scalar(v, t) for v, _ in literals]
    if leaf.op in _OPERATORS:
        return _OPERATORS[leaf.op](column, scalars[0])
    if leaf.op is Op.BETWEEN:
        return (column >= scalars[0]) & (column <= scalars[1])
    if leaf.op is Op.NOT_BETWEEN:
        return (column < scalars[0]) | (column > scalars[1])
    if leaf.op is Op.IN:
        return column.isin(scalars)
    return None
