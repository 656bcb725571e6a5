"""Predicates as SQL text: the WHERE conditions on single columns.

::

    or:    and (OR and)*            and:   not (AND not)*           not:  NOT not | test
    test:  ( or ) | TRUE | FALSE | column | column compare literal | literal compare column
           | column IS [NOT] NULL | column [NOT] IN (literal, ...) | column [NOT] LIKE 'pattern'
           | column [NOT] BETWEEN literal AND literal
    literal: 12  -1.5e3  'text'  TRUE  FALSE  NULL  DATE '2024-01-31'  X'CAFE'
           | TIMESTAMP '2024-01-31 12:00:00'  TIME '12:00:00'

Names may be quoted with backticks or double quotes.  A string is also a literal of the column's own
type (`dt = '2024-01-31'`); timestamps with local time zone are in UTC.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np

from paimon_core.errors import InvalidArgument
from paimon_core.predicate.nodes import (
    FALSE,
    TRUE,
    Leaf,
    Op,
    Predicate,
    conjunction,
    disjunction,
    negate,
)
from paimon_core.types import datetimes
from paimon_core.types.data_types import (
    BINARY_TYPES,
    CHARACTER_TYPES,
    INTEGER_TYPES,
    TIMESTAMP_TYPES,
    AtomicType,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)
from paimon_core.types.decimals import pad_to_scale
from paimon_core.types.partition_text import parse_boolean
from paimon_core.types.sql import type_to_sql

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    | (?P<word>[^\W\d]\w*)
    | (?P<name>`(?:[^`]|``)+`|"(?:[^"]|"")+")
    | (?P<string>'(?:[^']|'')*')
    | (?P<symbol><=|>=|<>|!=|==|[=<>(),+\-.])
    )""",
    re.VERBOSE,
)
_COMPARISONS: Final = {
    "=": Op.EQ,
    "==": Op.EQ,
    "<>": Op.NE,
    "!=": Op.NE,
    "<": Op.LT,
    "<=": Op.LE,
    ">": Op.GT,
    ">=": Op.GE,
}
_FLIPPED: Final = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_MOST_EXPONENT: Final = 400
"""Numbers have fewer digits; those of a larger exponent would take all of the memory."""
_LITERAL_WORDS: Final = ("TRUE", "FALSE", "NULL", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "X")


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


class _Literal(NamedTuple):
    """A literal as written: Decimal number, string, boolean, null, date, time, timestamp, bytes."""

    kind: str
    value: Any


Accepts = Callable[[DataType, str, Any], bool]
"""Whether a column of the type may be compared with a literal of this kind and value."""


def parse_where(sql: str, row_type: RowType, *, accepts: Accepts | None = None) -> Predicate:
    """Parse a WHERE clause over these fields; InvalidArgument if it is invalid.

    With `accepts`, also if it does not accept a literal, or a list has literals of several kinds.
    """
    return _Parser(sql, row_type, accepts).parse()


