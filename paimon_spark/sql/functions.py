"""SHOW, DESCRIBE, CREATE and DROP FUNCTION.

The database `sys` has Paimon's own functions, the Spark session temporary ones, REST catalogs those
in SQL and in jars (`catalog_functions`).
"""

from __future__ import annotations

from typing import Final

from paimon_core.catalog.rest.functions import Function
from paimon_core.errors import UnsupportedFeature
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.query.catalog_functions import (
    create_class_function,
    create_sql_function,
    describe_catalog_function,
    functions_of,
    is_own_of_spark,
)
from paimon_spark.sql.query.collected import collected
from paimon_spark.sql.query.queries import rewritten
from paimon_spark.sql.query.sys_functions import FUNCTIONS, PREFIX
from paimon_spark.sql.query.temporary_functions import define, reads_tables
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession, TempFunction
from paimon_spark.sql.show import matches
from paimon_spark.sql.table_name import SYSTEM_DATABASE, TableName
from paimon_spark.sql.text.tokens import Words

_BODY: Final = "Body:          "
"""Before the body of a function in Spark's description."""


def show_functions(session: SqlSession, words: Words, scope: str) -> Result:
    """SHOW [USER | SYSTEM | ALL] FUNCTIONS [IN database] [LIKE] 'pattern', after FUNCTIONS."""
    kept = functions_of(session, session.current_catalog)
    if kept is not None and words.word() not in ("IN", "FROM"):
        catalog, database = session.current_catalog, session.database
    elif not words.eat_any("IN", "FROM"):
        found = _by_spark(session, f"SHOW {scope} FUNCTIONS {words.rest()}")
        return Result(found.columns, [r for r in found.rows if not str(r[0]).startswith(PREFIX)])
    else:
        catalog, database = session.database_name(words.name())
        kept = functions_of(session, catalog)
    pattern = words.string() if words.eat("LIKE") or words.is_string() else None
    words.end()
    session.need_database(catalog, database)
    names: list[str] = []
    if scope != "SYSTEM" and database == SYSTEM_DATABASE:
        names += [f"{catalog}.{database}.{n}" for n in FUNCTIONS if matches(pattern, n)]
    elif scope != "SYSTEM" and kept is not None:
        found_names = kept.names(database)
        names += [f"{catalog}.{database}.{n}" for n in found_names if matches(pattern, n)]
    if scope != "USER":
        builtin = session.spark.sql("SHOW SYSTEM FUNCTIONS").collect()
        names += [str(row[0]) for row in builtin if matches(pattern, str(row[0]))]
    return Result(("function",), [[name] for name in sorted(names)])


def describe_function(session: SqlSession, words: Words) -> Result:
    """DESCRIBE FUNCTION [EXTENDED] name, after FUNCTION."""
    extended = "EXTENDED " if words.eat("EXTENDED") else ""
    at = words.at
    parts = [words.string()] if words.is_string() else _parts(words)
    if len(parts) > 1 and parts[-2].lower() == SYSTEM_DATABASE:
        if parts[-1].lower() not in FUNCTIONS:
            raise AnalysisError(
                f"[ROUTINE_NOT_FOUND] The routine {'.'.join(parts)} cannot be found"
            )
        raise _no_ability(session, "functions")
    function = _find(session, parts)
    if function is not None:
        return describe_catalog_function(function, extended=bool(extended))
    words.at = at
    shown = _by_spark(session, f"DESCRIBE FUNCTION {extended}{words.rest()}")
    reading = session.functions.get(parts[-1].lower())
    if reading is None:
        return shown
    # Spark shows views in place of the tables.
    rows = [[_BODY + reading.body] if str(r[0]).startswith(_BODY) else r for r in shown.rows]
    return Result(shown.columns, rows)


def create_function(session: SqlSession, words: Words, *, replace: bool) -> Result:
    """CREATE [OR REPLACE] [TEMPORARY] FUNCTION, from TEMPORARY or FUNCTION on.

    Temporary functions are Spark's.  UnsupportedFeature for names of `sys`; AnalysisError in
    catalogs that keep no functions, and for names of Spark's own functions, as in Java.
    """
    text = words.text[words.tokens[words.at].start :]
    temporary = words.eat_any("TEMPORARY", "TEMP")
    words.need("FUNCTION")
    if_not_exists = words.eat("IF", "NOT", "EXISTS")
    parts = _parts(words)
    name = ".".join(parts)
    in_jar = words.eat("AS") and words.is_string()
    if not temporary:
        _check_free(session, parts, in_jar=in_jar, replace=replace)
        place = session.table_name(parts)
        if in_jar:
            return create_class_function(
                session, place, words, replace=replace, if_not_exists=if_not_exists
            )
        return create_sql_function(
            session,
            place,
            words,
            lambda body: rewritten(session, body),
            replace=replace,
            if_not_exists=if_not_exists,
        )
    while not words.done and not words.eat("RETURN"):
        words.at += 1
    if not in_jar and reads_tables(words) and not if_not_exists:
        body = words.rest()
        head = text[: len(text) - len(body)]
        function = TempFunction(head, body, session.current_catalog, session.database)
        define(session, function, lambda query: rewritten(session, query), replace=replace)
        session.functions[name.lower()] = function
        return NOTHING
    start = "CREATE OR REPLACE " if replace else "CREATE "
    made = _by_spark(session, start + text)
    session.functions.pop(name.lower(), None)
    return made


