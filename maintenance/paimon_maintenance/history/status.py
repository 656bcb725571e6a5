"""One line for each table: its health, its size and its next job, for pages over many tables.

The scheduler writes it in every round, `caretaker health --save` on request.  Unlike a measurement
it has columns that a database can sort and filter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import sqlalchemy as sa

from paimon_core.errors import MaintenanceError
from paimon_maintenance.health.measurement import Measurement
from paimon_maintenance.health.score import Health
from paimon_maintenance.history.scoped_store import replace_rows
from paimon_maintenance.history.store import URL_VARIABLE, SqlHistory, one_line

MOST_PARTITIONS: Final = 200
"""The number of unhealthy partitions that a status keeps, the worst first."""
_MOST: Final = 2**63 - 1


def table_of(name: str, columns: str) -> sa.Table:
    """A table of the database for queries, without types."""
    return sa.Table(name, sa.MetaData(), *(sa.Column(c) for c in columns.split()))


STATUS: Final = table_of(
    "caretaker_table_status",
    "warehouse table_name branch at_millis score color criterion reason files bytes row_count runs "
    "amplification held_bytes snapshot owner next_job next_action next_reason next_at_millis error "
    "health",
)
_MEASUREMENTS: Final = table_of("caretaker_measurements", "warehouse table_name branch")
TOTALS: Final = table_of(
    "caretaker_totals",
    "id at_millis warehouse branch tables green yellow red files bytes held_bytes amplification",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """What the scheduler does with a table next.

    `action` is "later" (a job waits), "propose" (a person decides) or "look" (nothing is due);
    `at_millis` is when it looks again, or when the job may run, None if unknown.
    """

    job: str | None = None
    action: str = "look"
    reason: str | None = None
    at_millis: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """The newest status of one table; sizes are those of the live data files.

    `score` is None if the table could not be measured; `error` says why.  `runs`: the most sorted
    runs that hold one key.  `held_bytes`: what only snapshots beyond the retention, tags and
    branches hold.  `health` is the JSON of the score with its reasons.
    """

    table: str
    at_millis: int
    score: int | None = None
    color: str | None = None
    criterion: str | None = None
    reason: str | None = None
    files: int = 0
    bytes: int = 0
    row_count: int = 0
    runs: int = 1
    amplification: float = 1.0
    held_bytes: int = 0
    snapshot: int | None = None
    owner: str | None = None
    next_job: str | None = None
    next_action: str | None = None
    next_reason: str | None = None
    next_at_millis: int | None = None
    error: str | None = None
    health: Mapping[str, Any]


def status_of(
    found: Measurement, health: Health, *, owner: str | None = None, then: NextStep | None = None
) -> TableStatus:
    """The status of a measured table; `owner` comes from the policy, else from the table."""
    worst = health.reasons[0] if health.reasons else None
    references = sum(h.bytes for h in found.holders if h.kind != "consumer")
    details = health.to_json()
    partitions = details["partitions"]
    assert isinstance(partitions, list)
    return TableStatus(
        table=found.table,
        at_millis=found.at_millis,
        score=health.score,
        color=health.color,
        criterion=None if worst is None else worst.criterion,
        reason=None if worst is None else worst.text,
        files=found.files,
        bytes=found.bytes,
        row_count=found.rows,
        runs=max((p.point_runs for p in found.partitions), default=0),
        amplification=found.amplification,
        held_bytes=found.beyond_bytes + references,
        snapshot=found.snapshot,
        owner=owner or found.owner,
        next_job=None if then is None else then.job,
        next_action=None if then is None else then.action,
        next_reason=None if then is None else then.reason,
        next_at_millis=None if then is None else then.at_millis,
        health={
            **details,
            "partitions": partitions[:MOST_PARTITIONS],
            "unhealthy_partitions": len(partitions),
            "holders": [
                {"kind": h.kind, "name": h.name, "bytes": h.bytes, "snapshots": h.snapshots}
                for h in found.holders
            ],
            "consumers": [
                {"id": c.id, "snapshots": c.snapshots, "since": c.since, "bytes": c.bytes}
                for c in found.consumers
            ],
            "beyond_snapshots": found.beyond_snapshots,
            "beyond_bytes": found.beyond_bytes,
            "blocked_bytes": found.blocked_bytes,
        },
    )


@dataclass(frozen=True, slots=True)
class StatusStore:
    """The status of tables of one warehouse and branch; MaintenanceError if the database fails."""

    history: SqlHistory
    warehouse: str
    branch: str = "main"

    def put(self, found: Sequence[TableStatus]) -> None:
        """Replace the status of these tables."""
        if not found:
            return
        names = [f.name for f in fields(TableStatus) if f.name not in ("table", "health")]
        rows = [
            {
                **self._place(),
                **{name: getattr(one, name) for name in names},
                "table_name": one.table,
                "health": json.dumps(one.health, ensure_ascii=False, default=str),
            }
            for one in found
        ]
        try:
            with self.history.engine().begin() as connection:
                replace_rows(connection, STATUS, rows)
        except (sa.exc.SQLAlchemyError, OSError) as e:
            raise _failed(e) from e

    def owners(self) -> dict[str, str | None]:
        """Return the owner of each table that has a status, by its name."""
        c = STATUS.c
        query = sa.select(c.table_name, c.owner).where(
            c.warehouse == self.warehouse, c.branch == self.branch
        )
        with self.history.reading() as connection:
            return {str(name): owner for name, owner in connection.execute(query)}

    def errors(self, *, before: int | None = None) -> dict[str, str]:
        """Why tables could not be measured when they were last looked at, by their names.

        `before`: only those that were looked at last before this time.
        """
        c = STATUS.c
        query = sa.select(c.table_name, c.error).where(
            c.warehouse == self.warehouse, c.branch == self.branch, c.error.is_not(None)
        )
        if before is not None:
            query = query.where(c.at_millis < before)
        with self.history.reading() as connection:
            return {
                str(name): str(error)
                for name, error in connection.execute(query.order_by(c.table_name))
            }

    def forget(self, tables: Sequence[str]) -> None:
        """Remove the status and the measurement of tables that no longer exist."""
        if not tables:
            return
        names = [{"name": name} for name in sorted(tables)]  # as `replace_rows` does
        try:
            with self.history.engine().begin() as connection:
                for of in (STATUS, _MEASUREMENTS):
                    connection.execute(self._delete(of), names)
        except (sa.exc.SQLAlchemyError, OSError) as e:
            raise _failed(e) from e

    def add_totals(self, at_millis: int) -> None:
        """Add a line with the totals over the status of all tables."""
        c = STATUS.c

        def colored(name: str) -> sa.ColumnElement[int]:
            return sa.func.coalesce(sa.func.sum(sa.case((c.color == name, 1), else_=0)), 0)

        query = sa.select(
            sa.func.count().label("tables"),
            *(colored(name).label(name) for name in ("green", "yellow", "red")),
            *(summed(c[name]).label(name) for name in ("files", "bytes", "held_bytes")),
            summed(c.amplification * c.bytes).label("read"),
        ).where(c.warehouse == self.warehouse, c.branch == self.branch)
        try:
            with self.history.engine().begin() as connection:
                row = dict(connection.execute(query).mappings().one())
                read = float(row.pop("read"))
                size = whole(row["bytes"])
                connection.execute(
                    sa.insert(TOTALS).values(
                        **self._place(),
                        **{name: whole(value) for name, value in row.items()},
                        at_millis=at_millis,
                        amplification=read / size if size else 1.0,
                    )
                )
        except (sa.exc.SQLAlchemyError, OSError) as e:
            raise _failed(e) from e

    def _delete(self, of: sa.Table) -> sa.Delete:
        """Deletes the line of the table `name`."""
        c = of.c
        return sa.delete(of).where(
            c.warehouse == self.warehouse,
            c.branch == self.branch,
            c.table_name == sa.bindparam("name"),
        )

    def _place(self) -> dict[str, str]:
        return {"warehouse": self.warehouse, "branch": self.branch}


def summed(of: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """The sum as a floating point number: 64 bits overflow where tables claim impossible sizes."""
    return sa.func.coalesce(sa.func.sum(sa.cast(of, sa.Double)), 0.0)


def whole(number: float) -> int:
    """The number as the history keeps it."""
    return min(int(number), _MOST)


def _failed(error: Exception) -> MaintenanceError:
    return MaintenanceError(
        f"cannot write the status of tables: {one_line(error)}",
        next_step=f"check that the database is reachable, or set {URL_VARIABLE} to another",
    )
