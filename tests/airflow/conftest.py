"""Airflow with a database of its own, and DAGs whose way into `maintenance` can be replaced."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from paimon_airflow.runs import jobs
from paimon_airflow.spark import application_runs, submission
from paimon_airflow.tasks.job_request import JobRequest
from paimon_airflow.tasks.results import TableResult

ROOT = Path(__file__).resolve().parents[2]
SPARK_CONNECTION = {
    "conn_type": "spark",
    "host": "local[2]",
    "extra": {"deploy-mode": "client"},
}


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Airflow's tables, in the session's own AIRFLOW_HOME."""
    # Its own process: the settings are read when Airflow is imported, and migrating takes memory.
    subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        check=True,
        capture_output=True,
        timeout=900,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(_paths())},
    )


def _paths() -> list[str]:
    return [str(ROOT), *(str(ROOT / p) for p in ("maintenance", "plugins", "dags"))]


@pytest.fixture
def spark_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(SPARK_CONNECTION))


@dataclass
class Ran:
    """A finished run of a DAG."""

    state: str
    tasks: dict[str, str]
    labels: list[str]
    tries: dict[str, int]
    report: Mapping[str, Any]
    shown: str
    run: Any

    def rendered(self, task_id: str) -> Mapping[str, Any]:
        """What the task's page shows under Rendered Templates."""
        return _rendered(self.run, task_id)

    def link(self, task_id: str, link: Any) -> str:
        """A link of the task, as Airflow's page gets it."""
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session

        with create_session() as session:
            query = XComModel.get_many(run_id=self.run.run_id, task_ids=task_id, key=link.xcom_key)
            return str(XComModel.deserialize_value(session.scalars(query).one()))


