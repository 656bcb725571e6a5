"""The prompt of `caretaker sql` at a terminal: lines to statements, history and completion.

Built on the standard library's `readline`, so that it works wherever Python does.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paimon_core.errors import PaimonError
from paimon_maintenance.cli.output import to_json_text
from paimon_spark.sql.text.splitter import complete_statements

if TYPE_CHECKING:
    from paimon_spark.sql.result import Result
    from paimon_spark.sql.session import SqlSession

PROMPT: Final = "sql> "
MORE: Final = "  -> "
HISTORY_VARIABLE: Final = "CARETAKER_SQL_HISTORY"
_HISTORY_LINES: Final = 1000
_WIDEST: Final = 80
_LEAVE: Final = ("quit", "exit")
_KEYWORDS: Final = (
    "ALTER",
    "ANALYZE",
    "AND",
    "AS",
    "BRANCH",
    "BY",
    "CALL",
    "CASCADE",
    "COLUMN",
    "COMMENT",
    "CREATE",
    "CROSS",
    "DATABASE",
    "DATABASES",
    "DELETE",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "EXISTS",
    "EXPLAIN",
    "EXTENDED",
    "FALSE",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INSERT",
    "INTO",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "MATCHED",
    "MERGE",
    "NOT",
    "NULL",
    "OF",
    "ON",
    "OPTIONS",
    "OR",
    "ORDER",
    "OVERWRITE",
    "PARTITION",
    "PARTITIONED",
    "PARTITIONS",
    "PROCEDURES",
    "REPLACE",
    "RESET",
    "RIGHT",
    "SELECT",
    "SET",
    "SHOW",
    "TABLE",
    "TABLES",
    "TAG",
    "TAGS",
    "TBLPROPERTIES",
    "TEMPORARY",
    "THEN",
    "TIMESTAMP",
    "TRUE",
    "TRUNCATE",
    "UNION",
    "UPDATE",
    "USE",
    "USING",
    "VALUES",
    "VERSION",
    "VIEW",
    "WHEN",
    "WHERE",
    "WITH",
)


def read_statements(session: SqlSession, read_line: Callable[[str], str] = input) -> Iterator[str]:
    """Yield each statement when its `;` is typed, until the end of input or `quit`.

    An interrupt (Ctrl-C) drops what was typed since the last statement.
    """
    with _history(), _completion(session):
        typed = ""
        while True:
            try:
                line = read_line(MORE if typed else PROMPT)
            except EOFError:
                return
            except KeyboardInterrupt:
                typed = ""
                continue
            if not typed and line.strip().rstrip(";").strip().lower() in _LEAVE:
                return
            found, typed = complete_statements(f"{typed}{line}\n")
            yield from found
            typed += "\n" if typed else ""


@contextlib.contextmanager
def _history() -> Iterator[None]:
    """History of lines, kept in a file; without `readline`, none."""
    try:
        import readline  # noqa: PLC0415 - not on every system
    except ImportError:
        yield
        return
    file = Path(os.environ.get(HISTORY_VARIABLE) or Path.home() / ".caretaker_sql_history")
    with contextlib.suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(_HISTORY_LINES)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            readline.write_history_file(file)


@contextlib.contextmanager
def _completion(session: SqlSession) -> Iterator[None]:
    """Tab completes keywords, and the names of databases, tables, views and columns."""
    try:
        import readline  # noqa: PLC0415 - not on every system
    except ImportError:
        yield
        return
    found: list[str] = []

    def complete(text: str, state: int) -> str | None:
        if state == 0:
            found[:] = candidates(session, text, readline.get_line_buffer())
        return found[state] if state < len(found) else None

    before, delimiters = readline.get_completer(), readline.get_completer_delims()
    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n()=,;<>+-*/'\"")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_completer(before)
        readline.set_completer_delims(delimiters)


def candidates(session: SqlSession, text: str, line: str) -> list[str]:
    """What the word `text` at the end of the line may become."""
    database, dot, start = text.rpartition(".")
    if dot:
        names = _names(lambda: session.catalog.list_tables(database.strip("`")))
        return [f"{database}.{n}" for n in names if n.lower().startswith(start.lower())]
    tables = _names(lambda: session.catalog.list_tables(session.database))
    names = [*tables, *_names(session.catalog.list_databases), *session.views]
    words = {w.strip("`,;()").lower() for w in line.split()}
    for table in tables:
        if table.lower() in words:
            names += _names(partial(_columns, session, table))
    lowered = text.lower()
    keywords = [k if text[:1].isupper() or not text else k.lower() for k in _KEYWORDS]
    return sorted({n for n in (*keywords, *names) if n.lower().startswith(lowered)})


def _columns(session: SqlSession, table: str) -> Sequence[str]:
    return session.open(session.table_name([table])).schema.names


def _names(read: Callable[[], Sequence[str]]) -> list[str]:
    """Names for completion; none if they cannot be read."""
    try:
        return list(read())
    except PaimonError:
        return []


def table_text(result: Result) -> str:
    """The rows under their columns, aligned; long values are cut."""
    if not result.columns:
        return "OK\n"
    cells = [[_cell(v) for v in row] for row in (result.columns, *result.rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(result.columns))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    lines.insert(1, "  ".join("-" * w for w in widths))
    count = len(result.rows)
    lines.append(f"({count} row{'' if count == 1 else 's'})")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _cell(value: object) -> str:
    text = value if isinstance(value, str) else to_json_text(value)
    text = text.replace("\n", " ")
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
