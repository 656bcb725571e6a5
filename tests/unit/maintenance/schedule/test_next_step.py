"""What the scheduler does next, as it is stored for people."""

from __future__ import annotations

from paimon_maintenance.schedule.candidates import Candidate
from paimon_maintenance.schedule.cost import Work
from paimon_maintenance.schedule.decide import Action, Decision
from paimon_maintenance.schedule.next_step import decisions_by_table, next_step
from paimon_maintenance.schedule.state import HOUR, LONGEST_MEASUREMENT, TableState

NOW = 1000 * HOUR


def decision(action: Action, job: str | None = None, reason: str = "") -> Decision:
    one = (
        None
        if job is None
        else Candidate(table="db.t", job=job, work=Work(job=job), why=reason, benefit=1.0)
    )
    return Decision(table="db.t", action=action, reason=reason, candidate=one)


def step(*decisions: Decision, state: TableState | None = None, done: tuple[str, ...] = ()):
    return next_step(decisions, state or TableState(), measured_at=NOW, now=NOW, done=done)


def test_the_best_job_that_has_not_run_comes_first():
    waits = decision(Action.LATER, "maintain", "no room")
    runs = decision(Action.RUN, "compact", "9 runs")
    proposed = decision(Action.PROPOSE, "rescale", "64 buckets")
    assert (step(proposed, waits, runs).job, step(proposed, waits, runs).action) == (
        "compact",
        "run",
    )
    assert step(proposed, waits, runs, done=("compact",)).job == "maintain"
    assert step(proposed, waits, runs, done=("compact", "maintain")).action == "propose"


def test_a_job_that_backs_off_says_when_it_may_run():
    state = TableState(failures={"compact": 1}, failed_at={"compact": NOW})
    found = step(decision(Action.LATER, "compact", "failed once"), state=state)
    assert found.at_millis == NOW + HOUR // 2
    assert step(decision(Action.LATER, "maintain", "no room"), state=state).at_millis is None


def test_without_a_job_it_says_when_it_looks_again():
    nothing = decision(Action.NO, reason="the table needs nothing")
    found = step(nothing)
    assert (found.action, found.reason, found.at_millis) == ("look", "the table needs nothing", NOW)
    quiet = TableState(looked_at=NOW, changed_at=NOW - 100 * HOUR)
    assert step(nothing, state=quiet).at_millis == NOW + LONGEST_MEASUREMENT


def test_decisions_are_grouped_in_their_order():
    first, second = decision(Action.RUN, "compact"), decision(Action.NO)
    assert decisions_by_table([first, second]) == {"db.t": [first, second]}
