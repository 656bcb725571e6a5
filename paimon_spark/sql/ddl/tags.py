"""Tags in SQL: ALTER TABLE ... CREATE | REPLACE | DELETE | RENAME TAG, SHOW TAGS.

Java: `spark/execution/{CreateOrReplaceTagExec,DeleteTagExec,RenameTagExec}`.
"""

from __future__ import annotations

from paimon_spark.sql.call import call_procedure
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.tokens import Words

_UNITS = {"DAY": "d", "HOUR": "h", "MINUTE": "min", "SECOND": "s"}


def tag_statement(session: SqlSession, name: TableName, words: Words) -> Result:
    """What follows ALTER TABLE name."""
    table = session.open(name, to_write=True)
    given: list[tuple[str | None, object]] = [("table", name.with_branch)]
    if words.eat("RENAME", "TAG"):
        given.append(("tag", words.identifier()))
        words.need("TO")
        given.append(("target_tag", words.identifier()))
        words.end()
        call_procedure(session, "rename_tag", given, catalog=name.catalog)
        return NOTHING
    if words.eat("DELETE", "TAG"):
        words.eat("IF", "EXISTS")  # Java's tables ignore a tag that is not there either way
        tags = words.identifier()
        words.end()
        there = [t for t in tags.split(",") if table.tags.exists(t.strip())]
        if there:
            given.append(("tag", ",".join(there)))
            call_procedure(session, "delete_tag", given, catalog=name.catalog)
        return NOTHING
    create = bool(words.eat("CREATE"))
    replace = words.eat("OR", "REPLACE") if create else words.eat("REPLACE")
    words.need("TAG")
    if_not_exists = words.eat("IF", "NOT", "EXISTS")
    tag = words.identifier()
    given.append(("tag", tag))
    if words.eat("AS", "OF", "VERSION"):
        given.append(("snapshot", words.integer()))
    if words.eat("RETAIN"):
        number = words.integer()
        unit = words.identifier().upper().removesuffix("S")
        if unit not in _UNITS:
            words.fail("DAYS, HOURS or MINUTES")
        given.append(("time_retained", f"{number} {_UNITS[unit]}"))
    words.end()
    exists = table.tags.exists(tag)
    if exists and create and not replace:
        if if_not_exists:
            return NOTHING
        raise AnalysisError(f"Tag {tag} is exists.", table=name.identifier)
    procedure = "replace_tag" if exists else "create_tag"
    call_procedure(session, procedure, given, catalog=name.catalog)
    return NOTHING


def show_tags(session: SqlSession, words: Words) -> Result:
    """SHOW TAGS table."""
    name = session.data_name(words.name())
    words.end()
    tags = session.open(name).tags.all()
    return Result(("tag",), [[t] for t in sorted(tag.name for tag in tags)])
