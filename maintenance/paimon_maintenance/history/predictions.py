"""The relative errors of predicted seconds, as the report, the page and the metrics show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final

_LEAST_SECONDS: Final = 0.01
"""Shorter runs count as this long, because the error divides by the seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """Relative errors of predicted seconds: the number of runs, the median and the 90th percentile.

    Runs that no past run of their job helped to predict do not count.
    """

    runs: int
    median: float
    p90: float


def prediction_error(predicted: float, measured: float) -> float:
    """The difference of predicted and measured seconds, divided by the measured seconds."""
    return abs(predicted - measured) / max(_LEAST_SECONDS, measured)


def spread(errors: Sequence[float]) -> Predictions | None:
    """The errors of so many runs, or None without one."""
    if not errors:
        return None
    if len(errors) == 1:
        return Predictions(runs=1, median=errors[0], p90=errors[0])
    # Inclusive: no percentile lies beyond the largest error that there was.
    p90 = quantiles(errors, n=10, method="inclusive")[-1]
    return Predictions(runs=len(errors), median=median(errors), p90=p90)
