"""REPLACE TABLE: another schema and no rows, under the name of a table that stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paimon_core.commit.commit_user import new_commit_user
from paimon_core.commit.message import CommitMessage
from paimon_core.commit.rewritten_schemas import OnlyOlder
from paimon_core.ddl.create import Column, normalized, numbered_after
from paimon_core.ddl.validation import validate_schema
from paimon_core.errors import CommitConflict, CommitStateUnknown, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.scan.scan import scan_files
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.chain.overwrite import replace_partitions
from paimon_core.table.format.format_table import check_format_table
from paimon_core.table.open import under_schema
from paimon_core.table.sink.write_session import delete_messages
from paimon_spark.sql.ddl.make_table import (
    format_schema,
    format_tables_of,
    make_table,
    makes_format_table,
    table_schema,
)
from paimon_spark.sql.ddl.table_clauses import TableClauses
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName, not_found

Fill = Callable[[FileStoreTable], Sequence[CommitMessage] | None]
"""Writes the rows of a table that is replaced, under its new schema; None: there are none."""
Filled = tuple[FileStoreTable, Sequence[CommitMessage]]
"""A table that was replaced, under its new schema, and the rows that are to be committed to it."""


def replace_with(
    session: SqlSession,
    name: TableName,
    columns: Sequence[Column],
    clauses: TableClauses,
    fill: Fill = lambda _: None,
) -> Filled | None:
    """Empty the table and give it another schema; its snapshots stay.

    Java 2.0: `AbstractCatalog.replaceTable`, two steps as there, but field ids go on.  A snapshot
    with the new schema tells writers of the old one that the table was replaced.  `fill` writes
    files for the new schema before the table is emptied: if it fails, nothing has changed.
    Returns what is left to commit; None without `fill`, and for a REST server, which does it in its
    own way.  If another client changes the schema or replaces the table first, what is there then
    is replaced; rows that others write with the new schema stay.  UnsupportedFeature for other
    partition columns, CommitStateUnknown if the store fails once the rows may be removed.
    """
    old = session.known_format(name)
    if old is not None or makes_format_table(clauses):
        # Java's catalogs cannot replace these either: it drops and creates the table.
        if makes_format_table(clauses):
            check_format_table(format_schema(session, name, columns, clauses))
            format_tables_of(session, name, clauses)
        else:
            validate_schema(normalized(table_schema(session, name, columns, clauses)))
        session.drop(name)
        make_table(session, name, columns, clauses)
        return None
    new = normalized(table_schema(session, name, columns, clauses))
    validate_schema(new)
    table = session.open(name, to_write=True)
    if session.catalog_for(name).replace_table(name.identifier, new):
        return None
    emptied = table.snapshots.latest() is None
    while True:
        before = table.schemas.latest()
        if before is None:
            raise not_found(name)
        if before.id != table.schema.id:
            table = table.refreshed()  # under the old schema, nothing of a new table can be removed
        _check_partitions(name, before, new)
        schema = numbered_after(new, before)
        coming = under_schema(table, schema)
        written = fill(coming)
        only_older = OnlyOlder(table, schema)
        made = replaced = False
        try:
            if emptied:
                _empty_again(table, session, only_older)
            else:
                _truncate(table, session, only_older)
                emptied = True
            made = table.commit_schema(schema)
            if made:
                _empty_again(table, session, only_older)
                if written is None:  # else their commit is the first snapshot with the new schema
                    _truncate(coming, session, only_older)
                replaced = True
        except CommitConflict:
            if not only_older.found:
                raise
            replaced = made  # what others wrote since then is theirs
        except (OSError, CommitStateUnknown) as e:
            raise _half_replaced(name, e) from e
        finally:
            if not replaced:
                delete_messages(coming, written or ())
        if replaced:
            return None if written is None else (coming, written)


def _half_replaced(name: TableName, failure: Exception) -> CommitStateUnknown:
    """The error for a store that failed after the removal of the rows had begun."""
    return CommitStateUnknown(
        f"table {name.identifier} may be empty, or replaced without rows: {failure}",
        table=name.identifier,
        next_step="look at the table; its snapshots from before are still there (`VERSION AS OF`). "
        "Run the statement again to finish it",
    )


def _check_partitions(name: TableName, old: TableSchema, new: TableSchema) -> None:
    if tuple(new.partition_keys) != tuple(old.partition_keys):
        raise UnsupportedFeature(
            "REPLACE TABLE with other partition columns",
            f"replaceTable does not support changing partition keys "
            f"(old=[{', '.join(old.partition_keys)}], "
            f"new=[{', '.join(new.partition_keys)}]). Drop and re-create the table instead.",
            table=name.identifier,
            next_step="drop the table, and create it again",
        )


def _empty_again(table: FileStoreTable, session: SqlSession, only_older: OnlyOlder) -> None:
    """Remove the rows that were committed with the old schema since the table was emptied."""
    latest = table.snapshots.latest()
    if latest is not None and next(iter(scan_files(table, latest)), None) is not None:
        _truncate(table, session, only_older)


def _truncate(table: FileStoreTable, session: SqlSession, only_older: OnlyOlder) -> None:
    user, env = new_commit_user(table, session.env), session.env.doing("TRUNCATE")
    replace_partitions(table, None, user=user, env=env, check=only_older)
