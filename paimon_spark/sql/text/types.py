"""Spark's types and Paimon's (Java: `SparkTypeUtils`).

Spark's TIMESTAMP is Paimon's TIMESTAMP WITH LOCAL TIME ZONE, its TIMESTAMP_NTZ Paimon's TIMESTAMP.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from paimon_core.errors import InvalidArgument, UnsupportedFeature
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
from paimon_core.types.sql import type_to_sql
from paimon_spark.sql.errors import AnalysisError, SqlSyntaxError
from paimon_spark.sql.text.names import quoted_text
from paimon_spark.sql.text.tokens import Words

_WORDS: Final = {
    "BOOLEAN": TypeRoot.BOOLEAN,
    "TINYINT": TypeRoot.TINYINT,
    "BYTE": TypeRoot.TINYINT,
    "SMALLINT": TypeRoot.SMALLINT,
    "SHORT": TypeRoot.SMALLINT,
    "INT": TypeRoot.INT,
    "INTEGER": TypeRoot.INT,
    "BIGINT": TypeRoot.BIGINT,
    "LONG": TypeRoot.BIGINT,
    "FLOAT": TypeRoot.FLOAT,
    "REAL": TypeRoot.FLOAT,
    "DOUBLE": TypeRoot.DOUBLE,
    "DATE": TypeRoot.DATE,
    "VARIANT": TypeRoot.VARIANT,
}
_TIMESTAMPS: Final = {
    "TIMESTAMP": TypeRoot.TIMESTAMP_LTZ,
    "TIMESTAMP_LTZ": TypeRoot.TIMESTAMP_LTZ,
    "TIMESTAMP_NTZ": TypeRoot.TIMESTAMP,
}
_DECIMALS: Final = ("DECIMAL", "DEC", "NUMERIC")
_CHARACTERS: Final = {
    "CHAR": TypeRoot.CHAR,
    "CHARACTER": TypeRoot.CHAR,
    "VARCHAR": TypeRoot.VARCHAR,
}
_INT: Final = AtomicType(kind=TypeRoot.INT)
_TREE_WORDS: Final = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
"""Types whose names in trees are others than in DESCRIBE."""
_COLLATION: Final = re.compile(
    r"(UTF8_BINARY|UTF8_LCASE|(UNICODE|[a-z]{2,3}(_[a-z]{4})?(_[a-z]{3})?)(_(CI|CS|AI|AS))*)(_RTRIM)?",
    re.IGNORECASE,
)
_BARE: Final = re.compile(r"[A-Za-z_]\w*")


def read_collation(words: Words) -> str:
    """The collation at the cursor; AnalysisError for a name that none has.

    Paimon's types have no collation, so that comparisons of the column take no notice of it, as in
    Java.
    """
    name = ".".join(words.name())
    if _COLLATION.fullmatch(name.rpartition(".")[2]) is None:
        raise AnalysisError(
            f"[COLLATION_INVALID_NAME] The value {name} does not represent a correct collation name"
        )
    return name


def read_type(words: Words) -> DataType:
    """The type at the cursor; SqlSyntaxError for one that Spark does not have."""
    if not words.word():
        words.fail("a type")
    word = words.identifier().upper()
    if word in _WORDS:
        return AtomicType(kind=_WORDS[word])
    if word == "TIMESTAMP" and words.eat("WITHOUT", "TIME", "ZONE"):
        word = "TIMESTAMP_NTZ"
    if word in _TIMESTAMPS:
        return AtomicType(kind=_TIMESTAMPS[word], precision=6)
    if word == "STRING":
        if words.eat("COLLATE"):
            read_collation(words)
        return AtomicType(kind=TypeRoot.VARCHAR, length=MAX_LENGTH)
    if word in ("BINARY", "BYTES"):
        return AtomicType(kind=TypeRoot.VARBINARY, length=MAX_LENGTH)
    if word in _DECIMALS:
        sizes = words.items(words.integer) if words.looks_at("(") else []
        if len(sizes) > 2:
            raise SqlSyntaxError(f'[UNSUPPORTED_DATATYPE] Unsupported data type "{word}{sizes}"')
        precision, scale = (*sizes, *(10, 0)[len(sizes) :])
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise SqlSyntaxError(f"[DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION] {word}{sizes}")
        return AtomicType(kind=TypeRoot.DECIMAL, precision=precision, scale=scale)
    if word in _CHARACTERS:
        if not words.looks_at("("):
            raise SqlSyntaxError(
                f'[DATATYPE_MISSING_SIZE] DataType "{word}" requires a length parameter, for '
                f'example "{word}"(10)'
            )
        words.need("(")
        length = words.integer()
        words.need(")")
        if not 1 <= length <= MAX_LENGTH:
            raise InvalidArgument(
                f"{'Variable character' if word == 'VARCHAR' else 'Character'} string length must "
                f"be between 1 and {MAX_LENGTH} (both inclusive)."
            )
        return AtomicType(kind=_CHARACTERS[word], length=length)
    if word == "ARRAY":
        words.need("<")
        array = ArrayType(element=read_type(words))
        words.need(">")
        return array
    if word == "MAP":
        words.need("<")
        key = read_type(words).with_nullable(False)  # no map of Spark has NULL as a key
        words.need(",")
        mapping = MapType(key=key, value=read_type(words))
        words.need(">")
        return mapping
    if word == "STRUCT":
        return _struct(words)
    raise SqlSyntaxError(f'[UNSUPPORTED_DATATYPE] Unsupported data type "{word}"')


def _struct(words: Words) -> DataType:
    fields: list[DataField] = []
    if words.eat("<>") or words.eat("<", ">"):
        return RowType(fields=())
    words.need("<")
    while True:
        name = words.identifier()
        words.eat(":")
        data_type = read_type(words)
        if words.eat("NOT", "NULL"):
            data_type = data_type.with_nullable(False)
        comment = words.string() if words.eat("COMMENT") else None
        fields.append(DataField(id=len(fields), name=name, type=data_type, description=comment))
        if words.eat(">"):
            return RowType(fields=tuple(fields))
        words.need(",")


def simple_text(data_type: DataType) -> str:
    """The type as DESCRIBE prints it: `struct<a:int,b:string>`."""
    return _text(data_type, str.lower, "struct", ":", ",")


def catalog_text(data_type: DataType) -> str:
    """The type as SHOW CREATE TABLE prints it: `STRUCT<a: INT, b: STRING>`."""
    return _text(data_type, str, "STRUCT", ": ", ", ", whole=True)


def tree_lines(fields: Iterable[DataField], indent: str = " ") -> Iterator[str]:
    """The columns as `StructType.treeString` of Spark prints them, one line each."""
    for field in fields:
        yield from _branch(field.name, field.type, "nullable", indent)


def _branch(name: str, t: DataType, word: str | None, indent: str) -> Iterator[str]:
    """A type and its parts; `word` says whether the place of the type may be null."""
    text = simple_text(t)
    kind = _TREE_WORDS.get(text, text.partition("<")[0])
    shown = "" if word is None else f" ({word} = {str(t.nullable).lower()})"
    yield f"{indent}|-- {name}: {kind}{shown}"
    inner = f"{indent}|    "
    match t:
        case ArrayType() | VectorType():
            yield from _branch("element", t.element, "containsNull", inner)
        case MapType():
            yield from _branch("key", t.key, None, inner)
            yield from _branch("value", t.value, "valueContainsNull", inner)
        case MultisetType():
            yield from _branch("key", t.element, None, inner)
            yield from _branch("value", _INT.with_nullable(False), "valueContainsNull", inner)
        case RowType():
            yield from tree_lines(t.fields, inner)


def read_schema_text(data_type: DataType) -> str:
    """The type of a column of a DataFrame, in which CHAR and VARCHAR are STRING."""
    return _text(data_type, str, "STRUCT", ": ", ", ", characters=False)


def null_text(data_type: DataType) -> str:
    """The SQL of a null of this type."""
    return f"CAST(NULL AS {read_schema_text(data_type)})"


def _text(
    t: DataType,
    case: Callable[[str], str],
    struct: str,
    colon: str,
    comma: str,
    *,
    characters: bool = True,
    whole: bool = False,
) -> str:
    """`whole` shows NOT NULL and the comments of the fields of structs."""

    def inner(part: DataType) -> str:
        return _text(part, case, struct, colon, comma, characters=characters, whole=whole)

    def more(field: DataField) -> str:
        if not whole:
            return ""
        comment = field.description
        return " NOT NULL" * (not field.type.nullable) + (
            "" if comment is None else f" COMMENT {quoted_text(comment)}"
        )

    match t:
        case ArrayType():
            return f"{case('ARRAY')}<{inner(t.element)}>"
        case VectorType():
            return f"{case('ARRAY')}<{inner(t.element)}>"
        case MapType():
            return f"{case('MAP')}<{inner(t.key)}{comma}{inner(t.value)}>"
        case MultisetType():
            return f"{case('MAP')}<{inner(t.element)}{comma}{inner(_INT)}>"
        case RowType():
            fields = comma.join(
                f"{struct_name(f.name)}{colon}{inner(f.type)}{more(f)}" for f in t.fields
            )
            return f"{struct}<{fields}>"
        case AtomicType():
            return case(_atomic(t, characters=characters))
    raise UnsupportedFeature(f"data type {type_to_sql(t)} in Spark")


def struct_name(name: str) -> str:
    """A field's name in a type, in backquotes if Spark needs them."""
    return name if _BARE.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _atomic(t: AtomicType, *, characters: bool) -> str:
    match t.kind:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            if not characters or t.length == MAX_LENGTH:
                return "STRING"
            return f"{t.kind}({t.length})"
        case TypeRoot.BINARY | TypeRoot.VARBINARY | TypeRoot.BLOB:
            return "BINARY"
        case TypeRoot.TIMESTAMP:
            return "TIMESTAMP_NTZ"
        case TypeRoot.TIMESTAMP_LTZ:
            return "TIMESTAMP"
        case TypeRoot.DECIMAL:
            return f"DECIMAL({t.precision},{t.scale})"
        case TypeRoot.TIME:
            return "INT"
    return str(t.kind)