def _check_free(session: SqlSession, parts: list[str], *, in_jar: bool, replace: bool) -> None:
    """Whether a catalog can have a function of this name.  Java: `RewritePaimonFunctionCommands`.

    UnsupportedFeature for names of `sys` and, of a function in a jar, those of temporary functions;
    AnalysisError in catalogs that keep no functions, and for other names of Spark's functions.
    """
    is_short = len(parts) == 1
    if is_short and in_jar and session.has_spark and is_own_of_spark(session, parts[0], "USER"):
        raise UnsupportedFeature(
            "persistent functions that temporary ones hide",
            f"{parts[0]} is a temporary function, you should use `CREATE OR REPLACE TEMPORARY "
            f"FUNCTION {parts[0]}` or DROP TEMPORARY FUNCTION {parts[0]}"
            if replace
            else f"{parts[0]} is a temporary function and already exists",
            next_step="choose another name, or name the function with its database",
        )
    name = session.table_name(parts)
    if functions_of(session, name.catalog) is None:
        raise _no_ability(session, "CREATE FUNCTION")
    _check_not_built_in(name, "create")
    if is_short and is_own_of_spark(session, parts[0]):
        raise _no_ability(session, f"CREATE FUNCTION {parts[0]}, which is a function of Spark")


def _check_not_built_in(name: TableName, verb: str) -> None:
    if name.database == SYSTEM_DATABASE and name.table.lower() in FUNCTIONS:
        raise UnsupportedFeature(
            f"{verb} built-in functions",
            f"Can't {verb} built-in function: {name.catalog}.{name.identifier}",
            next_step="choose another name",
        )


def drop_function(session: SqlSession, words: Words) -> Result:
    """DROP [TEMPORARY] FUNCTION [IF EXISTS] name, from TEMPORARY or FUNCTION on.

    AnalysisError if there is none, and in catalogs that keep none; UnsupportedFeature for the
    functions in `sys`.
    """
    at, temporary = words.at, words.eat_any("TEMPORARY", "TEMP")
    words.need("FUNCTION")
    if_exists = words.eat("IF", "EXISTS")
    parts = _parts(words)
    hidden = len(parts) == 1 and session.has_spark and is_own_of_spark(session, parts[0])
    if not temporary and not hidden and _is_name(parts):
        name = session.table_name(parts)
        kept = functions_of(session, name.catalog)
        if kept is not None:
            _check_not_built_in(name, "drop")
        elif name.database == SYSTEM_DATABASE and name.table.lower() in FUNCTIONS:
            raise _no_ability(session, "DROP FUNCTION")
        if kept is not None and kept.find(name.identifier) is not None:
            kept.drop(name.identifier)
            return NOTHING
        if len(parts) > 1 or kept is not None:
            if if_exists:
                return NOTHING
            raise AnalysisError(
                f"[ROUTINE_NOT_FOUND] The routine {name.catalog}.{name.identifier} cannot be found"
            )
    words.at = at
    dropped = _by_spark(session, f"DROP {words.rest()}")
    session.functions.pop(parts[-1].lower(), None)
    return dropped


def _find(session: SqlSession, parts: list[str]) -> Function | None:
    """The function of a catalog, None if there is none of this name, or Spark's own hides it."""
    if not _is_name(parts) or (len(parts) == 1 and is_own_of_spark(session, parts[0])):
        return None
    name = session.table_name(parts)
    kept = functions_of(session, name.catalog)
    return None if kept is None else kept.find(name.identifier)


def _is_name(parts: list[str]) -> bool:
    return len(parts) <= 3 and parts[-1].replace("_", "a").isalnum()


def _parts(words: Words) -> list[str]:
    """A name, or an operator such as `!=`."""
    if words.word()[:1].isalnum() or words.word()[:1] in ("_", ""):
        return words.name()
    return [words.rest()]


def _no_ability(session: SqlSession, what: str) -> AnalysisError:
    return AnalysisError(
        f"[UNSUPPORTED_FEATURE.CATALOG_OPERATION] Catalog `{session.current_catalog}` does not "
        f"support {what}",
        next_step="create a TEMPORARY function",
    )


def _by_spark(session: SqlSession, text: str) -> Result:
    return collected(session.spark.sql(text))
