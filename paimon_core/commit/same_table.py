"""Checks that the table of a handle is still the one that was opened.

A table that was dropped and created again has the same name and folder, and may have the same
snapshot numbers, tags and consumers.  What was planned for the old one must not happen to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from paimon_core.errors import (
    CommitStateUnknown,
    CorruptTable,
    GuardTripped,
    InvalidArgument,
    LeaseHeld,
    NotFound,
    PaimonError,
    StorageError,
    TableGone,
    UnsupportedFeature,
)
from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import MAIN_BRANCH

_KEPT: Final = (
    InvalidArgument,
    UnsupportedFeature,
    TableGone,
    StorageError,
    CommitStateUnknown,
    GuardTripped,
    LeaseHeld,
)
"""Errors that do not come from a table that is gone, or that say what matters more."""


def check_same_table(table: FileStoreTable) -> None:
    """Raise TableGone if the table was dropped, renamed or created again since it was opened.

    The catalog knows it where it makes the commits; elsewhere the table has
    the schema of the handle.
    """
    by_catalog = table.snapshots.snapshot_commit
    if by_catalog is not None and by_catalog.owner is not None:
        by_catalog.check_same_table()
    elif not has_schema(table):
        if table.schemas.of_branch(table.branch).ids():
            raise created_again(table.name)
        raise dropped(table.name, table.branch)


def has_schema(table: FileStoreTable) -> bool:
    """Whether the stored schema with the id of the handle's schema is still the same one."""
    stored = table.schemas.of_branch(table.branch)  # without what is remembered
    wanted = table.schema
    try:
        return stored.get(wanted.id).time_millis == wanted.time_millis
    except CorruptTable:
        if stored.exists(wanted.id):
            raise
        return False


def explained(
    error: BaseException,
    opened: FileStoreTable,
    open_again: Callable[[], FileStoreTable],
    what: str,
) -> BaseException:
    """Return the error with which `what` ended, or TableGone if the table is no longer there, or
    another one of its name is.

    Then any file may be missing, and what was met first does not tell why.
    """
    if isinstance(error, _KEPT) or not isinstance(error, Exception):
        return error
    try:
        if open_again().root == opened.root:
            check_same_table(opened)
            return error
        gone = dropped(opened.name, opened.branch)
    except TableGone as e:
        gone = e
    except NotFound:
        gone = dropped(opened.name, opened.branch)
    except Exception:  # noqa: BLE001 - whether it is there is unknown
        return error
    met = error.message if isinstance(error, PaimonError) else str(error).partition("\n")[0]
    gone.message += f"; {what} ended with: {met or type(error).__name__}"
    gone.__cause__ = error
    return gone


@contextmanager
def naming_what_is_gone(
    opened: FileStoreTable, open_again: Callable[[], FileStoreTable], what: str
) -> Iterator[None]:
    """Inside of the block `what` works on the table; its errors become those of `explained`."""
    try:
        yield
    except Exception as e:
        found = explained(e, opened, open_again, what)
        if found is e:
            raise
        raise found from e


def created_again(table: str) -> TableGone:
    """The error for another table of the same name."""
    return TableGone(
        f"table {table} was dropped and created again meanwhile, or a fast-forward replaced its schema",
        table=table,
        next_step="run again if the new table needs it, too; if the old one was renamed, run verify on "
        "it under its new name",
    )


def dropped(table: str, branch: str = MAIN_BRANCH) -> TableGone:
    """The error for a table, or a branch of it, that is no longer there."""
    of = "" if branch == MAIN_BRANCH else f"branch {branch} of "
    return TableGone(f"{of}table {table} was dropped or renamed meanwhile", table=table)
