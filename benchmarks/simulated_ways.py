"""Three ways to maintain a simulated lake: ours, all tables every 30 minutes, a weighted rank."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from simulated_lake import DAY, GB, HOUR, RETENTION, START, Table, lake, older

from paimon_maintenance.health.measurement import Measurement
from paimon_maintenance.health.score import health_of
from paimon_maintenance.health.thresholds import RED, Thresholds
from paimon_maintenance.policy.needs import Budget, RescaleRule, TableNeeds
from paimon_maintenance.schedule.account import Account
from paimon_maintenance.schedule.candidates import Candidate, candidates_of
from paimon_maintenance.schedule.cost import CostModel, Sample, Work, fit
from paimon_maintenance.schedule.decide import Action, TableView, decide, threshold_of
from paimon_maintenance.schedule.state import TableState, looked, measured, ran

ROUND_HOURS = 0.5
NEEDS = TableNeeds(rescale=RescaleRule.OFF)
LIMITS = Thresholds()
KIND_FACTORS = {"deduplicate": 1.0, "partial-update": 1.4, "aggregation": 1.7, "append": 0.4}


@dataclass(slots=True)
class Totals:
    """What a way came to, summed over tables.

    `amplification` is the integral over hours, `excess` that of the part above 1, `held` GB hours
    of bytes beyond the live ones, and `late` those of them that neither the retention nor a stopped
    consumer keeps: an expiry would free them.  `lost` are bytes that a run freed although the
    retention or a stopped consumer kept them.  `red_hours` is the longest time that a table whose
    compactions work was red, by its name; `red` are the hours that such tables were red at the end
    of a round.
    """

    amplification: float = 0.0
    excess: float = 0.0
    held: float = 0.0
    late: float = 0.0
    lost: float = 0.0
    seconds: float = 0.0
    runs: int = 0
    failed: int = 0
    table_hours: float = 0.0
    red: float = 0.0
    red_hours: dict[str, float] = field(default_factory=dict)
    errors: list[float] = field(default_factory=list)
    days: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Lake:
    """A lake under one way: runs jobs at their true cost."""

    tables: dict[str, Table]
    rng: random.Random
    totals: Totals = field(default_factory=Totals)
    samples: list[Sample] = field(default_factory=list)
    overspent: float = 0.0
    model: CostModel = field(default_factory=CostModel)

    def run(self, one: Candidate, now: int) -> tuple[float, bool]:
        """Run the job; return its seconds and whether it succeeded."""
        table = self.tables[one.table]
        if one.job == "maintain":
            before = tuple(table.held)
            snapshots, size = table.expire(now)
            freed = before[: len(before) - len(table.held)]
            self.totals.lost += sum(s for at, s in freed if is_kept(table, at, now))
            work = Work(job="maintain", files=snapshots, bytes=int(size))
            seconds = 0.5 + 0.003 * snapshots + 0.05 * size / GB
        else:
            full = one.arguments.get("strategy") == "full"
            if table.is_broken(now):
                # It fails after half of the work.
                seconds = self.true_seconds(one.work) / 2
                self.totals.seconds += seconds
                self.totals.failed += 1
                return seconds, False
            names = frozenset(one.partitions) if "partitions" in one.arguments else None
            files, read = table.compact(names, now, full=full)
            kind = "append" if table.append else table.engine
            work = Work(
                job="compact",
                kind=kind,
                files=files,
                bytes=int(read),
                rows=int(read) // 100,
                columns=table.columns,
            )
            seconds = self.true_seconds(work)
        self.totals.errors.append(abs(self.model.seconds(work) - seconds) / seconds)
        self.totals.seconds += seconds
        self.totals.runs += 1
        self.samples.append(Sample(work=work, seconds=seconds))
        return seconds, True

    def true_seconds(self, work: Work) -> float:
        """The cost that the scheduler does not know: not its prior's coefficients, and noise."""
        truth = 0.8 + 0.02 * work.files + 11 * work.bytes / GB + 0.2 * work.rows / 1e6
        return KIND_FACTORS[work.kind] * truth * self.rng.lognormvariate(0, 0.1)


def is_kept(table: Table, deleted_at: int, now: int) -> bool:
    """Whether files that a commit deleted then must exist, for retention or a stopped consumer."""
    begin, end = table.stopped
    return deleted_at >= now - RETENTION or (begin <= now < end and deleted_at >= begin)


Way = Callable[[Lake, int, float], None]
"""Maintains the lake at a time, in one round of this many seconds."""


class Ours:
    """The scheduler as it is."""

    def __init__(self) -> None:
        self.states: dict[str, TableState] = {}
        self.found: dict[str, Measurement] = {}
        self.account = Account()

    def __call__(self, there: Lake, now: int, budget: float) -> None:
        views = []
        for name, table in there.tables.items():
            state, old = self.states.get(name, TableState()), self.found.get(name)
            changed = old is None or old.snapshot != table.snapshot
            stale = old is not None and now - old.at_millis >= 6 * HOUR
            state = looked(state, now, changed=changed)
            if old is None or changed or stale:
                old = self.found[name] = table.measure(now)
                state = measured(state, old, red=is_red(old, now))
            self.states[name] = state
            views.append(TableView(measurement=old, state=state, needs=NEEDS))
        decisions = decide(
            views, Budget(seconds=budget), there.model, now=now, account=self.account
        )
        threshold = threshold_of(decisions, Budget(seconds=budget), self.account)
        waits = {d.table for d in decisions if d.waits}
        for name, state in self.states.items():
            since = state.waiting_since
            if (since is None) != (name not in waits):
                self.states[name] = waiting(state, now if name in waits else None)
        spent = above = 0.0
        for decision in decisions:
            if decision.action is not Action.RUN:
                continue
            one = decision.candidate
            assert one is not None
            seconds, success = there.run(one, now)
            spent += seconds
            above += seconds if decision.reaches(threshold) else 0.0
            state = ran(self.states[one.table], one.job, now, failed=not success)
            found = self.found[one.table] = there.tables[one.table].measure(now)
            self.states[one.table] = measured(state, found, red=is_red(found, now))
        self.account = self.account.after(
            seconds=spent, above=above, threshold=threshold, budget=budget
        )


