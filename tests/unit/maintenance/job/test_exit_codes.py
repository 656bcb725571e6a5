from __future__ import annotations

import pytest

from paimon_core import errors
from paimon_maintenance.job.exit_codes import ExitCode, combined, exit_code_of


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidArgument("x"), 2),
        (errors.NotFound("x"), 2),
        (errors.UnsupportedFeature("x"), 4),
        (errors.CommitConflict("x"), 5),
        (errors.StalePlan("x"), 5),
        (errors.GuardTripped("x"), 6),
        (errors.CorruptTable("x"), 7),
        (errors.CommitStateUnknown("x"), 8),
        (errors.MaintenanceError("x"), 1),
        (OSError("disk"), 1),
        (ValueError("bug"), 1),
    ],
)
def test_every_error_has_its_code(error, code):
    assert exit_code_of(error) == code


def test_codes_are_distinct_and_explained():
    assert [int(c) for c in ExitCode] == list(range(10))
    assert len({c.meaning for c in ExitCode}) == 10


@pytest.mark.parametrize(
    ("codes", "whole"),
    [
        ([0, 0], 0),
        ([3, 3], 3),
        ([0, 3], 0),
        ([0, 3, 5], 5),
        ([4, 4, 0], 4),
        ([4, 5], 1),
        ([], 3),
    ],
)
def test_codes_of_several_tables(codes, whole):
    assert combined(ExitCode(c) for c in codes) == whole
