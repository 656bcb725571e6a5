"""The predicate tree, and its evaluation on one row (Java: `predicate/*`)."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from paimon_core.errors import InvalidArgument
from paimon_core.types.data_types import RowType
from paimon_core.types.json_values import from_json_value


class Op(StrEnum):
    """The operator of a leaf."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    NOT_IN = "not_in"
    BETWEEN = "between"
    NOT_BETWEEN = "not_between"
    IS_NULL = "is_null"
    IS_NOT_NULL = "is_not_null"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    CONTAINS = "contains"
    LIKE = "like"
    NOT_LIKE = "not_like"


@dataclass(frozen=True, slots=True)
class Leaf:
    r"""`field op literals`: one literal, none for the null tests, two for between, any for in.

    Literals are internal values.  A null field makes every leaf except IS_NULL false.  LIKE
    patterns support `%`, `_` and the escape `\`.
    """

    op: Op
    field: str
    literals: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class And:
    """True if all children are true, or without children."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if at least one child is true; false without children."""

    children: tuple[Predicate, ...]


Predicate = Leaf | And | Or

TRUE: Final = And(())
FALSE: Final = Or(())

_NEGATED: Final = {
    Op.EQ: Op.NE,
    Op.LT: Op.GE,
    Op.LE: Op.GT,
    Op.IN: Op.NOT_IN,
    Op.BETWEEN: Op.NOT_BETWEEN,
    Op.IS_NULL: Op.IS_NOT_NULL,
    Op.LIKE: Op.NOT_LIKE,
}
_NEGATED.update({b: a for a, b in _NEGATED.items()})


# --- building -----------------------------------------------------------------------------------


def conjunction(predicates: Iterable[Predicate]) -> Predicate:
    """Return the AND of the predicates: TRUE for none, the predicate itself for one."""
    children = tuple(c for p in predicates for c in split_conjuncts(p))
    return children[0] if len(children) == 1 else And(children)


def disjunction(predicates: Iterable[Predicate]) -> Predicate:
    """Return the OR of the predicates: FALSE for none, the predicate itself for one."""
    children: list[Predicate] = []
    for p in predicates:
        children.extend(p.children if isinstance(p, Or) else (p,))
    return children[0] if len(children) == 1 else Or(tuple(children))


def split_conjuncts(predicate: Predicate) -> list[Predicate]:
    """Yield the top-level AND conditions."""
    if isinstance(predicate, And):
        return [c for child in predicate.children for c in split_conjuncts(child)]
    return [predicate]


def negate(predicate: Predicate) -> Predicate:
    """Return SQL's NOT of the predicate (if a null decides, neither is true)."""
    match predicate:
        case And(children):
            return disjunction(map(negate, children))
        case Or(children):
            return conjunction(map(negate, children))
        case Leaf(Op.STARTS_WITH | Op.ENDS_WITH | Op.CONTAINS as op, field, (text,)):
            before = "" if op is Op.STARTS_WITH else "%"
            after = "" if op is Op.ENDS_WITH else "%"
            pattern = None if text is None else f"{before}{escape_like(text)}{after}"
            return Leaf(Op.NOT_LIKE, field, (pattern,))
        case Leaf():
            return replace(predicate, op=_NEGATED[predicate.op])


def fields_of(predicate: Predicate) -> frozenset[str]:
    """Return the names of the fields in the predicate."""
    if isinstance(predicate, Leaf):
        return frozenset((predicate.field,))
    return frozenset().union(*map(fields_of, predicate.children))


def renamed(predicate: Predicate, names: Mapping[str, str]) -> Predicate:
    """Return the predicate with the fields in `names` renamed."""
    if isinstance(predicate, Leaf):
        return replace(predicate, field=names.get(predicate.field, predicate.field))
    return type(predicate)(tuple(renamed(c, names) for c in predicate.children))


_ORACLE_OPS: Final = {
    "=": Op.EQ,
    "<>": Op.NE,
    "!=": Op.NE,
    "<": Op.LT,
    "<=": Op.LE,
    ">": Op.GT,
    ">=": Op.GE,
    "in": Op.IN,
    "notin": Op.NOT_IN,
    "between": Op.BETWEEN,
    "notbetween": Op.NOT_BETWEEN,
    "isnull": Op.IS_NULL,
    "isnotnull": Op.IS_NOT_NULL,
    "startswith": Op.STARTS_WITH,
    "endswith": Op.ENDS_WITH,
    "contains": Op.CONTAINS,
    "like": Op.LIKE,
    "notlike": Op.NOT_LIKE,
}


