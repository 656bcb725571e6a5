"""Chooses what to run: the most benefit for the cost, until the budget is spent.  Pure.

The rank of a job is benefit x priority x age / seconds.  Age grows while a worthwhile job waits, so
that no table starves.  Jobs that a goal of the policy calls for come first.  Every candidate gets a
decision with a reason, also those that are left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

from paimon_maintenance.health.measurement import Measurement
from paimon_maintenance.job.engine_choice import EngineRule
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.policy.needs import Budget, TableNeeds
from paimon_maintenance.policy.windows import is_open
from paimon_maintenance.schedule.account import Account
from paimon_maintenance.schedule.candidates import Candidate, candidates_of
from paimon_maintenance.schedule.cost import CostModel, Work
from paimon_maintenance.schedule.state import HOUR, MINUTE, TableState

AGE_HOURS: Final = 336.0
"""The rank of a job that waits doubles in this time, so that every job runs eventually."""
_LONGEST_AGE: Final = 50 * AGE_HOURS
LEAST_RANK: Final = 1e-4
"""Excess hours per second below which nothing runs, even if the budget allows it."""


class Action(StrEnum):
    """What happens to a candidate in this round."""

    RUN = "run"
    LATER = "later"
    PROPOSE = "propose"
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """The information about one table on which a round bases its decisions.

    `off` are the jobs that the policy switches off.  `claimed`: another scheduler works on the
    table.  `engines` are the rules by which jobs choose their engine, by job; a job without a rule
    never uses Spark.
    """

    measurement: Measurement
    state: TableState = field(default_factory=TableState)
    needs: TableNeeds = field(default_factory=TableNeeds)
    off: frozenset[str] = frozenset()
    claimed: bool = False
    engines: Mapping[str, EngineRule] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision: what, why, its rank, and the predicted seconds.

    `on_spark`: Spark does the work.  `waits`: the job is worth running, and only the
    budget or a window prevents it.
    """

    table: str
    action: Action
    reason: str
    candidate: Candidate | None = None
    rank: float = 0.0
    seconds: float = 0.0
    on_spark: bool = False
    waits: bool = False

    @property
    def job(self) -> str | None:
        """The job that was decided on."""
        return None if self.candidate is None else self.candidate.job

    @property
    def urgent(self) -> bool:
        """Whether the job runs regardless of the price."""
        return self.candidate is not None and self.candidate.urgent

    def reaches(self, threshold: float) -> bool:
        """Whether the job may run even if the budget is spent."""
        return self.urgent or self.rank >= threshold


@dataclass(slots=True)
class Spent:
    """The costs of the jobs chosen so far in a round.

    A job whose rank reaches the price may exceed the rest of the budget; otherwise cheap jobs of a
    low rank would fill every round.  The rest of the budget goes to the best of the other jobs.
    """

    account: Account = field(default_factory=Account)
    threshold: float = 0.0
    seconds: float = 0.0
    chosen: int = 0
    bytes: int = 0
    applications: int = 0
    tables: set[str] = field(default_factory=set)

    def why_not(self, decision: Decision, budget: Budget) -> str | None:
        """Why the budget has no room for this job; None if it has."""
        one = decision.candidate
        assert one is not None
        if budget.seconds is not None and not self._has_room(decision, budget):
            return self._no_room(decision, budget.seconds)
        if one.rewrites and budget.bytes is not None and self.bytes + one.work.bytes > budget.bytes:
            return (
                f"the budget of {human_bytes(budget.bytes)} has "
                f"{human_bytes(budget.bytes - self.bytes)} left"
            )
        if decision.on_spark and _full(self.applications, budget.applications):
            return f"the budget of {counted(budget.applications or 0, 'runs')} on Spark is spent"
        if one.table not in self.tables and _full(len(self.tables), budget.tables):
            return f"the budget of {budget.tables} tables is spent"
        return None

    def _has_room(self, decision: Decision, budget: Budget) -> bool:
        """Whether the seconds of this job may be spent."""
        assert budget.seconds is not None
        after = self.seconds + decision.seconds
        if self.account.borrowed + after <= budget.seconds:
            return True
        if self.account.price is None:
            reaches = self.seconds < budget.seconds
        else:
            reaches = decision.reaches(self.threshold)
        return reaches and (not self.chosen or after <= budget.round_seconds)

    def _no_room(self, decision: Decision, budget: float) -> str:
        left = max(0.0, budget - self.account.borrowed - self.seconds)
        takes = f"the budget of {budget:.0f} s has {left:.0f} s left, and this takes about "
        takes += f"{decision.seconds:.0f} s"
        if self.account.price is not None and not decision.reaches(self.threshold):
            return f"{takes}; its rank {decision.rank:.2g} is below the price {self.threshold:.2g}"
        if self.account.borrowed > 0:
            return f"{takes}; earlier rounds borrowed {self.account.borrowed:.0f} s"
        return takes

    def add(self, decision: Decision) -> None:
        """Count a chosen job."""
        one = decision.candidate
        assert one is not None
        self.seconds += decision.seconds
        self.chosen += 1
        self.bytes += one.work.bytes if one.rewrites else 0
        self.applications += decision.on_spark
        self.tables.add(one.table)


def _full(number: int, limit: int | None) -> bool:
    return limit is not None and number >= limit


