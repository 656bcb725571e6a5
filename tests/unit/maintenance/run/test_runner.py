"""The runner with the compact job: dry runs, guards, conflicts, failures, what is left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from command_line import caretaker, in_order, read_rows
from lakes import Lake

import paimon_maintenance.jobs.compact.execute as compact_execute
from paimon_core.environment import system_environment
from paimon_core.errors import CommitStateUnknown, CorruptTable, InvalidArgument
from paimon_core.scan.scan import scan_files
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.job.guards import Guards
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.jobs.compact.definition import COMPACT
from paimon_maintenance.run.loop import pin_is_gone
from paimon_maintenance.run.metrics import Metrics
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, plan_table, run_table


class Meddling(LocalEngine):
    """Does the units, then something else to the table before the results get back."""

    def __init__(self, meddle: Callable[[], object], *, times: int = 1) -> None:
        super().__init__()
        object.__setattr__(self, "_meddle", meddle)
        object.__setattr__(self, "_left", [times])

    def run_units(self, units, run, *, on_done=None, on_share=None):
        results = LocalEngine().run_units(units, run, on_done=on_done)
        if self._left[0]:
            self._left[0] -= 1
            self._meddle()
        return results


class Forbidden(LocalEngine):
    def run_units(self, units, run, *, on_done=None, on_share=None):
        raise AssertionError("this engine must not be used")


def request(lake: Lake, name: str = "db.t", **rest) -> RunRequest:
    arguments = rest.pop("arguments", {})
    return RunRequest(
        job=COMPACT,
        warehouse=str(lake.warehouse),
        table=name,
        arguments=COMPACT.read_arguments(arguments),
        **rest,
    )


def run(lake: Lake, name: str = "db.t", *, engine=None, metrics=None, **rest) -> Report:
    quick = system_environment()
    services = RunServices(
        engine=engine or LocalEngine(),
        env=type(quick)(
            now_millis=quick.now_millis,
            local_millis=quick.local_millis,
            new_uuid=quick.new_uuid,
            sleep_millis=lambda _: None,
            jitter=quick.jitter,
        ),
        metrics=metrics or Metrics(),
    )
    return run_table(request(lake, name, **rest), services)


@pytest.fixture
def pk(lake) -> Lake:
    lake.primary_key(buckets=2)
    lake.fill(3)
    return lake


@pytest.fixture
def log(lake) -> Lake:
    lake.log(partitioned=True, compaction_min_file__num="2")
    lake.fill(3)
    return lake


def test_a_run_reports_what_it_did(pk):
    rows = read_rows(pk.warehouse)
    metrics = Metrics()
    report = run(pk, metrics=metrics)
    assert report.status is Status.SUCCESS
    assert report.snapshots == (4,)
    assert report.pin is not None
    assert report.pin.id == 3
    assert (report.before.files, report.after.files) == (6, 2)
    assert (report.before.sorted_runs, report.after.sorted_runs) == (6, 2)
    assert report.after.rows == 10
    assert {b.bucket for b in report.buckets} == {0, 1}
    assert set(report.seconds) == {"inspect", "plan", "recheck", "execute", "commit", "verify"}
    assert in_order(rows) == read_rows(pk.warehouse)
    assert 'runs_total{job="compact",outcome="success",table="db.t"} 1' in metrics.to_text()


def test_nothing_to_do_starts_no_engine(pk):
    run(pk)
    report = run(pk, engine=Forbidden())
    assert report.exit_code is ExitCode.NOTHING_TO_DO
    assert report.snapshots == ()
    assert pk.table().snapshots.latest_id() == 4


def test_an_empty_table_has_nothing_to_do(lake):
    lake.primary_key()
    assert run(lake, engine=Forbidden()).exit_code is ExitCode.NOTHING_TO_DO


def test_a_dry_run_changes_nothing(pk):
    files = pk.on_disk()
    report = run(pk, engine=Forbidden(), dry_run=True)
    assert report.status is Status.DRY_RUN
    assert report.exit_code is ExitCode.SUCCESS
    assert report.plan is not None
    assert report.plan["effect"]["rewritten_files"] == 6
    assert pk.on_disk() == files
    assert pk.table().snapshots.latest_id() == 3


def test_metadata_only_plans_run_in_process(lake):
    lake.primary_key(buckets=2)
    lake.fill(1)
    report = run(lake, engine=Forbidden())
    assert report.status is Status.SUCCESS
    assert report.before.files == report.after.files == 2
    assert {e.file.level for e in _live(lake)} == {5}


def _live(lake: Lake):
    table = lake.table()
    return scan_files(table, table.snapshots.latest())


def test_a_guard_stops_the_run_and_force_overrides(pk):
    guards = Guards(max_rewrite_bytes=10)
    report = run(pk, engine=Forbidden(), guards=guards)
    assert report.exit_code is ExitCode.GUARD_TRIPPED
    assert pk.table().snapshots.latest_id() == 3
    assert run(pk, guards=guards, force=True).status is Status.SUCCESS


@pytest.mark.parametrize("kind", ["pk", "log"])
def test_a_concurrent_append_survives(kind, request):
    lake = request.getfixturevalue(kind)
    more = {"k": [1000], "v": ["new"]} | ({"dt": ["day0"]} if kind == "log" else {})
    rows = read_rows(lake.warehouse)
    report = run(lake, engine=Meddling(lambda: lake.append(more)))
    assert report.status is Status.SUCCESS
    assert report.attempts == 1
    added = ["+I", 1000, "new"] + (["day0"] if kind == "log" else [])
    assert read_rows(lake.warehouse) == in_order([*rows, added])


def test_a_concurrent_compaction_makes_a_new_plan(pk):
    rows = read_rows(pk.warehouse)
    report = run(pk, engine=Meddling(lambda: run(pk)))
    # The other one did it all.
    assert report.status is Status.NOTHING_TO_DO
    assert report.attempts == 2
    assert read_rows(pk.warehouse) == rows
    assert pk.on_disk() == pk.referenced()


def test_only_what_was_compacted_meanwhile_is_given_up(log):
    rows = read_rows(log.warehouse)
    other = {"partitions": ["dt=day1"]}
    report = run(log, engine=Meddling(lambda: run(log, arguments=other)))
    assert report.status is Status.SUCCESS
    assert report.attempts == 2
    assert [b.partition for b in report.buckets] == ["dt=day0"]
    assert len(report.snapshots) == 1
    assert read_rows(log.warehouse) == rows
    assert log.on_disk() == log.referenced()
    kinds = [str(s.commit_kind) for s in log.table().snapshots.all()]
    assert kinds == ["APPEND"] * 3 + ["COMPACT"] * 2


def test_conflicts_without_end_give_up(pk):
    def compact_and_append() -> None:
        run(pk)
        pk.fill(1)

    report = run(pk, engine=Meddling(compact_and_append, times=99), max_attempts=3)
    assert report.exit_code is ExitCode.CONFLICT
    assert report.attempts == 3
    assert pk.on_disk() == pk.referenced()


def test_files_that_vanish_while_being_read_are_a_conflict(pk, monkeypatch):
    def gone(table, unit, **_):
        monkeypatch.undo()
        run(pk)
        raise FileNotFoundError("expired meanwhile")

    monkeypatch.setattr(compact_execute, "rewrite", gone)
    report = run(pk)
    assert report.error is None
    assert report.attempts == 2


def test_a_failing_unit_does_not_stop_the_others(pk, monkeypatch):
    original = compact_execute.rewrite

    def fails_for_bucket_1(table, unit, **rest):
        if unit.bucket == 1:
            raise CorruptTable("a block is broken", file="f")
        return original(table, unit, **rest)

    rows = read_rows(pk.warehouse)
    monkeypatch.setattr(compact_execute, "rewrite", fails_for_bucket_1)
    report = run(pk)
    assert report.status is Status.FAILED
    assert report.exit_code is ExitCode.CORRUPT_TABLE
    assert [b.bucket for b in report.buckets] == [0]
    assert [f.label for f in report.failed_units] == ["bucket 1"]
    assert report.snapshots == (4,)
    assert read_rows(pk.warehouse) == rows


def test_rows_that_got_lost_are_never_committed(log, monkeypatch):
    original = compact_execute.rewrite

    def loses_a_row(table, unit, **rest):
        result = original(table, unit, **rest)
        after = tuple(replace(f, row_count=f.row_count - 1) for f in result.after)
        return replace(result, after=after)

    monkeypatch.setattr(compact_execute, "rewrite", loses_a_row)
    report = run(log)
    assert report.exit_code is ExitCode.CORRUPT_TABLE
    assert "rows were read" in str(report.error)
    assert log.table().snapshots.latest_id() == 3
    assert log.on_disk() == log.referenced()


def test_an_unknown_outcome_deletes_nothing(pk, monkeypatch):
    def lost(*_, **__):
        raise CommitStateUnknown("the reply was lost")

    monkeypatch.setattr(compact_execute, "commit_messages", lost)
    report = run(pk)
    assert report.exit_code is ExitCode.UNKNOWN_OUTCOME
    assert len(pk.on_disk()) == len(pk.referenced()) + 2


def test_an_interrupted_run_leaves_no_files(pk):
    class Interrupted(LocalEngine):
        def run_units(self, units, run, *, on_done=None, on_share=None):
            LocalEngine().run_units(units, run, on_done=on_done)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(pk, engine=Interrupted())
    assert pk.on_disk() == pk.referenced()


def test_a_snapshot_that_reused_the_number_makes_the_plan_stale(pk):
    plan = plan_table(request(pk))
    table = pk.table()
    assert not pin_is_gone(table, plan)
    assert pin_is_gone(table, replace(plan, pin=replace(plan.pin, commit_user="another")))


def test_a_job_commits_in_bounded_parts(log):
    rows = read_rows(log.warehouse)
    report = run(log, arguments={"commit_bytes": "1 b"})
    assert len(report.snapshots) == 2
    assert {b.partition for b in report.buckets} == {"dt=day0", "dt=day1"}
    assert read_rows(log.warehouse) == rows


def test_slices_of_a_bucket_are_committed_together(lake):
    lake.primary_key()
    lake.fill(4, rows=500)
    rows = read_rows(lake.warehouse)
    arguments = {"slice_bytes": "4 kb"}
    report = run(lake, engine=LocalEngine(threads=2), arguments=arguments)
    assert report.status is Status.SUCCESS
    assert len(report.snapshots) == 1
    assert report.after.files > 1
    assert report.after.sorted_runs == 1
    assert read_rows(lake.warehouse) == rows
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0


def test_a_failed_slice_gives_up_its_bucket(lake, monkeypatch):
    lake.primary_key()
    lake.fill(4, rows=500)
    original = compact_execute.rewrite

    def fails_in_the_first(table, unit, **rest):
        if unit.owns_inputs:
            raise OSError("no space left")
        return original(table, unit, **rest)

    monkeypatch.setattr(compact_execute, "rewrite", fails_in_the_first)
    report = run(lake, engine=LocalEngine(threads=2), arguments={"slice_bytes": "4 kb"})
    assert report.status is Status.FAILED
    assert report.exit_code is ExitCode.FAILURE
    assert report.snapshots == ()
    assert lake.on_disk() == lake.referenced()


@pytest.mark.parametrize(
    ("arguments", "touched"),
    [
        ({"partitions": ["dt=day1"]}, {"dt=day1"}),
        ({"partitions": ["dt=day1", "dt=day0"]}, {"dt=day0", "dt=day1"}),
        ({"where": "dt > 'day0'"}, {"dt=day1"}),
        ({"where": "dt = 'day9'"}, set()),
        ({"partition_idle_time": "1 h"}, set()),
        ({"partition_idle_time": "0 s"}, {"dt=day0", "dt=day1"}),
    ],
)
def test_only_the_chosen_partitions_are_touched(log, arguments, touched):
    plan = plan_table(request(log, arguments=arguments))
    assert {unit["partition"] for unit in plan.to_json()["units"]} == touched
    assert plan.is_empty == (not touched)
    if "partition_idle_time" in arguments and not touched:
        (kept,) = plan.kept
        assert "partition_idle_time" in kept.why
        assert kept.count == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"partitions": ["v=1"]}, "partition key"),
        ({"where": "v = 'x'"}, "partition key"),
        ({"where": "dt = 'x'", "partitions": ["dt=x"]}, "together"),
    ],
)
def test_wrong_choices_are_usage_errors(log, arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        plan_table(request(log, arguments=arguments))
    assert run(log, arguments=arguments).exit_code is ExitCode.USAGE


def test_partitions_of_an_unpartitioned_table_are_a_usage_error(pk):
    with pytest.raises(InvalidArgument, match="not partitioned"):
        plan_table(request(pk, arguments={"partitions": ["dt=1"]}))


def test_a_missing_table_is_a_usage_error(lake):
    report = run(lake, "db.nothing")
    assert report.exit_code is ExitCode.USAGE
    assert report.error is not None


def test_minor_leaves_few_runs_alone(pk):
    report = run(pk, arguments={"strategy": "minor"})
    assert report.exit_code is ExitCode.NOTHING_TO_DO
    pk.fill(3)
    assert run(pk, arguments={"strategy": "minor"}).status is Status.SUCCESS


def test_options_hold_for_the_run(pk):
    arguments = {"strategy": "minor", "options": ["num-sorted-run.compaction-trigger=2"]}
    assert run(pk, arguments=arguments).status is Status.SUCCESS


def test_creation_times_are_of_the_configured_zone(pk):
    tokyo = system_environment("Asia/Tokyo")
    run_table(request(pk), RunServices(env=tokyo))
    made = {e.file.creation_time for e in _live(pk)}
    assert all(abs(m - tokyo.local_millis()) < 60_000 for m in made)
