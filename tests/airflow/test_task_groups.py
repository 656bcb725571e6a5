"""Task groups in DAGs of other people: how they are built, and a whole run between foreign tasks."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from lakes import Lake

from paimon_airflow import caretaker_job, maintain_tables
from paimon_core.errors import InvalidArgument

pytestmark = pytest.mark.airflow


def empty_dag(**parts: Any) -> Any:
    from airflow.sdk import DAG

    return DAG("theirs", schedule=None, **parts)


class TestWhatIsBuilt:
    def test_the_group_stands_between_other_tasks(self):
        from airflow.sdk import task

        @task
        def load() -> None:
            """Load."""

        @task
        def publish() -> None:
            """Publish."""

        with empty_dag() as dag:
            load() >> maintain_tables("db.*", warehouse="/lake") >> publish()
        assert dag.task_ids == [
            "load",
            "maintain_tables.plan",
            "maintain_tables.in_process",
            "maintain_tables.on_spark",
            "maintain_tables.report",
            "publish",
        ]
        plan, report = (dag.task_dict[f"maintain_tables.{name}"] for name in ("plan", "report"))
        assert plan.upstream_task_ids == {"load"}
        assert dag.task_dict["publish"].upstream_task_ids == {"maintain_tables.report"}
        assert (report.planned_by, report.run_by) == (
            "maintain_tables.plan",
            ["maintain_tables.in_process", "maintain_tables.on_spark"],
        )

    def test_two_groups_in_one_dag_get_names_of_their_own(self):
        with empty_dag() as dag:
            maintain_tables("db.*") >> maintain_tables("archive.*")
            caretaker_job("expire_tags", "db.*", group_id="tags")
        groups = {task_id.partition(".")[0] for task_id in dag.task_ids}
        assert groups == {"maintain_tables", "maintain_tables__1", "tags"}
        assert "tags.on_spark" not in dag.task_ids

    def test_defaults_of_the_dag_never_retry_a_job_that_is_not_safe_to_retry(self):
        with empty_dag(default_args={"retries": 5}) as dag:
            caretaker_job("rollback", "db.t", arguments={"snapshot": 4})
            caretaker_job("compact", "db.t", retries=1, retry_delay=timedelta(seconds=7))
        assert dag.task_dict["rollback.in_process"].retries == 0
        assert dag.task_dict["compact.in_process"].retries == 1
        assert dag.task_dict["compact.on_spark"].partial_kwargs["retries"] == 1
        assert dag.task_dict["compact.plan"].retry_delay == timedelta(seconds=7)

    def test_tables_may_come_from_another_task(self):
        from airflow.sdk import task

        @task
        def changed() -> list[str]:
            return ["db.a"]

        with empty_dag() as dag:
            maintain_tables(changed())
        for name in ("plan", "in_process", "on_spark"):
            assert "changed" in dag.task_dict[f"maintain_tables.{name}"].upstream_task_ids

    def test_it_survives_serialisation(self):
        from airflow.serialization.serialized_objects import DagSerialization

        with empty_dag() as dag:
            maintain_tables("db.*", guards={"max_rewrite": "1 tb"}, spark_conf={"a": "b"})
        written = json.loads(json.dumps(DagSerialization.to_dict(dag)))
        assert set(DagSerialization.from_dict(written).task_dict) == set(dag.task_dict)

    @pytest.mark.parametrize(
        ("parts", "message"),
        [
            ({"job": "compct"}, "did you mean compact"),
            ({"tables": None}, "name the tables"),
            ({"tables": []}, "name the tables"),
            ({"arguments": {"stratgy": "full"}}, "compact has no argument 'stratgy'"),
            ({"guards": {"max_rewrites": "1 tb"}}, "unknown guard 'max_rewrites'"),
            ({"storage": {"s3.secret-key": "x"}}, "parameter storage: s3.secret-key"),
            (
                {"submit": {"env_vars": {"AWS_SECRET_ACCESS_KEY": "x"}}},
                "parameter submit: AWS_SECRET_ACCESS_KEY",
            ),
        ],
    )
    def test_what_is_wrong_is_said_when_the_dag_is_parsed(self, parts, message):
        with empty_dag(), pytest.raises(InvalidArgument, match=message):
            caretaker_job(**{"job": "compact", "tables": "db.*", **parts})


def test_the_example_of_the_documentation_is_a_dag(tmp_path):
    from airflow.dag_processing.dagbag import DagBag

    text = (Path(__file__).parents[2] / "docs" / "airflow.md").read_text()
    groups, sensors = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    file = tmp_path / "example.py"
    file.write_text(f"{groups}\n{sensors}")
    bag = DagBag(dag_folder=str(file))
    assert bag.import_errors == {}
    dag = bag.dags["nightly_sales"]
    assert dag.task_dict["compact_sales.plan"].upstream_task_ids == {"load"}
    assert dag.task_dict["maintain_tables.plan"].upstream_task_ids == {"compact_sales.report"}
    assert dag.task_dict["publish"].upstream_task_ids == {"maintain_tables.report"}
    assert set(bag.dags["publish_sales"].task_ids) == {"healthy", "complete", "tagged", "read"}


def rendered(dag: Any, task_id: str, **context: Any) -> Any:
    task = dag.task_dict[task_id]
    task.render_template_fields(context)
    return task


class TestWhatATaskIsAsked:
    def asked(self, *, params: dict[str, Any] | None = None, **parts: Any) -> Any:
        with empty_dag() as dag:
            caretaker_job("compact", **{"tables": "db.*", "warehouse": "/lake", **parts})
        plan = rendered(dag, "compact.plan", params=params or {}, ds="2024-01-31")
        # What the DAG run is asked is the other DAG's business.
        return plan.request({"params": {"tables": ["other.*"], "force": True}})

    def test_values_are_templates(self):
        request = self.asked(
            params={"tables": "db.a, db.b", "dry": False},
            tables="{{ params.tables }}",
            arguments={"partition": "dt={{ ds }}", "compact_strategy": "minor"},
            dry_run="{{ params.dry }}",
            warehouse="/lake/{{ ds }}",
        )
        assert request.patterns == ("db.a", "db.b")
        assert request.arguments == {"partitions": "dt=2024-01-31", "strategy": "minor"}
        assert request.dry_run is False
        assert request.force is False
        assert request.warehouse == "/lake/2024-01-31"

    def test_a_switch_that_cannot_be_read_never_becomes_a_run(self):
        from airflow.sdk.exceptions import AirflowFailException

        with pytest.raises(AirflowFailException, match="dry_run is 'of course'"):
            self.asked(dry_run="{{ 'of course' }}")

    def test_guards_reach_each_tables_run(self):
        request = self.asked(
            guards={"max_rewrite": "1.5 kb", "max_deleted_share": 0.2, "max_deleted_files": "7"}
        )
        guards = request.for_table("db.t").guards
        assert guards.max_rewrite_bytes == 1536
        assert guards.max_deleted_share == 0.2
        assert guards.max_deleted_files == 7

    def test_the_workers_environment_names_warehouse_and_policy(self, monkeypatch, tmp_path):
        policy = tmp_path / "policy.yaml"
        policy.write_text(
            "version: 1\nrules: [{tables: 'db.*', jobs: {compact: {arguments: {strategy: minor}}}}]"
        )
        monkeypatch.setenv("CARETAKER_WAREHOUSE", "/site")
        monkeypatch.setenv("CARETAKER_POLICY", str(policy))
        request = self.asked(warehouse=None)
        assert request.warehouse == "/site"
        assert request.for_table("db.t").arguments["strategy"] == "minor"
        assert self.asked(policy="").for_table("db.t").arguments["strategy"] == "full"


DAG_FILE = """\
from airflow.sdk import DAG, task
from paimon_airflow import caretaker_job, maintain_tables