def from_oracle_filter(obj: Mapping[str, Any], row_type: RowType) -> Predicate:
    """Return the predicate of `{"field", "op", "value"}`, `{"and": [...]}` or `{"or": [...]}`.

    The form of the steps of tests/conformance; values as in `paimon_core.types.json_values`.
    """
    for word, join in (("and", conjunction), ("or", disjunction)):
        if word in obj:
            return join(from_oracle_filter(child, row_type) for child in obj[word])
    field = row_type.get(str(obj.get("field")))
    op = _ORACLE_OPS.get(str(obj.get("op")).replace("_", "").lower())
    if field is None or op is None:
        raise InvalidArgument(f"not a filter on {list(row_type.names)}: {obj}")
    value = obj.get("value")
    if op in (Op.IS_NULL, Op.IS_NOT_NULL):
        return Leaf(op, field.name)
    if op in (Op.IN, Op.NOT_IN, Op.BETWEEN, Op.NOT_BETWEEN):
        values = value if isinstance(value, list) else [value]
        return Leaf(op, field.name, tuple(from_json_value(v, field.type) for v in values))
    return Leaf(op, field.name, (from_json_value(value, field.type),))


# --- LIKE ---------------------------------------------------------------------------------------


def escape_like(text: str) -> str:
    """Return the LIKE pattern that matches exactly this text."""
    return re.sub(r"([\\%_])", r"\\\1", text)


def like_tokens(pattern: str) -> list[str | None]:
    """Return the characters of a LIKE pattern; None means `%` and the empty string `_`."""
    tokens: list[str | None] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
            if pattern[at : at + 1] not in ("\\", "%", "_"):
                raise InvalidArgument(f"invalid escape in the LIKE pattern {pattern!r}")
            tokens.append(pattern[at])
        else:
            tokens.append(None if char == "%" else "" if char == "_" else char)
        at += 1
    return tokens


def like_prefix(pattern: str) -> str:
    """Return the prefix of all texts that the pattern matches."""
    prefix = ""
    for token in like_tokens(pattern):
        if not token:
            break
        prefix += token
    return prefix


def like_regex(pattern: str) -> str:
    """Return a regular expression, for RE2 and `re`, that matches the whole text.

    As in Java, `_` matches one character that is not a line terminator.
    """
    parts = []
    for char in like_tokens(pattern):
        if char is None:
            parts.append("(?s:.*)")
        elif not char:
            parts.append("[^\n\r\u0085\u2028\u2029]")
        else:
            parts.append("\\" + char if char in "[]()|^-+*?{}$\\.#&~" else char)
    return "".join(parts)


@lru_cache(maxsize=256)
def _like_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(like_regex(pattern))


# --- one row ------------------------------------------------------------------------------------


def order_of(value: Any) -> Any:
    """Return a sort key in Java's order: -0.0 < 0.0 < ... < NaN for floats, else the value."""
    if not isinstance(value, float):
        return value
    if value != value:  # noqa: PLR0124 - NaN
        return 1 << 63
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF


def matches_row(predicate: Predicate, values: Mapping[str, Any]) -> bool:
    """Return whether a row of these internal values satisfies the predicate."""
    match predicate:
        case And(children):
            return all(matches_row(c, values) for c in children)
        case Or(children):
            return any(matches_row(c, values) for c in children)
        case Leaf(Op.IS_NULL, field):
            return values[field] is None
        case Leaf(Op.IS_NOT_NULL, field):
            return values[field] is not None
        case Leaf(op, field, literals):
            value = values[field]
            return value is not None and _LEAF_TESTS[op](value, literals)


def _in(value: Any, literals: Sequence[Any]) -> bool:
    return order_of(value) in {order_of(v) for v in literals if v is not None}


def _test(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Sequence[Any]], bool]:
    def test(value: Any, literals: Sequence[Any]) -> bool:
        return literals[0] is not None and compare(order_of(value), order_of(literals[0]))

    return test


def _between(value: Any, literals: Sequence[Any]) -> bool:
    low, high = literals
    if low is None or high is None:
        return False
    return bool(order_of(low) <= order_of(value) <= order_of(high))


def _not_between(value: Any, literals: Sequence[Any]) -> bool:
    low, high = literals
    # One side is enough: NOT (x BETWEEN 5 AND NULL) is true for x < 5.
    return (low is not None and order_of(value) < order_of(low)) or (
        high is not None and order_of(value) > order_of(high)
    )


_LEAF_TESTS: Final[Mapping[Op, Callable[[Any, Sequence[Any]], bool]]] = {
    Op.EQ: _test(lambda a, b: a == b),
    Op.NE: _test(lambda a, b: a != b),
    Op.LT: _test(lambda a, b: a < b),
    Op.LE: _test(lambda a, b: a <= b),
    Op.GT: _test(lambda a, b: a > b),
    Op.GE: _test(lambda a, b: a >= b),
    Op.IN: _in,
    Op.NOT_IN: lambda value, literals: None not in literals and not _in(value, literals),
    Op.BETWEEN: _between,
    Op.NOT_BETWEEN: _not_between,
    Op.STARTS_WITH: _test(lambda a, b: a.startswith(b)),
    Op.ENDS_WITH: _test(lambda a, b: a.endswith(b)),
    Op.CONTAINS: _test(lambda a, b: b in a),
    Op.LIKE: _test(lambda a, b: _like_pattern(b).fullmatch(a) is not None),
    Op.NOT_LIKE: _test(lambda a, b: _like_pattern(b).fullmatch(a) is None),
}
