"""What maintenance did in a period: by job, by table, failures, and how good predictions were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from paimon_core.errors import NotFound
from paimon_maintenance.history.alert_store import AlertStore, StoredAlert
from paimon_maintenance.history.entry import Entry
from paimon_maintenance.history.need_store import NeedStore, StoredDecision
from paimon_maintenance.history.predictions import Predictions, prediction_error, spread
from paimon_maintenance.history.scoped_store import columns_of
from paimon_maintenance.history.status import StatusStore
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.job.text import counted, human_bytes

_DECISIONS: Final = columns_of(
    "caretaker_decisions", "id warehouse branch status predicted_seconds past_runs seconds"
)
_NEWEST_RUNS: Final = 1000
_MOST_TABLES: Final = 15
_MOST_FAILURES: Final = 20
_FAILED: Final = frozenset({"failed", "unknown_outcome", "not_committed"})


@dataclass(slots=True)
class Sums:
    """Runs added up.

    `files` and `bytes` are those that became fewer, `deleted` what left the store.
    """

    runs: int = 0
    failed: int = 0
    seconds: float = 0.0
    rewritten_bytes: int = 0
    files: int = 0
    bytes: int = 0
    deleted_bytes: int = 0

    def add(self, entry: Entry) -> None:
        """Count a run."""
        self.runs += 1
        self.failed += entry.status in _FAILED
        self.seconds += entry.seconds or 0.0
        if entry.snapshots:
            self.rewritten_bytes += entry.bytes_before or 0
            self.files += (entry.files_before or 0) - (entry.files_after or 0)
            self.bytes += (entry.bytes_before or 0) - (entry.bytes_after or 0)
        self.deleted_bytes += entry.bytes_freed or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The period from `since` to `until`, in milliseconds since the epoch.

    `unmeasured`: why tables could not be measured when they were looked at last, by their names.
    """

    since: int
    until: int
    warehouse: str
    total: Sums
    jobs: Mapping[str, Sums]
    tables: Mapping[str, Sums]
    failures: Sequence[Entry] = ()
    predictions: Predictions | None = None
    decisions: Mapping[str, int] = field(default_factory=dict)
    alerts: Sequence[StoredAlert] = ()
    unmeasured: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """The report as JSON."""
        return {
            "since_millis": self.since,
            "until_millis": self.until,
            "warehouse": self.warehouse,
            "total": asdict(self.total),
            "jobs": {name: asdict(sums) for name, sums in self.jobs.items()},
            "tables": {name: asdict(sums) for name, sums in self.tables.items()},
            "failures": [e.to_json() for e in self.failures],
            "predictions": None if self.predictions is None else asdict(self.predictions),
            "decisions": dict(self.decisions),
            "alerts": [asdict(a) for a in self.alerts],
            "unmeasured": dict(self.unmeasured),
        }


def report_of(store: NeedStore, *, since: int, until: int) -> Report:
    """The report on one warehouse and branch; empty if nothing ran."""
    entries = entries_since(store, since)
    runs = [e for e in entries if e.event == "run" and e.at_millis <= until]
    total, jobs, tables = Sums(), dict[str, Sums](), dict[str, Sums]()
    for entry in runs:
        jobs.setdefault(entry.job, Sums()).add(entry)
        if entry.part_of is None:
            total.add(entry)
            tables.setdefault(entry.table, Sums()).add(entry)
    decisions = [d for d in store.decisions_since(since) if d.at_millis <= until]
    counts: dict[str, int] = {}
    for decision in decisions:
        # What a dry run would have run did not run.
        action = "dry run" if decision.status == "dry_run" else decision.action
        counts[action] = counts.get(action, 0) + 1
    return Report(
        since=since,
        until=until,
        warehouse=store.warehouse,
        total=total,
        jobs=dict(sorted(jobs.items(), key=lambda j: (-j[1].seconds, j[0]))),
        tables=dict(sorted(tables.items(), key=lambda t: (-t[1].seconds, t[0]))),
        failures=[e for e in runs if e.status in _FAILED and e.part_of is None],
        predictions=predictions_of(decisions),
        decisions=counts,
        alerts=AlertStore(store.history, store.warehouse, store.branch).alerts(
            resolved_since=since
        ),
        unmeasured=StatusStore(store.history, store.warehouse, store.branch).errors(),
    )


def entries_since(store: NeedStore, since: int) -> list[Entry]:
    """The entries of the store's warehouse and branch since then, newest first."""
    try:
        found = store.history.newest(warehouse=store.warehouse, since_millis=since, limit=None)
    except NotFound:
        return []
    return [e for e in found if (e.branch or "main") == store.branch]


