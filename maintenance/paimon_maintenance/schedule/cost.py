"""The cost of a job in seconds, predicted from the runs of this very lake.

    seconds = factor of the kind x (c0 + c1 files + c2 GB + c3 million rows + c4 million values)

The coefficients of a job are a least-squares fit to its past runs, in which an error counts relative to
the seconds of the run.  Coefficients from our benchmarks are the prior: with few runs they dominate, with
many they do not matter.  A kind is a merge engine or "append"; its factor is the median of measured to
predicted seconds, drawn towards 1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

Vector = tuple[float, ...]
_GB: Final = 1024**3
_MILLION: Final = 1e6

PRIOR: Final[dict[str, Vector]] = {
    # benchmarks/README.md: on one core, with verification and commit.
    "compact": (0.4, 0.01, 6.0, 0.3, 0.02),
    "sort_compact": (0.6, 0.01, 12.0, 0.6, 0.04),
    "rescale": (0.8, 0.01, 8.0, 0.4, 0.03),
    "maintain": (0.4, 0.002, 0.02, 0.0, 0.0),
    "remove_orphan_files": (2.0, 0.002, 0.0, 0.0, 0.0),
}
_OTHER: Final[Vector] = (1.0, 0.005, 6.0, 0.3, 0.02)
_TRUST: Final = 0.1
"""How many runs the prior is worth."""
_KIND_TRUST: Final = 0.3
_ROUNDS: Final = 8
_NEWEST: Final = 400
"""Only this many of the newest runs count, so that a faster machine is noticed."""
_LEAST_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a job has to do; `kind` is the merge engine, or "append"."""

    job: str
    kind: str = "append"
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
class CostModel:
    """Coefficients by job, factors by job and kind.  `runs` is the number of samples by job."""

    coefficients: dict[str, Vector] = field(default_factory=dict)
    factors: dict[tuple[str, str], float] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)

    def seconds(self, work: Work) -> float:
        """The predicted seconds of this work."""
        factor = self.factors.get((work.job, work.kind), 1.0)
        coefficients = self.coefficients.get(work.job) or PRIOR.get(work.job, _OTHER)
        return max(_LEAST_SECONDS, factor * _dot(coefficients, work.features()))


def fit(samples: Iterable[Sample]) -> CostModel:
    """The model of these runs, oldest first; the prior alone without any."""
    by_job: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.seconds > 0:
            by_job[sample.work.job].append(sample)
    coefficients: dict[str, Vector] = {}
    factors: dict[tuple[str, str], float] = {}
    for job, found in by_job.items():
        coefficients[job], of_kinds = _fitted(found[-_NEWEST:], PRIOR.get(job, _OTHER))
        factors.update({(job, kind): factor for kind, factor in of_kinds.items()})
    return CostModel(
        coefficients=coefficients,
        factors=factors,
        runs={job: len(found) for job, found in by_job.items()},
    )


def _fitted(samples: Sequence[Sample], prior: Vector) -> tuple[Vector, dict[str, float]]:
    """The coefficients of a job and the factors of its kinds, each fitted to what the other leaves."""
    # First the speed of this machine: it moves the whole prior.
    speed = median(s.seconds / max(1e-9, _dot(prior, s.work.features())) for s in samples)
    prior = tuple(speed * c for c in prior)
    factors: dict[str, float] = {}
    coefficients = prior
    for _ in range(_ROUNDS):
        ratios: dict[str, list[float]] = defaultdict(list)
        for sample in samples:
            predicted = _dot(coefficients, sample.work.features())
            ratios[sample.work.kind].append(sample.seconds / max(1e-9, predicted))
        for kind, found in ratios.items():
            number = len(found)
            factors[kind] = (number * median(found) + _KIND_TRUST) / (number + _KIND_TRUST)
        leveled = [Sample(work=s.work, seconds=s.seconds / factors[s.work.kind]) for s in samples]
        coefficients = _solved(leveled, prior)
    return coefficients, factors


def _solved(samples: Sequence[Sample], prior: Vector) -> Vector:
    """The coefficients, none of them negative, that fit the samples and the prior best."""
    size = len(prior)
    # Unknowns are coefficient / prior, so that one trust fits all units.
    scale = [p if p > 0 else 1e-3 for p in prior]
    left = [[0.0] * size for _ in range(size)]
    right = [0.0] * size
    for i in range(size):
        left[i][i] = _TRUST
        right[i] = _TRUST * (prior[i] / scale[i])
    for sample in samples:
        row = [s * f / sample.seconds for s, f in zip(scale, sample.work.features(), strict=True)]
        for i in range(size):
            right[i] += row[i]
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
