"""Decisions: the best ratio first, within the budget, each with its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_maintenance.health.measurement import (
    ConsumerLag,
    Measurement,
    PartitionMeasurement,
    Rewrite,
)
from paimon_maintenance.job.engine_choice import EngineName, EngineRule
from paimon_maintenance.policy.needs import Budget, TableFacts, TableNeeds
from paimon_maintenance.policy.windows import Window, is_open
from paimon_maintenance.schedule.account import Account
from paimon_maintenance.schedule.candidates import candidates_of
from paimon_maintenance.schedule.cost import CostModel
from paimon_maintenance.schedule.decide import Action, Decision, TableView, decide
from paimon_maintenance.schedule.state import (
    FIRST_BACK_OFF,
    LONGEST_BACK_OFF,
    TableState,
    looked,
    measured,
    ran,
)

NOW = 1_800_000_000_000
HOUR = 3_600_000
MB, GB = 1024**2, 1024**3
NO_LIMIT = Budget(seconds=None)


def part(runs: float = 8, size: int = GB, **fields: object) -> PartitionMeasurement:
    found = PartitionMeasurement(
        files=int(runs) * 2,
        bytes=size,
        rows=size // 100,
        ideal_files=2,
        buckets=1,
        point_runs=int(runs),
        full_runs=runs,
        newest_file=NOW,
        minor=Rewrite(files=6, bytes=size // 20, rows=1000, files_after=4, runs_after=2.0),
        full=Rewrite(files=int(runs) * 2, bytes=size, rows=size // 100, files_after=2),
    )
    return replace(found, **fields)


def view(name: str = "db.t", *partitions: PartitionMeasurement, **fields: object) -> TableView:
    of_view = {
        k: fields.pop(k) for k in ("state", "needs", "off", "claimed", "engines") if k in fields
    }
    measurement = Measurement(
        table=name, at_millis=NOW, snapshot=9, partitions=partitions or (part(),), columns=5
    )
    return TableView(measurement=replace(measurement, **fields), **of_view)


def decisions(*views: TableView, budget: Budget = NO_LIMIT, now: int = NOW):
    return decide(views, budget, CostModel(), now=now)


def chosen(*views: TableView, **how: object) -> list[tuple[str, str]]:
    return [(d.table, d.job) for d in decisions(*views, **how) if d.action is Action.RUN]


def reasons(*views: TableView, **how: object) -> str:
    return "\n".join(d.reason for d in decisions(*views, **how) if d.action is not Action.RUN)


def test_the_most_benefit_for_the_cost_comes_first():
    bad, mild = view("db.bad", part(20)), view("db.mild", part(3))
    large = view("db.large", part(20, 500 * GB))
    assert [t for t, _ in chosen(large, mild, bad)] == ["db.bad", "db.mild", "db.large"]


def test_what_a_longer_wait_does_not_save_hardly_counts():
    """The same bytes at level 0, where a wait saves a merge of them, and in the levels above."""
    work = Rewrite(files=6, bytes=GB, rows=1000, files_after=4, runs_after=2.0)
    upper, level_0 = (
        view(f"db.{name}", part(8, 4 * GB, minor=replace(work, level_0_bytes=size), full=None))
        for name, size in (("upper", 0), ("level_0", GB))
    )
    ranks = {d.table: d.rank for d in decisions(level_0, upper)}
    assert 2 < ranks["db.upper"] / ranks["db.level_0"] < 5
    # A full compaction costs what it costs: the base has no need of it.
    full = view("db.full", part(8, 4 * GB, minor=None, full=work))
    assert decisions(full)[0].rank < ranks["db.level_0"]


def test_one_rewrite_for_each_table():
    found = decisions(view())
    assert [d.action for d in found] == [Action.RUN, Action.LATER]
    assert found[0].candidate.arguments["strategy"] == "minor"
    assert "a minor compaction of the table is worth more now" in found[1].reason


@pytest.mark.parametrize(
    ("budget", "number", "why"),
    [
        # The last job exceeds the budget, which later rounds save.
        (Budget(seconds=2.0), 3, "the budget of 2 s has"),
        (Budget(seconds=None, bytes=120 * MB), 2, "the budget of 120.0 MB has"),
        (Budget(seconds=None, tables=3), 3, "the budget of 3 tables is spent"),
        (Budget(seconds=None, applications=1), 1, "the budget of 1 run on Spark is spent"),
    ],
)
def test_the_budget_ends_the_round(budget, number, why):
    spark = {"compact": EngineRule(engine=EngineName.SPARK)}
    views = [view(f"db.t{i}", engines=spark) for i in range(6)]
    assert len(chosen(*views, budget=budget)) == number
    assert why in reasons(*views, budget=budget)


def test_only_runs_on_spark_count_as_applications():
    rule = {"compact": EngineRule(spark_threshold=100 * MB)}
    few, much = (part(minor=Rewrite(files=9, bytes=s * MB, files_after=1)) for s in (90, 110))
    views = [view(f"db.s{i}", few, engines=rule) for i in range(3)]
    views += [view(f"db.m{i}", much, engines=rule) for i in range(3)]
    budget = Budget(seconds=None, applications=1)
    assert sorted(t for t, _ in chosen(*views, budget=budget))[1:] == ["db.s0", "db.s1", "db.s2"]
    # Where nothing runs on Spark there is no such limit.
    assert len(chosen(*(replace(v, engines={}) for v in views), budget=budget)) == 6


def test_a_job_larger_than_the_budget_runs_first_and_later_rounds_save():
    small, budget = view("db.small", part(2)), Budget(seconds=1.0)
    large = view("db.large", part(30, 40 * GB, minor=None))
    (found, *_) = decisions(large, budget=budget)
    assert found.action is Action.RUN
    assert found.seconds > 100
    price = decisions(small)[0].rank / 10

    def late(borrowed: float) -> Decision:
        account = Account(borrowed=borrowed, price=price)
        return decide([small], budget, CostModel(), now=NOW, account=account)[0]

    assert late(99.0).action is Action.LATER
    assert "has 0 s left" in late(99.0).reason
    assert "is below the price" in late(99.0).reason
    # Debts raise the price and stop nothing: what is worth it does not wait until they are paid.
    assert late(48.0).action is Action.RUN


def test_borrowed_seconds_are_the_reason_where_the_limit_of_a_round_is():
    views = [view(f"db.t{i}", part(20)) for i in range(3)]
    one = decisions(views[0])[0].seconds
    budget = Budget(seconds=1.5 * one, most_seconds=1.5 * one)
    account = Account(borrowed=10 * one, price=1e-4)
    found = decide(views, budget, CostModel(), now=NOW, account=account)
    assert [d.action for d in found[:3]] == [Action.RUN, Action.LATER, Action.LATER]
    assert f"earlier rounds borrowed {10 * one:.0f} s" in found[1].reason


def test_a_job_that_reaches_the_price_runs_beyond_the_budget_and_others_fill_what_is_left():
    views = [view(f"db.t{i}", part(4 + 2 * i), manifests=0) for i in range(8)]
    everything = {d.table: d for d in decisions(*views) if d.action is Action.RUN}
    price = everything["db.t4"].rank
    least = everything["db.t0"].seconds

    def runs(budget: float, borrowed: float = 0.0) -> list[str]:
        account = Account(borrowed=borrowed, price=price)
        found = decide(views, Budget(seconds=budget), CostModel(), now=NOW, account=account)
        assert all("is below the price" in d.reason for d in found if d.waits)
        return [d.table for d in found if d.action is Action.RUN]

    assert runs(2 * least) == ["db.t7", "db.t6", "db.t5", "db.t4"]
    assert runs(5.5 * least) == ["db.t7", "db.t6", "db.t5", "db.t4", "db.t3"]
    # What was borrowed is saved by the jobs below the price.
    assert runs(5.5 * least, borrowed=least) == ["db.t7", "db.t6", "db.t5", "db.t4"]


@pytest.mark.parametrize(("most", "jobs"), [(None, 15), (4.0, 4), (0.5, 1)])
def test_no_round_takes_more_than_its_limit(most: float | None, jobs: int):
    views = [view(f"db.t{i:02}", part(20)) for i in range(40)]
    one = decisions(views[0])[0].seconds
    limit = None if most is None else most * one
    budget = Budget(seconds=(0.5 if most == 0.5 else 1.5) * one, most_seconds=limit)
    found = decide(views, budget, CostModel(), now=NOW, account=Account(price=1e-4))
    assert len([d for d in found if d.action is Action.RUN]) == jobs


def test_a_table_that_is_red_for_long_does_not_wait_for_the_price():
    since = NOW - 13 * HOUR
    red = view("db.red", part(12), state=TableState(red_since=since))
    account = Account(borrowed=1e9, price=1e9)
    found = decide([red, view()], Budget(seconds=1.0), CostModel(), now=NOW, account=account)
    assert [d.table for d in found if d.action is Action.RUN] == ["db.red"]
    # A compaction does not help a table that a stopped consumer makes red.
    held = view("db.held", part(3, minor=None), state=TableState(red_since=since))
    found = decide([held], Budget(seconds=1.0), CostModel(), now=NOW, account=account)
    assert not [d for d in found if d.action is Action.RUN]


@pytest.mark.parametrize(("runs_after", "strategy"), [(2.0, "minor"), (6.0, "full")])
def test_the_worst_partitions_of_a_table_that_is_red_for_long(runs_after: float, strategy: str):
    """They may be too small to gain anything for the table, and decide about its score all the same."""
    minor = Rewrite(files=20, bytes=MB, files_after=2, runs_after=runs_after)
    worst = part(20, MB, name="dt=1", values={"dt": "1"}, minor=minor)
    rest = part(1, 400 * GB, name="dt=2", values={"dt": "2"}, minor=None, full=None)
    account = Account(borrowed=1e9, price=1e9)
    for hours, expected in ((11, []), (13, [(strategy, [{"dt": "1"}])])):
        state = TableState(red_since=NOW - hours * HOUR)
        table = view("db.t", worst, rest, state=state, partition_keys=("dt",))
        found = decide([table], Budget(seconds=1.0), CostModel(), now=NOW, account=account)
        runs = [d.candidate.arguments for d in found if d.action is Action.RUN and d.candidate]
        assert [(a["strategy"], a["partitions"]) for a in runs] == expected


@pytest.mark.parametrize(("runs", "jobs"), [(12, ["compact"]), (1, ["maintain"])])
def test_what_does_not_make_a_table_red_waits_for_its_price(runs: int, jobs: list[str]):
    red = view(
        "db.t",
        part(runs),
        state=TableState(red_since=NOW - 13 * HOUR),
        beyond_snapshots=500,
        beyond_bytes=8 * GB,
    )
    account = Account(borrowed=1e9, price=1e9)
    found = decide([red], Budget(seconds=1.0), CostModel(), now=NOW, account=account)
    assert [d.job for d in found if d.action is Action.RUN] == jobs


def test_work_that_waiting_does_not_save_hardly_counts():
    small, large = (
        view(name, part(9, minor=Rewrite(files=9, bytes=size, files_after=1)))
        for name, size in (("db.small", MB), ("db.large", GB))
    )
    ranks = {d.table: d for d in decisions(small, large) if d.action is Action.RUN}
    cost = ranks["db.large"].seconds / ranks["db.small"].seconds
    assert cost > 10
    assert ranks["db.small"].rank / ranks["db.large"].rank < 0.4 * cost


def test_age_enters_so_that_nothing_starves():
    poor = view("db.poor", part(4, 4 * GB, minor=None), state=TableState(waiting_since=NOW))
    rich = [view(f"db.rich{i}", part(12)) for i in range(3)]
    budget = Budget(seconds=None, tables=1)
    waited = 0
    while chosen(poor, *rich, budget=budget, now=NOW + waited)[0][0] != "db.poor":
        waited += 24 * HOUR
        assert waited < 180 * 24 * HOUR


def test_back_off_after_failures():
    state = TableState()
    waits = []
    for _ in range(9):
        state = ran(state, "compact", NOW, failed=True)
        waits.append(state.retry_at("compact") - NOW)
    assert waits[:3] == [FIRST_BACK_OFF, 2 * FIRST_BACK_OFF, 4 * FIRST_BACK_OFF]
    assert waits[-1] == LONGEST_BACK_OFF
    assert not chosen(view(state=state))
    assert "failed 9 times in a row" in reasons(view(state=state))
    later = NOW + LONGEST_BACK_OFF
    assert chosen(view(state=state), now=later) == [("db.t", "compact")]
    assert ran(state, "compact", NOW, failed=False).retry_at("compact") is None


def test_quiet_tables_are_looked_at_rarely():
    state = looked(TableState(), NOW, changed=True)
    assert state.look_at() == NOW
    # Not rarely yet: the next round sees what an owner altered.
    state = looked(state, NOW + HOUR, changed=False)
    assert state.look_at() == NOW + HOUR
    state = looked(state, NOW + 16 * HOUR, changed=False)
    assert state.look_at() == NOW + 18 * HOUR
    state = looked(state, NOW + 1000 * HOUR, changed=False)
    assert state.look_at() == NOW + 1006 * HOUR
    assert looked(state, NOW + 1001 * HOUR, changed=True).look_at() == NOW + 1001 * HOUR


def test_growth_counts_what_commits_add_and_not_what_jobs_remove():
    first = view().measurement
    state = measured(TableState(), first, red=False)
    assert state.growth == 0
    more = replace(first, at_millis=NOW + HOUR, partitions=(part(14),))
    state = measured(state, more, red=True)
    assert 0 < state.growth < 6
    assert state.red_since == NOW + HOUR
    less = replace(first, at_millis=NOW + 2 * HOUR, partitions=(part(1),))
    after = measured(state, less, red=False)
    assert 0 < after.growth < state.growth
    assert after.red_since is None
    assert TableState.from_json(after.to_json()) == after


def test_savings_on_quiet_tables_are_worth_more():
    quiet = view(state=TableState(growth=0.01))
    busy = view(state=TableState(growth=50.0))
    one, other = (
        candidates_of(v.measurement, v.state, v.needs, NOW)[0].benefit for v in (quiet, busy)
    )
    assert one > 20 * other


def test_layouts_are_not_undone():
    for table in (
        view(clustering="manual"),
        view(state=TableState(sorted_at=NOW - 1)),
    ):
        strategies = [
            d.candidate.arguments.get("strategy") for d in decisions(table) if d.candidate
        ]
        assert strategies == ["minor"]
    assert chosen(view(clustering="incremental", primary_key=False)) == [("db.t", "sort_compact")]


def test_freshness_goals_come_first():
    goal = TableNeeds(freshness_millis=10 * 60_000)
    late = part(2, 50 * GB, minor=None, oldest_level_0=NOW - 8 * 60_000)
    found = decisions(view("db.bad", part(30)), view("db.late", late, needs=goal))
    assert (found[0].table, found[0].candidate.urgent) == ("db.late", True)
    assert "the goal is 10 min" in found[0].reason
    early = part(2, 50 * GB, minor=None, oldest_level_0=NOW - 60_000)
    assert not decisions(view("db.late", early, needs=goal))[0].candidate.urgent


def test_upkeep():
    table = view(
        "db.t",
        part(1, minor=None, full=None),
        beyond_snapshots=400,
        beyond_bytes=3 * GB,
        tags_due=("2026-01-01",),
        manifests=300,
        partitions_due=2,
        consumers=(ConsumerLag(id="c", snapshots=1, since=NOW, bytes=0, last_seen=0),),
        consumer_expiration=HOUR,
    )
    (found,) = decisions(table)
    assert (found.job, found.action) == ("maintain", Action.RUN)
    assert found.candidate.arguments == {"also": ["compact_manifest"]}
    for text in ("400 snapshots", "3.0 GB", "1 tag", "2 partitions", "consumer c", "300 manifests"):
        assert text in found.reason
    blocked = replace(table.measurement, blocked_snapshots=400, blocked_bytes=3 * GB)
    assert "400 snapshots" not in decisions(replace(table, measurement=blocked))[0].reason


def test_a_byte_that_is_held_costs_the_same_in_every_table():
    small, large = (
        view(name, part(1, size, minor=None, full=None), beyond_snapshots=9, beyond_bytes=2 * GB)
        for name, size in (("db.small", GB), ("db.large", 99 * GB))
    )
    one, other = (d.candidate.benefit for d in decisions(small, large))
    assert one == other
    # The measure is the lake: half the bytes are worth half, in a lake of smaller tables more.
    half = replace(small, measurement=replace(small.measurement, beyond_bytes=GB))
    assert decisions(half, large)[1].candidate.benefit == pytest.approx(one / 2, rel=0.05)
    assert decisions(small)[0].candidate.benefit > 20 * one


def test_why_nothing_happens():
    assert "switches the scheduler off" in reasons(view(needs=TableNeeds(scheduled=False)))
    assert "another scheduler" in reasons(view(claimed=True))
    assert "gap" in reasons(view(gaps=1))
    assert "switches compact off" in reasons(view(off=frozenset({"compact"})))
    assert "needs nothing" in reasons(view("db.t", part(1, minor=None, full=None)))
    assert "needs nothing" in reasons(view(refused=("blobs",)))
    assert "too little benefit" in reasons(
        view("db.t", part(1.3, 90_000 * GB, minor=None), state=TableState(growth=9.0))
    )


def test_windows():
    night = (Window.of("22:00-06:00"),)
    noon = NOW - NOW % (24 * HOUR) + 12 * HOUR
    table = view(needs=TableNeeds(windows=night))
    assert "outside the window 22:00-06:00" in reasons(table, now=noon)
    assert chosen(table, now=noon + 11 * HOUR)
    budget = Budget(seconds=None, windows=night)
    assert "outside the windows of the budget" in reasons(view(), budget=budget, now=noon)


@pytest.mark.parametrize(
    ("text", "hour", "is_in"),
    [
        # 1970-01-01 was a Thursday.
        ("9:00-17:00", 9, True),
        ("9:00-17:00", 17, False),
        ("22:00-06:00", 5, True),
        ("thu 22:00-06:00", 5, False),
        ("thu 22:00-06:00", 24 + 5, True),
        ("fri-mon 0:00-24:00", 24, True),
        ("fri-mon 0:00-24:00", 5 * 24, False),
    ],
)
def test_hours_of_windows(text, hour, is_in):
    assert Window.of(text).holds(hour * HOUR) is is_in
    assert is_open((), hour)


@pytest.mark.parametrize(
    "text", ["", "9-17", "25:00-26:00", "9:61-10:00", "foo 9:00-10:00", "9:00-9:00"]
)
def test_texts_that_are_no_windows(text):
    with pytest.raises(ValueError, match=r"window|time that no day has|not a day"):
        Window.of(text)


def test_options_of_the_table_override_the_policy():
    needs = TableNeeds(owner="a").of_table(
        TableFacts({"caretaker.maintenance": "OFF", "caretaker.owner": "b"})
    )
    assert (needs.scheduled, needs.owner) == (False, "b")


@pytest.mark.parametrize(
    ("value", "scheduled"),
    [("on", True), ("True", True), ("", True), ("no", False), ("none", False), ("disabled", False)],
)
def test_a_table_with_a_value_that_is_no_word_for_on_is_left_alone(value, scheduled):
    needs = TableNeeds().of_table(TableFacts({"caretaker.maintenance": value}))
    assert needs.scheduled is scheduled
