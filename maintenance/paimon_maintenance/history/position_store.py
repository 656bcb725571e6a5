"""Up to which snapshot each table is maintained on commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from paimon_maintenance.history.scoped_store import ScopedStore, columns_of, replace_rows

_POSITIONS: Final = columns_of(
    "caretaker_positions",
    "warehouse table_name branch snapshot at_millis failures retry_millis",
)
_MINUTE: Final = 60_000
_LONGEST_WAIT: Final = 60 * _MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The newest snapshot that is maintained, since when, and failures since then.

    `retry_millis`: before this time nothing is tried again.
    """

    snapshot: int
    at_millis: int = 0
    failures: int = 0
    retry_millis: int = 0


@dataclass(frozen=True, slots=True)
class PositionStore(ScopedStore):
    """Reads and moves the positions of one warehouse and branch."""

    def all(self) -> dict[str, Position]:
        """The position of every table that was ever watched."""
        with self.transaction() as connection:
            rows = connection.execute(
                sa.select(_POSITIONS).where(*self.is_here(_POSITIONS))
            ).mappings()
            return {
                row["table_name"]: Position(**{f: row[f] for f in Position.__slots__})
                for row in rows
            }

    def get(self, table: str) -> Position:
        """The position of a table; snapshot 0 if it was never watched."""
        query = sa.select(_POSITIONS).where(*self.is_of(_POSITIONS, table))
        with self.transaction() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return (
            Position(snapshot=0)
            if row is None
            else Position(**{f: row[f] for f in Position.__slots__})
        )

    def begin(self, snapshots: Mapping[str, int], now: int) -> None:
        """Give tables their first position; a table that has one keeps it."""
        with self.transaction() as connection:
            for table, snapshot in sorted(snapshots.items()):  # as `replace_rows` does
                try:
                    with connection.begin_nested():
                        first = Position(snapshot=snapshot, at_millis=now)
                        connection.execute(sa.insert(_POSITIONS).values(**self._row(table, first)))
                except sa.exc.IntegrityError:
                    continue

    def advance(self, table: str, snapshot: int, now: int) -> None:
        """The table is maintained up to this snapshot.

        A smaller number than before is right after a rollback.
        """
        self._replace(table, Position(snapshot=snapshot, at_millis=now))

    def failed(self, table: str, before: Position, now: int) -> None:
        """Maintenance failed: the position stays, and the next try waits, longer each time."""
        failures = before.failures + 1
        wait = min(_LONGEST_WAIT, _MINUTE << min(failures - 1, 10))
        self._replace(
            table,
            Position(
                snapshot=before.snapshot,
                at_millis=before.at_millis,
                failures=failures,
                retry_millis=now + wait,
            ),
        )

    def _replace(self, table: str, position: Position) -> None:
        with self.transaction() as connection:
            replace_rows(connection, _POSITIONS, [self._row(table, position)])

    def _row(self, table: str, position: Position) -> dict[str, object]:
        return {**self.place(table), **{f: getattr(position, f) for f in Position.__slots__}}
