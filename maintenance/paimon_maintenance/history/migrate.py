"""Brings the database of the history to the newest version, with Alembic.

The check for the version is a query of its own, because it takes longer to import Alembic than most
commands run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from paimon_core.errors import MaintenanceError

LATEST: Final = 8
"""The version that this release writes: the number of modules in `migrations/versions`."""
FOLDER: Final = Path(__file__).with_name("migrations")
VERSION_TABLE: Final = "caretaker_history_revision"
_VERSION: Final = sa.table(VERSION_TABLE, sa.column("version_num", sa.String))
_BEFORE_ALEMBIC: Final = sa.table("caretaker_history_version", sa.column("version", sa.Integer))
"""Where releases before Alembic kept the version; only read."""
_HISTORY: Final = "caretaker_history"
"""A table that every version has."""
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")
_POSTGRES_LOCK: Final = 7_241_906_183


def version_of(connection: sa.Connection) -> int:
    """The version of the database; 0 without a history.

    MaintenanceError if there is a history, but not the one version that it has.
    """
    tables = sa.inspect(connection)
    # First: another process may commit a whole migration between two of these queries.
    has_history = tables.has_table(_HISTORY)
    for table in (_VERSION, _BEFORE_ALEMBIC):
        if tables.has_table(table.name):
            found = [str(value) for value in connection.execute(sa.select(*table.c)).scalars()]
            if len(found) > 1 or (found and not _NUMBER.fullmatch(found[0])):
                raise _unknown(f"table {table.name} has {found} where one number is expected")
            if found:
                return int(found[0])
    if has_history:
        raise _unknown(f"there is a table {_HISTORY}, but no row in {VERSION_TABLE}")
    return 0


def _unknown(reason: str) -> MaintenanceError:
    return MaintenanceError(
        f"the version of the history is unknown: {reason}",
        next_step=f"restore the row of {VERSION_TABLE} from a backup (this release writes {LATEST})",
    )


def migrate(connection: sa.Connection, *, to: int = LATEST) -> int:
    """Migrate the database in the open transaction of the connection; return its version.

    A lock prevents concurrent migrations: PostgreSQL's advisory lock, SQLite's write lock.  A
    database of a newer Caretaker version is left unchanged.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_POSTGRES_LOCK})"))
    found = version_of(connection)
    if found >= to:
        return found
    from alembic import command  # noqa: PLC0415 - see above
    from alembic.config import Config  # noqa: PLC0415

    config = Config(attributes={"connection": connection, "version_table": VERSION_TABLE})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    if found and not sa.inspect(connection).has_table(VERSION_TABLE):
        command.stamp(config, str(found))
    command.upgrade(config, str(to))
    return to
