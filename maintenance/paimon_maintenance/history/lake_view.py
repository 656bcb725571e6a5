"""Reads the status of all tables: the list that a page shows, and the totals over time.

Each query reads one line for each table at most, so 2,000 tables take milliseconds.  Nothing here
reads the lake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from paimon_maintenance.history.status import STATUS, TOTALS, summed, table_of, whole
from paimon_maintenance.history.store import SqlHistory

SORTS: Final[Mapping[str, str]] = {
    "table": "table_name",
    "score": "score",
    "bytes": "bytes",
    "files": "files",
    "runs": "runs",
    "amplification": "amplification",
    "held_bytes": "held_bytes",
    "last": "last_at",
    "next": "next_at_millis",
    "owner": "owner",
    "measured": "at_millis",
}
"""What the list can be sorted by, and the column that does it."""
NO_OWNER: Final = "-"
"""Filters for tables without an owner."""
_NO_OWNER: Final[sa.ColumnElement[str]] = sa.literal_column(f"'{NO_OWNER}'")
_ENTRIES: Final = table_of(
    "caretaker_history", "id at_millis event job status warehouse table_name branch part_of"
)
_MOST_POINTS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A warehouse and a branch that have measured tables."""

    warehouse: str
    branch: str
    tables: int
    at_millis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeQuery:
    """Which tables to list, and in which order; empty filters match everything.

    `color` is green, yellow, red or unknown (not measured).  `search` matches a part of the name,
    the owner or the worst reason.
    """

    warehouse: str
    branch: str = "main"
    search: str = ""
    color: str = ""
    owner: str = ""
    criterion: str = ""
    sort: str = "score"
    descending: bool = False
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeRow:
    """One table of the list; times are milliseconds since the epoch.

    `last_at`, `last_job`: the newest successful run that changed something.
    """

    table: str
    branch: str
    at_millis: int
    score: int | None
    color: str | None
    criterion: str | None
    reason: str | None
    files: int
    bytes: int
    row_count: int
    runs: int
    amplification: float
    held_bytes: int
    owner: str | None
    next_job: str | None
    next_action: str | None
    next_reason: str | None
    next_at_millis: int | None
    error: str | None
    last_at: int | None
    last_job: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over tables at one time; `amplification` is the mean, weighted by bytes."""

    at_millis: int
    tables: int
    green: int
    yellow: int
    red: int
    files: int
    bytes: int
    held_bytes: int
    amplification: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LakePage:
    """A part of the list, the number of all matches, and what there is to filter by.

    `totals` are those of all tables of the warehouse, not only of the matches.
    """

    rows: tuple[LakeRow, ...]
    matches: int
    totals: Totals
    owners: Mapping[str, int]
    criteria: Mapping[str, int]


def places(history: SqlHistory) -> list[Place]:
    """The warehouses and branches with measured tables, the most recently measured first."""
    c = STATUS.c
    newest = sa.func.max(c.at_millis)
    query = (
        sa.select(c.warehouse, c.branch, sa.func.count().label("tables"), newest.label("at_millis"))
        .group_by(c.warehouse, c.branch)
        .order_by(newest.desc(), c.warehouse, c.branch)
    )
    with history.reading() as connection:
        return [Place(**row) for row in connection.execute(query).mappings()]


def lake_page(history: SqlHistory, query: LakeQuery) -> LakePage:
    """The tables that the query matches; MaintenanceError if the history does not answer."""
    c = STATUS.c
    place = sa.and_(c.warehouse == query.warehouse, c.branch == query.branch)
    matching = sa.and_(place, *_conditions(query))
    with history.reading() as connection:
        rows = connection.execute(_rows(query, matching)).mappings().all()
        matches = connection.execute(
            sa.select(sa.func.count()).select_from(STATUS).where(matching)
        ).scalar_one()
        return LakePage(
            rows=tuple(LakeRow(**row) for row in rows),
            matches=int(matches),
            totals=_totals_now(connection, place),
            owners=_counts(connection, place, sa.func.coalesce(c.owner, _NO_OWNER)),
            criteria=_counts(connection, sa.and_(place, c.criterion.is_not(None)), c.criterion),
        )


def lake_row(history: SqlHistory, *, warehouse: str, table: str, branch: str) -> LakeRow | None:
    """The line of one table; None if no table of this name was measured."""
    c = STATUS.c
    query = LakeQuery(warehouse=warehouse, branch=branch, limit=1)
    matching = sa.and_(c.warehouse == warehouse, c.branch == branch, c.table_name == table)
    with history.reading() as connection:
        row = connection.execute(_rows(query, matching)).mappings().one_or_none()
    return None if row is None else LakeRow(**row)


def totals_since(
    history: SqlHistory, *, warehouse: str, branch: str, since_millis: int
) -> list[Totals]:
    """The totals of the rounds since then, oldest first, thinned out to a few hundred."""
    c = TOTALS.c
    query = (
        sa.select(*(c[name] for name in Totals.__slots__))
        .where(c.warehouse == warehouse, c.branch == branch, c.at_millis >= since_millis)
        .order_by(c.at_millis)
    )
    with history.reading() as connection:
        found = [Totals(**row) for row in connection.execute(query).mappings()]
    step = -(-len(found) // _MOST_POINTS) or 1
    # The newest round is always there, and the steps between rounds are even.
    return found[::-1][::step][::-1]


def tables_by_color(history: SqlHistory, warehouse: str | None) -> dict[tuple[str, str, str], int]:
    """The number of tables by warehouse, branch and color; "unknown" if they cannot be measured."""
    c = STATUS.c
    place = (c.warehouse, c.branch, c.color)
    query = sa.select(*place, sa.func.count()).group_by(*place)
    if warehouse is not None:
        query = query.where(c.warehouse == warehouse)
    with history.reading() as connection:
        rows = connection.execute(query).all()
    return {(found, branch, color or "unknown"): int(n) for found, branch, color, n in rows}


def _rows(query: LakeQuery, matching: sa.ColumnElement[bool]) -> sa.Select[Any]:
    c, e = STATUS.c, _ENTRIES.c
    # The newest run of each table, found by a walk back in the index by outcome; it ends at the
    # first run of the branch.
    run = _ENTRIES.alias("run")
    newest = (
        sa.select(run.c.id)
        .where(
            run.c.event == "run",
            run.c.status == "success",
            run.c.warehouse == c.warehouse,
            run.c.table_name == c.table_name,
            sa.func.coalesce(run.c.branch, "main") == c.branch,
        )
        .order_by(run.c.id.desc())
        .limit(1)
        .correlate(STATUS)
        .scalar_subquery()
    )
    of_status = [name for name in LakeRow.__slots__ if name not in ("table", "last_at", "last_job")]
    joined = STATUS.outerjoin(_ENTRIES, e.id == newest)
    last_at = e.at_millis.label("last_at")
    sort = last_at if query.sort == "last" else c[SORTS[query.sort]]
    direction = sort.desc() if query.descending else sort.asc()
    return (
        sa.select(
            c.table_name.label("table"),
            *(c[name] for name in of_status),
            last_at,
            sa.func.coalesce(e.part_of, e.job).label("last_job"),
        )
        .select_from(joined)
        .where(matching)
        # Unknown values come last in both directions.
        .order_by(sa.case((sort.is_(None), 1), else_=0), direction, c.table_name)
        .offset(query.offset)
        .limit(query.limit)
    )


def _conditions(query: LakeQuery) -> Sequence[sa.ColumnElement[bool]]:
    c = STATUS.c
    found: list[sa.ColumnElement[bool]] = []
    for word in query.search.lower().split():
        pattern = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        found.append(
            sa.or_(
                *(
                    sa.func.lower(sa.func.coalesce(column, "")).like(f"%{pattern}%", escape="\\")
                    for column in (c.table_name, c.owner, c.reason)
                )
            )
        )
    if query.color == "unknown":
        found.append(c.color.is_(None))
    elif query.color:
        found.append(c.color == query.color)
    if query.owner:
        found.append(c.owner.is_(None) if query.owner == NO_OWNER else c.owner == query.owner)
    if query.criterion:
        found.append(c.criterion == query.criterion)
    return found


def _totals_now(connection: sa.Connection, place: sa.ColumnElement[bool]) -> Totals:
    c = STATUS.c

    def colored(name: str) -> sa.ColumnElement[int]:
        return sa.func.coalesce(sa.func.sum(sa.case((c.color == name, 1), else_=0)), 0)

    row = (
        connection.execute(
            sa.select(
                sa.func.coalesce(sa.func.max(c.at_millis), 0).label("at_millis"),
                sa.func.count().label("tables"),
                *(colored(name).label(name) for name in ("green", "yellow", "red")),
                *(summed(c[name]).label(name) for name in ("files", "bytes", "held_bytes")),
                summed(c.amplification * c.bytes).label("read"),
            ).where(place)
        )
        .mappings()
        .one()
    )
    found = {name: whole(value) for name, value in row.items() if name != "read"}
    size = found["bytes"]
    return Totals(**found, amplification=float(row["read"]) / size if size else 1.0)


def _counts(
    connection: sa.Connection, where: sa.ColumnElement[bool], of: sa.ColumnElement[Any]
) -> dict[str, int]:
    """How many tables there are of each value, the most frequent first."""
    number = sa.func.count()
    query = sa.select(of.label("value"), number).where(where).group_by(of)
    rows = connection.execute(query.order_by(number.desc(), of)).all()
    return {str(value): int(count) for value, count in rows}
