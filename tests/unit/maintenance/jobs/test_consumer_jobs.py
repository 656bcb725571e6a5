from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import known_holes
import pytest
from command_line import caretaker
from disk import assert_whole
from known_holes import each_call
from replay import ENV, run_step

from paimon_core.errors import NotFound, StalePlan
from paimon_core.table.open import open_table
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import plan_table, run_table


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    columns = [{"name": "k", "type": "INT NOT NULL"}]
    steps: list[dict[str, Any]] = [
        {"op": "create_table", "columns": columns, "options": {"bucket": "-1"}},
        *({"op": "write", "rows": [[i]]} for i in range(5)),
        {"op": "set_consumer", "id": "alive", "next_snapshot": 4},
        {"op": "set_consumer", "id": "dead", "next_snapshot": 2},
    ]
    for step in steps:
        assert "error" not in run_step({**at, **step})
    old = time.time() - 3600
    os.utime(tmp_path / "db.db" / "t" / "consumer" / "consumer-dead", (old, old))
    return tmp_path


def run(warehouse: Path, name: str, **arguments: object) -> Report:
    job = job_named(name)
    return run_table(
        RunRequest(
            job=job,
            warehouse=str(warehouse),
            table="db.t",
            arguments=job.read_arguments(arguments),
        )
    )


def consumers(warehouse: Path) -> dict[str, int]:
    return {c.id: c.next_snapshot for c in open_table(str(warehouse), "db.t").consumers.all()}


def test_one_that_cannot_be_read_is_named_and_goes_by_its_age(warehouse: Path) -> None:
    folder = warehouse / "db.db" / "t" / "consumer"
    for name in ("young", "old"):
        (folder / f"consumer-{name}").write_text("{")
    old = time.time() - 3600
    os.utime(folder / "consumer-old", (old, old))
    words = ("expire_consumers", "db.t", "-w", warehouse, "--expiration-time", "30 min")
    planned = caretaker("plan", *words).out
    assert str(folder / "consumer-young") in planned
    report = run(warehouse, "expire_consumers", expiration_time="30 min")
    assert report.details["deleted_consumers"] == ["dead", "old"]
    assert report.details["positions_before"] == {"dead": 2}
    assert run(warehouse, "expire_snapshots", retain_max=1, retain_min=1).status is Status.FAILED
    assert run(warehouse, "clear_consumers", including_consumers="y.*").status is Status.SUCCESS
    assert consumers(warehouse) == {"alive": 4}


def test_the_dead_hold_nothing_back_any_more(warehouse: Path) -> None:
    held = {"retain_max": 1, "retain_min": 1}
    assert run(warehouse, "expire_snapshots", **held).details["expired_snapshots"] == [1]
    assert run(warehouse, "expire_consumers").status is Status.NOTHING_TO_DO
    report = run(warehouse, "expire_consumers", expiration_time="30 min")
    assert report.details["deleted_consumers"] == ["dead"]
    assert report.details["positions_before"] == {"dead": 2}
    assert "  positions before dead 2" in list(report.lines())
    assert consumers(warehouse) == {"alive": 4}
    assert run(warehouse, "expire_snapshots", **held).details["expired_snapshots"] == [2, 3]


def test_reset(warehouse: Path) -> None:
    run(warehouse, "reset_consumer", consumer_id="dead", next_snapshot_id=5)
    assert consumers(warehouse)["dead"] == 5
    assert run(warehouse, "reset_consumer", consumer_id="dead", next_snapshot_id=9).error
    run(warehouse, "reset_consumer", consumer_id="dead")
    assert consumers(warehouse) == {"alive": 4}
    assert run(warehouse, "reset_consumer", consumer_id="dead").error


def test_reset_to_a_changelog_that_outlived_its_snapshot(warehouse: Path) -> None:
    table = open_table(str(warehouse), "db.t")
    first = table.snapshots.get(1)
    table.changelogs.put(first)
    table.snapshots.delete(1)
    assert run(warehouse, "reset_consumer", consumer_id="dead", next_snapshot_id=1).error is None
    assert consumers(warehouse)["dead"] == 1


def test_clear(warehouse: Path) -> None:
    run(warehouse, "clear_consumers", including_consumers="a.*|d.*", excluding_consumers="al.*")
    assert consumers(warehouse) == {"alive": 4}


def test_plan_names_what_holds_the_range(warehouse: Path) -> None:
    job = job_named("expire_snapshots")
    request = RunRequest(
        job=job,
        warehouse=str(warehouse),
        table="db.t",
        arguments=job.read_arguments({"retain_max": 1, "retain_min": 1}),
        dry_run=True,
    )
    report = run_table(request)
    assert any("consumer dead reads snapshot 2" in line for line in report.plan_lines)
    assert ENV.now_millis() > 0


