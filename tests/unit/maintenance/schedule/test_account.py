"""The price of a second: budgets hold on average, bursts and large jobs do not block small ones."""

from __future__ import annotations

import math
import random

import pytest

from paimon_maintenance.schedule.account import Account, marginal_rank


def test_the_margin_is_where_the_budget_ends():
    jobs = [(9.0, 1.0), (5.0, 1.0), (2.0, 4.0), (1.0, 1.0)]
    assert marginal_rank(jobs, 2.0) == 5.0
    assert marginal_rank(jobs, 2.1) == 2.0
    assert marginal_rank(jobs, 7.5) == 0.0


def test_the_first_price_is_the_margin():
    jobs = [(9.0, 1.0), (5.0, 1.0), (2.0, 4.0)]
    first = Account()
    assert first.threshold(jobs, 2.0) == 5.0
    after = first.after(seconds=3.0, above=3.0, threshold=5.0, budget=2.0)
    assert after == Account(borrowed=1.0, price=5.0)


def test_a_burst_after_a_quiet_time_does_not_pass_at_a_low_price():
    jobs = [(9.0, 1.0), (5.0, 1.0), (0.4, 4.0), (0.3, 9.0)]
    assert Account(price=1e-4).threshold(jobs, 2.0) == pytest.approx(0.5)


@pytest.mark.parametrize("seed", range(5))
def test_rounds_spend_their_budget_on_average(seed):
    rng = random.Random(seed)
    account, budget, spent = Account(), 10.0, []
    for number in range(3000):
        # Jobs for three budgets, and a large one now and then.
        jobs = [(rng.lognormvariate(0, 1), rng.uniform(0.5, 1.5)) for _ in range(30)]
        if number % 100 == 50:
            jobs.append((1000.0, 30.0))
        jobs.sort(reverse=True)
        threshold = account.threshold(jobs, budget)
        seconds = sum(s for rank, s in jobs if rank >= threshold)
        spent.append(seconds)
        account = account.after(seconds=seconds, above=seconds, threshold=threshold, budget=budget)
    # Without jobs that fill what is left of quiet rounds, a little less.
    assert 0.9 * budget < sum(spent) / len(spent) < 1.02 * budget
    # A large job does not stop the small ones.
    assert sum(1 for s in spent if s == 0) < 30
    assert account.borrowed < 48 * budget


def test_borrowed_budgets_raise_the_price_to_a_limit():
    def threshold(budgets: float) -> float:
        return Account(borrowed=2.0 * budgets, price=1.0).threshold([], 2.0)

    assert threshold(0) == 1.0
    assert threshold(48) == pytest.approx(4.2, rel=0.01)
    assert threshold(400) == threshold(1e9) < math.inf


def test_urgent_jobs_that_take_the_whole_budget_leave_others_their_turn():
    """Jobs that wait for longer are worth more; if nothing but urgent ones ran, they would not run at all."""
    account, budget, ran = Account(borrowed=480.0, price=1.0), 10.0, 0
    waited = 0
    for _ in range(200):
        waited += 1
        job = (0.5 * waited**2, 2.0)
        threshold = account.threshold([job], budget)
        others = 2.0 if job[0] >= threshold else 0.0
        ran += others > 0
        waited = 0 if others else waited
        seconds = 9.0 + others
        account = account.after(seconds=seconds, above=seconds, threshold=threshold, budget=budget)
    assert ran >= 30


def test_the_price_falls_when_there_is_little_to_do_and_has_a_least_value():
    account = Account(price=1.0)
    for _ in range(2000):
        account = account.after(seconds=0.1, above=0.0, threshold=0.0, budget=10.0)
    assert account == Account(borrowed=0.0, price=1e-4)
