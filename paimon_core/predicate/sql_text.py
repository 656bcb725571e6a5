"""Prints predicates as SQL conditions that `where` can parse."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from paimon_core.predicate.nodes import (
    And,
    Leaf,
    Op,
    Or,
    Predicate,
    escape_like,
)
from paimon_core.types import datetimes
from paimon_core.types.data_types import DataType, RowType, TypeRoot
from paimon_core.types.json_values import json_value


def to_sql(predicate: Predicate, row_type: RowType | None = None) -> str:
    """Return the predicate as SQL that `parse_where` can parse.

    With the fields' types, literals have their own form; without, dates and similar types are
    numbers.
    """
    match predicate:
        case And(()):
            return "TRUE"
        case Or(()):
            return "FALSE"
        case And(children):
            return " AND ".join(_bracketed(c, row_type) for c in children)
        case Or(children):
            return " OR ".join(_bracketed(c, row_type) for c in children)
        case Leaf():
            return _leaf_sql(predicate, row_type)


def _bracketed(predicate: Predicate, row_type: RowType | None) -> str:
    text = to_sql(predicate, row_type)
    single = isinstance(predicate, Leaf) or len(predicate.children) < 2
    if isinstance(predicate, Leaf) and predicate.op in _PREFIX_PATTERNS:
        return text
    return text if single else f"({text})"


_PREFIX_PATTERNS: Final[Mapping[Op, str]] = {
    Op.STARTS_WITH: "{}%",
    Op.ENDS_WITH: "%{}",
    Op.CONTAINS: "%{}%",
}


def _leaf_sql(leaf: Leaf, row_type: RowType | None) -> str:
    field = row_type.get(leaf.field) if row_type is not None else None
    data_type = field.type if field is not None else None
    name = leaf.field
    if not re.fullmatch(r"[^\W\d]\w*", name) or name.upper() in _RESERVED:
        name = "`" + name.replace("`", "``") + "`"
    literals = [_literal_sql(v, data_type) for v in leaf.literals]
    match leaf.op:
        case Op.IS_NULL:
            return f"{name} IS NULL"
        case Op.IS_NOT_NULL:
            return f"{name} IS NOT NULL"
        case Op.IN | Op.NOT_IN:
            negation = "NOT " if leaf.op is Op.NOT_IN else ""
            return (
                f"{name} {negation}IN ({', '.join(literals)})"
                if literals
                else (f"{name} IS NOT NULL" if negation else "FALSE")
            )
        case Op.BETWEEN:
            return f"{name} BETWEEN {literals[0]} AND {literals[1]}"
        case Op.NOT_BETWEEN:
            return f"{name} NOT BETWEEN {literals[0]} AND {literals[1]}"
        case Op.LIKE:
            return f"{name} LIKE {literals[0]}"
        case Op.NOT_LIKE:
            return f"{name} NOT LIKE {literals[0]}"
        case op if op in _PREFIX_PATTERNS:
            (text,) = leaf.literals
            pattern = (
                None if text is None else _PREFIX_PATTERNS[op].replace("{}", escape_like(text))
            )
            return f"{name} LIKE {_literal_sql(pattern, None)}"
        case op:
            return f"{name} {op} {literals[0]}"


_RESERVED: Final = frozenset(
    "AND OR NOT IS NULL IN BETWEEN LIKE ESCAPE TRUE FALSE".split()  # noqa: SIM905 - reads better
)
_TYPED: Final = {
    TypeRoot.DATE: "DATE",
    TypeRoot.TIME: "TIME",
    TypeRoot.TIMESTAMP: "TIMESTAMP",
    TypeRoot.TIMESTAMP_LTZ: "TIMESTAMP",
}


def _literal_sql(value: Any, data_type: DataType | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"'{value}'"
    word = _TYPED.get(data_type.root) if data_type is not None else None
    if word is None or data_type is None:
        return str(value)
    if word == "TIMESTAMP":
        return f"TIMESTAMP '{datetimes.sql_timestamp(value, 0)}'"
    return f"{word} '{json_value(value, data_type)}'"
