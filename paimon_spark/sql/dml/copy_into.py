"""COPY INTO: files into a table, or the rows of a table or query into files.

Java: `spark/execution/CopyIntoTableExec`, `CopyIntoLocationExec` (2.0)::

    COPY INTO t [(a, b)] FROM 'path' FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 1)
        [PATTERN = 'regex'] [FORCE = TRUE] [ON_ERROR = CONTINUE]
    COPY INTO 'path' FROM t | (SELECT ...) FILE_FORMAT = (TYPE = JSON) [OVERWRITE = TRUE]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from paimon_core.errors import InvalidArgument
from paimon_spark.sql.dml.copy_files import Load, listed, load_files
from paimon_spark.sql.dml.directories import check_no_table
from paimon_spark.sql.query.queries import query_dataframe
from paimon_spark.sql.result import Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.tokens import Words

_IMPORT_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "CSV": frozenset(
        (
            "FIELD_DELIMITER",
            "SKIP_HEADER",
            "QUOTE",
            "ESCAPE",
            "NULL_IF",
            "EMPTY_FIELD_AS_NULL",
            "COMPRESSION",
        )
    ),
    "JSON": frozenset(("MULTI_LINE", "COMPRESSION", "NULL_IF", "EMPTY_FIELD_AS_NULL")),
    "PARQUET": frozenset(("COMPRESSION",)),
}
_EXPORT_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "CSV": frozenset(("FIELD_DELIMITER", "HEADER", "QUOTE", "ESCAPE", "COMPRESSION")),
    "JSON": frozenset(("COMPRESSION", "DATE_FORMAT", "TIMESTAMP_FORMAT")),
    "PARQUET": frozenset(("COMPRESSION",)),
}
_WRITER_OPTIONS: Final = {
    "FIELD_DELIMITER": "sep",
    "HEADER": "header",
    "QUOTE": "quote",
    "ESCAPE": "escape",
    "COMPRESSION": "compression",
    "DATE_FORMAT": "dateFormat",
    "TIMESTAMP_FORMAT": "timestampFormat",
}
_ON_ERROR: Final = ("ABORT_STATEMENT", "CONTINUE", "SKIP_FILE")
_READS: Final = ("SELECT", "WITH", "VALUES", "TABLE", "FROM")
_CHANGES: Final = ("INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "DROP", "ALTER", "TRUNCATE")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


@dataclass(frozen=True, slots=True)
class FileFormat:
    """FILE_FORMAT: the type, and the options by their names in upper case."""

    kind: str
    options: Mapping[str, str | Sequence[str]]


def copy_into(session: SqlSession, words: Words) -> Result:
    """What follows COPY.  InvalidArgument for options that do not apply."""
    words.need("INTO")
    return _export(session, words) if words.is_string() else _import(session, words)


def _import(session: SqlSession, words: Words) -> Result:
    name = session.target_name(words.name())
    columns = words.items(words.identifier) if words.looks_at("(") else None
    words.need("FROM")
    source = _string(words)
    file_format = _file_format(words)
    pattern, force, on_error = None, False, _ON_ERROR[0]
    if words.eat("PATTERN", "="):
        pattern = _string(words)
    if words.eat("FORCE", "="):
        force = _boolean(words)
    if words.eat("ON_ERROR", "="):
        on_error = words.eat_any(*_ON_ERROR) or words.fail(" or ".join(_ON_ERROR))
    words.end()
    _check(file_format, _IMPORT_KEYS, "import")
    return load_files(
        session,
        name,
        Load(
            source=source,
            kind=file_format.kind,
            options=file_format.options,
            columns=columns,
            pattern=pattern,
            force=force,
            on_error=on_error,
        ),
    )


def _export(session: SqlSession, words: Words) -> Result:
    target = _string(words)
    words.need("FROM")
    if words.looks_at("("):
        query = words.parenthesized().strip()
        _check_query(query)
    else:
        query = "SELECT * FROM " + ".".join(quoted(p) for p in words.name())
    file_format = _file_format(words)
    overwrite = words.eat("OVERWRITE", "=") and _boolean(words)
    words.end()
    _check(file_format, _EXPORT_KEYS, "export")
    if overwrite:
        check_no_table(session, target)
    frame = query_dataframe(session, query)
    options = {
        _WRITER_OPTIONS[k]: v.lower() if k == "HEADER" else v
        for k, v in file_format.options.items()
        if isinstance(v, str)
    }
    rows = frame.count()
    writer = frame.write.options(**options).mode("overwrite" if overwrite else "errorifexists")
    getattr(writer, file_format.kind.lower())(target)
    files = sum(1 for f in listed(session, target) if f.name.startswith("part-"))
    columns = ("output_path", "file_count", "rows_written")
    return Result(columns, [[target, files, rows]], {"file_count": "INT", "rows_written": "BIGINT"})


def _check_query(query: str) -> None:
    if not query:
        raise InvalidArgument("COPY INTO <location> FROM (<query>) requires a non-empty query")
    inner = Words(query)
    if inner.word() not in (*_READS, "(") or any(
        t.text.upper() in _CHANGES and i < len(inner.tokens) - 1 and inner.tokens[i - 1].text != "."
        for i, t in enumerate(inner.tokens)
    ):
        raise InvalidArgument(
            "COPY INTO <location> FROM (<query>) only supports read-only queries, but got a "
            f"statement with side effects: {query}"
        )


# --- the clauses --------------------------------------------------------------------------------


def _file_format(words: Words) -> FileFormat:
    words.need("FILE_FORMAT", "=")
    found: dict[str, str | Sequence[str]] = {}
    for key, value in words.items(lambda: _format_option(words)):
        if key in found:
            raise InvalidArgument(f"Duplicate FILE_FORMAT option: {key}")
        found[key] = value
    kind = found.pop("TYPE", None)
    if not isinstance(kind, str):
        raise InvalidArgument("FILE_FORMAT must include TYPE")
    return FileFormat(kind.upper(), found)


def _format_option(words: Words) -> tuple[str, str | Sequence[str]]:
    key = words.identifier().upper()
    words.need("=")
    if words.looks_at("("):
        return key, words.items(lambda: _string(words))
    if words.is_string():
        return key, _string(words)
    if words.done or words.word() in ("", ",", ")"):
        words.fail("a value")
    value = str(words.tokens[words.at].text)
    words.at += 1
    return key, value


def _check(file_format: FileFormat, allowed: Mapping[str, frozenset[str]], what: str) -> None:
    keys = allowed.get(file_format.kind)
    if keys is None:
        raise InvalidArgument(
            f"Unsupported file format type: {file_format.kind}. Supported types: CSV, JSON, PARQUET"
        )
    options = file_format.options
    if what == "import" and "MODE" in options:
        raise InvalidArgument(
            "MODE cannot be specified in FILE_FORMAT options; it is reserved for ON_ERROR handling"
        )
    unknown = [k for k in options if k not in keys]
    if unknown:
        raise InvalidArgument(f"Unsupported FILE_FORMAT options for {what}: {', '.join(unknown)}")
    header = options.get("SKIP_HEADER", "0")
    if header not in ("0", "1"):
        raise InvalidArgument(f"SKIP_HEADER supports only 0 or 1, got: {header}")


def _boolean(words: Words) -> bool:
    found = words.eat_any("TRUE", "FALSE") or words.fail("TRUE or FALSE")
    return found == "TRUE"


def _string(words: Words) -> str:
    r"""The text in quotes; a backslash stays before letters other than n, t and r: `'.*\.csv'`."""
    if not words.is_string():
        words.fail("a text in quotes")
    token = words.tokens[words.at]
    raw = words.text[token.start : token.end + 1]
    words.at += 1
    quote, inner = raw[0], raw[1:-1]
    pieces, at = [], 0
    while at < len(inner):
        one, after = inner[at], inner[at + 1 : at + 2]
        if one == "\\" and after:
            pieces.append(_ESCAPES.get(after, after if after == quote else one + after))
        elif one == quote and after == quote:
            pieces.append(quote)
        else:
            pieces.append(one)
            after = ""
        at += 1 + len(after)
    return "".join(pieces)
