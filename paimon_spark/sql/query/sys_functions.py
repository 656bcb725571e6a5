"""The functions of the database `sys`, which every Paimon catalog has.

======================  ==========================================================================
max_pt                  the greatest value of a table's first partition column (`table_functions`)
bucket                  the bucket of a key among so many: `sys.bucket(4, id, name)`
mod_bucket              the same for bucket-function.type = mod
hive_bucket             the same for bucket-function.type = hive
path_to_descriptor      a file as the descriptor of a BLOB
descriptor_to_string    the text of such a descriptor
blob_view               a BLOB of another table: `sys.blob_view('db.t', 'column', _ROW_ID)`
======================  ==========================================================================

Java: `spark/catalog/functions/PaimonFunctions`, `BlobDescriptor`, `ReplacePaimonFunctions`.
`descriptor_to_presigned_url` fails, and `try_descriptor_to_presigned_url` is null, as in Java for
all stores but OSS; for tables on OSS they are refused.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.format.blob.descriptor import BlobDescriptor
from paimon_core.types.data_types import TypeRoot
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import SYSTEM_DATABASE
from paimon_spark.sql.text.names import quoted, quoted_text
from paimon_spark.sql.text.tokens import START, Words, with_quoted_names

MAX_PT: Final = "max_pt"
_BUCKETS: Final = {"bucket": "default", "mod_bucket": "mod", "hive_bucket": "hive"}
_TO_DESCRIPTOR: Final = "path_to_descriptor"
_DESCRIPTORS: Final = (_TO_DESCRIPTOR, "descriptor_to_string")
_VIEW: Final = "blob_view"
_TO_URL: Final = "descriptor_to_presigned_url"
_TRY_TO_URL: Final = f"try_{_TO_URL}"
_URLS: Final = (_TO_URL, _TRY_TO_URL)
FUNCTIONS: Final = tuple(sorted((MAX_PT, *_BUCKETS, *_DESCRIPTORS, *_URLS, _VIEW)))
PREFIX: Final = "__paimon_"


def replace_sys_functions(session: SqlSession, text: str) -> str:
    """The query with functions of the Spark session in place of `sys.NAME`, apart from max_pt.

    AnalysisError for unknown ones, and errors for tables in their arguments.
    """
    if SYSTEM_DATABASE not in text.lower():
        return text
    words = Words(text)
    pieces: list[str] = []
    done = len(START)
    while not words.done:
        first = words.at
        name = sys_function_at(session, words)
        if name is None:
            words.at = first + 1
            continue
        if name == MAX_PT:
            continue
        pieces += [words.text[done : words.tokens[first].start], _registered(session, name)]
        done = words.tokens[words.at - 1].end + 1
        if name == _VIEW:
            pieces.append(_viewed_column(session, words))
            done = words.tokens[words.at - 1].end + 1
        elif name in _URLS:
            pieces.append(_of_table(session, words, name))
            done = words.tokens[words.at - 1].end + 1
    return "".join([*pieces, words.text[done:]])


def with_descriptors(session: SqlSession, values: str) -> str:
    """VALUES with literals in place of `sys.path_to_descriptor('...')`.

    Spark evaluates no function of a session in VALUES.
    """
    if _TO_DESCRIPTOR not in values.lower():
        return values
    words = Words(values)
    pieces: list[str] = []
    done = len(START)
    while not words.done:
        first = words.at
        if sys_function_at(session, words) == _TO_DESCRIPTOR and words.word(2) == ")":
            words.at += 1
            if words.is_string():
                literal = f"X'{BlobDescriptor(words.string()).to_bytes().hex()}'"
                pieces += [words.text[done : words.tokens[first].start], literal]
                done = words.tokens[words.at].end + 1
                continue
        words.at = first + 1
    return "".join([*pieces, words.text[done:]])


def sys_function_at(session: SqlSession, words: Words) -> str | None:
    """The name in lower case of `[catalog.]sys.NAME` before a `(`; the cursor then stands there."""
    if words.tokens[words.at - 1].text == ".":
        return None
    parts = _name_at(words)
    if words.word() != "(" or len(parts) not in (2, 3):
        return None
    if parts[-2].lower() != SYSTEM_DATABASE or (len(parts) == 3 and session.find(parts[0]) is None):
        return None
    return parts[-1].lower()


def _name_at(words: Words) -> list[str]:
    token = words.tokens[words.at]
    if words.is_literal():
        return []
    if not (token.text[:1].isalpha() or words.text[token.start] == "`"):
        return []
    parts = [words.identifier()]
    while words.word() == "." and words.word(1) not in ("*", ""):
        words.at += 1
        parts.append(words.identifier())
    return parts


def _registered(session: SqlSession, name: str) -> str:
    """The name of the session's function that does the work."""
    from pyspark.sql import functions  # noqa: PLC0415 - only with a session

    from paimon_spark.source.functions import (  # noqa: PLC0415 - imports PySpark
        buckets,
        descriptor_of,
        descriptor_text,
        presigned_url,
        presigned_url_or_null,
        view_of,
    )

    spark: Any = functions  # whose stubs lack arrow_udf
    registry = session.spark.udf  # starts Spark, without which no function can be made
    made: Any
    if name in _BUCKETS:
        kind = _BUCKETS[name]

        def bucket(count: pa.Array, *keys: pa.Array) -> pa.Array:
            return buckets(kind, count, keys)

        made = spark.arrow_udf(bucket, "int")
    elif name == _TO_DESCRIPTOR:
        made = spark.udf(descriptor_of, "binary", useArrow=False)
    elif name == _VIEW:
        made = spark.udf(view_of, "binary", useArrow=False)
    elif name == "descriptor_to_string":
        made = spark.udf(descriptor_text, "string", useArrow=False)
    elif name in _URLS:
        url = presigned_url if name == _TO_URL else presigned_url_or_null
        made = spark.udf(url, "string", useArrow=False)
    else:
        raise AnalysisError(
            f"[UNRESOLVED_ROUTINE] Cannot resolve routine `sys`.`{name}`",
            next_step="SHOW USER FUNCTIONS IN sys lists them",
        )
    registry.register(PREFIX + name, made)
    return quoted(PREFIX + name)


