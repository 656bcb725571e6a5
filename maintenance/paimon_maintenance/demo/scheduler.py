"""The scheduler of the demo: measures the lake, then runs rounds until nothing is worth running."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from paimon_maintenance.demo.cores import demo_cores
from paimon_maintenance.engines.gate import Gate
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.health.score import Health, colors
from paimon_maintenance.history.need_store import NeedStore
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.policy.model import Policy
from paimon_maintenance.run.runner import RunServices
from paimon_maintenance.schedule.round import Result, Round, run_round
from paimon_maintenance.schedule.scope import Scope
from paimon_maintenance.storage.catalogs import catalog_of

_MOST_ROUNDS: Final = 6


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Rounds over all tables of the warehouse under the policy, recorded in this history."""

    warehouse: str
    history_url: str
    policy: Policy

    def measure(self) -> Mapping[str, Health]:
        """The health of every table; runs nothing."""
        return self._round(dry_run=True).health

    def run(self, tell: Callable[[str], None]) -> tuple[Mapping[str, Health], int]:
        """Run rounds until none of them runs a job.

        Returns the health afterwards and the number of jobs.
        """
        jobs = 0
        for _ in range(_MOST_ROUNDS):
            done = self._round(
                on_result=lambda r: tell(f"{r.decision.job} {r.decision.table}: {r.report.status}")
            )
            jobs += len(done.results)
            if not done.results:
                break
        return self._round(dry_run=True).health, jobs

    def _round(
        self, *, dry_run: bool = False, on_result: Callable[[Result], None] = lambda _: None
    ) -> Round:
        history = SqlHistory(self.history_url)
        cores = demo_cores()
        services = RunServices(engine=LocalEngine(gate=Gate(cores)), history=history)
        catalog = catalog_of(self.warehouse)
        names = [
            f"{database}.{name}"
            for database in catalog.list_databases()
            for name in catalog.list_tables(database)
        ]
        return run_round(
            Scope(warehouse=self.warehouse, tables=tuple(sorted(names))),
            self.policy,
            services,
            NeedStore(history, self.warehouse),
            dry_run=dry_run,
            on_result=on_result,
        )


def summary(found: Mapping[str, Health]) -> str:
    """How many tables have each color: "5 red, 4 yellow, 3 green"."""
    counts = colors(found.values())
    return ", ".join(f"{counts[name]} {name}" for name in ("red", "yellow", "green"))


def rows_of(before: Mapping[str, Health], after: Mapping[str, Health]) -> list[list[str]]:
    """For each table its worst reason before, and its scores before and after; the worst first."""
    worst = sorted(before.values(), key=lambda h: (h.score, h.name))
    return [
        [
            f"{health.name}: {health.reasons[0].text if health.reasons else 'healthy'}",
            str(health.score),
            str(after[health.name].score) if health.name in after else "",
        ]
        for health in worst
    ]
