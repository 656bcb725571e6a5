"""A branch whose first snapshots have expired becomes main: its first one does not build on main's last.

Its files are then not those of the snapshot before it and what it adds.
"""

from __future__ import annotations

from typing import Any

import known_holes
import pytest
from disk import assert_whole
from lakes import Lake, append_to_branch

from paimon_maintenance.job.report import Report, Status


def run(lake: Lake, name: str, **arguments: Any) -> Report:
    report = known_holes.run(lake.warehouse, name, **arguments)
    assert report.status is Status.SUCCESS, report.error
    return report


@pytest.fixture(params=[0, 1, 2])
def lake(request: pytest.FixtureRequest, lake: Lake) -> Lake:
    """Main has snapshots 1 to 4, and 5 of the branch; 6 needs no file of it.

    Main and the branch have added as many files each, or main one more or less.
    """
    lake.primary_key()
    lake.fill(1)
    run(lake, "create_tag", tag="t")
    run(lake, "create_branch", branch_name="b", tag="t")
    for _ in range(4):
        append_to_branch(lake, "b")
    run(lake, "expire_snapshots", branch="b", retain_max=1, retain_min=1)
    for _ in range(2 + request.param):
        lake.fill(1)
    run(lake, "compact_manifest")
    while (lake.table().snapshots.latest_id() or 0) < 4:
        run(lake, "analyze")
    run(lake, "fast_forward", branch_name="b", safety_tag="0 s")
    run(lake, "compact", strategy="full")
    assert_whole(lake.warehouse)
    return lake


@pytest.mark.parametrize(
    ("job", "arguments"),
    [
        ("delete_branch", {"branch_name": ["b"]}),
        ("delete_tag", {"tag": ["t"]}),
        ("expire_snapshots", {"retain_max": 2, "retain_min": 2}),
    ],
    ids=["delete_branch", "delete_tag", "expire_snapshots"],
)
def test_no_file_is_lost(job: str, arguments: dict[str, Any], lake: Lake) -> None:
    known_holes.run(lake.warehouse, job, **arguments)
    assert_whole(lake.warehouse)
    known_holes.run(lake.warehouse, "delete_branch", branch_name=["b"])
    assert_whole(lake.warehouse)
    known_holes.run(lake.warehouse, "expire_snapshots", retain_max=2, retain_min=2)
    assert_whole(lake.warehouse)