class _Parser:
    def __init__(self, sql: str, row_type: RowType, accepts: Accepts | None = None) -> None:
        self.sql = sql
        self.accepts = accepts
        self.row_type = row_type
        self.tokens = self._tokens()
        self.at = 0

    def _tokens(self) -> list[_Token]:
        tokens = []
        at, end = 0, len(self.sql.rstrip())
        while at < end:
            match = _TOKEN.match(self.sql, at)
            if match is None or match.lastgroup is None:
                raise InvalidArgument(f"cannot read the condition {self.sql!r} at {at}")
            kind = match.lastgroup
            tokens.append(_Token(kind, match.group(kind), match.start(kind)))
            at = match.end()
        return tokens

    def fail(self, cause: str) -> NoReturn:
        at = self.tokens[self.at].start if self.at < len(self.tokens) else len(self.sql)
        raise InvalidArgument(f"cannot read the condition {self.sql!r} at {at}: {cause}")

    # tokens

    def peek(self, offset: int = 0) -> _Token:
        at = self.at + offset
        return self.tokens[at] if at < len(self.tokens) else _Token("end", "", len(self.sql))

    def word(self, offset: int = 0) -> str:
        token = self.peek(offset)
        return token.text.upper() if token.kind == "word" else ""

    def eat_word(self, *words: str) -> bool:
        if all(self.word(i) == w for i, w in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def eat(self, symbol: str) -> bool:
        token = self.peek()
        if token.kind == "symbol" and token.text == symbol:
            self.at += 1
            return True
        return False

    def need(self, symbol: str) -> None:
        if not self.eat(symbol):
            self.fail(f"expected {symbol!r}")

    # grammar

    def parse(self) -> Predicate:
        result = self.either()
        if self.at < len(self.tokens):
            self.fail(f"unexpected {self.peek().text!r}")
        return result

    def either(self) -> Predicate:
        parts = [self.all()]
        while self.eat_word("OR"):
            parts.append(self.all())
        return disjunction(parts) if len(parts) > 1 else parts[0]

    def all(self) -> Predicate:
        parts = [self.maybe_not()]
        while self.eat_word("AND"):
            parts.append(self.maybe_not())
        return conjunction(parts) if len(parts) > 1 else parts[0]

    def maybe_not(self) -> Predicate:
        if self.eat_word("NOT"):
            return negate(self.maybe_not())
        return self.test()

    def test(self) -> Predicate:
        if self.eat("("):
            result = self.either()
            self.need(")")
            return result
        if self.at_literal():
            return self.literal_first()
        field = self.column()
        if self.eat_word("IS"):
            negated = self.eat_word("NOT")
            if not self.eat_word("NULL"):
                self.fail("expected NULL")
            return Leaf(Op.IS_NOT_NULL if negated else Op.IS_NULL, field.name)
        if self.eat_word("NOT"):
            return negate(self.word_test(field) or self.fail("expected IN, BETWEEN or LIKE"))
        worded = self.word_test(field)
        if worded is not None:
            return worded
        op = self.comparison()
        if op is not None:
            return self.compare(field, op, self.literal())
        if field.type.root is not TypeRoot.BOOLEAN:
            self.fail("expected a comparison")
        return Leaf(Op.EQ, field.name, (True,))

    def word_test(self, field: DataField) -> Predicate | None:
        if self.eat_word("IN"):
            return self.in_list(field)
        if self.eat_word("BETWEEN"):
            low = self.literal()
            if not self.eat_word("AND"):
                self.fail("expected AND")
            high = self.literal()
            return conjunction(
                [self.compare(field, Op.GE, low), self.compare(field, Op.LE, high)]
                if field.type.root in INTEGER_TYPES or "null" in (low.kind, high.kind)
                else [
                    Leaf(Op.BETWEEN, field.name, (self.value(field, low), self.value(field, high)))
                ]
            )
        if self.eat_word("LIKE"):
            return self.like(field)
        return None

    def literal_first(self) -> Predicate:
        literal = self.literal()
        op = self.comparison()
        if op is None:
            if literal.kind != "boolean":
                self.fail("expected a comparison")
            return TRUE if literal.value else FALSE
        if self.at_literal():
            return self.constant(literal, op, self.literal())
        return self.compare(self.column(), _FLIPPED.get(op, op), literal)

    def constant(self, a: _Literal, op: Op, b: _Literal) -> Predicate:
        """Compare two literals, as in 1 = 1."""
        if a.kind != b.kind or a.kind == "null":
            self.fail("two literals that cannot be compared")
        x, y = a.value, b.value
        holds = {
            Op.EQ: x == y,
            Op.NE: x != y,
            Op.LT: x < y,
            Op.LE: x <= y,
            Op.GT: x > y,
            Op.GE: x >= y,
        }[op]
        return TRUE if holds else FALSE

    def comparison(self) -> Op | None:
        token = self.peek()
        op = _COMPARISONS.get(token.text) if token.kind == "symbol" else None
        if op is not None:
            self.at += 1
        return op

    def column(self) -> DataField:
        token = self.peek()
        if token.kind == "word":
            name = token.text
        elif token.kind == "name":
            quote = token.text[0]
            name = token.text[1:-1].replace(quote * 2, quote)
        else:
            self.fail("expected a column")
        field = self.row_type.get(name)
        if field is None:
            alike = [f for f in self.row_type.fields if f.name.lower() == name.lower()]
            if len(alike) != 1:
                self.fail(f"no column {name!r} among {', '.join(self.row_type.names)}")
            field = alike[0]
        self.at += 1
        if self.peek().text == "." and self.peek().kind == "symbol":
            self.fail("conditions on fields inside a column are not supported")
        return field

    def in_list(self, field: DataField) -> Predicate:
        self.need("(")
        tests = []
        while True:
            tests.append(self.literal())
            if not self.eat(","):
                break
        self.need(")")
        if self.accepts is not None and len({t.kind for t in tests} - {"null"}) > 1:
            self.fail("literals of several kinds in one list")
        nulls = tuple(None for t in tests if t.kind == "null")
        values = []
        for literal in tests:
            if literal.kind != "null":
                leaf = self.compare(field, Op.EQ, literal)
                values += list(leaf.literals) if isinstance(leaf, Leaf) else []
        return Leaf(Op.IN, field.name, (*values, *nulls))

    def like(self, field: DataField) -> Predicate:
        if field.type.root not in CHARACTER_TYPES:
            self.fail(f"LIKE needs a text column, {field.name} is {type_to_sql(field.type)}")
        literal = self.literal()
        if literal.kind not in ("string", "null"):
            self.fail("LIKE needs a text")
        pattern = literal.value
        if self.eat_word("ESCAPE"):
            escape = self.literal()
            if escape.kind != "string" or len(escape.value) != 1:
                self.fail("ESCAPE needs one character")
            if pattern is not None and escape.value != "\\":
                pattern = pattern.replace("\\", "\\\\")
                pattern = re.sub(
                    re.escape(escape.value) + r"([%_]|" + re.escape(escape.value) + ")",
                    lambda m: m.group(1) if m.group(1) not in "%_" else "\\" + m.group(1),
                    pattern,
                )
        return Leaf(Op.LIKE, field.name, (pattern,))

    # literals

    def at_literal(self) -> bool:
        token = self.peek()
        if token.kind in ("number", "string") or token.text in ("-", "+"):
            return True
        word = self.word()
        if word in ("TRUE", "FALSE", "NULL"):
            return True
        # DATE and similar words are also column names, unless a string follows.
        return word in _LITERAL_WORDS and self.peek(1).kind == "string"

    def literal(self) -> _Literal:
        if not self.at_literal():
            self.fail("expected a literal")
        token = self.peek()
        self.at += 1
        if token.text in ("-", "+"):
            number = self.peek()
            if number.kind != "number":
                self.fail("expected a number")
            self.at += 1
            return _Literal("number", Decimal(token.text + number.text))
        if token.kind == "number":
            return _Literal("number", Decimal(token.text))
        if token.kind == "string":
            return _Literal("string", _unquoted(token.text))
        word = token.text.upper()
        if word in ("TRUE", "FALSE"):
            return _Literal("boolean", word == "TRUE")
        if word == "NULL":
            return _Literal("null", None)
        text = _unquoted(self.peek().text)
        self.at += 1
        return self.typed_literal(word, text)

    def typed_literal(self, word: str, text: str) -> _Literal:
        match word:
            case "DATE":
                return _Literal("date", self.read(datetimes.parse_sql_date(text), word, text))
            case "TIME":
                return _Literal("time", self.read(datetimes.parse_sql_time(text), word, text))
            case "X":
                try:
                    return _Literal("bytes", bytes.fromhex(text))
                except ValueError:
                    self.fail(f"{text!r} is not a hexadecimal string")
        return _Literal("timestamp", _timestamp(text))

    def read(self, value: int | None, word: str, text: str) -> int:
        if value is None:
            self.fail(f"{text!r} is not a valid {word}")
        return value

    # literals under a column's type

    def compare(self, field: DataField, op: Op, literal: _Literal) -> Predicate:
        """Return the comparison, moved to the next integer if the literal lies between two."""
        if literal.kind == "null":
            return Leaf(op, field.name, (None,))
        value = self.value(field, literal)
        if isinstance(value, Decimal) and field.type.root in INTEGER_TYPES:
            if op in (Op.EQ, Op.NE):
                # Equal to no integer: `IN ()` is false, but unlike FALSE, its NOT excludes nulls.
                return Leaf(Op.IN if op is Op.EQ else Op.NOT_IN, field.name)
            below = math.floor(value)
            return Leaf(Op.LE if op in (Op.LT, Op.LE) else Op.GT, field.name, (below,))
        return Leaf(op, field.name, (value,))

    def value(self, field: DataField, literal: _Literal) -> Any:
        """Return the literal as an internal value; for integer columns possibly a Decimal."""
        if self.accepts is not None and not self.accepts(field.type, literal.kind, literal.value):
            self.fail(f"the literal {literal.value!r} is not accepted for {field.name}")
        try:
            value = _internal(literal, field.type)
        except (ValueError, ArithmeticError) as e:
            raise InvalidArgument(
                f"cannot read the condition {self.sql!r}: {literal.value!r} is not a value of "
                f"{field.name} {type_to_sql(field.type)}"
            ) from e
        if value is None:
            self.at -= 1
            self.fail(
                f"a {literal.kind} cannot be compared with {field.name} {type_to_sql(field.type)}"
            )
        return value


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _timestamp(text: str) -> int:
    try:
        return datetimes.parse_sql_timestamp(text, 9)
    except InvalidArgument:
        return datetimes.parse_iso_timestamp(text)


def _internal(literal: _Literal, data_type: DataType) -> Any:
    """Return the internal value; None if literals of this kind do not fit the type."""
    kind, value = literal
    if not isinstance(data_type, AtomicType):
        return None
    root = data_type.root
    if root in CHARACTER_TYPES:
        return value if kind == "string" else None
    if root in BINARY_TYPES:
        return value if kind == "bytes" else None
    if root is TypeRoot.BOOLEAN:
        return value if kind == "boolean" else parse_boolean(value) if kind == "string" else None
    if root in INTEGER_TYPES or root in (TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL):
        return _number(kind, value, data_type)
    if root is TypeRoot.DATE:
        if kind == "string":
            return datetimes.parse_sql_date(value)
        if kind == "timestamp" and value % datetimes.NANOS_OF_DAY == 0:
            return value // datetimes.NANOS_OF_DAY
        return value if kind == "date" else None
    if root is TypeRoot.TIME:
        return (
            value
            if kind == "time"
            else datetimes.parse_sql_time(value)
            if kind == "string"
            else None
        )
    if root in TIMESTAMP_TYPES:
        if kind == "date":
            return value * datetimes.NANOS_OF_DAY
        return value if kind == "timestamp" else _timestamp(value) if kind == "string" else None
    return None


def _number(kind: str, value: Any, t: AtomicType) -> Any:
    if kind not in ("number", "string"):
        return None
    if t.kind is TypeRoot.DOUBLE:
        return float(value)
    if t.kind is TypeRoot.FLOAT:
        # `f = 0.1` means the nearest 32-bit float (Java: `PredicateBuilder.convertJavaObject`).  In
        # SQL, Spark compares as DOUBLE instead, so such conditions are not pushed down.
        return float(np.float32(float(value)))
    number = Decimal(value)
    if not number.is_finite():
        return None
    if abs(number.adjusted()) > _MOST_EXPONENT:
        raise ValueError(f"{value} has too many digits")
    if t.kind is TypeRoot.DECIMAL:
        return pad_to_scale(number, t.scale or 0)
    return int(number) if number == int(number) else number
