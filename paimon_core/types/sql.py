"""Parses and prints types as SQL strings and the JSON of schema files (Java: `DataTypeJsonParser`).

    >>> type_to_sql(parse_type("decimal(10,2) not null"))
    'DECIMAL(10, 2) NOT NULL'

Schema files hold atomic types as SQL strings and nested ones as objects (`{"type": "ARRAY NOT
NULL", "element": "INT"}`).  The parser also supports nested types (`ARRAY<INT>`, `MAP<STRING,
INT>`, `ROW<a INT, b STRING 'comment'>`), which Java prints but does not parse; their field ids
count from 0, outer fields before inner ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import count
from typing import Final, NamedTuple, NoReturn

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.names import shown
from paimon_core.types.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)

MOST_NESTED_TYPES: Final = 60
"""The maximum nesting of types: all functions over types are recursive."""
MAX_DECIMAL_PRECISION: Final = 38
MAX_TIME_PRECISION: Final = 9

_PLAIN: Final = {
    "STRING": AtomicType(kind=TypeRoot.VARCHAR, length=MAX_LENGTH),
    "BYTES": AtomicType(kind=TypeRoot.VARBINARY, length=MAX_LENGTH),
    "BOOLEAN": AtomicType(kind=TypeRoot.BOOLEAN),
    "TINYINT": AtomicType(kind=TypeRoot.TINYINT),
    "SMALLINT": AtomicType(kind=TypeRoot.SMALLINT),
    "INT": AtomicType(kind=TypeRoot.INT),
    "INTEGER": AtomicType(kind=TypeRoot.INT),
    "BIGINT": AtomicType(kind=TypeRoot.BIGINT),
    "FLOAT": AtomicType(kind=TypeRoot.FLOAT),
    "DATE": AtomicType(kind=TypeRoot.DATE),
    "VARIANT": AtomicType(kind=TypeRoot.VARIANT),
    "BLOB": AtomicType(kind=TypeRoot.BLOB),
}
_WITH_LENGTH: Final = {
    "CHAR": TypeRoot.CHAR,
    "VARCHAR": TypeRoot.VARCHAR,
    "BINARY": TypeRoot.BINARY,
    "VARBINARY": TypeRoot.VARBINARY,
}
_WITH_PRECISION: Final = {
    "TIME": (TypeRoot.TIME, 0),
    "TIMESTAMP": (TypeRoot.TIMESTAMP, 6),
    "TIMESTAMP_LTZ": (TypeRoot.TIMESTAMP_LTZ, 6),
}
_DECIMAL_WORDS: Final = ("DECIMAL", "NUMERIC", "DEC")
_NESTED_WORDS: Final = ("ARRAY", "MULTISET", "MAP", "ROW", "VECTOR")
_PUNCTUATION: Final = frozenset("<>(),.")


# --- printing -----------------------------------------------------------------------------------


def type_to_sql(data_type: DataType) -> str:
    """Return the SQL string of the type, as Java's `asSQLString`."""
    text = _body_to_sql(data_type)
    return text if data_type.nullable else f"{text} NOT NULL"


def _body_to_sql(t: DataType) -> str:
    match t:
        case AtomicType():
            return _atomic_to_sql(t)
        case ArrayType():
            return f"ARRAY<{type_to_sql(t.element)}>"
        case MultisetType():
            return f"MULTISET<{type_to_sql(t.element)}>"
        case MapType():
            return f"MAP<{type_to_sql(t.key)}, {type_to_sql(t.value)}>"
        case VectorType():
            return f"VECTOR<{type_to_sql(t.element)}, {t.length}>"
        case RowType():
            return f"ROW<{', '.join(_field_to_sql(f) for f in t.fields)}>"
    raise UnsupportedFeature(f"data type {t!r}")


def _atomic_to_sql(t: AtomicType) -> str:
    match t.kind:
        case TypeRoot.VARCHAR if t.length == MAX_LENGTH:
            return "STRING"
        case TypeRoot.VARBINARY if t.length == MAX_LENGTH:
            return "BYTES"
        case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
            return f"{t.kind}({t.length})"
        case TypeRoot.DECIMAL:
            return f"DECIMAL({t.precision}, {t.scale})"
        case TypeRoot.TIME | TypeRoot.TIMESTAMP:
            return f"{t.kind}({t.precision})"
        case TypeRoot.TIMESTAMP_LTZ:
            return f"TIMESTAMP({t.precision}) WITH LOCAL TIME ZONE"
        case _:
            return str(t.kind)


