"""Rows of literals as columns, without Spark: enough for most INSERT ... VALUES."""

from __future__ import annotations

import math
import re
from calendar import monthrange
from collections.abc import Sequence
from datetime import UTC, tzinfo
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from paimon_core.types.arrow import column_from_internal
from paimon_core.types.casts.text import parse_text
from paimon_core.types.data_types import (
    BINARY_TYPES,
    CHARACTER_TYPES,
    INTEGER_BOUNDS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from paimon_spark.sql.text.parsed import parsed
from paimon_spark.sql.text.plain_rows import are_plain_rows

_TIMES = (TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_TYPED = {
    "DATE": TypeRoot.DATE,
    "TIMESTAMP": TypeRoot.TIMESTAMP_LTZ,
    "TIMESTAMPTZ": TypeRoot.TIMESTAMP_LTZ,
    "TIMESTAMPLTZ": TypeRoot.TIMESTAMP_LTZ,
    "TIMESTAMPNTZ": TypeRoot.TIMESTAMP,
}

_INTEGERS = {k.value: k for k in INTEGER_BOUNDS}


class NotLiteral(Exception):
    """An expression that Spark has to compute or refuse."""


def literal_rows(text: str, fields: Sequence[DataField], zone: tzinfo) -> pa.Table | None:
    """The rows of `VALUES (..), (..)` or of a SELECT of literals, in the types of the fields.

    None if Spark is needed: for expressions, conversions with rules of their own, and everything
    that Spark would refuse.
    """
    try:
        rows = _plain_rows(text, fields, zone)
        if rows is None:
            if not are_plain_rows(text):
                return None
            rows = [
                [_value(node, f.type, zone) for node, f in zip(row, fields, strict=True)]
                for row in _rows(parsed(text))
            ]
        columns = [
            column_from_internal([row[i] for row in rows], f.type.with_nullable(True))
            for i, f in enumerate(fields)
        ]
    except (SqlglotError, NotLiteral, ValueError, ArithmeticError, pa.ArrowException):
        return None
    return pa.table(columns, names=[f.name for f in fields])


_VALUES: Final = re.compile(r"\s*VALUES\s*", re.IGNORECASE)
_OPEN: Final = re.compile(r"\s*\(")
_CELL: Final = re.compile(
    r"""\s*(?:(?P<word>NULL|TRUE|FALSE|DEFAULT)
    |(?P<number>-?\d+(?:\.\d+)?)
    |(?P<type>DATE|TIMESTAMP|TIMESTAMP_NTZ|TIMESTAMP_LTZ)?\s*'(?P<text>[^'\\]*)'
    )\s*(?P<end>[,)])""",
    re.IGNORECASE | re.VERBOSE,
)
_DAY: Final = re.compile(
    r"(?P<year>\d{4,})-(?P<month>\d{1,2})-(?P<day>\d{1,2})(?:[ T](?P<hour>\d{1,2}):.*)?", re.DOTALL
)
_NEXT: Final = re.compile(r"\s*(,|;?\s*$)")
_WORDS: Final = {"NULL": None, "DEFAULT": None, "TRUE": True, "FALSE": False}
_TYPE_WORDS: Final = {
    "DATE": TypeRoot.DATE,
    "TIMESTAMP": TypeRoot.TIMESTAMP_LTZ,
    "TIMESTAMP_LTZ": TypeRoot.TIMESTAMP_LTZ,
    "TIMESTAMP_NTZ": TypeRoot.TIMESTAMP,
}


def _plain_rows(text: str, fields: Sequence[DataField], zone: tzinfo) -> list[list[Any]] | None:
    """The rows of a VALUES of plain literals, thousands of them in the time of a parser's hundred.

    None for anything else, which the parser has to judge.
    """
    start = _VALUES.match(text)
    if start is None or not all(isinstance(f.type, AtomicType) for f in fields):
        return None
    types = [f.type for f in fields if isinstance(f.type, AtomicType)]
    rows: list[list[Any]] = []
    at = start.end()
    while True:
        opening = _OPEN.match(text, at)
        if opening is None:
            return None
        row: list[Any] = []
        at, end = opening.end(), ","
        while end == ",":
            cell = _CELL.match(text, at)
            if cell is None or len(row) == len(types):
                return None
            row.append(_plain_value(cell, types[len(row)], zone))
            at, end = cell.end(), cell["end"]
        if len(row) != len(types):
            return None
        rows.append(row)
        following = _NEXT.match(text, at)
        if following is None:
            return None
        at = following.end()
        if following[1] != ",":
            return rows


def _plain_value(cell: re.Match[str], target: AtomicType, zone: tzinfo) -> Any:
    if cell["number"] is not None:
        return _from_number(cell["number"], target)
    if cell["word"] is not None:
        value = _WORDS[cell["word"].upper()]
        if value is not None and target.kind is not TypeRoot.BOOLEAN:
            raise NotLiteral
        return value
    if cell["type"] is not None and _TYPE_WORDS[cell["type"].upper()] is not target.kind:
        raise NotLiteral
    return _from_text(cell["text"], target, zone)


def _rows(tree: exp.Expr) -> list[list[exp.Expr]]:
    parts = {name for name, part in tree.args.items() if part}
    if isinstance(tree, exp.Values) and parts <= {"expressions"}:  # without ORDER BY, LIMIT, ...
        return [_cells(row) for row in tree.expressions]
    if isinstance(tree, exp.Select) and parts <= {"expressions", "kind"}:
        return [[e.this if isinstance(e, exp.Alias) else e for e in tree.expressions]]
    raise NotLiteral


def _cells(row: exp.Expr) -> list[exp.Expr]:
    cells = list(row.expressions) if isinstance(row, exp.Tuple) else [row]
    if len(cells) == 1 and isinstance(cells[0].unnest(), exp.Struct):
        raise NotLiteral  # for Spark, the fields of a lone STRUCT(..) are the columns
    return cells


def _value(node: exp.Expr, target: DataType, zone: tzinfo) -> Any:
    match node:
        case exp.Null():
            return None
        case exp.Column() if node.name.upper() == "DEFAULT" and not node.table:
            return None  # nulls get the default when they are written
        case exp.Var() if node.name.upper() == "DEFAULT":
            return None
        case exp.Paren():
            return _value(node.this, target, zone)
        case exp.Boolean() if target.root is TypeRoot.BOOLEAN:
            return bool(node.this)
        case exp.Literal() | exp.RawString() if isinstance(target, AtomicType):
            if isinstance(node, exp.RawString) or node.is_string:
                return _from_text(str(node.this), target, zone)
            return _from_number(str(node.this), target)
        case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
            if isinstance(target, AtomicType):
                return _from_number("-" + str(node.this.this), target)
        case exp.HexString() if target.root in (*BINARY_TYPES, TypeRoot.BLOB):
            digits = f"{int(node.this):x}" if node.args.get("is_integer") else str(node.this)
            return bytes.fromhex(digits)
        case exp.Cast() if isinstance(node.this, exp.Literal) and node.this.is_string:
            typed = _TYPED.get(node.to.this.name if hasattr(node.to.this, "name") else "")
            if typed is target.root and isinstance(target, AtomicType):
                return _from_text(str(node.this.this), target, zone)
        case exp.Cast() if isinstance(node.this, exp.Literal) and isinstance(target, AtomicType):
            # 10L and similar; other casts follow Spark's rules.
            of = _INTEGERS.get(node.to.this.name if hasattr(node.to.this, "name") else "")
            number = str(node.this.this)
            fits = of is not None and number.isdecimal() and int(number) < INTEGER_BOUNDS[of]
            if fits and not node.this.is_string and target.kind in INTEGER_BOUNDS:
                return _from_number(number, target)
        case exp.Array() if isinstance(target, ArrayType):
            return [_value(e, target.element, zone) for e in node.expressions]
        case exp.VarMap() | exp.Map() if isinstance(target, MapType):
            keys, values = node.args["keys"].expressions, node.args["values"].expressions
            if len({key.sql() for key in keys}) < len(keys):
                raise NotLiteral
            return [
                (_value(k, target.key, zone), _value(v, target.value, zone))
                for k, v in zip(keys, values, strict=True)
            ]
        case exp.Struct() if isinstance(target, RowType):
            parts = [e.expression if isinstance(e, exp.PropertyEQ) else e for e in node.expressions]
            pairs = zip(parts, target.fields, strict=True)
            return tuple(_value(e, f.type, zone) for e, f in pairs)
    raise NotLiteral


def _from_text(text: str, target: AtomicType, zone: tzinfo) -> Any:
    if target.kind in CHARACTER_TYPES:
        if len(text) > (target.length or 0):
            raise NotLiteral
        return text.ljust(target.length or 0) if target.kind is TypeRoot.CHAR else text
    if target.kind in BINARY_TYPES:
        return text.encode()
    if target.kind in _TIMES and on_calendar(text):
        return parse_text(text, target, zone)
    raise NotLiteral


def on_calendar(text: str) -> bool:
    """Whether a text is a day, maybe with a time, that there is.

    Java's casts take the last day of the month for a later one, and 24:00; Spark refuses both.
    """
    match = _DAY.fullmatch(text.strip())
    if match is None or int(match["hour"] or 0) > 23:
        return False
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    return year >= 1 and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]


def _from_number(text: str, target: AtomicType) -> Any:
    if target.kind in INTEGER_BOUNDS:
        number, limit = int(text), INTEGER_BOUNDS[target.kind]
        if not -limit <= number < limit:
            raise NotLiteral
        return number
    if target.kind is TypeRoot.DECIMAL:
        exact = Decimal(text)
        value = exact.quantize(Decimal(1).scaleb(-(target.scale or 0)), ROUND_HALF_UP)
        if len(value.as_tuple().digits) > (target.precision or 0):
            raise NotLiteral
        return value
    if target.kind in (TypeRoot.DOUBLE, TypeRoot.FLOAT):
        # Without an exponent it is a decimal number, which knows no -0.
        if math.isinf(float(text)):
            raise NotLiteral
        return float(text) if "e" in text.lower() else float(text) + 0.0
    if target.kind in CHARACTER_TYPES and text.lstrip("-").isdecimal() and text == str(int(text)):
        return _from_text(text, target, UTC)
    raise NotLiteral