def waiting(state: TableState, since: int | None) -> TableState:
    """The state with another time since when the table waits."""
    from dataclasses import replace  # noqa: PLC0415 - only here

    return replace(state, waiting_since=since)


def every_table(there: Lake, now: int, _: float) -> None:
    """Comparison (a): minor compaction and upkeep of each table in each round, without a budget."""
    for name, table in there.tables.items():
        if any(table.picked(p, full=False) for p in table.partitions):
            there.run(compaction(name, table.measure(now)), now)
        there.run(
            Candidate(table=name, job="maintain", work=Work(job="maintain"), benefit=0, why=""), now
        )


def compaction(name: str, found: Measurement) -> Candidate:
    """A minor compaction of the whole table."""
    works = [p.minor for p in found.partitions if p.minor is not None]
    return Candidate(
        table=name,
        job="compact",
        work=Work(
            job="compact",
            kind=found.merge_engine if found.primary_key else "append",
            files=sum(w.files for w in works),
            bytes=sum(w.bytes for w in works),
            rows=sum(w.rows for w in works),
            columns=found.columns,
        ),
        benefit=0,
        why="",
        arguments={"strategy": "minor"},
    )


class Ranking:
    """Comparison (b): 0.7 of normalised benefit less 0.3 of normalised cost, up to the budget.

    It has the same measurements, the same jobs and the same cost model as ours.  Benefit is files
    fewer.  Upkeep is due once a day, as such services schedule it, and comes first.  With
    `backs_off`, a table whose job failed waits for a day, which the original does not do.
    """

    def __init__(self, *, backs_off: bool = False) -> None:
        self.kept: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        self.backs_off = backs_off

    def __call__(self, there: Lake, now: int, budget: float) -> None:
        spent = there.overspent
        found: list[Candidate] = []
        for name, table in there.tables.items():
            if self.backs_off and now - self.failed.get(name, 0) < DAY:
                continue
            for one in candidates_of(table.measure(now), TableState(), NEEDS, now):
                if one.job != "maintain":
                    found.append(one)
                elif now - self.kept.get(name, 0) >= DAY and spent < budget:
                    spent += there.run(one, now)[0]
                    self.kept[name] = now
        gains = normalised([c.predicted["files_fewer"] for c in found])
        costs = normalised([there.model.seconds(c.work) for c in found])
        ranked = sorted(
            zip(gains, costs, found, strict=True),
            key=lambda r: (-(0.7 * r[0] - 0.3 * r[1]), r[2].table),
        )
        done: set[str] = set()
        for _, _, one in ranked:
            seconds = there.model.seconds(one.work)
            # As in ours, the first job may exceed the budget, and later rounds have less.
            over = spent + seconds > budget and (bool(done) or spent >= budget)
            if one.table in done or over:
                continue
            took, success = there.run(one, now)
            spent += took
            done.add(one.table)
            if not success:
                self.failed[one.table] = now
        there.overspent = max(0.0, spent - budget)


def normalised(values: Sequence[float]) -> list[float]:
    """The values between 0 and 1, as the least and the greatest of them say."""
    if not values:
        return []
    low, high = min(values), max(values)
    return [(v - low) / (high - low) if high > low else 0.0 for v in values]


def is_red(found: Measurement, now: int) -> bool:
    """Whether the score is red."""
    return health_of(found, LIMITS, now).score < RED


def simulate(way: Way, *, seed: int, tables: int, days: int, budget: float) -> Totals:
    """The result of the way after this many days, with a round every half hour."""
    there = Lake({t.name: t for t in lake(seed, tables, days)}, random.Random(seed + 1))
    totals = there.totals
    red_since: dict[str, int] = {}
    now = START
    step = int(ROUND_HOURS * HOUR)
    before = {name: t.amplification() for name, t in there.tables.items()}
    day = 0.0
    for number in range(int(days * 24 / ROUND_HOURS)):
        now += step
        for name, table in there.tables.items():
            table.live(now, ROUND_HOURS)
            mean = (before[name] + table.amplification()) / 2
            totals.amplification += mean * ROUND_HOURS
            totals.excess += (mean - 1) * ROUND_HOURS
            totals.held += sum(s for _, s in table.held) / GB * ROUND_HOURS
            totals.late += older(table.held, table.held_from(now)) / GB * ROUND_HOURS
            totals.table_hours += ROUND_HOURS
            day += mean / len(there.tables)
        if number % 24 == 0:
            there.model = fit(there.samples[-400:])
        way(there, now, budget)
        before = {name: t.amplification() for name, t in there.tables.items()}
        _look(there, now, red_since)
        if (number + 1) % 48 == 0:
            totals.days.append(day / 48)
            day = 0.0
    return totals


def _look(lake: Lake, now: int, red_since: dict[str, int]) -> None:
    """Note which tables are red, and since which round."""
    totals = lake.totals
    for name, table in lake.tables.items():
        # While compactions fail or a consumer holds snapshots, no way has a choice.
        if table.is_broken(now) or table.is_held(now) or not is_red(table.measure(now), now):
            red_since.pop(name, None)
            continue
        totals.red += ROUND_HOURS
        hours = (now - red_since.setdefault(name, now)) / HOUR
        totals.red_hours[name] = max(hours, totals.red_hours.get(name, 0.0))
