"""WITH before DELETE, UPDATE and MERGE: its queries are temporary views for that statement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from paimon_spark.sql.errors import SqlSyntaxError
from paimon_spark.sql.query.queries import rewritten
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.tokens import Words


def end_of_common_tables(words: Words) -> int | None:
    """Where the statement after the WITH clause at the cursor begins; None if it cannot be read."""
    first = words.at
    try:
        words.need("WITH")
        words.eat("RECURSIVE")
        _definition(words)
        while words.eat(","):
            _definition(words)
    except SqlSyntaxError:
        return None
    else:
        return words.at
    finally:
        words.at = first


def _definition(words: Words) -> str:
    """The name of the next common table; the cursor stands behind its query then."""
    name = words.identifier()
    if not words.looks_at("AS"):
        words.expression("AS")  # columns
    words.need("AS")
    words.parenthesized()
    return name


@contextmanager
def common_tables(session: SqlSession, words: Words) -> Iterator[None]:
    """Read the WITH clause at the cursor; inside of the block its names are views."""
    before = dict(session.views)
    words.need("WITH")
    recursive = "RECURSIVE " if words.eat("RECURSIVE") else ""
    try:
        while True:
            first = words.at
            name = _definition(words)
            last = words.tokens[words.at - 1].end + 1
            definition = words.text[words.tokens[first].start : last]
            query = f"WITH {recursive}{definition} SELECT * FROM {quoted(name)}"
            # Its tables are found now: the view may have the name of one of them.
            view = session.new_view(rewritten(session, query))
            session.views[name.lower()] = replace(view, of_statement=True)
            if not words.eat(","):
                break
        yield
    finally:
        session.views = before
