"""Functions that a catalog keeps: a REST catalog does, as in Java.

A query that calls one gets a temporary function of the Spark session with the same body or class.
Java: `spark/catalog/functions/SQLFunctionConverter` and `FileFunctionConverter`,
`CreatePaimonV1FunctionCommand`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from paimon_core.catalog.rest.functions import SPARK, Function, JavaClass, Resource, RestFunctions
from paimon_core.catalog.rest.rest_catalog import RestCatalog
from paimon_core.errors import PaimonError, UnsupportedFeature
from paimon_core.types.data_types import DataField, DataType
from paimon_core.types.sql import type_to_sql
from paimon_spark.sql.catalogs import PREFIX
from paimon_spark.sql.errors import CALLED, AnalysisError, QueryFailed, error_text
from paimon_spark.sql.query.catalog_views import being_read, place_of
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.names import quoted, quoted_text
from paimon_spark.sql.text.tokens import QUERY_WORDS, START, Words
from paimon_spark.sql.text.types import null_text, read_schema_text, read_type

_DIGITS: Final = 16
_RESOURCES: Final = ("JAR", "FILE", "ARCHIVE")
_IS_QUERY: Final = "spark.sql-function.is-query"
_SETTING: Final = "sqlConfig."
_ANSI: Final = "spark.sql.ansi.enabled"


def functions_of(session: SqlSession, catalog: str) -> RestFunctions | None:
    """The functions of a catalog, None for one that keeps none, or whose functions are not used."""
    found, ref = session.catalog_named(catalog), session.find(catalog)
    if not isinstance(found, RestCatalog) or (ref is not None and not ref.has_functions):
        return None
    return RestFunctions(found.client)


def is_own_of_spark(session: SqlSession, name: str, scope: str = "ALL") -> bool:
    """True if Spark has a function of this name, built in (`SYSTEM`) or temporary (`USER`).

    Such a function hides those of catalogs, whose names have a database then.  Java:
    `PaimonFunctionLookup`.
    """
    if not name.replace("_", "a").isalnum():
        return False
    found = session.spark.sql(f"SHOW {scope} FUNCTIONS LIKE '{name}'").collect()
    return any(str(row[0]).lower() == name.lower() for row in found)


def create_sql_function(
    session: SqlSession,
    name: TableName,
    words: Words,
    rewritten: Callable[[str], str],
    *,
    replace: bool,
    if_not_exists: bool,
) -> Result:
    """What follows the name in CREATE FUNCTION name(..) [RETURNS type] RETURN body.

    UnsupportedFeature for table functions, SqlSyntaxError for anything else, and Spark's own errors
    for a body that is none, such as an aggregate.
    """
    functions = functions_of(session, name.catalog)
    assert functions is not None
    inputs = words.items(lambda: _parameter(words), may_be_empty=True)
    data_type: DataType | None = None
    if words.eat("RETURNS"):
        if words.looks_at("TABLE"):
            raise UnsupportedFeature(
                "table functions",
                "Paimon does not support creating SQL table functions yet: "
                f"{name.catalog}.{name.identifier}",
            )
        data_type = read_type(words)
    comment, deterministic = None, True
    while not words.eat("RETURN"):
        if words.eat("COMMENT"):
            comment = words.string()
        elif words.eat("NOT", "DETERMINISTIC"):
            deterministic = False
        elif not (
            words.eat("LANGUAGE", "SQL")
            or words.eat("DETERMINISTIC")
            or words.eat("CONTAINS", "SQL")
            or words.eat("READS", "SQL", "DATA")
        ):
            words.fail("RETURN")
    is_query = words.word() in QUERY_WORDS
    function = Function(
        name=name.identifier,
        inputs=tuple(_numbered(inputs)),
        returns=() if data_type is None else (DataField(id=0, name=name.table, type=data_type),),
        definitions={SPARK: {"type": "sql", "definition": words.rest()}},
        deterministic=deterministic,
        comment=comment,
        options={_IS_QUERY: str(is_query).lower(), **_settings(session)},
    )
    return _store(
        functions,
        function,
        lambda: _checked(session, function, name, rewritten),
        replace=replace,
        if_not_exists=if_not_exists,
    )


def create_class_function(
    session: SqlSession, name: TableName, words: Words, *, replace: bool, if_not_exists: bool
) -> Result:
    """What follows AS in CREATE FUNCTION name AS 'class' [USING JAR 'uri', ..].

    As in Java, the class is looked for when a query calls the function.
    """
    functions = functions_of(session, name.catalog)
    assert functions is not None
    found, resources = words.string(), []
    if words.eat("USING"):
        while True:
            kind = words.eat_any(*_RESOURCES) or words.fail(", ".join(_RESOURCES))
            resources.append(Resource(kind.lower(), words.string()))
            if not words.eat(","):
                break
    words.end()
    definition = JavaClass(found, tuple(resources)).definition(name.table)
    function = Function(name=name.identifier, definitions={SPARK: definition})
    return _store(
        functions, function, lambda: function, replace=replace, if_not_exists=if_not_exists
    )


def _store(
    functions: RestFunctions,
    function: Function,
    checked: Callable[[], Function],
    *,
    replace: bool,
    if_not_exists: bool,
) -> Result:
    """Create the function that `checked` returns, if there may be one of this name."""
    old = functions.find(function.name)
    if old is not None:
        if if_not_exists:
            return NOTHING
        if not replace:
            raise AnalysisError(
                f"[ROUTINE_ALREADY_EXISTS] Cannot create the function {function.name} because it "
                "already exists"
            )
    new = checked()
    if old is not None:
        functions.drop(function.name)  # as in Java, these are two steps
    try:
        functions.create(new)
    except PaimonError:
        if old is not None:
            with suppress(PaimonError):
                functions.create(old)
        raise
    return NOTHING


def _settings(session: SqlSession) -> dict[str, str]:
    """The settings under which a function computes, whoever calls it."""
    chosen = {k: v for k, v in session.conf.items() if k.startswith("spark.sql.")}
    found = {k: v for k, v in chosen.items() if not k.startswith(PREFIX)}
    found.setdefault(_ANSI, session.spark.conf.get(_ANSI) or "true")
    return {f"{_SETTING}{k}": v for k, v in found.items()}


def _checked(
    session: SqlSession, function: Function, name: TableName, rewritten: Callable[[str], str]
) -> Function:
    """The function with the type that it returns; Spark's errors if the body defines none."""
    called = _defined(session, function, name, rewritten)
    try:
        if function.returns:
            return function
        arguments = ", ".join(null_text(f.type) for f in function.inputs)
        shown = session.spark.sql(f"SELECT {called}({arguments})").schema.fields[0].dataType
        data_type = read_type(Words(shown.simpleString()))
        return replace(function, returns=(DataField(id=0, name=name.table, type=data_type),))
    finally:
        session.spark.sql(f"DROP TEMPORARY FUNCTION {called}")