def _field_to_sql(f: DataField) -> str:
    text = "`" + f.name.replace("`", "``") + "` " + type_to_sql(f.type)
    if f.description:
        text += " COMMENT '" + f.description.replace("'", "''") + "'"
    if f.default_value is not None:
        text += f" DEFAULT {f.default_value}"
    return text


# --- JSON ---------------------------------------------------------------------------------------

_TYPE_ATTRIBUTES: Final = frozenset({"type", "element", "key", "value", "length", "fields"})
_FIELD_ATTRIBUTES: Final = frozenset({"id", "name", "type", "description", "defaultValue"})


def type_to_json(data_type: DataType) -> str | dict[str, object]:
    """Return the schema file's value of the type: a string, or an object if it is nested."""
    suffix = "" if data_type.nullable else " NOT NULL"
    match data_type:
        case ArrayType():
            return {"type": "ARRAY" + suffix, "element": type_to_json(data_type.element)}
        case MultisetType():
            return {"type": "MULTISET" + suffix, "element": type_to_json(data_type.element)}
        case MapType():
            return {
                "type": "MAP" + suffix,
                "key": type_to_json(data_type.key),
                "value": type_to_json(data_type.value),
            }
        case VectorType():
            return {
                "type": "VECTOR" + suffix,
                "element": type_to_json(data_type.element),
                "length": data_type.length,
            }
        case RowType():
            return {"type": "ROW" + suffix, "fields": [field_to_json(f) for f in data_type.fields]}
    return type_to_sql(data_type)


def field_to_json(field: DataField) -> dict[str, object]:
    """Return the schema file's value of a field, keys in Java's order."""
    out: dict[str, object] = {
        "id": field.id,
        "name": field.name,
        "type": type_to_json(field.type),
    }
    if field.description is not None:
        out["description"] = field.description
    if field.default_value is not None:
        out["defaultValue"] = field.default_value
    out.update(field.unknown)
    return out


def type_from_json(obj: object, *, depth: int = 0) -> DataType:
    """Parse a type of a schema file.

    UnsupportedFeature names an unknown type, or an unknown attribute, which may change its meaning.
    `depth` is the number of enclosing types.
    """
    if depth > MOST_NESTED_TYPES:
        raise UnsupportedFeature(f"types nested deeper than {MOST_NESTED_TYPES} levels")
    if isinstance(obj, str):
        try:
            return parse_type(obj)
        except InvalidArgument as e:
            raise UnsupportedFeature(f"data type {shown(obj)}") from e
    if not isinstance(obj, Mapping) or not isinstance(obj.get("type"), str):
        raise UnsupportedFeature(f"data type {shown(obj)}")
    word = str(obj["type"])
    strangers = sorted(set(map(str, obj)) - _TYPE_ATTRIBUTES)
    if strangers:
        raise UnsupportedFeature(f"the attribute {shown(strangers[0])} of data type {shown(word)}")
    nullable = "NOT NULL" not in word
    try:
        if word.startswith("ARRAY"):
            return ArrayType(
                nullable=nullable, element=type_from_json(obj["element"], depth=depth + 1)
            )
        if word.startswith("VECTOR"):
            return VectorType(
                nullable=nullable,
                element=type_from_json(obj["element"], depth=depth + 1),
                length=int(str(obj["length"])),
            )
        if word.startswith("MULTISET"):
            return MultisetType(
                nullable=nullable, element=type_from_json(obj["element"], depth=depth + 1)
            )
        if word.startswith("MAP"):
            return MapType(
                nullable=nullable,
                key=type_from_json(obj["key"], depth=depth + 1),
                value=type_from_json(obj["value"], depth=depth + 1),
            )
        if word.startswith("ROW"):
            return row_from_json(obj["fields"], nullable=nullable, depth=depth + 1)
    except (KeyError, TypeError, ValueError) as e:
        raise UnsupportedFeature(f"data type {shown(obj)}") from e
    raise UnsupportedFeature(f"data type {shown(word)}")


