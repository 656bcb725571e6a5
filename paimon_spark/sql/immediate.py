"""What stands for a statement or a name: EXECUTE IMMEDIATE and IDENTIFIER(...).

::

    EXECUTE IMMEDIATE 'SELECT max(id) FROM t WHERE v = ?' INTO n USING 'x'
    SELECT * FROM IDENTIFIER('db.' || 't')
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from paimon_core.options import parse_bool
from paimon_spark.sql.errors import AnalysisError, SqlSyntaxError
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.spark_settings import ANSI, DOUBLE_QUOTED_NAMES
from paimon_spark.sql.text.comments import without_odd_comments
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.parsed import is_expression
from paimon_spark.sql.text.tokens import START, Words, with_backquoted_names, with_quoted_names

_SETTING: Final = re.compile(r"\s*(SET|RESET)\b", re.IGNORECASE)
_IMMEDIATE: Final = re.compile(r"\s*EXECUTE\s+IMMEDIATE\b", re.IGNORECASE)
_NAME: Final = re.compile(r"[A-Za-z_]\w*|`[^`]+`")
_QUERIES: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(", "MAP", "REDUCE")


def plain_statement(session: SqlSession, statement: str) -> str:
    """The statement that is to run, with all names written out."""
    statement = _read(session, statement)
    while _IMMEDIATE.match(statement):
        statement = _read(session, _immediate(session, statement))
    if "identifier" in statement.lower():
        statement = _with_names(session, statement)
    return statement


def _read(session: SqlSession, statement: str) -> str:
    """The text without what only the session's settings or Spark's comments make of it."""
    statement = without_odd_comments(statement)
    names = parse_bool(session.conf.get(DOUBLE_QUOTED_NAMES, "false"))
    if not names or '"' not in statement or _SETTING.match(statement):
        return statement
    if not parse_bool(session.conf.get(ANSI, "true")):
        return statement
    return with_backquoted_names(statement)


@dataclass(frozen=True, slots=True)
class _Argument:
    """A value after USING, as SQL that means the same wherever it stands."""

    name: str | None
    """Its alias, or the name of the variable that it is."""
    given: str
    value: str


def _immediate(session: SqlSession, statement: str) -> str:
    """The statement in the text of EXECUTE IMMEDIATE text [INTO variables] [USING arguments]."""
    words = Words(statement)
    words.need("EXECUTE", "IMMEDIATE")
    text = _statement_text(session, words.expression("INTO", "USING"))
    variables = ""
    if words.eat("INTO"):
        first = words.at
        words.name()
        while words.eat(","):
            words.name()
        variables = words.text[words.tokens[first].start : words.tokens[words.at - 1].end + 1]
    given: list[_Argument] = []
    if words.eat("USING"):
        in_parentheses = words.looks_at("(") and _closes_last(words)
        if in_parentheses:
            given = words.items(lambda: _argument(session, words))
        else:
            given = [_argument(session, words)]
            while words.eat(","):
                given.append(_argument(session, words))
    words.end()
    text = _with_arguments(text, given)
    if variables and Words(text).word() not in _QUERIES:
        raise AnalysisError(
            "[INVALID_STATEMENT_FOR_EXECUTE_INTO] The INTO clause of EXECUTE IMMEDIATE is only "
            f"valid for queries but the given statement is not a query: {text}"
        )
    return f"SET VAR ({variables}) = ({text})" if variables else text


def _closes_last(words: Words) -> bool:
    """Whether the parenthesis at the cursor closes at the end of the statement."""
    at = words.at
    words.parenthesized()
    closes, words.at = words.done, at
    return closes


def _argument(session: SqlSession, words: Words) -> _Argument:
    given = words.expression(",", "AS")
    if not is_expression(given):
        raise SqlSyntaxError(f"[PARSE_SYNTAX_ERROR] Syntax error: {given} is no expression")
    alone = Words(given)
    name = None
    if words.eat("AS"):
        name = words.identifier()
    elif len(alone.tokens) == 2 and _NAME.fullmatch(given):
        name = alone.identifier()
    return _Argument(name, given, _value(session, given))


def _value(session: SqlSession, given: str) -> str:
    """The argument as a literal: a name in it is that of a variable, and never one of a column."""
    words = Words(given)
    with suppress(SqlSyntaxError):
        words.constant()
        if words.done:
            return given
    frame = session.spark.sql(f"SELECT {given} FROM range(1) AS __row(__id)")
    if not hasattr(frame, "_jdf"):
        return given
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - only Spark folds it
    found = plan.projectList().apply(0) if plan.nodeName() == "Project" else None
    value = None if found is None else found.children().apply(0)
    if value is None or value.nodeName() != "Literal":
        raise AnalysisError(
            "[UNSUPPORTED_EXPR_FOR_PARAMETER] A query parameter contains unsupported expression. "
            f"Parameters can either be variables or literals. Invalid expression: {given}"
        )
    return str(value.sql())


def _with_arguments(text: str, given: Sequence[_Argument]) -> str:
    """The text with values for `?` and `:name`.  AnalysisError for a missing one."""
    tokens = Words(text).tokens
    rest = iter(given)
    named = _by_name(given)
    used: set[str] = set()
    pieces, done = [], 0
    for i, token in enumerate(tokens):
        start, end = token.start - len(START), token.end + 1 - len(START)
        following = tokens[i + 1] if i + 1 < len(tokens) else None
        if text[start:end] == "?":
            found, shown = next(rest, None), "?"
        elif text[start:end] == ":" and following is not None and following.start == token.end + 1:
            end = following.end + 1 - len(START)
            found, shown = named.get(following.text.lower()), text[start:end]
            if not named:
                continue  # a path into JSON
        else:
            continue
        if found is None:
            raise AnalysisError(
                f"[UNBOUND_SQL_PARAMETER] Found the unbound parameter: {shown}",
                next_step="give a value for each parameter after USING",
            )
        value = found.value
        pieces += [text[done:start], value if len(Words(value).tokens) == 2 else f"({value})"]
        done = end
        used.add(shown[0])
    if len(used) > 1:
        raise AnalysisError(
            "[INVALID_QUERY_MIXED_QUERY_PARAMETERS] Parameterized query must either use "
            "positional, or named parameters, but not both"
        )
    unnamed = [a.given for a in given if a.name is None]
    if ":" in used and unnamed:
        raise AnalysisError(
            "[ALL_PARAMETERS_MUST_BE_NAMED] Using name parameterized queries requires all "
            f"parameters to be named. Parameters missing names: {', '.join(unnamed)}"
        )
    return "".join([*pieces, text[done:]])


def _by_name(given: Sequence[_Argument]) -> dict[str, _Argument]:
    """The arguments that have names, by these in lower case."""
    named: dict[str, _Argument] = {}
    for argument in given:
        if argument.name is None:
            continue
        if argument.name.lower() in named:
            raise SqlSyntaxError(
                "[EXEC_IMMEDIATE_DUPLICATE_ARGUMENT_ALIASES] The USING clause of this EXECUTE "
                f"IMMEDIATE command contained multiple arguments with same alias "
                f"(`{argument.name}`), which is invalid"
            )
        named[argument.name.lower()] = argument
    return named


def _statement_text(session: SqlSession, expression: str) -> str:
    """The text of a statement: a literal, or what a variable or another expression holds."""
    return _evaluated(
        session,
        expression,
        wrong_type="[INVALID_EXPR_TYPE_FOR_QUERY_EXECUTE_IMMEDIATE] Expression type must be string "
        "type but got",
        null="[NULL_QUERY_STRING_EXECUTE_IMMEDIATE] Execute immediate requires a non-null variable "
        f"as the query string, but the provided variable `{expression}` is null",
    )


def _with_names(session: SqlSession, statement: str) -> str:
    """The statement with the name in place of each IDENTIFIER(text)."""
    words = Words(statement)
    pieces, done = [], len(START)
    while not words.done:
        start = words.tokens[words.at].start
        if not words.looks_at("IDENTIFIER", "(") or words.tokens[words.at - 1].text == ".":
            words.at += 1
            continue
        words.at += 1
        text = _identifier_text(session, words.parenthesized())
        name = ".".join(quoted(p) for p in Words(with_quoted_names(text)).name())
        pieces += [words.text[done:start], name]
        done = words.tokens[words.at - 1].end + 1
    return "".join([*pieces, words.text[done:]])


def _identifier_text(session: SqlSession, expression: str) -> str:
    """The text that the expression in IDENTIFIER(..) holds."""
    what = (
        f"The expression {expression} used for the routine or clause IDENTIFIER must be a constant"
    )
    return _evaluated(
        session,
        expression,
        wrong_type=f"[NOT_A_CONSTANT_STRING.WRONG_TYPE] {what} STRING. Its data type is",
        null=f"[NOT_A_CONSTANT_STRING.NULL] {what} STRING which is NOT NULL. It is null",
    )


def _evaluated(session: SqlSession, expression: str, *, wrong_type: str, null: str) -> str:
    """The text that a constant expression or a variable holds.

    AnalysisError with these messages if it has another type, which is appended, or is null.
    """
    words = Words(expression)
    if words.is_string():
        text = words.string()
        if words.done:
            return text
    frame = session.spark.sql(f"SELECT {expression}")
    kind = frame.schema.fields[0].dataType.simpleString()
    if not kind.startswith("string"):
        raise AnalysisError(f'{wrong_type} "{kind.upper()}"')
    row = frame.first()
    if row is None or row[0] is None:
        raise AnalysisError(null)
    return str(row[0])
