"""SET and RESET."""

from __future__ import annotations

import re

from paimon_spark.sql.errors import SqlSyntaxError
from paimon_spark.sql.query.queries import rewritten
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import OPTION_PREFIX, SqlSession
from paimon_spark.sql.spark_settings import ZONE_KEY
from paimon_spark.sql.text.names import quoted

_KEY_VALUE = re.compile(r"\s*(`(?:[^`]|``)+`|[^\s=`]+)\s*=(.*)", re.DOTALL)
_ZONE = re.compile(r"TIME\s+ZONE\s+(LOCAL|'[^']*'|\"[^\"]*\")\s*", re.IGNORECASE)
_OWN_GRAMMAR = re.compile(r"(VAR|VARIABLE|TIME\s+ZONE)\s", re.IGNORECASE)
_RESET_KEY = re.compile(r"(`(?:[^`]|``)+`|[\w.:*$-]*)\s*;*")
_COLUMNS = ("key", "value")


def set_statement(session: SqlSession, text: str) -> Result:
    """SET, SET -v, SET key, SET key=value, SET TIME ZONE; `text` is what follows the word SET."""
    text = text.strip()
    zone = _ZONE.fullmatch(text)
    if zone:
        name = zone[1].strip("'\"")
        if name.upper() == "LOCAL":
            return reset_statement(session, ZONE_KEY)
        return _set(session, ZONE_KEY, name)
    if text in ("", "-v", "-V"):
        return Result(_COLUMNS, [[k, v] for k, v in sorted(session.conf.items())])
    assignment = _KEY_VALUE.fullmatch(text)
    if assignment and not _OWN_GRAMMAR.match(text):
        return _set(session, _unquoted(assignment[1]), _value(assignment[2]))
    if _OWN_GRAMMAR.match(text):
        return _by_spark(session, f"SET {text}")
    if re.fullmatch(r"`(?:[^`]|``)+`|\S+", text) is None:
        raise SqlSyntaxError(
            "[INVALID_SET_SYNTAX] Expected format is 'SET', 'SET key', or 'SET key=value'"
        )
    key = _unquoted(text)
    return Result(_COLUMNS, [[key, _current(session, key)]])


def reset_statement(session: SqlSession, text: str) -> Result:
    """RESET or RESET key."""
    if _RESET_KEY.fullmatch(text.strip()) is None:
        raise SqlSyntaxError(
            "[INVALID_RESET_COMMAND_FORMAT] Expected format is 'RESET' or 'RESET key'. To have "
            "special characters in the key, put it in backquotes: RESET `key`"
        )
    key = _unquoted(text.strip())
    keys = [key] if key else list(session.conf)
    for one in keys:
        session.conf.pop(one, None)
        if session.has_spark:
            session.spark.conf.unset(one)
    return NOTHING


def _set(session: SqlSession, key: str, value: str) -> Result:
    if session.has_spark:
        # Not by conf.set: Spark refuses keys that are names of variables.
        session.spark.sql(f"SET {quoted(key)}=`{value.replace('`', '``')}`")
    session.conf[key] = value
    return Result(_COLUMNS, [[key, value]])


def _current(session: SqlSession, key: str) -> str:
    if key in session.conf:
        return session.conf[key]
    if key.startswith(OPTION_PREFIX) or not (session.has_spark or key.startswith("spark.sql.")):
        return "<undefined>"
    row = session.spark.sql(f"SET {quoted(key)}").first()
    return "<undefined>" if row is None else str(row["value"])


def _by_spark(session: SqlSession, text: str) -> Result:
    """A SET that is not about a key: of a variable, or of an interval as the time zone."""
    variables, equals, value = text.partition("=")
    if equals and "SELECT" in value.upper():
        # A subquery may be about tables.
        value = rewritten(session, f"SELECT {value}").lstrip().removeprefix("SELECT")
    frame = session.spark.sql(f"{variables}{equals}{value}")
    zone = session.spark.conf.get(ZONE_KEY)
    if "ZONE" in text.upper() and zone is not None:
        session.conf[ZONE_KEY] = zone
    return Result(frame.columns, [list(row) for row in frame.collect()])


def _unquoted(key: str) -> str:
    return key[1:-1].replace("``", "`") if key[:1] == "`" and key[-1:] == "`" else key


def _value(text: str) -> str:
    text = text.strip()
    return text[1:-1].replace("``", "`") if len(text) > 1 and text[0] == text[-1] == "`" else text