def predictions_of(decisions: Sequence[StoredDecision]) -> Predictions | None:
    """The errors of the decisions that ran with success; None without one that had past runs."""
    return spread(
        [
            prediction_error(d.predicted_seconds, d.seconds)
            for d in decisions
            if d.status == "success" and d.seconds is not None and not d.is_estimated
        ]
    )


def newest_predictions(
    history: SqlHistory, warehouse: str | None
) -> dict[tuple[str, str], Predictions]:
    """The errors of the newest successful runs by warehouse and branch, of one warehouse or of all.

    MaintenanceError if the database does not answer.
    """
    c = _DECISIONS.c
    query = (
        sa.select(c.warehouse, c.branch, c.predicted_seconds, c.seconds)
        .where(c.status == "success", c.seconds.is_not(None), sa.func.coalesce(c.past_runs, 1) > 0)
        .order_by(c.id.desc())
        .limit(_NEWEST_RUNS)
    )
    if warehouse is not None:
        query = query.where(c.warehouse == warehouse)
    errors: dict[tuple[str, str], list[float]] = {}
    with history.reading() as connection:
        for place, branch, predicted, seconds in connection.execute(query):
            errors.setdefault((place, branch), []).append(prediction_error(predicted, seconds))
    spreads = ((place, spread(found)) for place, found in errors.items())
    return {place: found for place, found in spreads if found is not None}


def markdown(report: Report) -> Iterator[str]:
    """The report as Markdown, which is also what a terminal shows."""
    begin, end = (_time(m) for m in (report.since, report.until))
    t = report.total
    yield f"# Maintenance of {report.warehouse}"
    yield ""
    yield f"{begin} to {end}: {counted(t.runs, 'runs')}, {t.failed} failed, {_hours(t.seconds)}."
    yield (
        f"{human_bytes(t.rewritten_bytes)} rewritten, {t.files:,} files fewer, "
        f"{human_bytes(t.bytes)} smaller, {human_bytes(t.deleted_bytes)} deleted from the store."
    )
    if report.predictions is not None:
        p = report.predictions
        yield (
            f"Predicted seconds of {counted(p.runs, 'runs')}: median error {p.median:.0%}, "
            f"90th percentile {p.p90:.0%}."
        )
    if report.decisions:
        counts = ", ".join(f"{number} {action}" for action, number in report.decisions.items())
        yield f"Decisions of the scheduler: {counts}."
    yield from _table("By job", "job", report.jobs)
    yield from _table("By table", "table", report.tables)
    if report.failures:
        yield from ("", "## Failures", "")
    for entry in report.failures[:_MOST_FAILURES]:
        step = f" -> {entry.next_step}" if entry.next_step else ""
        yield f"- {_time(entry.at_millis)} {entry.table} {entry.job}: {entry.error_type}: {entry.error}{step}"
    if len(report.failures) > _MOST_FAILURES:
        yield f"- and {len(report.failures) - _MOST_FAILURES} more"
    if report.unmeasured:
        yield from ("", "## Tables that cannot be measured", "")
    for name, error in list(report.unmeasured.items())[:_MOST_TABLES]:
        yield f"- {name}: {error}"
    if len(report.unmeasured) > _MOST_TABLES:
        yield f"- and {len(report.unmeasured) - _MOST_TABLES} more"
    if report.alerts:
        yield from ("", "## Alerts", "")
    for alert in report.alerts:
        over = (
            "" if alert.resolved_millis is None else f", over since {_time(alert.resolved_millis)}"
        )
        yield f"- {_time(alert.opened_millis)} {alert.subject}{over}"


def _table(title: str, of: str, rows: Mapping[str, Sums]) -> Iterator[str]:
    if not rows:
        return
    yield from ("", f"## {title}", "")
    yield f"| {of} | runs | failed | time | rewritten | files fewer | deleted |"
    yield "|---|---|---|---|---|---|---|"
    for name, s in list(rows.items())[:_MOST_TABLES]:
        yield (
            f"| {name} | {s.runs:,} | {s.failed} | {_hours(s.seconds)} | "
            f"{human_bytes(s.rewritten_bytes)} | {s.files:,} | {human_bytes(s.deleted_bytes)} |"
        )
    if len(rows) > _MOST_TABLES:
        yield f"| and {len(rows) - _MOST_TABLES} more | | | | | | |"


def _hours(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _time(millis: int) -> str:
    return f"{datetime.fromtimestamp(millis / 1000, UTC).astimezone():%Y-%m-%d %H:%M}"
