"""One round of the scheduler: measure what changed, decide, run through the runner, record.

look      the id of the newest snapshot; quiet tables are looked at rarely
measure   tables with new snapshots, and those whose measurement is old
decide    paimon_maintenance.schedule.decide, pure
claim     one table at a time, so that two schedulers do not do the same work
run       policy/resolve -> RunRequest -> run_table, as the command line does
record    the new measurement, and the result beside the prediction
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from zlib import crc32

from paimon_core.errors import PaimonError
from paimon_maintenance.health.measurement import Measurement
from paimon_maintenance.health.score import Health
from paimon_maintenance.history.need_store import (
    NeedStore,
    StoredDecision,
    StoredScore,
    StoredTable,
)
from paimon_maintenance.history.predictions import prediction_error
from paimon_maintenance.history.retention import prune, retention_millis
from paimon_maintenance.history.status import StatusStore, TableStatus, status_of
from paimon_maintenance.job.engine_choice import EngineRule
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.policy.model import Policy, TablePolicy
from paimon_maintenance.policy.needs import Budget, TableFacts
from paimon_maintenance.policy.resolve import resolve
from paimon_maintenance.registry import job_named
from paimon_maintenance.rules.tables import dropped_tables
from paimon_maintenance.run.metrics import Metric
from paimon_maintenance.run.runner import RunServices, run_table
from paimon_maintenance.schedule.account import Account
from paimon_maintenance.schedule.candidates import REWRITING
from paimon_maintenance.schedule.claim import claimed
from paimon_maintenance.schedule.cost import CostModel, Sample, Work, fit
from paimon_maintenance.schedule.decide import Action, Decision, TableView, decide, threshold_of
from paimon_maintenance.schedule.known_tables import KnownTable, KnownTables
from paimon_maintenance.schedule.next_step import decisions_by_table, next_step
from paimon_maintenance.schedule.scope import Scope
from paimon_maintenance.schedule.state import LONGEST_MEASUREMENT, ran

logger = logging.getLogger(__name__)
_DROPPED_LOOKS: Final = 20
"""The number of tables that a round opens to find out whether they were dropped."""

PREDICTION_ERROR: Final = Metric(
    "paimon_maintenance_prediction_error_ratio",
    "Difference of predicted and measured seconds of the last run, divided by the measured; "
    "without past runs of the job there is none.",
    "gauge",
)
HEALTH_SCORE: Final = Metric(
    "paimon_maintenance_health_score", "Health score of the table, 0 to 100.", "gauge"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A run of the round: the decision, the report, and the relative error of the seconds."""

    decision: Decision
    report: Report
    seconds: float

    @property
    def error(self) -> float:
        """The relative error of the predicted seconds (`prediction_error`)."""
        return prediction_error(self.decision.seconds, self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round did.  `failed` are the tables that could not be measured, with the errors."""

    id: str
    decisions: tuple[Decision, ...]
    results: tuple[Result, ...] = ()
    health: Mapping[str, Health] = field(default_factory=dict)
    failed: Mapping[str, Exception] = field(default_factory=dict)
    measured: int = 0
    looked: int = 0


def run_round(
    scope: Scope,
    policy: Policy,
    services: RunServices,
    store: NeedStore,
    *,
    budget: Budget | None = None,
    dry_run: bool = False,
    on_result: Callable[[Result], None] = lambda _: None,
) -> Round:
    """Run one round and return it; failures of tables and jobs are in the result, not raised.

    With `dry_run`, measure, decide and record, but run nothing.  MaintenanceError if
    the history does not answer.
    """
    return _Round(scope, policy, services, store, budget or policy.budget).go(
        dry_run=dry_run, on_result=on_result
    )


class _Round:
    """A round in progress."""

    def __init__(
        self,
        scope: Scope,
        policy: Policy,
        services: RunServices,
        store: NeedStore,
        budget: Budget,
    ) -> None:
        self.scope = scope
        self.policy = policy
        self.services = services
        self.env = services.env
        self.store = store
        self.budget = budget
        self.id = services.env.new_uuid()
        self.status = StatusStore(store.history, store.warehouse, store.branch)
        self.tables = KnownTables(scope, policy, store, services.env)
        self.decided: dict[str, list[Decision]] = {}
        self.ran: dict[str, set[str]] = {}
        borrowed, price = store.last_round()
        self.costs = CostModel()
        self.account = Account(borrowed=borrowed, price=price)
        self.threshold = 0.0
        self.started = services.env.now_millis()
        self.keeps = retention_millis()

    def go(self, *, dry_run: bool, on_result: Callable[[Result], None]) -> Round:
        """Measure, decide, run."""
        stored = self.store.tables()
        self.tables.look_at_all(stored)
        now = self.env.now_millis()
        busy = self.store.claimed(now)
        self.costs = self.model()
        decisions = decide(
            [
                TableView(
                    measurement=k.measurement,
                    state=k.state,
                    needs=k.policy.needs,
                    off=frozenset(n for n, j in k.policy.jobs.items() if not j.enabled),
                    claimed=name in busy,
                    engines=self.engines_of(k.policy),
                )
                for name, k in self.tables.known.items()
            ],
            self.budget,
            self.costs,
            now=now,
            local=self.env.local_millis(),
            account=self.account,
        )
        self.threshold = threshold_of(decisions, self.budget, self.account)
        decisions += [
            Decision(table=name, action=Action.NO, reason=_cannot_be_measured(e))
            for name, e in self.tables.failed.items()
        ]
        self.note_waiting(decisions, now)
        news = self.news(decisions)
        self.decided = decisions_by_table(decisions)
        self.save(self.tables.known)
        self.save_failed(stored, now)
        self.forget_dropped(stored, now)
        self.store.add([self.stored(d, now, dry_run=dry_run) for d in news])
        results: list[Result] = []
        if not dry_run:
            for decision in decisions:
                if decision.action is Action.RUN:
                    self.run(decision, results, on_result)
            self.record_round(results, now)
            prune(self.store.history, before=now - self.keeps)
        self.status.add_totals(self.env.now_millis())
        return Round(
            id=self.id,
            decisions=tuple(decisions),
            results=tuple(results),
            health={name: k.health for name, k in self.tables.known.items()},
            failed=self.tables.failed,
            measured=len(self.tables.measured),
            looked=self.tables.looked,
        )

    def note_waiting(self, decisions: Sequence[Decision], now: int) -> None:
        """Remember since when tables wait for a job that is worth running."""
        waiting = {d.table for d in decisions if d.waits}
        for name, known in self.tables.known.items():
            since = known.state.waiting_since
            first = now if since is None else since
            known.state = replace(known.state, waiting_since=first if name in waiting else None)

    def news(self, decisions: Sequence[Decision]) -> list[Decision]:
        """The decisions to record: all but "no" for the reason that was recorded last.

        Otherwise thousands of tables that need nothing, or cannot be measured, fill the history.
        """
        errors = self.status.errors() if self.tables.failed else {}
        found = []
        for decision in decisions:
            known = self.tables.known.get(decision.table)
            reason = decision.reason if decision.action is Action.NO else None
            if known is not None:
                said = known.state.said
            elif decision.table in errors:
                said = _cannot_be_measured(errors[decision.table])
            else:
                said = None
            if reason is None or reason != said:
                found.append(decision)
            if known is not None:
                known.state = replace(known.state, said=reason)
        return found

    def save(self, tables: Mapping[str, KnownTable]) -> None:
        """Store measurements and states, and the scores of what was measured in this round."""
        self.store.put(
            {
                name: StoredTable(
                    at_millis=k.measurement.at_millis,
                    measurement=k.measurement.to_json(),
                    state=k.state.to_json(),
                )
                for name, k in tables.items()
            },
            {
                name: StoredScore.of(k.measurement, k.health)
                for name, k in tables.items()
                if name in self.tables.measured
            },
        )
        self.status.put([self.status_line(name, known) for name, known in tables.items()])
        for name, known in tables.items():
            self.services.metrics.put(HEALTH_SCORE, known.health.score, table=name)

    def status_line(self, name: str, known: KnownTable) -> TableStatus:
        """The status of a table for pages, with its next job."""
        then = next_step(
            self.decided.get(name, ()),
            known.state,
            measured_at=known.measurement.at_millis,
            now=self.env.now_millis(),
            done=self.ran.get(name, ()),
        )
        return status_of(known.measurement, known.health, owner=known.policy.needs.owner, then=then)

    def save_failed(self, stored: Mapping[str, StoredTable], now: int) -> None:
        """Store the errors of tables that cannot be measured."""
        self.status.put(
            [
                TableStatus(
                    table=name,
                    at_millis=now,
                    owner=self.last_owner(name, stored.get(name)),
                    error=str(error),
                    health={},
                )
                for name, error in self.tables.failed.items()
            ]
        )

    def last_owner(self, name: str, stored: StoredTable | None) -> str | None:
        """The owner of a table that cannot be read, by its options when it was measured last."""
        old = None if stored is None else Measurement.from_json(stored.measurement)
        facts = TableFacts() if old is None else TableFacts(old.options, old.comment)
        return self.policy.for_table(name, lambda: facts).needs.of_table(facts).owner

    def forget_dropped(self, stored: Mapping[str, StoredTable], now: int) -> None:
        """Remove dropped tables from the history.

        Each round checks a few tables out of its scope.
        """
        scope = set(self.scope.tables)
        old = now - 2 * LONGEST_MEASUREMENT
        measured = {name for name, one in stored.items() if one.at_millis < old}
        others = sorted({*measured, *self.status.errors(before=old)} - scope)
        self.status.forget(dropped_tables(others[:_DROPPED_LOOKS], self.scope.open))

    def engines_of(self, policy: TablePolicy) -> Mapping[str, EngineRule]:
        """The rules by which the jobs of a table choose Spark, if the budget limits these runs."""
        if self.budget.applications is None or self.services.spark is None:
            return {}
        return {
            name: resolve(
                job_named(name),
                policy,
                typed={},
                engine=self.scope.engine,
                default_engine=self.scope.default_engine,
            ).engine
            for name in REWRITING
        }

    def model(self) -> CostModel:
        """The cost model of the runs that this lake has seen."""
        return fit(
            Sample(work=Work(**d.work), seconds=d.seconds)
            for d in self.store.finished()
            if d.seconds is not None
        )

    # --- running --------------------------------------------------------------------------------

    def run(
        self, decision: Decision, results: list[Result], on_result: Callable[[Result], None]
    ) -> None:
        """Run one chosen job, measure the table again, and record the result."""
        spent = sum(r.seconds for r in results)
        # The decision to run counts on the predicted seconds.
        if spent >= self.budget.round_seconds:
            self.finish(decision, "skipped", 0.0, None, {"why": f"{spent:.0f} s are spent"})
            return
        with claimed(
            self.store, decision.table, self.id, self.env, since=self.started
        ) as is_claimed:
            if not is_claimed:
                why = "another scheduler works on it, or did so after this round looked at it"
                self.finish(decision, "skipped", 0.0, None, {"why": why})
                return
            result = self.run_claimed(decision)
        results.append(result)
        on_result(result)

    def record_round(self, results: Sequence[Result], now: int) -> None:
        """Record what the round spent and borrowed, and the price for the next one."""
        limit = self.budget.seconds
        seconds = sum(r.seconds for r in results)
        after = self.account
        if limit is not None:
            reached = (r for r in results if r.decision.reaches(self.threshold))
            above = sum(r.seconds for r in reached)
            after = after.after(
                seconds=seconds, above=above, threshold=self.threshold, budget=limit
            )
        self.store.add_round(
            self.id,
            at_millis=now,
            budget_seconds=limit,
            seconds=seconds,
            overspent=0.0 if limit is None else after.borrowed,
            price=after.price,
        )

    def run_claimed(self, decision: Decision) -> Result:
        """Run the job through the one run loop."""
        one = decision.candidate
        assert one is not None
        known = self.tables.known[decision.table]
        self.ran.setdefault(decision.table, set()).add(one.job)
        before = known.measurement
        job = job_named(one.job)
        request = resolve(
            job,
            known.policy,
            typed=one.arguments,
            engine=self.scope.engine,
            default_engine=self.scope.default_engine,
        ).request(
            warehouse=self.scope.warehouse,
            table=decision.table,
            branch=self.scope.branch,
            storage=self.scope.storage,
            run_id=self.run_id(decision),
            named=False,
        )
        report = run_table(request, self.services)
        seconds = sum(report.seconds.values())
        failed = report.status is Status.FAILED or report.status is Status.REFUSED
        state = known.state
        if report.status is not Status.SKIPPED:
            state = ran(state, one.job, self.env.now_millis(), failed=failed)
        result: dict[str, object] = {"error": None if report.error is None else str(report.error)}
        if report.why:
            result["why"] = report.why
        try:
            table = self.scope.open(decision.table)
            after = self.tables.measure(decision.table, known.policy, table, state)
        except PaimonError as e:
            logger.warning("cannot measure %s after the run: %s", decision.table, e)
            known.state = state
        else:
            result |= {
                "bytes": report.replaced.bytes,
                "excess_gain": before.amplification - after.amplification,
                "files_fewer": before.files - after.files,
                "bytes_freed": before.beyond_bytes - after.beyond_bytes,
                "snapshots_fewer": before.beyond_snapshots - after.beyond_snapshots,
                "level_0_hours": before.level_0_hours(before.at_millis)
                - after.level_0_hours(after.at_millis),
                "indexed_share": sum(before.unindexed.values()) - sum(after.unindexed.values()),
                "score_before": known.health.score,
                "score_after": self.tables.known[decision.table].health.score,
            }
        self.save({decision.table: self.tables.known[decision.table]})
        found = Result(decision=decision, report=report, seconds=seconds)
        self.finish(decision, str(report.status), seconds, report.engine, result)
        if report.status is Status.SUCCESS and self.costs.past_runs(one.job):
            self.services.metrics.put(
                PREDICTION_ERROR, found.error, job=one.job, table=decision.table
            )
        return found

    def run_id(self, decision: Decision) -> str:
        """The id of the run, which the decision records before the run starts."""
        return f"{self.id}-{crc32(f'{decision.table} {decision.job}'.encode()):08x}"

    def finish(
        self,
        decision: Decision,
        status: str,
        seconds: float,
        engine: str | None,
        result: Mapping[str, object],
    ) -> None:
        """Record the end of a decision to run."""
        self.store.finish(
            round_id=self.id,
            table=decision.table,
            job=str(decision.job),
            status=status,
            seconds=seconds,
            engine=engine,
            result=result,
        )

    def stored(self, decision: Decision, now: int, *, dry_run: bool) -> StoredDecision:
        """The decision as the history keeps it."""
        one = decision.candidate
        runs = decision.action is Action.RUN
        work = {} if one is None else {f: getattr(one.work, f) for f in Work.__slots__}
        return StoredDecision(
            at_millis=now,
            round_id=self.id,
            table=decision.table,
            job=decision.job,
            action=str(decision.action),
            reason=decision.reason,
            rank=decision.rank,
            benefit=0.0 if one is None else one.benefit,
            predicted_seconds=decision.seconds,
            work=work,
            predicted={} if one is None else dict(one.predicted),
            past_runs=None if one is None else self.costs.past_runs(one.work.job),
            run_id=self.run_id(decision) if runs and not dry_run else None,
            status="dry_run" if runs and dry_run else None,
        )


def _cannot_be_measured(error: object) -> str:
    return f"cannot be measured: {error}"
