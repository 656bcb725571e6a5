"""The cost model learns this lake's own speed from few runs, whatever the machine."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from statistics import median, quantiles

import pytest

from paimon_maintenance.schedule.cost import PRIOR, Sample, Work, fit

GB = 1024**3
KINDS = {"deduplicate": 1.0, "aggregation": 1.9, "append": 0.4}


def work(rng: random.Random) -> Work:
    size = int(10 ** rng.uniform(6, 10))
    rows = size // rng.randint(40, 400)
    return Work(
        job="compact",
        kind=rng.choice(sorted(KINDS)),
        files=rng.randint(2, 400),
        bytes=size,
        rows=rows,
        columns=rng.randint(3, 60),
    )


def seconds(one: Work, rng: random.Random, *, slow: float) -> float:
    """A machine that no prior knows: other coefficients, kinds that differ, 8 % noise."""
    truth = 1.2 + 0.03 * one.files + 14 * one.bytes / GB + 0.8 * one.rows / 1e6
    return slow * KINDS[one.kind] * truth * rng.lognormvariate(0, 0.08)


@pytest.mark.parametrize("slow", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_after_20_runs_the_median_error_is_15_percent(slow, seed):
    rng = random.Random(seed)
    samples = [Sample(work=w, seconds=seconds(w, rng, slow=slow)) for w in map(work, [rng] * 20)]
    model = fit(samples)
    errors = []
    for w in (work(rng) for _ in range(300)):
        truth = seconds(w, rng, slow=slow)
        errors.append(abs(model.seconds(w) - truth) / truth)
    assert median(errors) <= 0.15
    assert quantiles(errors, n=10)[-1] <= 0.35


def test_without_runs_the_prior_predicts():
    one = Work(job="compact", files=10, bytes=GB, rows=10**6, columns=10)
    prior = PRIOR["compact"]
    expected = prior[0] + 10 * prior[1] + prior[2] + prior[3] + 10 * prior[4]
    assert fit([]).seconds(one) == pytest.approx(expected)
    assert fit([]).seconds(Work(job="analyze")) > 0


def test_coefficients_are_never_negative_and_odd_samples_do_no_harm():
    zero = Sample(work=Work(job="compact"), seconds=0.0)
    falling = [
        Sample(work=Work(job="compact", files=1, bytes=i * GB), seconds=10.0 / i)
        for i in range(1, 9)
    ]
    model = fit([zero, *falling])
    assert all(c >= 0 for c in model.jobs["compact"].coefficients)
    assert model.seconds(Work(job="compact", bytes=100 * GB)) > 0
    assert model.jobs["compact"].runs == 8


def test_a_faster_machine_is_noticed():
    one = Work(job="compact", files=4, bytes=GB, rows=10**6, columns=5)
    slow, fast = [Sample(work=one, seconds=s) for s in (100.0, 10.0)]
    assert fit([*[slow] * 500, *[fast] * 400]).seconds(one) == pytest.approx(10, rel=0.05)


def test_the_files_cost_all_kinds_alike_and_a_table_keeps_its_own_speed():
    """As measured on real tables: merging costs three times an append, opening files the same."""
    rng = random.Random(5)
    slow = {"db.texts": 2.5, "db.numbers": 0.7, "db.plain": 1.0}

    def some(table: str) -> Work:
        size = int(10 ** rng.uniform(5.5, 8))
        kind = "append" if table == "db.plain" else "deduplicate"
        rows = size // 60
        return Work(
            job="compact", kind=kind, table=table, files=9, bytes=size, rows=rows, columns=9
        )

    def truth(w: Work) -> float:
        data = slow[w.table] * (3.0 if w.kind == "deduplicate" else 1.0) * w.bytes / GB * 4
        return (0.03 + 0.001 * w.files + data) * rng.lognormvariate(0, 0.05)

    works = [some(rng.choice(sorted(slow))) for _ in range(30)]
    model = fit(Sample(work=w, seconds=truth(w)) for w in works)
    tests = [some(t) for t in sorted(slow) for _ in range(60)]
    errors = [abs(model.seconds(w) - t) / t for w in tests for t in [truth(w)]]
    assert median(errors) <= 0.15
    assert quantiles(errors, n=10)[-1] <= 0.35


def test_the_last_runs_of_a_table_correct_what_no_line_fits():
    """Appends copy the pages of large files, so a byte of them takes a fifth of the seconds."""

    def run(table: str, megabytes: int, rate: float) -> Sample:
        size = megabytes * 1024**2
        work = Work(job="compact", table=table, files=9, bytes=size, rows=size // 60, columns=9)
        return Sample(work=work, seconds=0.05 + rate * size / GB)

    kinds = [run("db.t", 40, 10.0), run("db.t", 120, 10.0), run("db.t", 400, 2.0)]
    model = fit(kinds * 8)
    job = model.jobs["compact"]
    for one in kinds:
        off = abs(math.log(job.line(one.work) / one.seconds))
        assert abs(math.log(model.seconds(one.work) / one.seconds)) < 0.6 * off + 0.02
    assert max(abs(math.log(job.line(k.work) / k.seconds)) for k in kinds) > 0.25
    # Tables without runs keep the line.
    new = replace(kinds[1].work, table="db.new")
    assert model.seconds(new) == pytest.approx(job.line(new))


def test_one_odd_run_corrects_by_half_its_error_at_most():
    one = Work(job="compact", table="db.t", files=4, bytes=GB, rows=10**6, columns=5)
    usual = [Sample(work=replace(one, table="db.other"), seconds=10.0)] * 50
    model = fit([*usual, Sample(work=one, seconds=1000.0)])
    job = model.jobs["compact"]
    assert job.line(one) < model.seconds(one) < 2 * job.line(one)
