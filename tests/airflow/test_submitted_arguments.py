"""The whole command line that reaches spark-submit for a cluster that is not at hand here.

The task and the Spark provider are real; only the start of the process is replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow.providers.apache.spark")

from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowFailException

from paimon_airflow.spark import submission
from paimon_airflow.spark.operator import RunOnSpark
from paimon_airflow.tasks.job_request import request_from

pytestmark = pytest.mark.airflow

YARN = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
KUBERNETES = {
    "conn_type": "spark",
    "host": "k8s://https://10.0.0.1",
    "port": 6443,
    "extra": {"deploy-mode": "cluster", "namespace": "lake"},
}
KUBERNETES_CLIENT = {**KUBERNETES, "extra": {"namespace": "lake"}}


def submitted(
    connection: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **more: Any
) -> tuple[list[str], dict[str, Any]]:
    """The command line of one batch, and the content of the batch that it ships or names."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    seen: list[list[str]] = []
    batches: list[Any] = []

    def submit(hook: SparkSubmitHook, application: str = "", **_: Any) -> None:
        command = hook._build_spark_submit_command(application)
        seen.append(command)
        shipped = after(command, "--files") if "--files" in command else after(command, "--batch")
        batches.append(json.loads(Path(shipped).read_text()))

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    monkeypatch.setattr(SparkSubmitHook, "submit_with_tracking", submit, raising=False)
    params = {"warehouse": str(tmp_path / "lake"), "tables": ["db.t"]}
    task = RunOnSpark(
        task_id="on_spark",
        job="compact",
        batch={"label": "db.t", "tables": ["db.t"], "why": "large"},
        **more,
    )
    request = request_from("compact", params, storage={}, timezone=None)
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="on_spark", map_index=0, max_tries=1)
    list(task.work(request, ["db.t"], {"ti": ti}))  # type: ignore[typeddict-item]
    (command,), (batch,) = seen, batches
    return command, batch


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of Kubernetes, which the provider only looks for before it submits."""
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    monkeypatch.setattr(submission, "has_kubernetes_client", lambda: True)


def after(command: list[str], option: str) -> str:
    """The word after an option."""
    return command[command.index(option) + 1]


def conf(command: list[str]) -> dict[str, str]:
    """What `--conf` sets."""
    pairs = [command[i + 1] for i, word in enumerate(command) if word == "--conf"]
    return dict(pair.split("=", 1) for pair in pairs)


def test_yarn_gets_the_batch_the_packages_and_one_attempt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command, batch = submitted(
        YARN,
        monkeypatch,
        tmp_path,
        results=str(tmp_path / "results"),
        spark_conf={"spark.executor.memory": "1g"},
    )
    assert after(command, "--master") == "yarn"
    assert after(command, "--deploy-mode") == "cluster"
    assert conf(command)["spark.yarn.maxAppAttempts"] == "1"
    assert conf(command)["spark.executor.memory"] == "1g"
    assert conf(command)["spark.scheduler.mode"] == "FAIR"
    assert after(command, "--py-files").endswith("caretaker.zip")
    assert not any("PYSPARK_PYTHON" in name for name in conf(command)), "a path of this machine"
    application = next(i for i, word in enumerate(command) if word.endswith("spark_app.py"))
    args = command[application + 1 :]
    # The driver finds the shipped batch in its working folder.
    assert after(args, "--batch") == Path(after(command, "--files")).name
    assert after(args, "--results") == str(tmp_path / "results/d/r/on_spark-0-1")
    assert "--lifeline" not in args
    assert [part["table"] for part in batch] == ["db.t"]


@pytest.mark.usefixtures("kubernetes")
def test_kubernetes_gets_the_namespace_and_the_shipped_batch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    upload = {"spark.kubernetes.file.upload.path": "s3://lake/upload"}
    command, batch = submitted(
        KUBERNETES, monkeypatch, tmp_path, results=str(tmp_path / "results"), spark_conf=upload
    )
    assert after(command, "--master") == "k8s://https://10.0.0.1:6443"
    assert after(command, "--deploy-mode") == "cluster"
    found = conf(command)
    assert found["spark.kubernetes.namespace"] == "lake"
    assert found["spark.kubernetes.file.upload.path"] == "s3://lake/upload"
    assert "spark.yarn.maxAppAttempts" not in found
    assert after(command, "--batch") == Path(after(command, "--files")).name
    assert [part["table"] for part in batch] == ["db.t"]


@pytest.mark.usefixtures("kubernetes")
def test_a_driver_in_the_worker_reads_the_batch_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command, batch = submitted(KUBERNETES_CLIENT, monkeypatch, tmp_path)
    assert command[0].endswith("spark-submit")
    assert "--files" not in command
    assert Path(after(command, "--batch")).is_absolute()
    assert Path(after(command, "--lifeline")).is_absolute()
    assert after(command, "--py-files").endswith("caretaker.zip")
    assert [part["table"] for part in batch] == ["db.t"]


def test_kubernetes_without_its_client_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(submission, "has_kubernetes_client", lambda: False)
    with pytest.raises(AirflowFailException, match="apache-airflow-providers-cncf-kubernetes"):
        submitted(KUBERNETES, monkeypatch, tmp_path, results=str(tmp_path / "results"))