@pytest.fixture
def run_dag(
    airflow_database: None, spark_connection: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """Runs the DAG of a job to its end in this process; retries come at once."""

    def run(
        conf: Mapping[str, object],
        *,
        job: str = "compact",
        dag_id: str = "",
        retries: int = 0,
        by_schedule: bool = False,
        spark_conf: Mapping[str, str] | None = None,
        **settings: str | int,
    ) -> Ran:
        folder = Path(os.environ["AIRFLOW_HOME"]) / "dags"
        folder.mkdir(exist_ok=True)
        file = Path(shutil.copy(ROOT / "dags" / "caretaker.py", folder))
        common = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        own = [f"retries = {retries}", "retry_minutes = 0"]
        conf_lines = [f"{json.dumps(k)} = {json.dumps(v)}" for k, v in (spark_conf or {}).items()]
        file.with_suffix(".toml").write_text(
            "\n".join(["[caretaker]", *common, f"[jobs.{job}]", *own, "[spark_conf]", *conf_lines])
        )
        dag = runpy.run_path(str(file))[dag_id or f"caretaker_{job}"]
        if by_schedule:
            _make_scheduled_runs(monkeypatch)
        return _finished(dag.test(run_conf=dict(conf)))

    return run


def _make_scheduled_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """`DAG.test` only knows runs by hand: turn its runs into those of the scheduler."""
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.utils.types import DagRunType

    create = SerializedDAG.create_dagrun

    def scheduled(dag: Any, **parts: Any) -> Any:
        run_id = parts["run_id"].replace("manual", "scheduled")
        return create(dag, **{**parts, "run_type": DagRunType.SCHEDULED, "run_id": run_id})

    monkeypatch.setattr(SerializedDAG, "create_dagrun", scheduled)


@pytest.fixture
def finished(airflow_database: None) -> Callable[..., Ran]:
    """What became of a run of any DAG (`_finished`)."""
    return _finished


def _finished(run: Any, group: str = "") -> Ran:
    """The run; `group` is the prefix of the report's id, as in "maintain_tables."."""
    report_id = f"{group}report"
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    instances = sorted(run.get_task_instances(), key=lambda ti: (ti.task_id, ti.map_index))
    with create_session() as session:
        query = XComModel.get_many(run_id=run.run_id, task_ids=report_id, key="return_value")
        found = session.scalars(query).first()
        report = XComModel.deserialize_value(found) if found is not None else {}
    names = {
        ti: ti.task_id + (f"[{ti.map_index}]" if ti.map_index >= 0 else "") for ti in instances
    }
    return Ran(
        state=str(run.state),
        tasks={names[ti]: str(ti.state) for ti in instances},
        labels=[ti.rendered_map_index for ti in instances if ti.map_index >= 0],
        tries={names[ti]: ti.try_number for ti in instances},
        report=report,
        shown=str(_rendered(run, report_id).get("report", "")),
        run=run,
    )


def _rendered(run: Any, task_id: str) -> Mapping[str, Any]:
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.utils.session import create_session

    with create_session() as session:
        ti = run.get_task_instance(task_id, session=session)
        return RenderedTaskInstanceFields.get_templated_fields(ti, session=session) or {}


@dataclass
class FakeLake:
    """Stands for `maintenance`: what it would plan, and how each table ends on Spark.

    `spark` maps tables to bytes; `ends` says how a table ends there: "done" (unless told
    otherwise), an error's name, or "lost".  A list ends differently with each application.
    """

    spark: Mapping[str, int] = field(default_factory=dict)
    in_process: Sequence[str] = ()
    without_run: Sequence[TableResult] = ()
    ends: Mapping[str, str | list[str]] = field(default_factory=dict)
    applications: list[list[str]] = field(default_factory=list)
    ran_in_process: list[str] = field(default_factory=list)

    def list_tables(self, request: JobRequest) -> list[str]:
        return sorted([*self.spark, *self.in_process, *(r.table for r in self.without_run)])

    def plan_tables(self, request: JobRequest, tables: Sequence[str]) -> Iterator[jobs.Planned]:
        for result in self.without_run:
            yield jobs.Planned(table=result.table, where="nowhere", result=result)
        for table in self.in_process:
            yield jobs.Planned(table=table, where="in_process")
        for table, size in self.spark.items():
            yield jobs.Planned(table=table, where="spark", bytes=size)

    def run_in_process(self, request: JobRequest, tables: Sequence[str]) -> Iterator[TableResult]:
        for table in tables:
            self.ran_in_process.append(table)
            yield TableResult(table=table, outcome="done", snapshot=3)

    def batch_json(self, request: JobRequest, runs: Sequence[application_runs.StartedRun]) -> str:
        tables = [run.table for run in runs]
        self.applications.append(tables)
        reports = {table: self._report(table) for table in tables}
        return json.dumps({t: r for t, r in reports.items() if r is not None})

    def _report(self, table: str) -> dict[str, object] | None:
        end = self.ends.get(table, "done")
        if isinstance(end, list):
            end = end.pop(0)
        if end == "lost":
            return None
        error = {"type": end, "message": f"{end} of {table}", "next_step": None}
        done = end == "done"
        return {
            "table": table,
            "status": "success" if done else "failed",
            "snapshots": [7] if done else [],
            "before": {"files": 40, "bytes": 4000, "rows": 9, "sorted_runs": 20},
            "after": {"files": 4, "bytes": 3000, "rows": 9, "sorted_runs": 2},
            "seconds": {"plan": 0.5, "execute": 1.5},
            "error": None if done else error,
        }


APPLICATION = """\
import json, pathlib, sys
folder = pathlib.Path(sys.argv[sys.argv.index("--results") + 1])
folder.mkdir(parents=True)
reports = json.loads(pathlib.Path(sys.argv[sys.argv.index("--batch") + 1]).read_text())
for table, report in reports.items():
    (folder / f"{table}.json").write_text(json.dumps(report))
sys.exit(any(report["error"] for report in reports.values()))
"""
SUBMIT = """\
#!{python}
import subprocess, sys
application = next(i for i, word in enumerate(sys.argv) if word.endswith("application.py"))
sys.exit(subprocess.call([sys.executable, *sys.argv[application:]]))
"""


@pytest.fixture
def fake_lake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., FakeLake]:
    """Puts a fake lake in place of `maintenance`, and a plain Python in place of spark-submit."""
    application, submit = tmp_path / "application.py", tmp_path / "spark-submit"
    application.write_text(APPLICATION)
    submit.write_text(SUBMIT.format(python=sys.executable))
    submit.chmod(0o755)
    monkeypatch.setattr(submission, "application", lambda: str(application))
    monkeypatch.setattr(submission, "spark_submit", lambda: str(submit))

    def install(**parts: Any) -> FakeLake:
        lake = FakeLake(**parts)
        for name in ("list_tables", "plan_tables", "run_in_process"):
            monkeypatch.setattr(jobs, name, getattr(lake, name))
        monkeypatch.setattr(application_runs, "batch_json", lake.batch_json)
        return lake

    return install