def test_a_plan_names_the_consumer_that_holds_changelogs_back(tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    options = {
        "bucket": "1",
        "write-only": "true",
        "changelog-producer": "input",
        "changelog.num-retained.min": "1",
        "changelog.num-retained.max": "50",
        "changelog.time-retained": "1 d",
    }
    columns = [{"name": "k", "type": "INT NOT NULL"}]
    table = {"columns": columns, "primary_keys": ["k"], "options": options}
    for step in (
        {"op": "create_table", **table},
        *({"op": "write", "rows": [[i]]} for i in range(6)),
        {"op": "expire_snapshots", "retain_max": 1, "retain_min": 1},
        {"op": "set_consumer", "id": "slow", "next_snapshot": 3},
    ):
        assert "error" not in run_step({**at, **step})
    job = job_named("expire_changelogs")
    request = RunRequest(
        job=job,
        warehouse=str(tmp_path),
        table="db.t",
        arguments=job.read_arguments({"retain_max": 1, "retain_min": 1}),
    )
    plan: Any = plan_table(request)
    assert plan.actions[0].details["changelogs"] == [1, 2]
    kept = {k.what: k for k in plan.kept}
    assert kept["changelogs"].why == "consumer slow reads snapshot 3 next"
    held = kept["changelogs beyond the retention"]
    assert (held.count, held.why.split(";")[0]) == (2, "consumer slow reads snapshot 3 next")
    # As many changelogs are held as go; names in them compress a little differently each time.
    assert held.bytes == pytest.approx(plan.effect.deleted_bytes, rel=0.2)
    assert held.bytes > 0
    run(tmp_path, "clear_consumers")
    # What they held goes now, all but the newest.
    report = run(tmp_path, "expire_changelogs", retain_max=1, retain_min=1)
    assert report.details["deleted_bytes"] == held.bytes + plan.effect.deleted_bytes
    assert open_table(str(tmp_path), "db.t").changelogs.ids() == [5]


JOBS: dict[str, dict[str, object]] = {
    "expire_snapshots": {"retain_max": 1, "retain_min": 1},
    "reset_consumer": {"consumer_id": "reader", "next_snapshot_id": 2},
}


@pytest.mark.sampled
@pytest.mark.parametrize("calls", ["changes", "reads"])
@pytest.mark.parametrize(
    ("a", "b"), [("expire_snapshots", "reset_consumer"), ("reset_consumer", "expire_snapshots")]
)
def test_a_consumer_that_moves_while_snapshots_expire_has_its_snapshot(
    a: str, b: str, calls: str, warehouse: Path
) -> None:
    """Before every single call of A."""
    open_table(str(warehouse), "db.t").consumers.delete("dead")
    done: dict[str, Report] = {}

    def other() -> None:
        done[b] = known_holes.run(warehouse, b, **JOBS[b])

    ends = set()
    for report in each_call(
        warehouse,
        other,
        lambda trigger: known_holes.run(warehouse, a, meanwhile=trigger, **JOBS[a]),
        reads=calls == "reads",
    ):
        done[a] = report
        moved, expired = done["reset_consumer"], done["expire_snapshots"]
        for one in done.values():
            assert one.error is None or isinstance(one.error, NotFound | StalePlan), one.error
        table = open_table(str(warehouse), "db.t")
        ends.add((moved.status, expired.status))
        if moved.status is Status.SUCCESS:
            assert consumers(warehouse) == {"alive": 4, "reader": 2}
            assert table.snapshots.exists(2)
        else:
            assert consumers(warehouse) == {"alive": 4}
        assert_whole(warehouse)
    assert ends


def test_a_consumer_that_moves_while_changelogs_expire_has_its_changelog(warehouse: Path) -> None:
    open_table(str(warehouse), "db.t").consumers.delete("dead")
    table = open_table(str(warehouse), "db.t")
    for number in (1, 2, 3):
        table.changelogs.put(table.snapshots.get(number))
        table.snapshots.delete(number)
    job = {"retain_max": 1, "retain_min": 1}
    done: list[Report] = []

    def other() -> None:
        done.append(known_holes.run(warehouse, "reset_consumer", **JOBS["reset_consumer"]))

    put_back = 0
    for report in each_call(
        warehouse,
        other,
        lambda trigger: known_holes.run(warehouse, "expire_changelogs", meanwhile=trigger, **job),
        reads=False,
    ):
        put_back += isinstance(report.error, StalePlan)
        if done.pop().status is Status.SUCCESS:
            assert open_table(str(warehouse), "db.t").changelogs.exists(2)
        assert_whole(warehouse)
    assert put_back
