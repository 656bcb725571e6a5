"""What stands for a statement or a name: EXECUTE IMMEDIATE and IDENTIFIER(...).

::

    EXECUTE IMMEDIATE 'SELECT max(id) FROM t WHERE v = ?' INTO n USING 'x'
    SELECT * FROM IDENTIFIER('db.' || 't')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paimon_spark.sql.errors import AnalysisError, SqlSyntaxError
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.comments import without_odd_comments
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.parsed import is_expression
from paimon_spark.sql.text.tokens import START, Words, with_quoted_names


def plain_statement(session: SqlSession, statement: str) -> str:
    """The statement that is to run, with all names written out."""
    statement = without_odd_comments(statement)
    lowered = statement.lower()
    if "immediate" in lowered:
        statement = _immediate(session, statement)
    if "identifier" in lowered:
        statement = _with_names(session, statement)
    return statement


def _immediate(session: SqlSession, statement: str) -> str:
    """The statement in the text of EXECUTE IMMEDIATE text [INTO variables] [USING arguments]."""
    words = Words(statement)
    if not words.eat("EXECUTE", "IMMEDIATE"):
        return statement
    text = _evaluated(session, words.expression("INTO", "USING"))
    variables = words.expression("USING") if words.eat("INTO") else ""
    given: list[tuple[str | None, str]] = []
    if words.eat("USING"):
        in_parentheses = words.looks_at("(") and _closes_last(words)
        if in_parentheses:
            given = words.items(lambda: _argument(words))
        else:
            given = [_argument(words)]
            while words.eat(","):
                given.append(_argument(words))
    words.end()
    named = {name.lower(): value for name, value in given if name is not None}
    text = _with_arguments(text, [value for name, value in given if name is None], named)
    return f"SET VAR ({variables}) = ({text})" if variables else text


def _closes_last(words: Words) -> bool:
    """Whether the parenthesis at the cursor closes at the end of the statement."""
    at = words.at
    words.parenthesized()
    closes, words.at = words.done, at
    return closes


def _argument(words: Words) -> tuple[str | None, str]:
    value = words.expression(",", "AS")
    if not is_expression(value):
        raise SqlSyntaxError(f"[PARSE_SYNTAX_ERROR] Syntax error: {value} is no expression")
    return (words.identifier() if words.eat("AS") else None), value


def _with_arguments(text: str, in_order: Sequence[str], named: Mapping[str, str]) -> str:
    """The text with values for `?` and `:name`.  AnalysisError for a missing one."""
    tokens = Words(text).tokens
    rest = iter(in_order)
    pieces, done = [], 0
    for i, token in enumerate(tokens):
        start, end = token.start - len(START), token.end + 1 - len(START)
        following = tokens[i + 1] if i + 1 < len(tokens) else None
        if text[start:end] == "?":
            value, shown = next(rest, None), "?"
        elif text[start:end] == ":" and following is not None and following.start == token.end + 1:
            end = following.end + 1 - len(START)
            value, shown = named.get(following.text.lower()), text[start:end]
            if not named:
                continue  # a path into JSON
        else:
            continue
        if value is None:
            raise AnalysisError(
                f"[UNBOUND_SQL_PARAMETER] Found the unbound parameter: {shown}",
                next_step="give a value for each parameter after USING",
            )
        pieces += [text[done:start], value if len(Words(value).tokens) == 2 else f"({value})"]
        done = end
    return "".join([*pieces, text[done:]])


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
        text = _evaluated(session, words.parenthesized())
        name = ".".join(quoted(p) for p in Words(with_quoted_names(text)).name())
        pieces += [words.text[done:start], name]
        done = words.tokens[words.at - 1].end + 1
    return "".join([*pieces, words.text[done:]])


def _evaluated(session: SqlSession, expression: str) -> str:
    """The text that a constant expression or a variable holds."""
    words = Words(expression)
    if words.is_string():
        text = words.string()
        if words.done:
            return text
    row = session.spark.sql(f"SELECT CAST({expression} AS STRING)").first()
    if row is None or row[0] is None:
        raise AnalysisError(f"{expression} is null, where a text is needed")
    return str(row[0])
