"""Evaluates the alerts of a lake from the history, and records which are open."""

from __future__ import annotations

from paimon_core.errors import NotFound
from paimon_maintenance.health.measurement import Measurement
from paimon_maintenance.history.alert_store import AlertStore, StoredAlert
from paimon_maintenance.history.entry import Entry
from paimon_maintenance.history.need_store import NeedStore
from paimon_maintenance.history.retention import keep_retention
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.policy.model import Policy
from paimon_maintenance.policy.needs import DAY_MILLIS, TableFacts, TableNeeds
from paimon_maintenance.schedule.alerts import Alert, TableFindings, alerts_of
from paimon_maintenance.schedule.state import TableState

_LOOK_BACK: int = 7 * DAY_MILLIS
_MOST_ENTRIES: int = 20_000


def check_alerts(
    history: SqlHistory, warehouse: str, branch: str | None, policy: Policy | None, now: int
) -> list[StoredAlert]:
    """Open, keep and end alerts as conditions hold now; returns the open ones.

    Reads no table: what was measured, and the entries of the last week.  MaintenanceError if the
    database does not answer.
    """
    place = (history, warehouse, branch or "main")
    store = AlertStore(*place)
    store.update(_found(NeedStore(*place), policy, branch, now), now)
    keep_retention(history, now)
    return store.alerts()


def _found(store: NeedStore, policy: Policy | None, branch: str | None, now: int) -> list[Alert]:
    scores = store.scores_since(now - DAY_MILLIS)
    tables: dict[str, TableFindings] = {}
    needs: dict[str, TableNeeds] = {}
    for name, stored in store.tables().items():
        measurement = Measurement.from_json(stored.measurement)
        if measurement is None:
            continue  # of another version of Caretaker; the next round measures again
        tables[name] = TableFindings(
            measurement=measurement,
            state=TableState.from_json(stored.state),
            scores=scores.get(name, ()),
        )
        needs[name] = _needs(policy, name, TableFacts(measurement.options, measurement.comment))
    entries = _entries(store, branch, now)
    for name in {e.table for e in entries} - needs.keys():
        needs[name] = _needs(policy, name, TableFacts())
    return alerts_of(needs, tables, entries, now)


def _needs(policy: Policy | None, table: str, facts: TableFacts) -> TableNeeds:
    if policy is None:
        return TableNeeds().of_table(facts)
    return policy.for_table(table, lambda: facts).needs.of_table(facts)


def _entries(store: NeedStore, branch: str | None, now: int) -> list[Entry]:
    try:
        found = store.history.newest(
            warehouse=store.warehouse, since_millis=now - _LOOK_BACK, limit=_MOST_ENTRIES
        )
    except NotFound:
        return []
    return [e for e in found if (e.branch or "main") == (branch or "main")]