def _viewed_column(session: SqlSession, words: Words) -> str:
    """The begin of the arguments of blob_view, up to the row: the table's full name, the column's
    id.

    UnsupportedFeature unless table and column are literals, InvalidArgument for other columns
    than those of BLOBs.
    """
    words.need("(")
    literals = []
    for _ in range(2):
        if not words.is_string() or words.word(1) != ",":
            raise UnsupportedFeature(
                "a table or a column of blob_view that is no literal",
                "Function 'blob_view' requires literal tableName and fieldName.",
            )
        literals.append(words.string())
        words.need(",")
    name = session.data_name(Words(with_quoted_names(literals[0])).name())
    field = session.open(name).schema.row_type.get(literals[1])
    if field is None:
        raise InvalidArgument(
            f"Cannot find blob field {literals[1]} in upstream table {name.identifier}."
        )
    if field.type.root is not TypeRoot.BLOB:
        raise InvalidArgument(
            f"Field {literals[1]} in upstream table {name.identifier} is not a BLOB field."
        )
    return f"({quoted_text(name.identifier)}, {field.id}, "


def _of_table(session: SqlSession, words: Words, function: str) -> str:
    """The begin of the arguments of a presigned URL, without the table.

    UnsupportedFeature unless the table is a literal, and for tables on OSS; NotFound.
    """
    words.need("(")
    if not words.is_string() or words.word(1) != ",":
        raise UnsupportedFeature(
            f"a table of {function} that is no literal",
            f"Function '{function}' requires a non-null literal sourceTable.",
        )
    name = session.data_name(Words(with_quoted_names(words.string())).name())
    words.need(",")
    if session.open(name).root.startswith("oss://"):
        raise UnsupportedFeature(
            f"the function sys.{function} on OSS",
            table=name.identifier,
            next_step="call it in Java Paimon",
        )
    return "("


def plain_name(column: str) -> str:
    """The name of a column as it is with Java's functions: `bucket(4, id)`."""
    for name in (*_BUCKETS, *_DESCRIPTORS, *_URLS, _VIEW):
        column = column.replace(f"{PREFIX}{name}(", f"{name}(")
    return column
