"""The errors of predicted seconds, added up."""

from __future__ import annotations

import pytest

from paimon_maintenance.history.predictions import prediction_error, spread


def test_errors_are_relative_to_what_was_measured() -> None:
    assert prediction_error(12.0, 10.0) == pytest.approx(0.2)
    assert prediction_error(5.0, 10.0) == pytest.approx(0.5)
    # A run of no time at all counts as ten milliseconds.
    assert prediction_error(0.01, 0.0) == pytest.approx(1.0)


def test_percentiles_are_those_of_the_runs() -> None:
    assert spread([]) is None
    alone = spread([0.3])
    assert alone is not None
    assert (alone.runs, alone.median, alone.p90) == (1, 0.3, 0.3)
    found = spread([k / 10 for k in range(11)])
    assert found is not None
    assert (found.runs, found.median, found.p90) == (11, 0.5, pytest.approx(0.9))


def test_no_percentile_lies_beyond_the_largest_error() -> None:
    found = spread([0.1, 0.5])
    assert found is not None
    assert found.p90 <= 0.5
