"""INSERT OVERWRITE DIRECTORY: files that Spark writes, in place of all files in a folder."""

from __future__ import annotations

from paimon_core.errors import InvalidArgument
from paimon_core.io.open import open_file_io
from paimon_core.table.other_tables import refused, table_within
from paimon_spark.sql.ddl.table_clauses import read_properties
from paimon_spark.sql.query.queries import rewritten
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.tokens import Words


def names_directory(words: Words) -> bool:
    """Whether OVERWRITE [LOCAL] DIRECTORY comes next."""
    at = 1 + int(words.word(1) == "LOCAL")
    following = words.word(at + 1)
    return words.word(at) == "DIRECTORY" and following in ("", "USING", "ROW", "STORED", "OPTIONS")


def to_directory(session: SqlSession, words: Words, before: str) -> Result:
    """INSERT OVERWRITE [LOCAL] DIRECTORY 'path' USING format query: files that Spark writes.

    `before` is the WITH or FROM clause before INSERT.
    """
    target = words.expression("SELECT", "VALUES", "WITH", "FROM", "TABLE")
    query = rewritten(session, before + words.rest())
    _check_directory(session, Words(target))
    session.spark.sql(f"INSERT OVERWRITE {target} {query}")
    return NOTHING


def _check_directory(session: SqlSession, target: Words) -> None:
    """OutsideTable if Spark would delete the files of a Paimon table, as all in the directory."""
    target.eat("LOCAL")
    target.need("DIRECTORY")
    if target.is_string():
        path = target.string()
    else:
        target.need("USING")
        target.name()
        options = read_properties(target) if target.eat("OPTIONS") else {}
        path = next((v for k, v in options.items() if k.lower() == "path"), "")
    if path:  # else Spark refuses it
        check_no_table(session, path)


def check_no_table(session: SqlSession, path: str) -> None:
    """OutsideTable for a directory in which, or around which, there is a Paimon table."""
    try:
        io, folder = open_file_io(path, session.storage)
    except InvalidArgument:
        return  # a store that only Spark knows
    theirs = table_within(io, folder)
    if theirs is not None:
        raise refused(f"directory {path}", theirs)
