"""Views of a JDBC catalog: rows of `paimon_views`, as in Java 2.0 (Java: `jdbc/JdbcCatalog`).

The table is made for the first view: clients of Java 1.4 know none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paimon_core.catalog.jdbc.database import JdbcDatabase
from paimon_core.catalog.jdbc.lock import JdbcLock
from paimon_core.catalog.jdbc.table_rows import TableRows, check_lengths, execute
from paimon_core.catalog.lock import held
from paimon_core.catalog.views import View
from paimon_core.errors import (
    UNREADABLE,
    AlreadyExists,
    CorruptTable,
    InvalidArgument,
    NotFound,
    UnsupportedFeature,
)
from paimon_core.io.json_text import parse_json_object
from paimon_core.names import checked_text
from paimon_core.table.open import split_identifier

if TYPE_CHECKING:
    from sqlalchemy import Connection

VIEWS: Final = "paimon_views"
_CREATE: Final = (
    f"CREATE TABLE {VIEWS}(catalog_key VARCHAR(255) NOT NULL,"
    "database_name VARCHAR(255) NOT NULL,view_name VARCHAR(255) NOT NULL,"
    "view_schema TEXT NOT NULL, PRIMARY KEY (catalog_key, database_name, view_name))"
)
_DATABASE: Final = "catalog_key = :key AND database_name = :database"
_VIEW: Final = f"{_DATABASE} AND view_name = :view"


@dataclass(frozen=True, slots=True)
class JdbcViews:
    """The views under a catalog's key; `lock_of` gives the lock of a name if the catalog locks."""

    database: JdbcDatabase
    key: str
    lock_of: Callable[[str], JdbcLock | None]

    def names(self, database: str) -> list[str]:
        """The names of the database's views, sorted."""
        if not self.database.has_table(VIEWS):
            return []
        sql = f"SELECT view_name FROM {VIEWS} WHERE {_DATABASE}"
        return self.database.names(sql, key=self.key, database=database)

    def find(self, identifier: str) -> View | None:
        """The view, None if there is none of this name; CorruptTable if its row cannot be read."""
        if not self.database.has_table(VIEWS):
            return None
        sql = f"SELECT view_schema FROM {VIEWS} WHERE {_VIEW}"
        rows = self.database.rows(sql, **self._values(identifier))
        return self._decoded(identifier, rows[0][0]) if rows else None

    def _decoded(self, identifier: str, text: object) -> View:
        try:
            return View.from_schema(
                identifier, parse_json_object(checked_text(text, "view_schema"))
            )
        except UnsupportedFeature as e:
            e.table = identifier
            raise
        except (InvalidArgument, *UNREADABLE) as e:
            raise CorruptTable(
                f"the schema of view {identifier} in the JDBC catalog {self.key} cannot be read: "
                f"{type(e).__name__} {e}",
                table=identifier,
                next_step=f"drop the view and create it again; its text is in the table {VIEWS}",
            ) from e

    def create(self, view: View) -> None:
        """Create the view in a database that exists.

        AlreadyExists if there is a view or a table of this name.
        """
        from sqlalchemy.exc import IntegrityError  # noqa: PLC0415 - an extra

        check_lengths(split_identifier(view.name), {})
        self.database.create_missing({VIEWS: _CREATE})
        taken = AlreadyExists(f"{view.name} already exists", table=view.name)
        try:
            with held(self.lock_of(view.name)), self.database.transaction() as connection:
                if TableRows(connection, self.key, view.name).hold():
                    raise taken
                execute(
                    connection,
                    f"INSERT INTO {VIEWS} (catalog_key, database_name, view_name, view_schema) "
                    "VALUES (:key, :database, :view, :schema)",
                    **self._values(view.name),
                    schema=json.dumps(view.schema()),
                )
        except IntegrityError as e:
            raise taken from e

    def set_dialects(self, identifier: str, changes: Sequence[Mapping[str, str]]) -> None:
        """Add, update or drop dialects; NotFound if there is no such view."""
        with held(self.lock_of(identifier)):
            view = self.find(identifier)
            if view is None:
                raise _no_view(identifier)
            with self.database.transaction() as connection:
                execute(
                    connection,
                    f"UPDATE {VIEWS} SET view_schema = :schema WHERE {_VIEW}",
                    **self._values(identifier),
                    schema=json.dumps(view.with_dialects(changes).schema()),
                )

    def drop(self, identifier: str) -> None:
        """Delete the view; NotFound if there is none of this name."""
        if not self.database.has_table(VIEWS):
            raise _no_view(identifier)
        with held(self.lock_of(identifier)), self.database.transaction() as connection:
            sql = f"DELETE FROM {VIEWS} WHERE {_VIEW}"
            if not execute(connection, sql, **self._values(identifier)):
                raise _no_view(identifier)

    def drop_all(self, connection: Connection, database: str) -> None:
        """Delete the views of a database that has some."""
        sql = f"DELETE FROM {VIEWS} WHERE {_DATABASE}"
        execute(connection, sql, key=self.key, database=database)

    def _values(self, identifier: str) -> dict[str, str]:
        database, view = split_identifier(identifier)
        return {"key": self.key, "database": database, "view": view}


def _no_view(identifier: str) -> NotFound:
    return NotFound(f"view {identifier} does not exist", table=identifier)
