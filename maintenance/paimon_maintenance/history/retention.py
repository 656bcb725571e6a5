"""Deletes what is older than the history's own retention.

CARETAKER_HISTORY_RETENTION, default 365 d.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Final

import sqlalchemy as sa

from paimon_core.errors import InvalidArgument, PaimonError
from paimon_core.options import parse_duration_millis
from paimon_maintenance.history.scoped_store import ScopedStore, columns_of
from paimon_maintenance.history.store import SqlHistory

logger = logging.getLogger(__name__)

RETENTION_VARIABLE: Final = "CARETAKER_HISTORY_RETENTION"
_DEFAULT: Final = "365 d"
_LEAST_MILLIS: Final = 7 * 24 * 3_600_000
"""Alerts and the scheduler look at the last week."""
_TIMED: Final = {
    "caretaker_history": "at_millis",
    "caretaker_scores": "at_millis",
    "caretaker_decisions": "at_millis",
    "caretaker_rounds": "at_millis",
    "caretaker_totals": "at_millis",
    "caretaker_alerts": "resolved_millis",
    "caretaker_approvals": "asked_millis",
}


def retention_millis(environ: Mapping[str, str] = os.environ) -> int:
    """How long the history keeps what it has; InvalidArgument for less than a week."""
    text = environ.get(RETENTION_VARIABLE) or _DEFAULT
    try:
        found = parse_duration_millis(text)
    except InvalidArgument as e:
        raise InvalidArgument(f"{RETENTION_VARIABLE}: {e.message}") from e
    if found < _LEAST_MILLIS:
        raise InvalidArgument(
            f"{RETENTION_VARIABLE} is {text}, the least is 7 d",
            next_step=f"set {RETENTION_VARIABLE} to a longer duration",
        )
    return found


def prune(history: SqlHistory, *, before: int) -> dict[str, int]:
    """Delete entries, scores, decisions, rounds, ended alerts and approvals before this time.

    The rows by table.  Starts without an end stay, because the outcome of their runs is still to be
    found.  MaintenanceError if the database does not answer.
    """
    found = {}
    with ScopedStore(history, "").transaction() as connection:
        for name, column in _TIMED.items():
            table = columns_of(name, f"id run_id table_name event {column}")
            old = sa.delete(table).where(table.c[column] < before)
            if name == "caretaker_history":
                ends = table.alias("ends")
                old = old.where(
                    sa.or_(
                        table.c.event != "start",
                        sa.exists().where(
                            ends.c.run_id == table.c.run_id,
                            ends.c.table_name == table.c.table_name,
                            ends.c.event != "start",
                        ),
                    )
                )
            found[name] = int(connection.execute(old).rowcount)
    return found


def keep_retention(history: SqlHistory | None, now: int) -> None:
    """Delete what is too old at `now`, if there is any.

    A failure is a warning, because jobs go on without it.
    """
    if history is None:
        return
    try:
        before = now - retention_millis()
        entries = columns_of("caretaker_history", "id at_millis")
        first = sa.select(entries.c.at_millis).order_by(entries.c.id).limit(1)
        with history.reading() as connection:
            oldest = connection.execute(first).scalar()
        if oldest is not None and oldest < before:
            prune(history, before=before)
    except PaimonError as e:
        logger.warning("cannot delete what is old in the history: %s", e)