def field_from_json(obj: Mapping[str, object], *, depth: int = 0) -> DataField:
    """Parse a field of a schema file; KeyError if id, name or type is missing."""
    description, default = obj.get("description"), obj.get("defaultValue")
    return DataField(
        id=int(str(obj["id"])),
        name=str(obj["name"]),
        type=type_from_json(obj["type"], depth=depth),
        description=None if description is None else str(description),
        default_value=None if default is None else str(default),
        unknown={k: v for k, v in obj.items() if k not in _FIELD_ATTRIBUTES},
    )


def row_from_json(
    objects: Iterable[Mapping[str, object]], *, nullable: bool = True, depth: int = 0
) -> RowType:
    """Parse the fields of a row, as `field_from_json`; InvalidArgument for a repeated name."""
    fields = tuple(field_from_json(o, depth=depth) for o in objects)
    return RowType(nullable=nullable, fields=fields)


# --- parsing ------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def parse_type(text: str) -> DataType:
    """Parse a type in SQL, keywords in any case; InvalidArgument if it is invalid."""
    return _Parser(text).parse()


class _Token(NamedTuple):
    kind: str
    """word (keyword or bare name), name (in backticks), string, int, or the punctuation itself"""
    text: str
    start: int
    end: int


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        char = text[at]
        start = at
        if char.isspace():
            at += 1
            continue
        if char in _PUNCTUATION:
            at += 1
            yield _Token(char, char, start, at)
        elif char in "'`":
            at, body = _quoted(text, at)
            yield _Token("string" if char == "'" else "name", body, start, at)
        elif "0" <= char <= "9":
            while at < len(text) and "0" <= text[at] <= "9":
                at += 1
            yield _Token("int", text[start:at], start, at)
        else:
            while at < len(text) and not text[at].isspace() and text[at] not in _PUNCTUATION:
                at += 1
            yield _Token("word", text[start:at], start, at)