@task
def load(): return ["db.a", "db.b"]

@task
def publish(): ...

@task.branch
def choose(): return "publish_anyway"

@task(trigger_rule="none_failed")
def publish_anyway(): ...

with DAG("theirs", schedule=None, params={{"tables": "theirs", "dry_run": True}}) as dag:
    load() >> maintain_tables(
        "db.*",
        arguments={{"step_arguments": {{"expire_snapshots.retain_max": "4"}}}},
        warehouse={warehouse!r},
        policy="",
        retries=0,
    ) >> publish()

with DAG("tagged", schedule=None, params={{"tag": "x"}}) as tagged:
    load() >> caretaker_job(
        "create_tag",
        load(),
        arguments={{"tag": "by-{{{{ params.tag }}}}"}},
        warehouse={warehouse!r},
        policy="",
    ) >> publish()

with DAG("branched", schedule=None) as branched:
    chosen = choose()
    after = publish_anyway()
    chosen >> maintain_tables("db.*", warehouse={warehouse!r}) >> after
    chosen >> after
"""


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    made = Lake(tmp_path / "lake")
    for name in ("db.a", "db.b", "other.c"):
        made.primary_key(name, snapshot_num__retained_min="1")
        made.fill(10, rows=3, name=name)
    return made


@pytest.fixture
def run_theirs(finished: Any, lake: Lake) -> Callable[..., Any]:
    from airflow.dag_processing.dagbag import DagBag

    file = Path(os.environ["AIRFLOW_HOME"]) / "dags" / "theirs.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(DAG_FILE.format(warehouse=str(lake.warehouse)))

    def run(dag_id: str, group: str = "maintain_tables", **conf: object) -> Any:
        bag = DagBag(dag_folder=str(file))
        assert bag.import_errors == {}
        return finished(bag.dags[dag_id].test(run_conf=conf), group=f"{group}.")

    return run


@pytest.mark.slow
def test_tables_are_maintained_between_other_tasks(run_theirs, lake):
    ran = run_theirs("theirs")
    assert ran.state == "success", ran
    assert ran.tasks == {
        "load": "success",
        "maintain_tables.plan": "success",
        "maintain_tables.in_process": "success",
        "maintain_tables.on_spark": "skipped",
        "maintain_tables.report": "success",
        "publish": "success",
    }
    left = {
        name: [snapshot.id for snapshot in lake.table(name).snapshots.all()]
        for name in ("db.a", "db.b", "other.c")
    }
    assert left == {"db.a": [7, 8, 9, 10], "db.b": [7, 8, 9, 10], "other.c": list(range(1, 11))}
    assert ran.report["counts"] == {"done": 2}


@pytest.mark.slow
def test_a_failure_stops_what_comes_after_and_a_known_refusal_does_not(run_theirs, lake):
    lake.change_options("db.b", "tag.callbacks", "org.example.Callback")
    first = run_theirs("tagged", "create_tag")
    assert first.tasks["create_tag.report"] == "failed"
    assert first.tasks["publish"] == "upstream_failed"
    assert first.report["refused"].keys() == {"db.b"}
    again = run_theirs("tagged", "create_tag", tag="y")
    assert again.state == "success", again
    assert again.tasks["create_tag.report"] == again.tasks["publish"] == "success"
    assert again.report["counts"] == {"refused": 1, "done": 1}
    assert lake.table("db.a").tags.names() == ["by-x", "by-y"]


@pytest.mark.slow
def test_a_group_that_a_branch_leaves_out_is_skipped(run_theirs, lake):
    ran = run_theirs("branched")
    assert ran.state == "success"
    assert {state for name, state in ran.tasks.items() if name.startswith("maintain")} == {
        "skipped"
    }
    assert ran.tasks["publish_anyway"] == "success"
    assert len(list(lake.table("db.a").snapshots.all())) == 10
