"""The price of a second: budgets hold on average, bursts and large jobs do not block small ones."""

from __future__ import annotations

import random

import pytest

from paimon_maintenance.schedule.account import MOST_BORROWED, Account, marginal_rank


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
        can = not account.is_exhausted(budget)
        seconds = sum(s for rank, s in jobs if rank >= threshold) if can else 0.0
        spent.append(seconds)
        account = account.after(seconds=seconds, above=seconds, threshold=threshold, budget=budget)
    # Without jobs that fill what is left of quiet rounds, a little less.
    assert 0.9 * budget < sum(spent) / len(spent) < 1.02 * budget
    # A large job does not stop the small ones.
    assert sum(1 for s in spent if s == 0) < 30
    assert account.borrowed < MOST_BORROWED * budget


def test_the_price_falls_when_there_is_little_to_do_and_has_a_least_value():
    account = Account(price=1.0)
    for _ in range(2000):
        account = account.after(seconds=0.1, above=0.0, threshold=0.0, budget=10.0)
    assert account == Account(borrowed=0.0, price=1e-4)
