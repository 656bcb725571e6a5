"""A rollback to a version that was laid out for another number of buckets."""

from __future__ import annotations

from typing import Any

import pytest
from lakes import Lake

from paimon_core.errors import StalePlan
from paimon_core.snapshot.store import SnapshotStore
from paimon_maintenance.job.report import Report
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import plan_table, run_table


def request(lake: Lake, name: str, **arguments: object) -> RunRequest:
    job = job_named(name)
    return RunRequest(
        job=job,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=job.read_arguments(arguments),
    )


def run(lake: Lake, name: str, **arguments: object) -> Report:
    return run_table(request(lake, name, **arguments))


@pytest.mark.parametrize("job", ["rollback_to_as_latest", "rollback"])
def test_the_plan_names_partitions_whose_writers_will_be_refused(job: str, lake: Lake) -> None:
    lake.primary_key(buckets=1)
    lake.fill(3)
    plan: Any = plan_table(request(lake, job, snapshot=2))
    assert not [k for k in plan.kept if k.what != "files"]
    assert run(lake, "rescale", bucket_num=2).error is None
    plan = plan_table(request(lake, job, snapshot=2))
    assert [k.what for k in plan.kept if k.what != "files"] == ["the option bucket=2"]
    assert run(lake, job, snapshot=2).error is None
    assert run(lake, "rescale").error is None  # as the plan says
    lake.append({"k": [7], "v": ["again"]})


def test_a_rescale_since_the_plan_stops_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.primary_key(buckets=1)
    lake.fill(3)
    plain = SnapshotStore.latest
    job = request(lake, "rollback_to_as_latest", snapshot=2)
    left = [1]  # the plan asks for the newest snapshot, then the commit does

    def latest(self: SnapshotStore) -> Any:
        if left and not left[0]:
            left.clear()
            assert run(lake, "rescale", bucket_num=2).error is None
        elif left:
            left[0] -= 1
        return plain(self)

    monkeypatch.setattr(SnapshotStore, "latest", latest)
    report = run_table(job)
    assert left == []
    assert isinstance(report.error, StalePlan), report.error
    assert "was rescaled to 2 buckets" in str(report.error)
    assert not [t for t in lake.table().tags.names() if t.startswith("rollback-to-as-latest")]
    lake.append({"k": [7], "v": ["again"]})
