"""FROM source INSERT INTO a SELECT .. INSERT INTO b SELECT ..: one query for several tables."""

from __future__ import annotations

from paimon_spark.sql.dml.insert import insert
from paimon_spark.sql.query.grammar import check_grammar
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.tokens import START, Words


def multi_insert(session: SqlSession, words: Words) -> Result | None:
    """Run each INSERT, in order, one commit each; None for a FROM without one."""
    starts: list[int] = []
    depth = 0
    while not words.done:
        depth += {"(": 1, ")": -1}.get(words.word(), 0)
        if depth == 0 and words.word() == "INSERT" and words.word(1) in ("INTO", "OVERWRITE"):
            starts.append(words.at)
        words.at += 1
    if not starts:
        return None
    check_grammar(session, words)  # before the first of them is committed
    source = words.text[len(START) : words.tokens[starts[0]].start]
    ends = [words.tokens[i].start for i in starts[1:]] + [len(words.text)]
    for start, end in zip(starts, ends, strict=True):
        part = Words(words.text[words.tokens[start].start : end])
        part.at += 1
        insert(session, part, source=source)
    return NOTHING
