"""Stores open alerts and who was notified, so that each target gets each message once.

An alert is one row from the moment its condition holds until it no longer does.  A message is due
to each of its targets when it opens, once a day while it stays open, and when it is over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

import sqlalchemy as sa

from paimon_maintenance.history.scoped_store import ScopedStore, columns_of
from paimon_maintenance.history.store import SqlHistory

_ALERTS: Final = columns_of(
    "caretaker_alerts",
    "id warehouse table_name branch kind subject text next_step owner targets opened_millis "
    "seen_millis resolved_millis sent sending_until",
)
_MINUTE: Final = 60_000
REMIND_MILLIS: Final = 24 * 60 * _MINUTE
CLEAR_MILLIS: Final = 10 * _MINUTE
"""A condition that returns within this time counts as uninterrupted: no all-clear, no second alert.
"""
_SENDING_MILLIS: Final = 5 * _MINUTE


class Word(StrEnum):
    """What a message says."""

    OPEN = "open"
    STILL_OPEN = "still open"
    ALL_CLEAR = "all clear"


class Severity(StrEnum):
    """How soon a person is needed."""

    CRITICAL = "critical"
    """A goal of the policy is missed, or what happened to a table is not known."""
    WARNING = "warning"


SEVERITIES: Final[Mapping[str, Severity]] = {
    "failed_twice": Severity.WARNING,
    "guard_tripped": Severity.WARNING,
    "unknown_outcome": Severity.CRITICAL,
    "consumer_behind": Severity.WARNING,
    "getting_worse": Severity.WARNING,
    "expiry_blocked": Severity.WARNING,
    "freshness_missed": Severity.CRITICAL,
    "red_too_long": Severity.CRITICAL,
}
"""The severity of each kind of alert (`schedule.alerts.AlertKind`)."""


class Found(Protocol):
    """A condition that holds now (`schedule.alerts.Alert`)."""

    @property
    def table(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def next_step(self) -> str: ...
    @property
    def owner(self) -> str | None: ...
    @property
    def targets(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAlert:
    """An alert of the history; `sent` is {target: {word: millis}}."""

    id: int
    table: str
    kind: str
    subject: str
    text: str
    next_step: str | None
    owner: str | None
    targets: tuple[str, ...]
    opened_millis: int
    seen_millis: int
    resolved_millis: int | None
    sent: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def word_for(self, target: str, now: int) -> Word | None:
        """The message that is due to this target now; None if there is none."""
        sent = self.sent.get(target, {})
        opened = sent.get(Word.OPEN)
        if self.resolved_millis is not None:
            if opened is None or Word.ALL_CLEAR in sent:
                return None
            return Word.ALL_CLEAR if now - self.resolved_millis >= CLEAR_MILLIS else None
        if opened is None:
            return Word.OPEN
        last = max(opened, sent.get(Word.STILL_OPEN, 0))
        return Word.STILL_OPEN if now - last >= REMIND_MILLIS else None


@dataclass(frozen=True, slots=True)
class AlertStore(ScopedStore):
    """The alerts of one warehouse and branch."""

    def update(self, found: Iterable[Found], now: int) -> None:
        """Open, keep or end alerts, as these conditions hold now."""
        by_key = {(a.table, str(a.kind)): a for a in found}
        with self._alone() as connection:
            recent = sa.or_(
                _ALERTS.c.resolved_millis.is_(None),
                _ALERTS.c.resolved_millis > now - CLEAR_MILLIS,
            )
            rows = connection.execute(
                sa.select(_ALERTS).where(*self.is_here(_ALERTS), recent).order_by(_ALERTS.c.id)
            ).mappings()
            known = {(row["table_name"], row["kind"]): row for row in rows}
            for key, row in known.items():
                alert = by_key.pop(key, None)
                if alert is not None:
                    values = {**_values(alert), "seen_millis": now, "resolved_millis": None}
                elif row["resolved_millis"] is None:
                    values = {"resolved_millis": now}
                else:
                    continue
                connection.execute(
                    sa.update(_ALERTS).where(_ALERTS.c.id == row["id"]).values(**values)
                )
            for alert in by_key.values():
                connection.execute(
                    sa.insert(_ALERTS).values(
                        **self.place(alert.table),
                        **_values(alert),
                        kind=str(alert.kind),
                        opened_millis=now,
                        seen_millis=now,
                        sent="{}",
                        sending_until=0,
                    )
                )

    def alerts(self, *, resolved_since: int | None = None) -> list[StoredAlert]:
        """The open alerts, and those that ended after `resolved_since`; the newest first."""
        shown: sa.ColumnElement[bool] = _ALERTS.c.resolved_millis.is_(None)
        if resolved_since is not None:
            shown = sa.or_(shown, _ALERTS.c.resolved_millis >= resolved_since)
        query = sa.select(_ALERTS).where(*self.is_here(_ALERTS), shown)
        with self.transaction() as connection:
            rows = connection.execute(query.order_by(_ALERTS.c.id.desc())).mappings()
            return [_stored(row) for row in rows]

    def take(self, now: int) -> list[StoredAlert]:
        """Alerts that may have a message due, reserved for this caller for five minutes or until
        `record_sent`.
        """
        with self._alone() as connection:
            query = sa.select(_ALERTS).where(
                *self.is_here(_ALERTS),
                _ALERTS.c.sending_until <= now,
                sa.or_(
                    _ALERTS.c.resolved_millis.is_(None),
                    _ALERTS.c.resolved_millis > now - 7 * REMIND_MILLIS,
                ),
            )
            found = [
                _stored(row) for row in connection.execute(query.order_by(_ALERTS.c.id)).mappings()
            ]
            if found:
                connection.execute(
                    sa.update(_ALERTS)
                    .where(_ALERTS.c.id.in_([a.id for a in found]))
                    .values(sending_until=now + _SENDING_MILLIS)
                )
        return found

    def record_sent(self, alert: StoredAlert, words: Mapping[str, Word], now: int) -> None:
        """Record which targets got which message, and give the alert back."""
        sent = {target: dict(times) for target, times in alert.sent.items()}
        for target, word in words.items():
            sent.setdefault(target, {})[str(word)] = now
        with self.transaction() as connection:
            connection.execute(
                sa.update(_ALERTS)
                .where(_ALERTS.c.id == alert.id)
                .values(sent=json.dumps(sent), sending_until=0)
            )

    @contextmanager
    def _alone(self) -> Iterator[sa.Connection]:
        """A transaction that no other one of its kind overlaps; SQLite has one writer at a time."""
        with self.transaction() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text("LOCK TABLE caretaker_alerts IN EXCLUSIVE MODE"))
            yield connection


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAlerts:
    """The number of open alerts of one kind, and since when the oldest of them is open."""

    warehouse: str
    branch: str
    kind: str
    number: int
    oldest_millis: int


def open_alerts(history: SqlHistory, warehouse: str | None) -> list[OpenAlerts]:
    """The open alerts by place and kind, of one warehouse or of all."""
    c = _ALERTS.c
    place = (c.warehouse, c.branch, c.kind)
    query = (
        sa.select(
            *place,
            sa.func.count().label("number"),
            sa.func.min(c.opened_millis).label("oldest_millis"),
        )
        .where(c.resolved_millis.is_(None))
        .group_by(*place)
    )
    if warehouse is not None:
        query = query.where(c.warehouse == warehouse)
    with history.reading() as connection:
        return [OpenAlerts(**row) for row in connection.execute(query).mappings()]


def _values(alert: Found) -> dict[str, object]:
    return {
        "subject": alert.subject[:256],
        "text": alert.text,
        "next_step": alert.next_step,
        "owner": alert.owner,
        "targets": json.dumps(list(alert.targets)),
    }


def _stored(row: Mapping[Any, Any]) -> StoredAlert:
    names = [f for f in StoredAlert.__slots__ if f not in ("table", "targets", "sent")]
    targets: Sequence[str] = json.loads(row["targets"])
    return StoredAlert(
        **{name: row[name] for name in names},
        table=row["table_name"],
        targets=tuple(targets),
        sent=json.loads(row["sent"]),
    )


def to_send(
    alerts: Iterable[StoredAlert], now: int, *, default: str | None
) -> Iterator[tuple[StoredAlert, dict[str, Word]]]:
    """The messages that are due: each alert with the targets and their words.

    Alerts without targets go to `default`.
    """
    for alert in alerts:
        targets = alert.targets or ((default,) if default else ())
        words = {t: word for t in targets if (word := alert.word_for(t, now)) is not None}
        yield alert, words
