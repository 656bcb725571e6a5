"""What the stores beside the history of runs share: one warehouse and branch, one kind of error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from paimon_core.errors import MaintenanceError
from paimon_maintenance.history.store import URL_VARIABLE, SqlHistory, one_line

_PLACE: Final = ("warehouse", "table_name", "branch")


def columns_of(name: str, columns: str) -> sa.Table:
    """The table `name` of the database with these columns, for queries."""
    return sa.Table(name, sa.MetaData(), *(sa.Column(c) for c in columns.split()))


def replace_rows(
    connection: sa.Connection, of: sa.Table, rows: Sequence[Mapping[str, object]]
) -> None:
    """Write one row for each of these tables, in place of the row that it has.

    Several schedulers may write the same tables at once.  A row that is deleted and inserted again
    would fail one of them: in PostgreSQL, it does not see what the other one has inserted since.
    Rows are written by the names of their tables, so that no two schedulers wait for each other.
    """
    if not rows:
        return
    ordered = sorted(rows, key=lambda row: [str(row[name]) for name in _PLACE])
    values = [name for name in ordered[0] if name not in _PLACE]
    kind = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    insert = kind(of)
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=_PLACE, set_={name: insert.excluded[name] for name in values}
        ),
        ordered,
    )


@dataclass(frozen=True, slots=True)
class ScopedStore:
    """Tables of the history's database, for one warehouse and branch.

    Unlike the history of runs, their callers cannot work without them: every failure of the
    database is a MaintenanceError.
    """

    history: SqlHistory
    warehouse: str
    branch: str = "main"

    def place(self, table: str) -> dict[str, str]:
        """The key of a table, as column values."""
        return dict(zip(_PLACE, (self.warehouse, table, self.branch), strict=True))

    def is_of(self, of: sa.Table, table: str) -> list[sa.ColumnElement[bool]]:
        """The conditions for the rows of a table."""
        return [of.c[name] == value for name, value in self.place(table).items()]

    def is_here(self, of: sa.Table) -> list[sa.ColumnElement[bool]]:
        """The conditions for the rows of this warehouse and branch."""
        return [of.c.warehouse == self.warehouse, of.c.branch == self.branch]

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """A transaction that commits in the end."""
        try:
            with self.history.engine().begin() as connection:
                yield connection
        except (sa.exc.SQLAlchemyError, OSError) as e:
            raise MaintenanceError(
                f"the scheduler cannot use the history: {one_line(e)}",
                next_step=f"check that the database is reachable, or set {URL_VARIABLE} to another",
            ) from e
