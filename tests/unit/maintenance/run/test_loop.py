"""The loop behind every job, driven by a run of `compact` and by the steps of `maintain`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from lakes import Lake

from paimon_core.environment import system_environment
from paimon_core.errors import CommitConflict, CorruptTable, LeaseHeld
from paimon_core.reachability.garbage import find_garbage
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.job import NoProgress, Progress
from paimon_maintenance.job.metadata_job import MetadataPlan
from paimon_maintenance.job.plan import Plan
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.jobs.compact.plan import CompactPlan
from paimon_maintenance.jobs.maintain.step_plans import MaintainPlan
from paimon_maintenance.jobs.rescale.plan import RescalePlan
from paimon_maintenance.jobs.sort_compact.plan import SortPlan
from paimon_maintenance.registry import job_named
from paimon_maintenance.run import loop
from paimon_maintenance.run.loop import MAX_ROUNDS
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table
from paimon_maintenance.storage.lease import hold_lease

COMPACTIONS: dict[str, dict[str, object]] = {"compact": {}, "maintain": {"compact": "full"}}
both = pytest.mark.parametrize("name", COMPACTIONS)
PLANS = (CompactPlan, RescalePlan, SortPlan, MetadataPlan, MaintainPlan)


class Counting(LocalEngine):
    """Counts how often units run, and lets somebody else commit before each of the first results."""

    def __init__(self, interfere: Callable[[], object] = int, *, times: int = 0) -> None:
        super().__init__()
        object.__setattr__(self, "interfere", interfere)
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "calls", [])

    def run_units(self, units: Any, run: Any, **rest: Any) -> Any:
        results = LocalEngine().run_units(units, run, **rest)
        self.calls.append(len(units))
        if len(self.calls) <= self.times:
            self.interfere()
        return results


class AtPhase(NoProgress):
    """Changes the table once, when the run tells that this phase begins."""

    def __init__(self, phase: str, change: Callable[[], object]) -> None:
        self.at = phase
        self.change = change

    def phase(self, name: str) -> None:
        if name == self.at:
            self.at = ""
            self.change()


def run(
    lake: Lake,
    name: str,
    arguments: dict[str, object],
    *,
    waits: list[int] | None = None,
    engine: LocalEngine | None = None,
    progress: Progress | None = None,
    **rest: Any,
) -> Report:
    job = job_named(name)
    request = RunRequest(
        job=job,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=job.read_arguments(arguments),
        **rest,
    )
    told = [] if waits is None else waits
    env = replace(system_environment(), sleep_millis=told.append)
    services = RunServices(
        engine=engine or LocalEngine(), env=env, progress=progress or NoProgress()
    )
    return run_table(request, services)


def statuses(report: Report) -> dict[str, str]:
    return {str(p["job"]): str(p["status"]) for p in report.parts}


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key()
    lake.fill(3)
    return lake


@pytest.mark.parametrize(("name", "phase"), [("compact", "recheck"), ("maintain", "execute")])
def test_a_plan_whose_snapshot_was_rolled_back_is_not_executed(
    lake: Lake, name: str, phase: str
) -> None:
    """`maintain` executes its first step, from the plan it showed, after its own re-check."""

    def replace_the_newest_snapshot() -> None:
        assert run(lake, "rollback", {"snapshot": "2"}).error is None
        lake.fill(1)

    engine, progress = Counting(), AtPhase(phase, replace_the_newest_snapshot)
    report = run(lake, name, COMPACTIONS[name], engine=engine, progress=progress)
    assert report.status is Status.SUCCESS, report.error
    assert engine.calls == [1]
    assert report.snapshots == (4,)


@both
def test_a_lost_race_is_followed_by_a_longer_wait_each_time(lake: Lake, name: str) -> None:
    engine = Counting(lambda: (run(lake, "compact", {}), lake.fill(1)), times=2)
    waits: list[int] = []
    report = run(lake, name, COMPACTIONS[name], engine=engine, waits=waits)
    assert report.status is Status.SUCCESS, report.error
    first, second = waits
    assert 200 <= first <= 240
    assert 400 <= second <= 480
    assert lake.on_disk() == lake.referenced()


@both
@pytest.mark.parametrize("most", [1, 2])
def test_lost_races_end_after_max_attempts(lake: Lake, name: str, most: int) -> None:
    engine = Counting(lambda: (run(lake, "compact", {}), lake.fill(1)), times=20)
    report = run(lake, name, COMPACTIONS[name], engine=engine, max_attempts=most)
    assert isinstance(report.error, CommitConflict)
    assert len(engine.calls) == most
    assert lake.on_disk() == lake.referenced()


@both
def test_a_writer_that_never_stops_does_not_keep_a_run_from_ending(
    tmp_path: Path, name: str
) -> None:
    lake = Lake(tmp_path)
    lake.primary_key(buckets=-2)
    lake.fill(1)
    engine = Counting(lambda: lake.fill(1), times=20)
    report = run(lake, name, COMPACTIONS[name], engine=engine)
    assert report.status is Status.SUCCESS, report.error
    assert len(engine.calls) == MAX_ROUNDS
    assert len(report.snapshots) == MAX_ROUNDS
    engine = Counting()
    assert run(lake, name, COMPACTIONS[name], engine=engine).status is Status.SUCCESS
    assert len(engine.calls) == 2  # the postponed rows, then the real bucket
    assert run(lake, name, COMPACTIONS[name]).status is Status.NOTHING_TO_DO


def test_a_step_with_work_waits_for_the_lease_and_the_others_need_none(lake: Lake) -> None:
    arguments: dict[str, object] = {
        "compact": "full",
        "also": ["expire_changelogs"],
        "step_arguments": {"expire_snapshots.retain_max": "1", "expire_snapshots.retain_min": "1"},
    }
    table, env = lake.table(), system_environment()
    with hold_lease(table, job="rollback", run_id="other", env=env, wait_millis=0):
        report = run(lake, "maintain", arguments, lease_wait_millis=0)
    assert isinstance(report.error, LeaseHeld)
    assert statuses(report) == {
        "compact": "success",
        "trigger_tag_automatic_creation": "nothing_to_do",
        "expire_partitions": "not_due",
        "expire_consumers": "not_due",
        "expire_snapshots": "failed",
        "expire_changelogs": "skipped",
    }
    assert run(lake, "maintain", arguments).error is None
    assert lake.table().snapshots.ids() == [4]


def test_what_two_jobs_let_go_one_after_the_other_is_left_by_neither(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan knew a tag that is gone when the job gets the lease, without having to wait for it."""
    for tag in ("a", "b"):
        assert run(lake, "create_tag", {"tag": tag}).error is None
    assert run(lake, "compact", {"strategy": "full"}).error is None
    assert run(lake, "expire_snapshots", {"retain_max": "1", "retain_min": "1"}).error is None

    @contextmanager
    def late(*args: Any, **rest: Any) -> Iterator[Any]:
        monkeypatch.undo()
        assert run(lake, "delete_tag", {"tag": "b"}).error is None
        with hold_lease(*args, **rest) as held:
            yield held

    monkeypatch.setattr(loop, "hold_lease", late)
    assert run(lake, "delete_tag", {"tag": "a"}).error is None
    assert lake.on_disk() == lake.referenced()


