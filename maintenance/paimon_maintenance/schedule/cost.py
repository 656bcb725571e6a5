"""The cost of a job in seconds, predicted from the runs of this very lake.

    seconds = fixed factor x (c0 + c1 files) + factor x (c2 GB + c3 million
    rows + c4 million values)

The coefficients of a job are a least-squares fit to its past runs, in which an error counts
relative to the seconds of the run.  Coefficients from our benchmarks are the prior: with few runs
they dominate, with many they do not matter.  Each kind, a merge engine or "append", has a factor
for both parts, because opening files costs all of them alike and merging does not.  Each table has
one for the second part: texts, wide values and slow stores stay with a table.  Factors are drawn
towards 1.

What the line misses is in `corrections`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

from paimon_maintenance.schedule.corrections import Corrections, Error, corrections_of

Vector = tuple[float, ...]
_GB: Final = 1024**3
_MILLION: Final = 1e6

PRIOR: Final[dict[str, Vector]] = {
    # benchmarks/README.md: on one core, with verification and commit.
    "compact": (0.4, 0.01, 6.0, 0.3, 0.02),
    "sort_compact": (0.6, 0.01, 12.0, 0.6, 0.04),
    "rescale": (0.8, 0.01, 8.0, 0.4, 0.03),
    "maintain": (0.4, 0.002, 0.02, 0.0, 0.0),
    "create_global_index": (0.4, 0.005, 2.0, 0.7, 0.0),
    "remove_orphan_files": (2.0, 0.002, 0.0, 0.0, 0.0),
}
_OTHER: Final[Vector] = (1.0, 0.005, 6.0, 0.3, 0.02)
_FIXED: Final = 2
"""The first two coefficients do not depend on the data."""
_TRUST: Final = 0.05
"""How many runs the prior is worth."""
_FIXED_TRUST: Final = 0.1
_KIND_TRUST: Final = 0.3
_TABLE_TRUST: Final = 0.3
_LARGEST_FACTOR: Final = 20.0
_ROUNDS, _MANY_RUNS, _FEWER_ROUNDS = 20, 100, 6
"""How often the parts of the model are fitted in turn; with many runs the
first rounds come closer."""
_NEWEST: Final = 400
"""Only this many of the newest runs count, so that a faster machine is noticed."""
_LEAST_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a job has to do.

    `kind` is the merge engine, or "append", `table` the one it works on.
    """

    job: str
    kind: str = "append"
    table: str = ""
    files: int = 0
    bytes: int = 0
    rows: int = 0
    columns: int = 1

    def features(self) -> Vector:
        """The numbers that the coefficients multiply."""
        return (
            1.0,
            float(self.files),
            self.bytes / _GB,
            self.rows / _MILLION,
            self.rows * self.columns / _MILLION,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A past run: its work and its seconds."""

    work: Work
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobModel:
    """The fitted numbers of one job: coefficients, factors of kinds and tables, and corrections."""

    coefficients: Vector
    fixed: dict[str, float] = field(default_factory=dict)
    factors: dict[str, float] = field(default_factory=dict)
    tables: dict[str, float] = field(default_factory=dict)
    corrections: Corrections = field(default_factory=Corrections)
    runs: int = 0

    def parts(self, work: Work) -> tuple[float, float]:
        """The seconds for files, and those for data."""
        features = work.features()
        fixed = _dot(self.coefficients[:_FIXED], features[:_FIXED])
        data = _dot(self.coefficients[_FIXED:], features[_FIXED:])
        factor = self.factors.get(work.kind, 1.0) * self.tables.get(work.table, 1.0)
        return self.fixed.get(work.kind, 1.0) * fixed, factor * data

    def line(self, work: Work) -> float:
        """The seconds by coefficients and factors alone."""
        return max(_LEAST_SECONDS, sum(self.parts(work)))

    def seconds(self, work: Work) -> float:
        """The predicted seconds of this work."""
        return self.line(work) * self.corrections.factor(work.table, _size(work))


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """The models of the jobs that have run; the prior for others."""

    jobs: dict[str, JobModel] = field(default_factory=dict)

    def seconds(self, work: Work) -> float:
        """The predicted seconds of this work."""
        model = self.jobs.get(work.job)
        return (model or JobModel(coefficients=PRIOR.get(work.job, _OTHER))).seconds(work)

    def past_runs(self, job: str) -> int:
        """How many runs of the job the predictions rest on; 0: on the prior alone."""
        model = self.jobs.get(job)
        return 0 if model is None else model.runs


def fit(samples: Iterable[Sample]) -> CostModel:
    """The model of these runs, oldest first; the prior alone without any."""
    by_job: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.seconds > 0:
            by_job[sample.work.job].append(sample)
    return CostModel(
        jobs={
            job: replace(_fitted(found[-_NEWEST:], PRIOR.get(job, _OTHER)), runs=len(found))
            for job, found in by_job.items()
        }
    )


def _fitted(samples: Sequence[Sample], prior: Vector) -> JobModel:
    """The coefficients of a job and the factors, each fitted to what the others leave."""
    # First the speed of this machine: it moves the whole prior.
    speed = median(s.seconds / max(1e-9, _dot(prior, s.work.features())) for s in samples)
    prior = tuple(speed * c for c in prior)
    model = JobModel(coefficients=prior)
    for _ in range(_ROUNDS if len(samples) < _MANY_RUNS else _FEWER_ROUNDS):
        # An error counts relative to the mean of measured and predicted seconds: relative to the
        # measured ones alone, the fit is too low.
        weights = [1.0 / math.sqrt(s.seconds * model.line(s.work)) for s in samples]
        model = replace(
            model,
            fixed=_factors(samples, weights, model, _kind_of, 0, _FIXED_TRUST),
        )
        model = replace(model, factors=_factors(samples, weights, model, _kind_of, 1, _KIND_TRUST))
        model = replace(model, tables=_factors(samples, weights, model, _table_of, 1, _TABLE_TRUST))
        model = replace(model, coefficients=_solved(samples, weights, model, prior))
    errors = [
        Error(
            table=s.work.table,
            size=_size(s.work),
            error=math.log(s.seconds / model.line(s.work)),
        )
        for s in samples
    ]
    return replace(model, corrections=corrections_of(errors))


def _size(work: Work) -> float:
    return math.log(max(1, work.bytes))


def _kind_of(model: JobModel, part: int, work: Work) -> tuple[str, float]:
    return work.kind, (model.factors if part else model.fixed).get(work.kind, 1.0)


def _table_of(model: JobModel, _: int, work: Work) -> tuple[str, float]:
    return work.table, model.tables.get(work.table, 1.0)


def _factors(
    samples: Sequence[Sample],
    weights: Sequence[float],
    model: JobModel,
    name_of: Callable[[JobModel, int, Work], tuple[str, float]],
    part: int,
    trust: float,
) -> dict[str, float]:
    """The factor of each name for one part of the seconds that fits its samples best, near 1."""
    sums: dict[str, list[float]] = defaultdict(lambda: [trust, trust])
    for sample, weight in zip(samples, weights, strict=True):
        parts = model.parts(sample.work)
        name, before = name_of(model, part, sample.work)
        if not name or before <= 0:
            continue
        share = weight * parts[part] / before
        rest = weight * (sample.seconds - parts[1 - part])
        sums[name][0] += share * rest
        sums[name][1] += share * share
    return {
        name: min(_LARGEST_FACTOR, max(1 / _LARGEST_FACTOR, up / down))
        for name, (up, down) in sums.items()
    }


def _solved(
    samples: Sequence[Sample], weights: Sequence[float], model: JobModel, prior: Vector
) -> Vector:
    """The coefficients, none of them negative, that fit the samples and the prior best."""
    size = len(prior)
    # Unknowns are coefficient / prior, so that one trust fits all units.
    scale = [p if p > 0 else 1e-3 for p in prior]
    left = [[0.0] * size for _ in range(size)]
    right = [0.0] * size
    for i in range(size):
        left[i][i] = _TRUST
        right[i] = _TRUST * (prior[i] / scale[i])
    for sample, weight in zip(samples, weights, strict=True):
        work = sample.work
        fixed = model.fixed.get(work.kind, 1.0)
        data = model.factors.get(work.kind, 1.0) * model.tables.get(work.table, 1.0)
        factors = [fixed] * _FIXED + [data] * (size - _FIXED)
        row = [weight * s * k * f for s, k, f in zip(scale, factors, work.features(), strict=True)]
        for i in range(size):
            right[i] += row[i] * weight * sample.seconds
            for j in range(size):
                left[i][j] += row[i] * row[j]
    active = list(range(size))
    while True:
        found = _gauss(left, right, active)
        negative = [i for i, value in found.items() if value < 0]
        if not negative:
            return tuple(scale[i] * found.get(i, 0.0) for i in range(size))
        active = [i for i in active if i not in negative]


def _gauss(left: list[list[float]], right: list[float], active: list[int]) -> dict[int, float]:
    """Solve the active part of the symmetric positive definite system."""
    rows = [[*(left[i][j] for j in active), right[i]] for i in active]
    size = len(rows)
    for column in range(size):
        pivot = max(range(column, size), key=lambda r: abs(rows[r][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for other in range(column + 1, size):
            share = rows[other][column] / rows[column][column]
            for k in range(column, size + 1):
                rows[other][k] -= share * rows[column][k]
    found = [0.0] * size
    for i in reversed(range(size)):
        rest = sum(rows[i][k] * found[k] for k in range(i + 1, size))
        found[i] = (rows[i][size] - rest) / rows[i][i]
    return dict(zip(active, found, strict=True))


def _dot(left: Vector, right: Vector) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))
