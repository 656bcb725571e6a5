"""DAGs made of a policy: which there are, and what a run of one does to which table."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from lakes import Lake

from paimon_airflow.runs import jobs
from paimon_airflow.spark import application_runs
from paimon_airflow.tasks.job_request import JobRequest, request_from
from paimon_dags.job_dags import job_dags
from paimon_dags.settings import Settings, settings_from
from paimon_maintenance.history.store import open_history

pytestmark = pytest.mark.airflow

POLICY = """
version: 1
rules:
  - name: everything
    tables: "*.*"
    options: { snapshot.num-retained.min: 1, snapshot.num-retained.max: 4 }
    guards: { max_deleted_share: 0.9 }
    jobs:
      maintain: { schedule: "5 * * * *" }
      compact:
        schedule: "*/30 * * * *"
        arguments: { strategy: minor }
        guards: { max_rewrite: 10 gb }
  - name: archive
    tables: archive.*
    jobs:
      maintain: { schedule: "@daily", arguments: { without: expire_partitions } }
      compact: off
"""


@pytest.fixture
def policy(tmp_path: Path) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return str(file)


@pytest.fixture
def dags(policy) -> dict[str, Any]:
    return {dag.dag_id: dag for dag in job_dags(Settings(warehouse="/lake", policy=policy))}


def test_each_schedule_of_a_job_is_a_dag_and_the_jobs_own_run_by_hand(dags):
    made = {i: d.schedule for i, d in dags.items() if d.task_dict["plan"].schedule}
    assert made == {
        "caretaker_policy_maintain__5-x-x-x-x": "5 * * * *",
        "caretaker_policy_compact__xby30-x-x-x-x": "*/30 * * * *",
        "caretaker_policy_maintain__daily": "@daily",
    }
    for dag_id, schedule in made.items():
        assert dags[dag_id].task_dict["plan"].schedule == schedule
    assert {d.schedule for i, d in dags.items() if i not in made} == {None}
    assert dags["caretaker_policy_compact__xby30-x-x-x-x"].task_ids == [
        "plan",
        "in_process",
        "on_spark",
        "report",
    ]


def test_its_form_is_about_tables_and_its_page_names_the_file(dags, policy):
    dag = dags["caretaker_policy_maintain__daily"]
    assert list(dag.params) == [
        *("warehouse", "tables", "dry_run", "including", "excluding"),
        *("max_rewrite", "force", "engine", "spark_threshold", "batch_size"),
    ]
    assert dag.params.get_param("tables").description.endswith(": *.*, archive.*.")
    assert f"`{policy}` names this schedule" in dag.doc_md
    beside = f"`{policy}` apply to whatever is left empty in the form"
    assert beside in dags["caretaker_compact"].doc_md


def test_a_schedule_of_the_settings_still_counts(policy):
    raw = {"caretaker": {"policy": policy}, "jobs": {"compact": {"schedule": "@weekly"}}}
    dags = {dag.dag_id: dag for dag in job_dags(settings_from(raw, environ={}))}
    assert dags["caretaker_compact"].schedule == "@weekly"
    assert dags["caretaker_expire_snapshots"].schedule is None


def test_the_environment_names_the_policy_too():
    assert settings_from({}, environ={"CARETAKER_POLICY": "/p.yaml"}).policy == "/p.yaml"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "lake")
    for name in ("sales.a", "sales.b", "archive.old"):
        kept = {"snapshot_num__retained_min": "1", "snapshot_num__retained_max": "8"}
        made.primary_key(name, **(kept if name == "sales.b" else {}))
        made.fill(10, rows=3, name=name)
    return made


def request(lake: Lake, policy: str, job: str = "compact", **parts: object) -> JobRequest:
    params = {"warehouse": str(lake.warehouse), "tables": ["*.*"], "batch_size": "1 gb"}
    given = {k: v for k, v in parts.items() if k != "schedule"}
    return request_from(
        job,
        {**params, **given},
        storage={},
        timezone=None,
        policy=policy,
        schedule=parts.get("schedule"),
    )


def test_a_run_takes_the_tables_that_have_its_schedule(lake, policy):
    def found(job: str, **parts: object) -> list[str]:
        return jobs.list_tables(request(lake, policy, job, **parts))

    assert found("compact", schedule="*/30 * * * *") == ["sales.a", "sales.b"]
    assert found("maintain", schedule="@daily") == ["archive.old"]
    assert found("maintain", schedule="@daily", tables=["gone.*"]) == []
    # By hand, a pattern leaves out what is off; a table that is named is meant.
    assert found("compact") == ["sales.a", "sales.b"]
    assert found("compact", tables=["archive.old"]) == ["archive.old"]


MATCHING = """
version: 1
rules:
  - tables: "*.*"
    jobs: { compact: { schedule: "@daily", arguments: { strategy: minor } } }
  - tables: "*.*"
    match: { owner: "team-*" }
    jobs: { compact: { schedule: "@hourly" } }
  - tables: "*.*"
    match: { options: { snapshot.num-retained.max: "8" } }
    jobs: { compact: { arguments: { strategy: full } } }
