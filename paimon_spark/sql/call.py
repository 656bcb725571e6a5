"""CALL [catalog.]sys.procedure(...)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from paimon_core.errors import NotFound, PaimonError, UnsupportedFeature
from paimon_spark.sql.errors import (
    AnalysisError,
    ReferenceNotFound,
    SnapshotNotFound,
    SqlSyntaxError,
)
from paimon_spark.sql.procedures import CallSite, Given
from paimon_spark.sql.result import Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.spark_settings import PARALLELISM
from paimon_spark.sql.text.parsed import parsed
from paimon_spark.sql.text.plain_rows import is_plain_literal
from paimon_spark.sql.text.tokens import Words, with_quoted_names

_SYS = "sys"
_TABLES = ("table", "source_table", "target_table")
_MISSING: Final[Mapping[str, type[NotFound]]] = {
    **dict.fromkeys(("create_tag", "create_tag_from_timestamp", "replace_tag"), SnapshotNotFound),
    **dict.fromkeys(("delete_branch", "fast_forward", "rename_branch"), ReferenceNotFound),
    "rollback": ReferenceNotFound,
}
"""The errors of procedures for which what they name is missing."""


def call_statement(session: SqlSession, words: Words) -> Result:
    """What follows CALL; values are literals, named (`a => 1`) or in the procedure's order."""
    parts = words.name()
    catalog = session.current_catalog
    if len(parts) == 3:
        ref = session.find(parts[0])
        if ref is not None:
            catalog, parts = ref.name, parts[1:]
    if len(parts) == 2 and parts[0].lower() == _SYS:
        parts = parts[1:]
    if len(parts) != 1:
        raise AnalysisError(
            f"[ROUTINE_NOT_FOUND] there is no procedure {'.'.join(parts)}",
            next_step="call procedures as sys.NAME; SHOW PROCEDURES lists them",
        )
    given = words.items(lambda: _argument(words), may_be_empty=True)
    words.end()
    return call_procedure(session, parts[0], given, catalog=catalog)


def call_procedure(
    session: SqlSession, name: str, given: Given, *, catalog: str | None = None
) -> Result:
    """Run a procedure on the tables of a catalog (default: the current one).

    UnsupportedFeature in a session without procedures; SnapshotNotFound, ReferenceNotFound.
    """
    if session.procedures is None:
        raise UnsupportedFeature(
            "procedures",
            "this session has no procedures",
            next_step="pass `procedures` to the session, or use caretaker sql",
        )
    _check_branch(session, given)
    ref = session.find(catalog or session.current_catalog)
    assert ref is not None
    site = CallSite(
        warehouse=ref.warehouse,
        database=session.database,
        storage=ref.options,
        parallelism=session.conf.get(PARALLELISM),
    )
    try:
        return session.procedures.call(name.lower(), given, site)
    except NotFound as e:
        missing = _MISSING.get(name.lower())
        if missing is None or type(e) is not NotFound:
            raise
        raise missing(e.message, table=e.table, next_step=e.next_step) from e


def _check_branch(session: SqlSession, given: Given) -> None:
    """Refuse a table of which SET spark.paimon.branch chooses another branch than its name.

    Java runs the procedure on that branch; here a table's name says it.
    """
    named = [v for i, (k, v) in enumerate(given) if k in _TABLES or (k is None and i == 0)]
    for text in named:
        try:
            name = session.table_name(Words(with_quoted_names(str(text))).name())
        except PaimonError:
            continue  # a pattern, or the procedure reports it
        if session.data_of(name) != name:
            raise UnsupportedFeature(
                "procedures under the option branch",
                "procedures do not go by the option branch",
                table=name.identifier,
                next_step=f"RESET it, and name the table `{name.table}$branch_B`",
            )


def show_procedures(session: SqlSession, words: Words) -> Result:
    """SHOW PROCEDURES [IN catalog]."""
    if words.eat_any("IN", "FROM"):
        words.name()
    words.end()
    names = () if session.procedures is None else session.procedures.names()
    return Result(
        ("catalog", "namespace", "schema", "procedure"),
        [[session.current_catalog, [_SYS], _SYS, name] for name in names],
    )


def _argument(words: Words) -> tuple[str | None, object]:
    name = None
    if words.word(1) in ("=>", "=") and not words.is_string():
        name = words.identifier()
        words.at += 1
    return name, literal(words.expression(","))


def literal(text: str) -> object:
    """The value of a literal: text, number, boolean, null, map(...) or array(...) of them."""
    words = Words(text)
    if words.is_string():
        value = words.string()
        if words.done:
            return value
    if not is_plain_literal(text):
        raise AnalysisError(f"the argument {text} of a procedure must be a literal")
    try:
        return _value(parsed(text))
    except SqlglotError as e:
        raise SqlSyntaxError(f"[PARSE_SYNTAX_ERROR] cannot read the argument {text}") from e


def _value(node: exp.Expr) -> object:
    match node:
        case exp.Cast():
            return _value(node.this)
        case exp.Paren():
            return _value(node.this)
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(node.this)
        case exp.Neg():
            inner = _value(node.this)
            if isinstance(inner, int | float):
                return -inner
        case exp.Literal() if node.is_string:
            return str(node.this)
        case exp.Literal():
            text = str(node.this)
            return int(text) if text.isdecimal() else float(text)
        case exp.RawString():
            return str(node.this)
        case exp.Array():
            return [_value(e) for e in node.expressions]
        case exp.VarMap() | exp.Map():
            keys, values = node.args["keys"], node.args["values"]
            return {
                str(_value(k)): _value(v)
                for k, v in zip(keys.expressions, values.expressions, strict=True)
            }
    raise AnalysisError(f"the argument {node.sql('spark')} of a procedure must be a literal")
