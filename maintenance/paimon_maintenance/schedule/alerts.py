"""Alerts: conditions of tables and runs that maintenance alone does not cure.  Pure.

Each alert has a kind, a sentence and a next step (docs/runbooks/alerts.md).  A table has at most
one open alert of each kind; `history.alert_store` stores which alerts are open and who was
notified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from paimon_maintenance.health.measurement import Measurement
from paimon_maintenance.health.reasons import MB, Finding, named, table_findings
from paimon_maintenance.history.entry import Entry
from paimon_maintenance.history.lost_runs import LostOutcome
from paimon_maintenance.history.need_store import StoredScore
from paimon_maintenance.job.text import age_text, counted, human_bytes
from paimon_maintenance.policy.needs import HOUR_MILLIS, TableNeeds
from paimon_maintenance.schedule.state import TableState

_FAILURES: Final = 2
_WORSE_POINTS: Final = 10
_WORSE_RUNS: Final = 3
_BLOCKED_SNAPSHOTS: Final = 20
_BLOCKED_SHARE: Final = 0.25
_FEW_BYTES: Final = 128 * MB
_REWRITING: Final = frozenset({"compact", "sort_compact", "rescale"})
_DONE: Final = frozenset({"success", "nothing_to_do", "committed"})


class AlertKind(StrEnum):
    """The conditions that make an alert."""

    FAILED_TWICE = "failed_twice"
    GUARD_TRIPPED = "guard_tripped"
    UNKNOWN_OUTCOME = "unknown_outcome"
    CONSUMER_BEHIND = "consumer_behind"
    GETTING_WORSE = "getting_worse"
    EXPIRY_BLOCKED = "expiry_blocked"
    FRESHNESS_MISSED = "freshness_missed"
    RED_TOO_LONG = "red_too_long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One condition of one table.  `subject` is a line, `text` says all that is known."""

    table: str
    kind: AlertKind
    subject: str
    text: str
    next_step: str
    owner: str | None = None
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFindings:
    """What is known of one table: its measurement, its memory, its scores, the newest first."""

    measurement: Measurement
    state: TableState
    scores: Sequence[StoredScore] = ()


def alerts_of(
    needs: Mapping[str, TableNeeds],
    tables: Mapping[str, TableFindings],
    entries: Iterable[Entry],
    now: int,
) -> list[Alert]:
    """The alerts of all tables; `entries` are those of the last days, newest first."""
    by_table: dict[str, list[Entry]] = {}
    for entry in entries:
        by_table.setdefault(entry.table, []).append(entry)
    found = []
    for name in sorted({*tables, *by_table}):
        wanted = needs.get(name, TableNeeds())
        own = by_table.get(name, [])
        known = tables.get(name)
        alerts = [*_of_runs(name, own)]
        if known is not None and wanted.scheduled:
            alerts += _of_table(known, wanted, own, now)
        # One alert of a kind: the first is the newest.
        kinds = {alert.kind: alert for alert in reversed(alerts)}
        found += [
            Alert(
                table=a.table,
                kind=a.kind,
                subject=a.subject,
                text=a.text,
                next_step=a.next_step,
                owner=wanted.owner,
                targets=wanted.alerts,
            )
            for a in kinds.values()
        ]
    return sorted(found, key=lambda a: (a.table, a.kind))


# --- runs -----------------------------------------------------------------------------------------


def _of_runs(table: str, entries: Sequence[Entry]) -> Iterator[Alert]:
    jobs: dict[tuple[str | None, str], list[Entry]] = {}
    for entry in entries:
        if entry.event in ("run", "skip") or entry.error_type:
            jobs.setdefault((entry.part_of, entry.job), []).append(entry)
    for own in jobs.values():
        newest = own[0]
        what = newest.job if newest.part_of is None else f"{newest.part_of}/{newest.job}"
        step = newest.next_step or f"look at `caretaker history {table} --failed`"
        if newest.error_type == "GuardTripped":
            yield _alert(
                table,
                AlertKind.GUARD_TRIPPED,
                f"{table}: a guard stopped {what}",
                str(newest.error),
                step,
            )
            continue
        failures = 0
        for entry in own:
            if entry.status != "failed" or entry.event != "run":
                break
            failures += 1
        if failures >= _FAILURES:
            yield _alert(
                table,
                AlertKind.FAILED_TWICE,
                f"{table}: {what} failed {failures} times in a row",
                f"{newest.error_type}: {newest.error}",
                step,
            )
    for entry in entries:
        if entry.status in _DONE and entry.event == "run":
            return
        unknown = entry.status == LostOutcome.UNKNOWN or entry.error_type == "CommitStateUnknown"
        if unknown:
            yield _alert(
                table,
                AlertKind.UNKNOWN_OUTCOME,
                f"{table}: the outcome of {entry.job} is unknown",
                entry.error or "the process of the run was lost",
                entry.next_step or f"run `caretaker verify {table}`, then the job again",
            )
            return


