"""`VERSION AS OF` and `TIMESTAMP AS OF` behind the name of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from paimon_core.types.datetimes import local_to_utc, parse_sql_timestamp
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.literals import on_calendar
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.tokens import START, Words

_TRAVEL: Final = ("VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME")


def time_travel(
    session: SqlSession, text: str, end: int, plain: Callable[[str], str]
) -> tuple[dict[str, str], int]:
    """The options of [FOR] VERSION | TIMESTAMP AS OF after a name, and where the clause ends.

    `plain` puts views in place of the tables of a query.
    """
    words = words_from(text, end)
    words.eat("FOR")
    kind = words.eat_any(*_TRAVEL)
    if kind is None or not words.eat("AS", "OF"):
        return {}, end
    first = words.at
    value = _operand(words)
    while "VERSION" not in kind and words.word() in ("+", "-"):
        words.at += 1
        _operand(words)
        value = None
    last = words.tokens[words.at - 1].end + 1
    end = last - len(START)
    if "VERSION" in kind:
        if value is None:
            raise AnalysisError("VERSION AS OF needs a number or a text")
        return {"scan.version": value}, end
    source = words.text[words.tokens[first].start : last]
    if value is None:
        source = plain(f"SELECT {source}").removeprefix("SELECT ")
    return {"scan.timestamp-millis": str(_millis(session, value, source))}, end


def check_no_travel(text: str, end: int, view: Sequence[str]) -> None:
    """AnalysisError for such a clause after the name of a view, which ends there."""
    words = words_from(text, end)
    words.eat("FOR")
    if words.eat_any(*_TRAVEL) and words.eat("AS", "OF"):
        name = ".".join(quoted(p) for p in view)
        raise AnalysisError(
            f"[UNSUPPORTED_FEATURE.TIME_TRAVEL] Time travel on the relation: {name} is not "
            "supported: it is a view",
            next_step="name the version in the query of the view",
        )


def words_from(text: str, place: int) -> Words:
    """The words of the text, with the cursor on the first one at or after the place."""
    words = Words(text)
    places = enumerate(words.tokens)
    words.at = next((i for i, t in places if t.start >= place + len(START)), len(words.tokens))
    return words


def _operand(words: Words) -> str | None:
    """Pass over a literal, a function call, an interval or what is in parentheses; the literal."""
    if words.is_string():
        return words.string()
    if words.word().isdecimal():
        return str(words.integer())
    if words.looks_at("("):
        words.parenthesized()
        return None
    name = words.identifier()
    if words.is_string():
        words.string()
    elif words.looks_at("("):
        words.parenthesized()
    if name.upper() == "INTERVAL":
        if words.word()[:1].isdecimal():
            words.integer()
        words.identifier()
    return None


def _millis(session: SqlSession, value: str | None, source: str) -> int:
    """Epoch milliseconds of TIMESTAMP AS OF: seconds as a number, a wall clock time, or Spark's."""
    if value is not None and value.isdecimal():
        return int(value) * 1000
    if value is not None and on_calendar(value):
        with suppress(ValueError):
            return local_to_utc(parse_sql_timestamp(value, 3), session.zone) // 1_000_000
    # Spark knows more forms of texts.
    cast = "CAST" if value is None else "try_cast"
    moment = session.spark.sql(f"SELECT unix_millis({cast}({source} AS TIMESTAMP))").first()
    if moment is None or moment[0] is None:
        raise AnalysisError(
            f"[INVALID_TIME_TRAVEL_TIMESTAMP_EXPR.INPUT] {source} is not a timestamp"
        )
    return int(moment[0])
