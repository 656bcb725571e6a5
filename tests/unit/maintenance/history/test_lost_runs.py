"""Runs whose process was killed: the next plan or run finds their outcome in the table."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake
from processes import wait_until

from paimon_core.process_identity import has_ended, process_identity, this_process
from paimon_maintenance.history.entry import Actor, Entry, entry_of_start
from paimon_maintenance.history.lost_runs import LONGEST_RUN_MILLIS, LostOutcome, close_lost_runs
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.job.commit_user import commit_user, is_of_run, pattern_of_run
from paimon_maintenance.job.report import Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, plan_table, run_table

NOW = 1_700_000_000_000
KILLED = 9
RUN = """\
import os, sys
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table

warehouse, url, job, when = sys.argv[1:]


class Dying(SqlHistory):
    def record(self, entries):
        if when == "after" and entries[0].event == "run":
            os._exit(9)
        return super().record(entries)


def check():
    if when == "before":
        os._exit(9)


job = job_named(job)
request = RunRequest(job=job, warehouse=warehouse, table="db.t", arguments=job.read_arguments({}))
run_table(request, RunServices(history=Dying(url), check_supervised=check))
"""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.primary_key()
    lake.fill(3)
    return lake


@pytest.fixture
def history(tmp_path: Path) -> SqlHistory:
    return SqlHistory(f"sqlite:///{tmp_path}/history.db")


def request(lake: Lake, job_name: str = "compact") -> RunRequest:
    job = job_named(job_name)
    arguments = job.read_arguments({})
    return RunRequest(job=job, warehouse=str(lake.warehouse), table="db.t", arguments=arguments)


def killed_run(lake: Lake, history: SqlHistory, when: str, job: str = "compact") -> None:
    """A run in a process of its own that dies right before or right after its commit."""
    script = [sys.executable, "-c", RUN, str(lake.warehouse), history.url, job, when]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(script, env=env, check=False).returncode == KILLED


def plan(lake: Lake, history: SqlHistory) -> None:
    plan_table(request(lake), RunServices(history=history))


def newest_run(history: SqlHistory) -> Entry:
    return next(e for e in history.newest(table="db.t") if e.event != "plan")


def test_a_run_killed_after_its_commit_is_found_committed_by_the_next_plan(lake, history):
    killed_run(lake, history, "after")
    (start,) = history.newest()
    assert (start.event, start.status, start.snapshot_before) == ("start", "started", 3)
    user = lake.table().snapshots.get(4).commit_user
    assert is_of_run(user, start.run_id)
    assert start.details["commit_user"] == pattern_of_run(start.run_id)
    plan(lake, history)
    lost = newest_run(history)
    assert (lost.run_id, lost.event, lost.status) == (start.run_id, "run", "committed")
    assert lost.snapshots == (4,)
    assert (lost.error_type, lost.exit_code) == ("RunLost", 1)
    assert "it had committed snapshot 4" in str(lost.error)
    # Once is enough, and the start has its end now.
    plan(lake, history)
    assert [e.event for e in history.newest()] == ["plan", "plan", "run"]


def test_a_run_killed_before_its_commit_is_found_not_committed_by_the_next_run(lake, history):
    killed_run(lake, history, "before")
    report = run_table(request(lake), RunServices(history=history))
    assert report.status is Status.SUCCESS
    ran, lost = history.newest(table="db.t")
    assert (lost.status, lost.snapshots) == ("not_committed", ())
    assert "remove_orphan_files" in str(lost.next_step)
    assert (ran.status, ran.snapshots) == ("success", (4,))


def test_every_step_of_a_lost_maintain_is_known_by_its_user(tmp_path, history):
    lake = Lake(tmp_path / "lake")
    lake.primary_key(**{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    lake.fill(6)
    words = ("run", "maintain", "db.t", "-w", lake.warehouse, "--compact", "full", "--json")
    ran = caretaker(*words, "--engine", "local")
    assert ran.code == 0, ran.err
    made = [s for s in lake.table().snapshots.all() if s.commit_user.startswith("caretaker-")]
    assert made
    assert all(is_of_run(s.commit_user, ran.json["run_id"]) for s in made)


def test_what_has_expired_since_leaves_the_outcome_unknown(lake, history):
    killed_run(lake, history, "before")
    lake.fill(3)
    ran = caretaker(
        *("run", "expire_snapshots", "db.t", "-w", lake.warehouse),
        *("--retain-max", "1", "--retain-min", "1"),
    )
    assert ran.code == 0, ran.err
    plan(lake, history)
    lost = newest_run(history)
    assert (lost.status, lost.exit_code) == ("unknown_outcome", 8)
    assert "snapshots 4 to 5 were committed after its start and have expired" in str(lost.error)


def test_a_rollback_since_leaves_the_outcome_unknown(lake, history):
    killed_run(lake, history, "before")
    words = ("run", "rollback", "db.t", "-w", lake.warehouse, "--snapshot", "2", "--force")
    assert caretaker(*words).code == 0
    plan(lake, history)
    lost = newest_run(history)
    assert lost.status == "unknown_outcome"
    assert "rolled back" in str(lost.error)


def start(lake: Lake, **parts: object) -> Entry:
    common = {"job": "compact", "table": "db.t", "warehouse": str(lake.warehouse), "branch": None}
    common |= {"arguments": {}, "run_id": "r1", "snapshot_before": 3, "at_millis": NOW}
    return entry_of_start(**{**common, "actor": Actor(origin="airflow", name="dag run1"), **parts})  # type: ignore[arg-type]


def settled(lake: Lake, history: SqlHistory, *, actor: Actor, at: int = NOW) -> list[str]:
    found = close_lost_runs(
        *(history, lake.table()),
        warehouse=str(lake.warehouse),
        branch="main",
        at_millis=at,
        actor=actor,
    )
    return [e.status for e in found]


SOMEBODY = Actor(origin="cli", name="me")


def test_a_run_that_goes_on_is_left_alone(lake, history):
    history.add([start(lake)])
    assert settled(lake, history, actor=SOMEBODY, at=NOW + 10 * LONGEST_RUN_MILLIS) == []
    shown = caretaker("history", "--url", history.url)
    assert "start  compact  db.t  started" in shown.out


def test_a_run_elsewhere_is_lost_after_a_day_or_when_its_dag_runs_again(lake, history):
    elsewhere = start(lake)
    process = {**elsewhere.details["process"], "host": "another"}  # type: ignore[dict-item]
    elsewhere = replace(elsewhere, details={"process": process})
    history.add([elsewhere])
    assert settled(lake, history, actor=SOMEBODY) == []
    assert settled(lake, history, actor=Actor(origin="airflow", name="other run1")) == []
    assert settled(lake, history, actor=Actor(origin="airflow", name="dag run2")) == [
        "not_committed"
    ]
    history.add([replace(elsewhere, run_id="r2")])
    later = NOW + LONGEST_RUN_MILLIS + 1
    assert settled(lake, history, actor=SOMEBODY, at=later) == ["not_committed"]


def test_a_driver_on_the_cluster_may_outlive_its_task_and_its_dag(lake, history):
    history.add([start(lake, on_cluster=True)])
    assert settled(lake, history, actor=Actor(origin="airflow", name="dag run2")) == []
    assert settled(lake, history, actor=SOMEBODY, at=NOW + LONGEST_RUN_MILLIS + 1) != []


def test_runs_of_other_branches_and_tables_are_left_alone(lake, history):
    gone = {"process": {**this_process(), "pid": 2**22 + 1}}
    other = [start(lake, branch="b"), start(lake, table="db.u", run_id="r2")]
    history.add([replace(entry, details=gone) for entry in other])
    assert settled(lake, history, actor=SOMEBODY) == []


def test_lost_runs_are_shown_as_failed(lake, history):
    killed_run(lake, history, "before")
    plan(lake, history)
    shown = caretaker("history", "--failed", "--url", history.url, "--json")
    (entry,) = shown.json["entries"]
    assert entry["status"] == LostOutcome.NOT_COMMITTED


def test_processes_are_known_by_more_than_their_number():
    here: dict = this_process()
    space, _, _ = str(here["identity"]).rpartition(":")
    assert has_ended(**here) is False
    # The number was given to another process.
    assert has_ended(**{**here, "identity": f"{space}:1"}) is True
    assert has_ended(**{**here, "host": "another"}) is None
    assert has_ended(**{**here, "identity": "another:1"}) is None
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    alive = {**here, "pid": child.pid, "identity": process_identity(child.pid)}
    assert has_ended(**alive) is False
    child.kill()
    wait_until(lambda: has_ended(**alive) is True, lambda: "a zombie counts as ended")
    child.wait()
    assert has_ended(**alive) is True


def test_users_of_commits_tell_their_run():
    user = commit_user("compact", "run-1", "fresh")
    assert is_of_run(user, "run-1")
    assert is_of_run(f"{user}-3", "run-1")
    assert not is_of_run(user, "run-2")
    assert not is_of_run("me-run-1-x", "run-1")