def _parameter(words: Words) -> DataField:
    name = words.identifier()
    data_type = read_type(words)
    default = words.expression(",", "COMMENT") if words.eat("DEFAULT") else None
    comment = words.string() if words.eat("COMMENT") else None
    return DataField(id=0, name=name, type=data_type, description=comment, default_value=default)


def _numbered(fields: Sequence[DataField]) -> list[DataField]:
    return [replace(f, id=i) for i, f in enumerate(fields)]


def describe_catalog_function(function: Function, *, extended: bool) -> Result:
    """DESCRIBE FUNCTION [EXTENDED], as Java's `DescribePaimonV1FunctionCommand`."""
    made_by = function.java_class
    if made_by is not None:
        told = [f"Function: {function.name}", f"Class: {made_by.name}"]
        if extended:
            told.append(f"File Resources: {', '.join(r.uri for r in made_by.resources)}")
        return Result(("function_desc",), [[line] for line in told])
    lines = [("Function:", function.name), ("Type:", "SCALAR")]
    names = [f.name for f in function.inputs]
    width = max(map(len, names), default=0)
    kinds = [type_to_sql(f.type) for f in function.inputs]
    kind_width = max(map(len, kinds), default=0)
    shown = []
    for field, kind in zip(function.inputs, kinds, strict=True):
        default = f" DEFAULT {field.default_value}" if extended and field.default_value else ""
        shown.append(f"{field.name.ljust(width)} {kind.ljust(kind_width)}{default}")
    lines += [("Input:" if i == 0 else "", text) for i, text in enumerate(shown or ["()"])]
    lines += [("Returns:", type_to_sql(f.type)) for f in function.returns[:1]]
    if extended:
        if function.comment is not None:
            lines.append(("Comment:", function.comment))
        lines.append(("Deterministic:", str(function.deterministic).lower()))
        lines.append(("Body:", function.sql or ""))
    widest = max(len(key) for key, _ in lines)
    return Result(("function_desc",), [[f"{key.ljust(widest)} {text}"] for key, text in lines])


