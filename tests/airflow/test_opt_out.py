"""Tables with caretaker.maintenance=off in DAGs: skipped by patterns and schedules, not if named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lakes import Lake

from paimon_airflow.runs import jobs
from paimon_airflow.spark import application_runs
from paimon_airflow.tasks.from_reports import from_report
from paimon_airflow.tasks.job_request import JobRequest, request_from
from paimon_airflow.tasks.lineage import changed_tables
from paimon_airflow.tasks.report_text import count_text, ordered, report_text
from paimon_airflow.tasks.results import TableResult
from paimon_maintenance.job.report import Report, Status

pytestmark = pytest.mark.airflow

OPTION = "caretaker.maintenance"
WHY = "its option caretaker.maintenance is 'off' (a run that names the table ignores it)"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "lake")
    made.primary_key("db.a")
    made.primary_key("db.off", **{OPTION: "off"})
    for name in ("db.a", "db.off"):
        made.fill(6, name=name)
    return made


def newest(lake: Lake) -> dict[str, int | None]:
    return {name: lake.table(name).snapshots.latest_id() for name in ("db.a", "db.off")}


def request(lake: Lake, *tables: str, by_schedule: bool = False) -> JobRequest:
    params = {"warehouse": str(lake.warehouse), "tables": list(tables), "strategy": "full"}
    return request_from("compact", params, storage={}, timezone=None, by_schedule=by_schedule)


# --- who named it --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tables", "by_schedule", "named"),
    [
        (["db.off"], False, True),
        (["db.*", "db.off"], False, True),
        (["db.a, db.off"], False, True),
        (["db.*"], False, False),
        (["db.of?"], False, False),
        # Nobody typed what a schedule runs on, even if its settings name the table.
        (["db.off"], True, False),
    ],
)
def test_a_table_is_named_by_a_person_or_a_program_not_by_a_schedule(
    lake, tables, by_schedule, named
):
    asked = request(lake, *tables, by_schedule=by_schedule)
    assert asked.for_table("db.off").named is named
    (plan,) = jobs.plan_tables(asked, ["db.off"])
    assert plan.where == ("in_process" if named else "nowhere")
    assert (plan.result is None) == named


def test_a_batch_for_spark_takes_it_along(lake):
    def written(*tables: str) -> list[object]:
        asked = request(lake, *tables)
        runs = application_runs.start_runs(asked, ["db.off"], cluster_name=None)
        return [
            one.get("named", True) for one in json.loads(application_runs.batch_json(asked, runs))
        ]

    assert written("db.*") == [False]
    assert written("db.off") == [True]


def test_the_result_of_a_skipped_table_is_no_failure_and_no_dataset():
    report = Report(
        job="compact",
        table="db.off",
        warehouse="/lake",
        run_id="r",
        status=Status.SKIPPED,
        why=WHY,
    )
    result = from_report(report.to_json())
    assert (result.outcome, result.summary, result.error) == ("skipped", WHY, None)
    assert not result.is_red
    assert not result.wants_retry
    read = TableResult.from_json(json.loads(json.dumps(result.to_json())))
    assert read.to_json() == result.to_json()
    assert result.line() == f"db.off  skipped  {WHY}"
    assert changed_tables([result], job="compact", warehouse="/lake") == []
    nothing = TableResult(table="db.a", outcome="nothing", summary="nothing is due")
    assert [r.table for r in ordered([nothing, result])] == ["db.off", "db.a"]
    assert count_text([nothing, result]) == "1 skipped, 1 nothing to do"
    assert f"db.off  skipped  {WHY}" in report_text([result, nothing])


# --- runs of DAGs --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_over_a_pattern_skips_it_and_says_why(run_dag, lake):
    conf = {"warehouse": str(lake.warehouse), "tables": ["db.*"], "strategy": "full"}
    dry = run_dag({**conf, "dry_run": True})
    assert dry.report["counts"] == {"planned": 1, "skipped": 1}
    assert dry.report["skipped"] == {"db.off": WHY}
    ran = run_dag(conf)
    assert ran.state == "success"
    assert ran.tasks["report"] == "success"
    assert ran.report["counts"] == {"done": 1, "skipped": 1}
    assert ran.report["skipped"] == {"db.off": WHY}
    assert ran.report["failed"] == {}
    (off,) = [t for t in ran.report["tables"] if t["table"] == "db.off"]
    assert (off["outcome"], off["summary"]) == ("skipped", WHY)
    assert WHY in ran.shown
    assert newest(lake) == {"db.a": 7, "db.off": 6}


@pytest.mark.slow
def test_only_a_run_that_somebody_asked_for_names_it(run_dag, lake):
    conf = {"warehouse": str(lake.warehouse), "tables": ["db.off"], "strategy": "full"}
    scheduled = run_dag(conf, by_schedule=True)
    assert scheduled.report["skipped"] == {"db.off": WHY}
    assert newest(lake)["db.off"] == 6


@pytest.mark.slow
def test_by_name_the_job_runs(run_dag, lake):
    conf = {"warehouse": str(lake.warehouse), "tables": ["db.off"], "strategy": "full"}
    assert run_dag(conf).report["counts"] == {"done": 1}
    assert newest(lake) == {"db.a": 6, "db.off": 7}


@pytest.mark.slow
def test_an_option_that_is_set_after_the_plan_counts(run_dag, lake, monkeypatch):
    plan_tables = jobs.plan_tables

    def plan_then_opt_out(*given: object) -> object:
        plans = list(plan_tables(*given))
        lake.change_options("db.a", OPTION, "off")
        return iter(plans)

    monkeypatch.setattr(jobs, "plan_tables", plan_then_opt_out)
    conf = {"warehouse": str(lake.warehouse), "tables": ["db.*"], "strategy": "full"}
    ran = run_dag(conf)
    assert ran.tasks["in_process"] == "success"
    assert ran.state == "success"
    assert ran.report["counts"] == {"skipped": 2}
    assert newest(lake) == {"db.a": 6, "db.off": 6}
