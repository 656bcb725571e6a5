"""What the stores beside the history of runs share: one warehouse and branch, one kind of error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from paimon_core.errors import MaintenanceError
from paimon_maintenance.history.store import URL_VARIABLE, SqlHistory

_PLACE: Final = ("warehouse", "table_name", "branch")


def columns_of(name: str, columns: str) -> sa.Table:
    """The table `name` of the database with these columns, for queries."""
    return sa.Table(name, sa.MetaData(), *(sa.Column(c) for c in columns.split()))


@dataclass(frozen=True, slots=True)
class ScopedStore:
    """Tables of the history's database, for one warehouse and branch.

    Unlike the history of runs, their callers cannot work without them: every failure of the database
    is a MaintenanceError.
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
            detail = " ".join(str(getattr(e, "orig", None) or e).split())
            raise MaintenanceError(
                f"the scheduler cannot use the history: {type(e).__name__}: {detail[:400]}",
                next_step=f"check that the database is reachable, or set {URL_VARIABLE} to another",
            ) from e