def replace_catalog_functions(
    session: SqlSession, text: str, rewritten: Callable[[str], str]
) -> str:
    """The query with temporary functions in place of those of REST catalogs.

    `rewritten` gives the body of a function that is a query.  A name without a database means a
    function of Spark if there is one.  UnsupportedFeature for lambdas in Java.
    """
    if "(" not in text:
        return text
    words = Words(text)
    catalogs: dict[str, RestFunctions | None] = {}
    known: dict[tuple[str, str], list[str]] = {}
    pieces: list[str] = []
    done = len(START)
    while not words.done:
        first = words.at
        name = _function_at(session, words)
        is_short = words.at == first + 1
        words.at = max(words.at, first + 1)
        if name is None:
            continue
        if name.catalog not in catalogs:
            catalogs[name.catalog] = functions_of(session, name.catalog)
        functions = catalogs[name.catalog]
        if functions is None:
            continue
        place = name.catalog, name.database
        if place not in known:
            there = session.has_database(*place)
            known[place] = functions.names(name.database) if there else []
        if name.table in known[place] and not (is_short and is_own_of_spark(session, name.table)):
            view = _temporary(session, functions, name, rewritten)
            pieces += [words.text[done : words.tokens[first].start], view]
            done = words.tokens[words.at - 1].end + 1
    return "".join([*pieces, words.text[done:]])


def _function_at(session: SqlSession, words: Words) -> TableName | None:
    """The function that is called at the cursor, which then stands at its `(`."""
    token = words.tokens[words.at]
    if not token.text[:1].isalpha() or words.is_literal() or words.tokens[words.at - 1].text == ".":
        return None
    parts = [words.identifier()]
    while words.word() == "." and words.word(1) not in ("*", ""):
        words.at += 1
        parts.append(words.identifier())
    if words.word() != "(" or len(parts) > 3:
        return None
    catalog = session.current_catalog
    if len(parts) == 3:
        ref = session.find(parts[0])
        if ref is None:
            return None
        catalog = ref.name
    database = parts[-2] if len(parts) > 1 else session.database
    return TableName(database, parts[-1], catalog=catalog)


def _temporary(
    session: SqlSession,
    functions: RestFunctions,
    name: TableName,
    rewritten: Callable[[str], str],
) -> str:
    function = functions.find(name.identifier)
    made_by = None if function is None else function.java_class
    if made_by is not None:
        return _of_class(session, made_by, name)
    if function is None or function.sql is None or not function.returns:
        raise UnsupportedFeature(
            "functions in Java",
            f"function {name.identifier} is defined neither in SQL nor by a class",
            next_step="use Java Paimon for it",
        )
    return _defined(session, function, name, rewritten)


def _of_class(session: SqlSession, made_by: JavaClass, name: TableName) -> str:
    """The temporary function of this class; QueryFailed if Spark cannot load it."""
    definition = f"AS {quoted_text(made_by.name)}"
    if made_by.resources:
        files = (f"{r.kind.upper()} {quoted_text(r.uri)}" for r in made_by.resources)
        definition += f" USING {', '.join(files)}"
    called = _called(definition, name)
    try:
        session.spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {called} {definition}")
    except Exception as e:
        cause = getattr(e, "java_exception", None)
        told = error_text(e) if cause is None else str(cause.getMessage())
        raise QueryFailed(
            f"function {name.identifier}: Spark cannot load its class {made_by.name}: {told}",
            next_step="put the files of the function where Spark can read them",
        ) from e
    return called


def _called(told_apart: str, name: TableName) -> str:
    """The name of the temporary function that stands for one of a catalog.

    Functions of two databases may have one name, and sessions share the functions of Spark.
    """
    digest = hashlib.sha256(told_apart.encode()).hexdigest()[:_DIGITS]
    return quoted(f"{CALLED}{digest}_{name.table}")


def _defined(
    session: SqlSession, function: Function, name: TableName, rewritten: Callable[[str], str]
) -> str:
    """The temporary function that computes as this one does."""
    body = function.sql or ""
    if function.options.get(_IS_QUERY) == "true":
        with place_of(session, name), being_read(f"{name.catalog}.{function.name}"):
            body = rewritten(body)
    parameters = ", ".join(
        f"{quoted(f.name)} {read_schema_text(f.type)}"
        + ("" if f.default_value is None else f" DEFAULT {f.default_value}")
        for f in function.inputs
    )
    kinds = [f"RETURNS {read_schema_text(f.type)} " for f in function.returns[:1]]
    definition = f"({parameters}) {''.join(kinds)}RETURN {body}"
    settings = {
        k.removeprefix(_SETTING): v for k, v in function.options.items() if k.startswith(_SETTING)
    }
    called = _called(f"{definition}{sorted(settings.items())}", name)
    with _under(session, settings):
        session.spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {called}{definition}")
    return called


@contextmanager
def _under(session: SqlSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Spark keeps the settings of the moment with a function."""
    conf = session.spark.conf
    before: dict[str, str | None] = {key: conf.get(key, None) for key in settings}
    for key, value in settings.items():
        conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                conf.unset(key)
            else:
                conf.set(key, old)