@pytest.mark.parametrize("first", ["rollback", "delete_branch"])
def test_the_next_expiry_deletes_what_two_jobs_left_to_each_other(
    lake: Lake, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither makes a new plan under the lease, because that could remove commits that the old one
    did not know."""
    assert run(lake, "create_tag", {"tag": "three"}).error is None
    assert run(lake, "create_branch", {"branch_name": "b", "tag": "three"}).error is None
    assert run(lake, "delete_tag", {"tag": "three"}).error is None
    jobs: dict[str, dict[str, object]] = {
        "rollback": {"snapshot": "1", "safety_tag": "0 s"},
        "delete_branch": {"branch_name": ["b"]},
    }
    (second,) = jobs.keys() - {first}

    @contextmanager
    def late(*args: Any, **rest: Any) -> Iterator[Any]:
        monkeypatch.undo()
        assert run(lake, second, jobs[second]).error is None
        with hold_lease(*args, **rest) as held:
            yield held

    monkeypatch.setattr(loop, "hold_lease", late)
    assert run(lake, first, jobs[first]).error is None
    assert lake.table().snapshots.ids() == [1]
    assert lake.on_disk() > lake.referenced()
    retained = {"retain_max": "1", "retain_min": "1"}
    assert run(lake, "expire_snapshots", retained).error is None
    assert lake.on_disk() == lake.referenced()
    assert not list(Path(lake.table().root).glob("caretaker/released/*"))


@pytest.mark.parametrize("place", ["retention.tags", "reachability.release"])
@pytest.mark.parametrize("expires", [True, False])
def test_snapshots_that_writers_let_expire_while_they_are_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, place: str, *, expires: bool
) -> None:
    """A plan, and a deletion, look again; what is missing without an expiry is damage."""
    lake.fill(3)
    assert run(lake, "create_tag", {"tag": "a", "snapshot": 2}).error is None
    tries: list[int] = []

    def beside_a_writer(table: Any, *given: Any) -> Any:
        if len(tries) < 3:
            oldest = min(table.snapshots.ids())
            tries.append(oldest)
            if expires:
                Path(table.paths.snapshot(oldest)).unlink()
            raise CorruptTable("a manifest list is missing")
        return find_garbage(table, *given)

    monkeypatch.setattr(f"paimon_core.{place}.find_garbage", beside_a_writer)
    report = run(lake, "delete_tag", {"tag": ["a"]})
    if expires:
        assert report.error is None, report.error
        assert tries == [1, 2, 3]
    else:
        assert isinstance(report.error, CorruptTable)
        assert tries == [1, 1]


@both
def test_an_interrupt_ends_the_run_and_leaves_no_files(lake: Lake, name: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(lake, name, COMPACTIONS[name], engine=Counting(interrupt, times=1))
    assert lake.table().snapshots.latest_id() == 3
    assert lake.on_disk() == lake.referenced()


@pytest.mark.parametrize("kind", PLANS, ids=lambda kind: kind.__name__)
def test_every_plan_has_all_that_the_protocol_names(kind: type[Plan]) -> None:
    """The loop asks a plan for no attribute that the protocol does not name."""
    asked = {name for name in vars(Plan) if not name.startswith("_")}
    assert {"failure", "goes_on"} < asked
    assert asked <= {*dir(kind), *(f.name for f in fields(kind))}  # type: ignore[arg-type]
