"""Table functions, dynamic options and sys functions, in place of or after a table name.

::

    paimon_incremental_query('t', 12, 20)
    paimon_incremental_between_timestamp('t', '1692169000000', '1692169900000')
    paimon_incremental_to_auto_tag('t', '2024-12-04')
    t WITH ('scan.snapshot-id' = '1')          t /*+ OPTIONS('scan.snapshot-id' = '1') */
    sys.max_pt('t')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from paimon_core.errors import PaimonError, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.source.batch_scan import rescaled_between
from paimon_core.types.casts.text import java_to_string
from paimon_spark.sql.call import literal
from paimon_spark.sql.ddl.partitions import live_partitions
from paimon_spark.sql.ddl.table_clauses import read_properties
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.query.sys_functions import MAX_PT, sys_function_at
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import SYSTEM_DATABASE, TableName
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.tokens import START, Words, with_quoted_names

_TIMES: Final = "incremental-between-timestamp"
_BETWEEN: Final = {
    "paimon_incremental_query": "incremental-between",
    "paimon_incremental_between_timestamp": _TIMES,
}
_AUTO_TAG: Final = "paimon_incremental_to_auto_tag"
_CURRENT: Final = ("current_database", "current_schema", "current_catalog")
_FUNCTIONS: Final = (*_BETWEEN, _AUTO_TAG)
_SEARCHES: Final = ("vector_search", "hybrid_search", "full_text_search")
_HINT: Final = re.compile(r"/\*\+\s*OPTIONS\s*\(([^*]*)\)\s*\*/", re.IGNORECASE)
Options = dict[str, str]


def replace_functions(
    session: SqlSession, text: str, view_of: Callable[[TableName, Mapping[str, str]], str]
) -> str:
    """The text with a view in place of each table function, a literal for each sys.max_pt."""
    lowered = text.lower()
    if not any(f in lowered for f in (*_FUNCTIONS, *_SEARCHES, "max_pt", "current_")):
        return text
    words = Words(text)
    pieces: list[str] = []
    done = len(START)
    while not words.done:
        start = words.tokens[words.at].start
        name = words.word().lower()
        if name in _FUNCTIONS and words.word(1) == "(":
            words.at += 1
            table, options = _incremental(session, name, _arguments(words))
            new = _changes(session, table, options, view_of)
        elif name in _SEARCHES and words.word(1) == "(":
            raise UnsupportedFeature(
                f"the table function {name}",
                f"the table function {name} is not supported",
                next_step="select the rows with conditions, or search with Java Paimon",
            )
        elif name in _CURRENT and words.word(1) == "(" and words.word(2) == ")":
            first = words.at
            words.at += 3
            value = session.current_catalog if name == "current_catalog" else session.database
            new = f"'{value}'" + _column_name(words, first, f"{name}()")
        else:
            first = words.at
            if sys_function_at(session, words) != MAX_PT:
                words.at = first + 1
                continue
            given = words.items(lambda: words.expression(","), may_be_empty=True)
            new = _max_pt(session, given)
            new += _column_name(words, first, f"{MAX_PT}({', '.join(given)})".replace("'", ""))
        pieces += [words.text[done:start], new]
        done = words.tokens[words.at - 1].end + 1
    return "".join([*pieces, words.text[done:]])


def _column_name(words: Words, first: int, name: str) -> str:
    """The alias of a function that is a column of its own, which a literal replaces."""
    alone = words.word() in ("", ",", "FROM")
    own = alone and words.tokens[first - 1].text.upper() in ("SELECT", ",")
    return f" AS {quoted(name)}" if own else ""


def _arguments(words: Words) -> list[str]:
    given = words.items(lambda: words.expression(","), may_be_empty=True)
    return [str(literal(text)) for text in given]


def _table(session: SqlSession, text: str) -> TableName:
    words = Words(with_quoted_names(text))
    return session.data_name(words.name())


def _incremental(
    session: SqlSession, function: str, arguments: list[str]
) -> tuple[TableName, Mapping[str, str]]:
    expected = 2 if function == _AUTO_TAG else 3
    if len(arguments) != expected:
        raise AnalysisError(
            f"{function} needs {expected} arguments, the table's name first; found {len(arguments)}"
        )
    name = _table(session, arguments[0])
    if function == _AUTO_TAG:
        return name, {"incremental-to-auto-tag": arguments[1]}
    return name, {_BETWEEN[function]: f"{arguments[1]},{arguments[2]}"}


def _changes(
    session: SqlSession,
    name: TableName,
    options: Mapping[str, str],
    view_of: Callable[[TableName, Mapping[str, str]], str],
) -> str:
    """The SQL of the changes.

    Snapshots with different numbers of buckets are compared by their rows, as in Java:
    `PaimonTableValuedFunctions.sparkIncrementQuery`.
    """
    if _TIMES in options or name.database == SYSTEM_DATABASE:
        return view_of(name, options)
    table = session.open(name, options=options)
    ends = rescaled_between(table, zone=session.zone)
    if ends is None:
        return view_of(name, options)
    before, after = (view_of(name, _version(table, end)) for end in ends)
    return f"(SELECT * FROM {after} EXCEPT SELECT * FROM {before})"


def _version(table: FileStoreTable, snapshot: Snapshot) -> Options:
    """The options that read the snapshot, which may live on in a tag alone."""
    if table.snapshots.get_or_none(snapshot.id) is None:
        for tag in table.tags.all():
            if tag.snapshot.id == snapshot.id:
                return {"scan.tag-name": tag.name}
    return {"scan.snapshot-id": str(snapshot.id)}


def _max_pt(session: SqlSession, given: list[str]) -> str:
    """The greatest value of the first partition column, as a literal.

    Java: `MaxPtFunction`, `ReplacePaimonFunctions`.
    """
    if len(given) != 1:
        raise UnsupportedFeature(
            MAX_PT,
            f"Wrong number of inputs, expected 1 but got {len(given)}",
            next_step="pass the name of one table",
        )
    try:
        text = literal(given[0])
    except AnalysisError as e:
        raise UnsupportedFeature(
            MAX_PT, "Table name must be a literal", next_step="write the name in quotes"
        ) from e
    if not isinstance(text, str):
        raise UnsupportedFeature(
            MAX_PT, "Table name cannot be null", next_step="write the name in quotes"
        )
    table = session.open(_table(session, text))
    keys = table.schema.partition_keys
    if not keys:
        raise UnsupportedFeature(
            MAX_PT,
            f"{table.name} is not a partitioned table",
            table=table.name,
            next_step="name a partitioned table",
        )
    values = [p[keys[0]] for p in live_partitions(table) if p[keys[0]] is not None]
    if not values:
        raise UnsupportedFeature(
            MAX_PT,
            f"{table.name} has no partitions or none of the partitions have any data",
            table=table.name,
            next_step="write rows first",
        )
    greatest = max(values)  # type: ignore[type-var]
    shown = java_to_string(greatest, table.schema.partition_type.types[0], session.zone)
    return "'" + shown.replace("'", "\\'") + "'"


def blank_options(text: str) -> tuple[str, Options, dict[int, Options]]:
    """The text without options; those for all tables, and those by the place of a table's name."""
    for_all: Options = {}
    for_one: dict[int, Options] = {}
    cuts: list[tuple[int, int]] = []
    words = Words(text)
    for hint in _HINT.finditer(text):
        if any(t.start < hint.start() + len(START) < t.end for t in words.tokens):
            continue  # in a text
        found = read_properties(Words(f"({hint[1]})"))
        before = [i for i, t in enumerate(words.tokens) if t.end - len(START) < hint.start()]
        cuts.append(hint.span())
        if words.tokens[before[-1]].text.upper() == "SELECT":
            for_all.update(found)
        else:
            for_one[_name_before(words, before[-1] + 1)] = found
    while not words.done:
        if not words.looks_at("WITH", "(") or words.at == 1:
            words.at += 1
            continue
        before_with = words.at
        words.at += 1
        try:
            found = read_properties(words)
        except PaimonError:
            words.at = before_with + 1  # WITH (..) of something else
            continue
        start = words.tokens[before_with].start - len(START)
        cuts.append((start, words.tokens[words.at - 1].end + 1 - len(START)))
        for_one[_name_before(words, before_with)] = found
    for start, end in cuts:
        text = text[:start] + " " * (end - start) + text[end:]
    return text, for_all, for_one


def _name_before(words: Words, at: int) -> int:
    """The start of the name that ends before this token."""
    first = at - 1
    while first >= 2 and words.tokens[first - 1].text == ".":
        first -= 2
    return words.tokens[first].start - len(START)