# --- tables ---------------------------------------------------------------------------------------


def _of_table(
    known: TableFindings, needs: TableNeeds, entries: Sequence[Entry], now: int
) -> Iterator[Alert]:
    table = known.measurement
    # Ages count at the time of the measurement: what happened since is not known.
    findings = {f.criterion: f for f in table_findings(table, needs.thresholds(), table.at_millis)}
    freshness = findings.get("freshness")
    if freshness is not None and freshness.value > 1:
        yield _of_finding(
            table.table,
            AlertKind.FRESHNESS_MISSED,
            "the freshness goal is missed",
            freshness,
            "look at `caretaker policy explain`: is the budget spent, or does compaction fail?",
        )
    lag = findings.get("consumer_lag")
    if lag is not None and lag.value > 1:
        yield _of_finding(
            table.table,
            AlertKind.CONSUMER_BEHIND,
            "a consumer is too far behind",
            lag,
            "start its reader again, or move or delete the consumer with reset_consumer",
        )
    yield from _blocked(table)
    since = known.state.red_since
    if since is not None and now - since > needs.max_red_millis:
        yield _alert(
            table.table,
            AlertKind.RED_TOO_LONG,
            f"{table.table}: red for {age_text((now - since) / HOUR_MILLIS)}",
            f"the policy allows {age_text(needs.max_red_millis / HOUR_MILLIS)}",
            f"look at `caretaker health {table.table}` and `caretaker policy explain {table.table}`",
        )
    yield from _worse(known, entries, now)


def _blocked(table: Measurement) -> Iterator[Alert]:
    many = table.blocked_snapshots >= _BLOCKED_SNAPSHOTS
    large = table.blocked_bytes >= max(_FEW_BYTES, _BLOCKED_SHARE * table.bytes)
    if table.blocked_snapshots and (many or large):
        names = named([h.name for h in table.holders if h.kind == "consumer"])
        yield _alert(
            table.table,
            AlertKind.EXPIRY_BLOCKED,
            f"{table.table}: consumer {names} blocks the expiry of snapshots",
            f"{counted(table.blocked_snapshots, 'snapshots')} and "
            f"{human_bytes(table.blocked_bytes)} are beyond the retention and cannot expire",
            "start its reader again, set consumer.expiration-time, or use reset_consumer",
        )
    elif table.stuck:
        partition, why = next(iter(table.stuck.items()))
        yield _alert(
            table.table,
            AlertKind.EXPIRY_BLOCKED,
            f"{table.table}: partitions never expire",
            f"{counted(len(table.stuck), 'partitions')}, for example {partition}: {why}",
            "correct partition.timestamp-formatter and partition.timestamp-pattern",
        )


def _worse(known: TableFindings, entries: Sequence[Entry], now: int) -> Iterator[Alert]:
    """The score fell although jobs succeeded: they do not do what the table needs."""
    scores = [s for s in known.scores if now - s.at_millis <= 24 * HOUR_MILLIS]
    runs = sum(
        1
        for e in entries
        if e.job in _REWRITING
        and e.event == "run"
        and e.status == "success"
        and now - e.at_millis <= 24 * HOUR_MILLIS
    )
    if len(scores) < _WORSE_RUNS or runs < _WORSE_RUNS:
        return
    newest, oldest = scores[0], scores[-1]
    # Not just the moment before the next compaction: all of the newest scores are low.
    recent = max(s.score for s in scores[:_WORSE_RUNS])
    if recent <= oldest.score - _WORSE_POINTS:
        name = known.measurement.table
        yield _alert(
            name,
            AlertKind.GETTING_WORSE,
            f"{name}: the score fell from {oldest.score} to {newest.score} despite "
            f"{counted(runs, 'runs')}",
            f"the worst reason is now: {newest.reason or 'unknown'}",
            f"look at `caretaker health {name}`: the load may have grown beyond the budget",
        )


def _of_finding(table: str, kind: AlertKind, what: str, found: Finding, step: str) -> Alert:
    return _alert(table, kind, f"{table}: {what}", found.text, step)


def _alert(table: str, kind: AlertKind, subject: str, text: str, next_step: str) -> Alert:
    return Alert(table=table, kind=kind, subject=subject, text=text, next_step=next_step)