"""


def test_rules_match_what_the_schema_of_a_table_says(tmp_path):
    lake = Lake(tmp_path / "lake")
    lake.primary_key("db.owned", **{"caretaker.owner": "team-a"})
    lake.primary_key("db.plain")
    kept = {"snapshot_num__retained_min": "2", "snapshot_num__retained_max": "8"}
    lake.primary_key("db.late", **kept)
    policy = tmp_path / "policy.yaml"
    policy.write_text(MATCHING)

    def asked(schedule: str | None = None) -> JobRequest:
        return request(lake, str(policy), "compact", schedule=schedule)

    assert jobs.list_tables(asked("@hourly")) == ["db.owned"]
    assert jobs.list_tables(asked("@daily")) == ["db.late", "db.plain"]
    strategies = {t: asked().for_table(t).arguments["strategy"] for t in jobs.list_tables(asked())}
    assert {t: str(s) for t, s in strategies.items()} == {
        "db.late": "full",
        "db.owned": "minor",
        "db.plain": "minor",
    }
    # A table that cannot be read stays in the list: its own plan says why it fails.
    (lake.warehouse / "db.db" / "plain" / "schema" / "schema-0").write_text("{")
    found = asked("@hourly")
    assert jobs.list_tables(found) == ["db.owned", "db.plain"]
    planned = {p.table: p for p in jobs.plan_tables(found, ["db.owned", "db.plain"])}
    assert planned["db.plain"].result.outcome == "failed"
    assert "schema-0" in planned["db.plain"].result.summary


def test_spark_is_told_what_the_policy_says_of_each_table(lake, policy):
    asked = request(lake, policy, where="k > 1", max_rewrite="1.5 kb")
    runs = application_runs.start_runs(asked, ["sales.a"], cluster_name="d/r/on_spark")
    again = application_runs.start_runs(asked, ["sales.a"], cluster_name="d/r/on_spark")
    assert runs == again, "another try must know the runs of the application that it finds"
    (run,) = json.loads(application_runs.batch_json(asked, runs))
    assert run == {
        "job": "compact",
        "warehouse": str(lake.warehouse),
        "table": "sales.a",
        "storage": {},
        "run_id": runs[0].run_id,
        "arguments": {"strategy": "minor", "where": "k > 1"},
        "default_options": {
            "snapshot.num-retained.min": "1",
            "snapshot.num-retained.max": "4",
        },
        "guards": {"max_deleted_share": 0.9, "max_rewrite": 1536},
        "named": False,
    }


@pytest.mark.slow
def test_maintenance_by_policy_and_its_history(run_dag, lake, policy, monkeypatch, tmp_path):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    ran = run_dag(
        {"warehouse": str(lake.warehouse), "tables": ["*.*"], "dry_run": False},
        job="maintain",
        dag_id="caretaker_policy_maintain__5-x-x-x-x",
        policy=policy,
    )
    assert ran.state == "success", ran.report
    assert ran.tasks["on_spark"] == "skipped"
    kept = {
        name: len(list(lake.table(name).snapshots.all()))
        for name in ("sales.a", "sales.b", "archive.old")
    }
    # The policy's retention, the table's own, and a table of another schedule.
    assert kept == {"sales.a": 4, "sales.b": 8, "archive.old": 10}
    done = next(t for t in ran.report["tables"] if t["table"] == "sales.a")
    assert any(line.startswith("expire_snapshots: ") for line in done["lines"])
    history = open_history()
    assert history is not None
    entries = history.newest(table="sales.a", job="expire_snapshots")
    assert (entries[0].part_of, entries[0].status) == ("maintain", "success")
    assert entries[0].origin == "airflow", os.environ
    assert entries[0].actor.startswith("caretaker_policy_maintain__5-x-x-x-x ")