def _quoted(text: str, start: int) -> tuple[int, str]:
    """Return the end of the quoted part, and its content (a doubled quote means one quote)."""
    quote, parts, at = text[start], [], start + 1
    while at < len(text):
        if text[at] != quote:
            parts.append(text[at])
        elif text[at + 1 : at + 2] == quote:
            parts.append(quote)
            at += 1
        else:
            return at + 1, "".join(parts)
        at += 1
    raise InvalidArgument(f"unclosed {quote} in the type {text!r}")


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.at = 0
        self.depth = 0
        self.next_id = count()

    def parse(self) -> DataType:
        result = self.type()
        if self.at < len(self.tokens):
            self.fail(f"unexpected {self.tokens[self.at].text!r}")
        return result

    def fail(self, cause: str) -> NoReturn:
        position = self.tokens[self.at].start if self.at < len(self.tokens) else len(self.text)
        raise InvalidArgument(f"cannot read the type {shown(self.text)} at {position}: {cause}")

    # tokens

    def peek(self, offset: int = 0) -> _Token | None:
        return self.tokens[self.at + offset] if self.at + offset < len(self.tokens) else None

    def next(self) -> _Token:
        token = self.peek()
        if token is None:
            self.fail("unexpected end")
        self.at += 1
        return token

    def eat(self, kind: str) -> bool:
        token = self.peek()
        if token is None or token.kind != kind:
            return False
        self.at += 1
        return True

    def need(self, kind: str) -> _Token:
        token = self.peek()
        if token is None or token.kind != kind:
            self.fail(f"expected {kind}")
        self.at += 1
        return token

    def eat_words(self, *words: str) -> bool:
        for offset, word in enumerate(words):
            token = self.peek(offset)
            if token is None or token.kind != "word" or token.text.upper() != word:
                return False
        self.at += len(words)
        return True

    def integer(self) -> int:
        return int(self.need("int").text)

    # grammar

    def type(self) -> DataType:
        """Parse a type, NULL or NOT NULL, and the suffix notations `INT ARRAY`, `INT MULTISET`."""
        self.deeper(1)
        result = self.nullability(self.body())
        suffixes = 0
        while True:
            if self.eat_words("ARRAY"):
                result = self.nullability(ArrayType(element=result))
            elif self.eat_words("MULTISET"):
                result = self.nullability(MultisetType(element=result))
            else:
                self.deeper(-1 - suffixes)
                return result
            suffixes += 1
            self.deeper(1)

    def deeper(self, levels: int) -> None:
        self.depth += levels
        if self.depth > MOST_NESTED_TYPES:
            self.fail(f"types nested deeper than {MOST_NESTED_TYPES} levels")

    def nullability(self, t: DataType) -> DataType:
        if self.eat_words("NOT", "NULL"):
            return t.with_nullable(False)
        self.eat_words("NULL")
        return t

    def body(self) -> DataType:
        token = self.need("word")
        word = token.text.upper()
        if word in _PLAIN:
            return _PLAIN[word]
        if word in _WITH_LENGTH:
            return self.with_length(_WITH_LENGTH[word])
        if word in _DECIMAL_WORDS:
            return self.decimal()
        if word == "DOUBLE":
            self.eat_words("PRECISION")
            return AtomicType(kind=TypeRoot.DOUBLE)
        if word in _WITH_PRECISION:
            return self.time(word)
        if word not in _NESTED_WORDS:
            self.at -= 1
            self.fail(f"unknown type {token.text!r}")
        self.need("<")
        result = _NESTED[word](self)
        self.need(">")
        return result

    def with_length(self, root: TypeRoot) -> DataType:
        length = 1
        if self.eat("("):
            length = self.integer()
            self.need(")")
        if not 1 <= length <= MAX_LENGTH:
            self.fail(f"the length of {root} must be between 1 and {MAX_LENGTH}")
        return AtomicType(kind=root, length=length)

    def decimal(self) -> DataType:
        precision, scale = 10, 0
        if self.eat("("):
            precision = self.integer()
            if self.eat(","):
                scale = self.integer()
            self.need(")")
        if not 1 <= precision <= MAX_DECIMAL_PRECISION:
            self.fail(f"the precision of DECIMAL must be between 1 and {MAX_DECIMAL_PRECISION}")
        if scale > precision:
            self.fail(f"the scale of DECIMAL must be between 0 and its precision, {precision}")
        return AtomicType(kind=TypeRoot.DECIMAL, precision=precision, scale=scale)

    def time(self, word: str) -> DataType:
        root, precision = _WITH_PRECISION[word]
        if self.eat("("):
            precision = self.integer()
            self.need(")")
        if precision > MAX_TIME_PRECISION:
            self.fail(f"the precision of {word} must be between 0 and {MAX_TIME_PRECISION}")
        if root is TypeRoot.TIMESTAMP and self.eat_words("WITH", "LOCAL", "TIME", "ZONE"):
            root = TypeRoot.TIMESTAMP_LTZ
        elif root is not TypeRoot.TIMESTAMP_LTZ:
            self.eat_words("WITHOUT", "TIME", "ZONE")
        return AtomicType(kind=root, precision=precision)

    def array(self) -> DataType:
        return ArrayType(element=self.type())

    def multiset(self) -> DataType:
        return MultisetType(element=self.type())

    def map(self) -> DataType:
        key = self.type()
        self.need(",")
        return MapType(key=key, value=self.type())

    def vector(self) -> DataType:
        element = self.type()
        self.need(",")
        length = self.integer()
        if length < 1:
            self.fail("the length of VECTOR must be at least 1")
        return VectorType(element=element, length=length)

    def row(self) -> DataType:
        fields: list[DataField] = []
        token = self.peek()
        if token is not None and token.kind == ">":
            return RowType()
        while True:
            fields.append(self.field())
            if not self.eat(","):
                return RowType(fields=tuple(fields))

    def field(self) -> DataField:
        token = self.next()
        if token.kind not in ("word", "name", "string"):
            self.at -= 1
            self.fail("expected a field name")
        result = DataField(id=next(self.next_id), name=token.text, type=self.type())
        self.eat_words("COMMENT")
        comment = self.peek()
        if comment is not None and comment.kind == "string":
            self.at += 1
            result = replace(result, description=comment.text)
        if self.eat_words("DEFAULT"):
            result = replace(result, default_value=self.default_text())
        return result

    def default_text(self) -> str:
        """Return the raw text up to the next comma or closing bracket on this level."""
        first = self.next()
        last, depth = first, int(first.kind == "(")
        while (token := self.peek()) is not None and (depth or token.kind not in (",", ">")):
            depth = depth + (token.kind == "(") - (token.kind == ")")
            last = self.next()
        return self.text[first.start : last.end]


_NESTED: Final[Mapping[str, Callable[[_Parser], DataType]]] = {
    "ARRAY": _Parser.array,
    "MULTISET": _Parser.multiset,
    "MAP": _Parser.map,
    "ROW": _Parser.row,
    "VECTOR": _Parser.vector,
}
