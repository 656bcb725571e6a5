"""Reads what maintenance did in a period: by job and by table, failures, and predictions.

A run of `maintain` counts as one run; its steps are not counted again.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import sqlalchemy as sa

from paimon_maintenance.history.complete_days import KeptSums, Period, Sums, merged, sums_by
from paimon_maintenance.history.predictions import prediction_error, spread
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.history.table_view import DECISIONS, ENTRIES, RunLine, run_line

FAILED: Final = ("failed", "refused", "not_committed", "unknown_outcome")
"""The statuses of runs that may need attention."""
_MOST_TABLES: Final = 50
_MOST_FAILURES: Final = 500
_MOST_GROUPS: Final = 100
_MOST_PREDICTIONS: Final = 400
_SECONDS: Final = 2
"""The position of the seconds in `_columns`."""
_BRANCH: Final = sa.func.coalesce(ENTRIES.c.branch, sa.literal_column("'main'")).label("branch")


@dataclass(frozen=True, slots=True)
class Work:
    """Sums over runs; `files_fewer` and `bytes_fewer` are negative if there are more afterwards.

    `bytes_rewritten`: what the runs read and wrote.  `bytes_freed`: what they deleted from the
    store.  `warehouse`: that of a table; None for other sums.
    """

    name: str
    runs: int
    failed: int
    seconds: float
    files_before: int
    files_fewer: int
    bytes_rewritten: int
    bytes_fewer: int
    bytes_freed: int
    warehouse: str | None = None


NOTHING: Final = Work("all", 0, 0, 0.0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """Sums over the runs of a day; `at_millis` is its start, in UTC."""

    at_millis: int
    runs: int
    failed: int
    seconds: float
    bytes_rewritten: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Failures of one job on one branch of a table with the same error.

    `newest` is the last of them.

    `solved_at`: when the job succeeded on this branch afterwards, None if it did not.
    """

    newest: RunLine
    times: int
    first_millis: int
    solved_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Predicted and measured seconds of one run of the scheduler.

    `past_runs`: how many runs of the job the prediction rests on, None if that was not recorded.
    """

    at_millis: int
    warehouse: str
    table: str
    branch: str
    job: str
    predicted_seconds: float
    past_runs: int | None
    seconds: float

    @property
    def error(self) -> float:
        """The relative error of the prediction (`prediction_error`)."""
        return prediction_error(self.predicted_seconds, self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkView:
    """What happened since `since_millis`.

    The errors are quantiles over the predictions that rest on past runs; None without any.
    `tables_changed` counts all tables with a run, `by_table` lists those that took the most
    seconds.
    """

    since_millis: int
    total: Work
    by_job: tuple[Work, ...]
    by_table: tuple[Work, ...]
    tables_changed: int
    by_day: tuple[Day, ...]
    failures: tuple[Failure, ...]
    predictions: tuple[Prediction, ...]
    median_error: float | None
    p90_error: float | None


def work_view(
    history: SqlHistory,
    *,
    warehouse: str | None,
    since_millis: int,
    until_millis: int,
    now_millis: int = 0,
    kept: KeptSums | None = None,
) -> WorkView:
    """What maintenance did in the period, in one warehouse or in all.

    `kept` keeps the sums of days that are complete at `now_millis` for the next call.
    """
    e = ENTRIES.c
    whole = Period(since=since_millis, until=until_millis)

    def runs_of(period: Period) -> sa.ColumnElement[bool]:
        return sa.and_(
            e.event == "run",
            e.at_millis >= period.since,
            e.at_millis < period.until,
            e.part_of.is_(None),
            *(() if warehouse is None else (e.warehouse == warehouse,)),
        )

    # Not a bound value: PostgreSQL does not see that two of them are the same expression.
    day = e.at_millis - e.at_millis % sa.literal_column("86400000")
    with history.reading() as connection:

        def of(period: Period) -> tuple[Sums, ...]:
            """The sums by table, and those by job and day."""
            if period.since >= period.until:
                return {}, {}
            where = runs_of(period)
            return (
                sums_by(connection, (e.warehouse, e.table_name), _columns(), where),
                sums_by(connection, (e.job, day), _columns(), where),
            )

        def count(period: Period) -> int:
            query = sa.select(sa.func.count()).select_from(ENTRIES).where(runs_of(period))
            return int(connection.execute(query).scalar_one())

        if kept is None:
            parts = [of(whole)]
        else:
            begin, days, rest = whole.parts(now_millis)
            key = (history.url, warehouse, days)
            complete = (
                kept.of(key, partial(count, days), partial(of, days))
                if days.since < days.until
                else of(days)
            )
            parts = [complete, of(begin), of(rest)]
        failures = _failures(connection, runs_of(whole))
        predictions = _predictions(connection, warehouse, since_millis, until_millis)
    by_table = merged(tables for tables, _ in parts)
    by_job_and_day = merged(days for _, days in parts)
    by_job = _added((job, v) for (job, _), v in by_job_and_day.items())
    by_day = _added((at, v) for (_, at), v in by_job_and_day.items())
    total = _added(("all", v) for v in by_job_and_day.values())
    errors = spread([p.error for p in predictions if p.past_runs != 0])
    return WorkView(
        since_millis=since_millis,
        total=total[0] if total else NOTHING,
        by_job=tuple(_ordered(by_job)),
        by_table=tuple(_longest(by_table)),
        tables_changed=len(by_table),
        by_day=tuple(_days(by_day)),
        failures=tuple(failures),
        predictions=tuple(predictions),
        median_error=None if errors is None else errors.median,
        p90_error=None if errors is None else errors.p90,
    )


def _sum(of: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return sa.func.coalesce(sa.func.sum(of), 0)


def _columns() -> list[sa.ColumnElement[Any]]:
    e = ENTRIES.c
    return [
        sa.func.count().label("runs"),
        _sum(sa.case((e.status.in_(FAILED), 1), else_=0)).label("failed"),
        _sum(e.seconds).label("seconds"),
        _sum(e.files_before).label("files_before"),
        _sum(e.files_before - e.files_after).label("files_fewer"),
        _sum(e.bytes_before + e.bytes_after).label("bytes_rewritten"),
        _sum(e.bytes_before - e.bytes_after).label("bytes_fewer"),
        _sum(e.bytes_freed).label("bytes_freed"),
    ]


def _days(works: Iterable[Work]) -> list[Day]:
    return [
        Day(
            at_millis=int(one.name),
            runs=one.runs,
            failed=one.failed,
            seconds=one.seconds,
            bytes_rewritten=one.bytes_rewritten,
        )
        for one in sorted(works, key=lambda w: int(w.name))
    ]


def _added(parts: Iterable[tuple[Any, Sequence[Any]]]) -> list[Work]:
    """The sums of the parts with the same name."""
    found: dict[str, list[Any]] = {}
    for name, values in parts:
        so_far = found.get(str(name))
        found[str(name)] = (
            list(values) if so_far is None else [a + b for a, b in zip(so_far, values, strict=True)]
        )
    return [_work(name, values) for name, values in found.items()]


def _work(name: str, values: Sequence[Any]) -> Work:
    # PostgreSQL adds whole numbers to decimals.
    runs, failed, seconds, *rest = values
    files, fewer, rewritten, fewer_bytes, freed = map(int, rest)
    return Work(
        name, int(runs), int(failed), float(seconds), files, fewer, rewritten, fewer_bytes, freed
    )


def _ordered(works: Iterable[Work]) -> list[Work]:
    return sorted(works, key=lambda w: (-w.seconds, w.name))


def _longest(by_table: Sums) -> list[Work]:
    """The tables that took the most seconds."""

    def order(one: tuple[tuple[Any, ...], Sequence[Any]]) -> tuple[Any, ...]:
        (warehouse, name), values = one
        return -values[_SECONDS], name, warehouse or ""

    first = heapq.nsmallest(_MOST_TABLES, by_table.items(), key=order)
    return [
        replace(_work(name, values), warehouse=warehouse) for (warehouse, name), values in first
    ]


def _failures(connection: sa.Connection, where: sa.ColumnElement[bool]) -> list[Failure]:
    """The failures by table, branch, job and error.

    First those without a later success, then the newest.
    """
    e = ENTRIES.c
    place = (e.warehouse, e.table_name, _BRANCH, e.job)
    newest = (
        sa.select(e.id, e.at_millis, *place, e.error_type)
        .where(where, e.status.in_(FAILED))
        .order_by(e.id.desc())
        .limit(_MOST_FAILURES)
        .subquery()
    )
    n = newest.c
    groups = (
        sa.select(
            sa.func.max(n.id).label("id"),
            sa.func.count().label("times"),
            sa.func.min(n.at_millis).label("first_millis"),
        )
        .group_by(n.warehouse, n.table_name, n.branch, n.job, n.error_type)
        .order_by(sa.func.max(n.id).desc())
        .limit(_MOST_GROUPS)
        .subquery()
    )
    query = (
        sa.select(ENTRIES, groups.c.times, groups.c.first_millis)
        .join(groups, groups.c.id == e.id)
        .order_by(e.id.desc())
    )
    grouped = [
        (run_line(row), int(row["times"]), int(row["first_millis"]))
        for row in connection.execute(query).mappings()
    ]
    if not grouped:
        return []
    solved = _newest_successes(connection, [line for line, _, _ in grouped])
    found = []
    for line, times, first in grouped:
        success = solved.get((line.warehouse, line.table, line.branch, line.job), 0)
        found.append(
            Failure(
                newest=line,
                times=times,
                first_millis=first,
                solved_at=success if success > line.at_millis else None,
            )
        )
    return sorted(found, key=lambda f: (f.solved_at is not None, -f.newest.at_millis))


def _newest_successes(
    connection: sa.Connection, failed: Collection[RunLine]
) -> dict[tuple[str, str, str, str], int]:
    """When the jobs of these runs last succeeded since, by warehouse, table, branch and job."""
    e = ENTRIES.c
    place = (e.warehouse, e.table_name, _BRANCH, e.job)
    since = min(line.at_millis for line in failed)
    query = (
        sa.select(*place, sa.func.max(e.at_millis))
        # The index by time has all columns of these conditions: only the
        # branch needs the wide rows.
        .where(e.event == "run", e.at_millis >= since, e.status == "success")
        .where(e.table_name.in_({line.table for line in failed}))
        .where(e.job.in_({line.job for line in failed}))
        .group_by(*place)
    )
    rows = connection.execute(query).all()
    return {(warehouse, table, branch, job): int(at) for warehouse, table, branch, job, at in rows}


def _predictions(
    connection: sa.Connection, warehouse: str | None, since: int, until: int
) -> Sequence[Prediction]:
    d = DECISIONS.c
    query = (
        sa.select(
            d.at_millis,
            d.warehouse,
            d.table_name.label("table"),
            d.branch,
            d.job,
            d.predicted_seconds,
            d.past_runs,
            d.seconds,
        )
        .where(d.status == "success", d.at_millis >= since, d.at_millis < until)
        .where(d.seconds.is_not(None), *(() if warehouse is None else (d.warehouse == warehouse,)))
        .order_by(d.at_millis.desc())
        .limit(_MOST_PREDICTIONS)
    )
    return [Prediction(**row) for row in connection.execute(query).mappings()]
