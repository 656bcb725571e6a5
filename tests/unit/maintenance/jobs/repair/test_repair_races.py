"""Other jobs shorten the history while a repair is at work: it brings nothing back that is gone."""

from __future__ import annotations

from typing import Any

import known_holes
import pytest
from broken_tables import CASES, sound
from known_holes import each_call
from lakes import Lake

from paimon_core.errors import PaimonError
from paimon_core.snapshot.line import gaps_in
from paimon_maintenance.verify.check import check_table
from paimon_maintenance.verify.findings import Problem, Severity

OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "expire_snapshots": ("expire_snapshots", {"retain_max": 1, "retain_min": 1}),
    "rollback": ("rollback", {"snapshot": 1, "safety_tag": "0 s"}),
}


def errors(lake: Lake) -> set[Problem]:
    found = check_table(lake.table()).findings
    return {f.problem for f in found if f.severity is Severity.ERROR}


@pytest.mark.sampled
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("case", ["hints", "consumers", "sizes", "tag"])
def test_nothing_comes_back(case: str, other: str, lake: Lake) -> None:
    """Before every single change."""
    broken, _, repair = CASES[case]
    sound(lake)
    broken(lake)
    before = errors(lake)
    job, arguments = OTHERS[other]
    done = 0
    for report in each_call(
        lake.warehouse,
        lambda: known_holes.run(lake.warehouse, job, **arguments),
        lambda trigger: known_holes.run(
            lake.warehouse, "repair", meanwhile=trigger, repairs=[repair]
        ),
        reads=False,
    ):
        assert report.error is None or isinstance(report.error, PaimonError), report.error
        done += 1
        assert not gaps_in(lake.table().snapshots.ids())
        assert errors(lake) <= before
    assert done