def decide(
    views: Iterable[TableView],
    budget: Budget,
    model: CostModel,
    *,
    now: int,
    local: int | None = None,
    account: Account | None = None,
) -> list[Decision]:
    """The decisions of one round, best first: which jobs run, which wait, and why.

    `account`: the seconds that earlier rounds borrowed, and the price of a second.
    `local` is the wall clock for windows, in milliseconds as if it were UTC (default: `now`).
    """
    local = now if local is None else local
    open_now = is_open(budget.windows, local)
    ranked: list[Decision] = []
    decided: list[Decision] = []
    views = list(views)
    mean = sum(v.measurement.bytes for v in views) / max(1, len(views))
    for view in views:
        why = _table_refusal(view)
        if why is not None:
            decided.append(Decision(table=view.measurement.table, action=Action.NO, reason=why))
            continue
        found = candidates_of(view.measurement, view.state, view.needs, now, mean_bytes=mean)
        if not found:
            decided.append(
                Decision(
                    table=view.measurement.table, action=Action.NO, reason="the table needs nothing"
                )
            )
        for candidate in found:
            decision = _ranked(view, candidate, model, now)
            refusal = _refusal(view, candidate, decision, now, local, budget_open=open_now)
            if candidate.proposal:
                decided.append(_with(decision, Action.PROPOSE, candidate.why))
            elif refusal is not None:
                decided.append(_with(decision, Action.LATER, refusal.reason, waits=refusal.waits))
            else:
                ranked.append(decision)
    ranked.sort(key=lambda d: (not d.urgent, -d.rank, d.table))
    return [*_chosen(ranked, budget, account or Account()), *decided]


def threshold_of(ranked: Iterable[Decision], budget: Budget, account: Account) -> float:
    """The rank from which jobs of this round may run even if the budget is spent."""
    first: dict[tuple[str, bool], Decision] = {}
    for decision in ranked:
        if decision.candidate is not None and (decision.waits or decision.action is Action.RUN):
            key = (decision.table, decision.candidate.rewrites)
            if key not in first or first[key].rank < decision.rank:
                first[key] = decision
    pairs = sorted(((d.rank, d.seconds) for d in first.values()), reverse=True)
    return account.threshold(pairs, budget.seconds) if budget.seconds is not None else 0.0


def _chosen(ranked: Sequence[Decision], budget: Budget, account: Account) -> list[Decision]:
    spent = Spent(account=account, threshold=threshold_of(ranked, budget, account))
    rewritten: dict[str, Decision] = {}
    chosen: list[Decision] = []
    for decision in ranked:
        one = decision.candidate
        assert one is not None
        if one.rewrites and one.table in rewritten:
            other = rewritten[one.table].candidate
            assert other is not None
            how = other.arguments.get("strategy", other.job)
            chosen.append(
                _with(decision, Action.LATER, f"a {how} compaction of the table is worth more now")
            )
            continue
        why = spent.why_not(decision, budget)
        if why is not None:
            chosen.append(_with(decision, Action.LATER, why, waits=True))
            continue
        spent.add(decision)
        if one.rewrites:
            rewritten[one.table] = decision
        chosen.append(decision)
    return chosen


def _ranked(view: TableView, candidate: Candidate, model: CostModel, now: int) -> Decision:
    seconds = model.seconds(candidate.work)
    work = candidate.work
    fixed = min(seconds, model.seconds(Work(job=work.job, kind=work.kind, table=work.table)))
    price = fixed + candidate.avoidable * (seconds - fixed)
    rule = view.engines.get(candidate.job)
    waiting = view.state.waiting_since
    hours = 0.0 if waiting is None else min(_LONGEST_AGE, max(0, now - waiting) / HOUR)
    return Decision(
        table=candidate.table,
        action=Action.RUN,
        reason=candidate.why,
        candidate=candidate,
        rank=candidate.benefit * view.needs.priority * 2 ** (hours / AGE_HOURS) / price,
        seconds=seconds,
        on_spark=candidate.rewrites
        and rule is not None
        and rule.is_for_spark(candidate.work.bytes),
    )


def _table_refusal(view: TableView) -> str | None:
    if not view.needs.scheduled:
        return "the policy or the table's option caretaker.maintenance switches the scheduler off"
    if view.claimed:
        return "another scheduler works on the table"
    if view.measurement.gaps:
        return "snapshots have a gap, which only a repair closes"
    return None


class _Refusal(NamedTuple):
    """Why a job does not run now; `waits`: only until a window opens."""

    reason: str
    waits: bool = False


def _refusal(
    view: TableView,
    candidate: Candidate,
    decision: Decision,
    now: int,
    local: int,
    *,
    budget_open: bool,
) -> _Refusal | None:
    """Why the job does not run now, apart from the budget."""
    if candidate.job in view.off:
        return _Refusal(f"the policy switches {candidate.job} off")
    retry = view.state.retry_at(candidate.job)
    if retry is not None and now < retry:
        failures = view.state.failures[candidate.job]
        times = "once" if failures == 1 else f"{failures} times in a row"
        wait = (retry - now) / MINUTE
        return _Refusal(f"failed {times}, the next attempt is in {wait:.0f} min")
    if candidate.rewrites and not budget_open:
        return _Refusal("outside the windows of the budget", waits=True)
    if candidate.rewrites and not is_open(view.needs.windows, local):
        windows = ", ".join(w.text for w in view.needs.windows)
        return _Refusal(f"outside the window {windows}", waits=True)
    if (
        candidate.benefit * view.needs.priority < LEAST_RANK * decision.seconds
        and not candidate.urgent
    ):
        return _Refusal(f"too little benefit for about {decision.seconds:.0f} s")
    return None


def _with(decision: Decision, action: Action, reason: str, *, waits: bool = False) -> Decision:
    return replace(decision, action=action, reason=reason, waits=waits)
