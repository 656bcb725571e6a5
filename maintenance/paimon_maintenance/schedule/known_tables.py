"""What a round of the scheduler knows of its tables: measurements, states, and what failed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from paimon_core.environment import Environment
from paimon_core.file_store_table import FileStoreTable
from paimon_maintenance.health.measure import measure_table
from paimon_maintenance.health.measurement import Measurement
from paimon_maintenance.health.score import Health, health_of
from paimon_maintenance.history.need_store import NeedStore, StoredTable
from paimon_maintenance.history.past_runs import last_orphans, last_sort
from paimon_maintenance.policy.model import Policy, TablePolicy
from paimon_maintenance.policy.needs import TableFacts
from paimon_maintenance.policy.resolve import under
from paimon_maintenance.schedule.scope import Scope
from paimon_maintenance.schedule.state import LONGEST_MEASUREMENT, TableState, looked, measured

_LOOKS_AT_ONCE: Final = 16
"""Looking at tables waits for the store most of the time."""


@dataclass(slots=True)
class KnownTable:
    """A table in this round."""

    policy: TablePolicy
    measurement: Measurement
    state: TableState
    health: Health


class KnownTables:
    """The tables of a round.

    `known` has those that could be measured, by name, `failed` the errors of the others.
    `measured` are the names of those that were measured in this round, `looked` counts those that
    were opened.
    """

    def __init__(self, scope: Scope, policy: Policy, store: NeedStore, env: Environment) -> None:
        self.known: dict[str, KnownTable] = {}
        self.failed: dict[str, Exception] = {}
        self.measured: set[str] = set()
        self.looked = 0
        self._scope = scope
        self._policy = policy
        self._store = store
        self._env = env
        self._worked_on: Mapping[str, int] = {}
        self._lock = threading.Lock()

    def look_at_all(self, stored: Mapping[str, StoredTable]) -> None:
        """Look at each table of the scope, and measure those that changed."""
        self._worked_on = self._store.worked_on(self._env.now_millis() - LONGEST_MEASUREMENT)
        names = self._scope.tables
        with ThreadPoolExecutor(_LOOKS_AT_ONCE, thread_name_prefix="look") as pool:
            errors = pool.map(lambda n: self._look_or_error(n, stored.get(n)), names)
            found = zip(names, errors, strict=True)
            self.failed = {name: error for name, error in found if error is not None}

    def _look_or_error(self, name: str, stored: StoredTable | None) -> Exception | None:
        """Look at a table; its error, because one table must not stop the others."""
        try:
            self._look(name, stored)
        except Exception as e:  # noqa: BLE001 - recorded as a decision
            return e
        return None

    def _look(self, name: str, stored: StoredTable | None) -> None:
        """Take the stored measurement if nothing changed since, else measure the table."""
        now = self._env.now_millis()
        old = None if stored is None else Measurement.from_json(stored.measurement)
        state = TableState() if stored is None else TableState.from_json(stored.state)
        if old is not None:
            facts = TableFacts(old.options, old.comment)
            policy = self._policy.for_table(name, lambda: facts)
            is_fresh = self._is_fresh(name, old)
            goal = policy.needs.freshness_millis
            if is_fresh and goal is None and now < state.look_at():
                self._remember(name, policy, old, state)
                return
        table = self._scope.open(name)
        with self._lock:
            self.looked += 1
        latest = table.snapshots.latest()
        same = (
            old is not None
            and old.snapshot == (None if latest is None else latest.id)
            and old.snapshot_millis == (None if latest is None else latest.time_millis)
            and old.schema_id == table.schema.id
        )
        state = looked(state, now, changed=not same)
        facts_now = TableFacts(dict(table.schema.options), table.schema.comment)
        policy = self._policy.for_table(name, lambda: facts_now)
        if same and old is not None and self._is_fresh(name, old):
            self._remember(name, policy, old, state)
            return
        self.measure(name, policy, table, state)

    def _is_fresh(self, name: str, old: Measurement) -> bool:
        """Whether the measurement is still valid if there is no new snapshot.

        A job that ran since may have changed what snapshots do not show:
        tags, consumers, orphan files.
        """
        age = self._env.now_millis() - old.at_millis
        return age < LONGEST_MEASUREMENT and self._worked_on.get(name, 0) <= old.at_millis

    def measure(
        self, name: str, policy: TablePolicy, table: FileStoreTable, state: TableState
    ) -> Measurement:
        """Measure the table, with the policy's options where it sets none."""
        place = {"table": name, "warehouse": self._scope.warehouse}
        orphans = last_orphans(self._store.history, **place)
        # A person or another DAG may have sorted the table.
        sorted_at = last_sort(self._store.history, **place, branch=self._store.branch)
        state = replace(state, sorted_at=sorted_at or state.sorted_at)
        found = measure_table(under(policy, table), self._env, orphans=orphans)
        self._remember(name, policy, found, state, new=True)
        return found

    def _remember(
        self,
        name: str,
        policy: TablePolicy,
        found: Measurement,
        state: TableState,
        *,
        new: bool = False,
    ) -> None:
        """Keep the measurement with its score; `new`: it was made now."""
        facts = TableFacts(found.options, found.comment)
        policy = replace(policy, needs=policy.needs.of_table(facts))
        health = health_of(found, policy.needs.thresholds(), self._env.now_millis())
        if new:
            self.measured.add(name)
            state = measured(state, found, red=health.color == "red")
        self.known[name] = KnownTable(policy, found, state, health)
