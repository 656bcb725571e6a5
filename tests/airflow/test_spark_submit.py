"""How an application is submitted: local, client mode on a cluster, driver on the cluster."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from paimon_airflow.spark import application_runs, submission
from paimon_airflow.spark.submission import SubmitError, Target
from paimon_airflow.tasks.job_request import request_from
from paimon_maintenance.engines.shipping import write_packages
from paimon_maintenance.engines.spark.loss import SparkLost
from paimon_maintenance.job.error_json import error_json

LOCAL = Target("local[2]", "client")
STANDALONE = Target("spark://master:7077", "client")
YARN = Target("yarn", "cluster")


def test_a_local_application_runs_this_python_and_shows_no_ui():
    variables = submission.environment(LOCAL)
    assert variables is not None
    assert variables["PYSPARK_PYTHON"] == sys.executable
    assert variables["JDK_JAVA_OPTIONS"].startswith(
        "-XX:TieredStopAtLevel=1 "
    )  # the caller's follow
    conf = submission.spark_conf(LOCAL, {"spark.driver.host": "elsewhere"})
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.driver.host"] == "elsewhere"


def test_executors_elsewhere_have_a_python_of_their_own():
    variables = submission.environment(STANDALONE)
    assert variables is not None
    assert "PYSPARK_PYTHON" not in variables
    assert variables["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert "spark.ui.enabled" not in submission.spark_conf(STANDALONE, {})
    assert submission.environment(YARN) is None


def test_yarn_is_tracked_only_where_the_provider_can():
    assert submission.tracking(LOCAL, {}) == {}
    assert submission.tracking(YARN, {}) == {"durable": False}
    assert submission.tracking(YARN, {"yarn_track_via_rm_api": True}) == {"durable": True}
    assert submission.spark_conf(YARN, {})["spark.yarn.maxAppAttempts"] == "1"


def test_results_go_where_driver_and_worker_meet(tmp_path: Path):
    assert submission.results_folder(STANDALONE, None, tmp_path, "a/b") == str(tmp_path / "results")
    assert submission.results_folder(YARN, "s3://lake/.caretaker/", tmp_path, "a/b") == (
        "s3://lake/.caretaker/a/b"
    )
    with pytest.raises(SubmitError, match=r"set `results` in caretaker\.toml"):
        submission.results_folder(YARN, None, tmp_path, "a/b")


def imported_from(archive: Path, folder: Path) -> str:
    """The file of paimon_core in a Python that has only the archive."""
    code = "import paimon_maintenance.run.runner, paimon_core; print(paimon_core.__file__)"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PYTHONPATH": str(archive)},
    )
    return ran.stdout.strip()


def test_shipped_packages_are_the_same_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Also where the first run had to compile them."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "cache"))
    archives = [write_packages(tmp_path / f"{number}.zip") for number in range(2)]
    assert any((tmp_path / "cache").rglob("*.pyc"))
    # Of the bytes themselves, pytest would look for the differences for half an hour.
    assert len({hashlib.sha256(archive.read_bytes()).digest() for archive in archives}) == 1


def test_shipped_packages_work_without_the_checkout(tmp_path: Path):
    archive = write_packages(tmp_path / "caretaker.zip")
    assert "paimon_maintenance/spark_app.py" in zipfile.ZipFile(archive).namelist()
    assert imported_from(archive, tmp_path) == f"{archive}/paimon_core/__init__.pyc"


def test_a_python_of_another_version_takes_the_shipped_sources(tmp_path: Path):
    archive, other = write_packages(tmp_path / "caretaker.zip"), tmp_path / "other.zip"
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, b"\0\0\r\n" + content[4:] if name.endswith("c") else content)
    assert imported_from(other, tmp_path) == f"{other}/paimon_core/__init__.py"


def test_the_application_and_spark_submit_are_found():
    assert Path(submission.application()).is_file()
    pytest.importorskip("pyspark")
    assert Path(submission.spark_submit()).is_file()


FAILED = "Cannot execute: spark-submit --master local[2] app.py. Error code is: {}."


@pytest.mark.parametrize(
    ("code", "output", "said", "todo"),
    [
        (-9, "INFO working", "the Spark driver was killed (SIGKILL)", "out-of-memory kill"),
        (137, "INFO working", "the Spark driver was killed (SIGKILL)", "spark.driver.memory"),
        (134, "INFO working", "the Spark driver crashed (SIGABRT)", "hs_err_pid"),
        (143, "INFO working", "the Spark driver was terminated by a signal (SIGTERM)", "run again"),
        (
            1,
            "INFO\njava.lang.OutOfMemoryError: Java heap space\nINFO Shutdown hook called",
            "the Spark driver ran out of memory (java.lang.OutOfMemoryError: Java heap space)",
            "spark.driver.memory",
        ),
        (1, "JAVA_HOME is not set", "Spark did not start", "JDK 17"),
        (75, "", "the task that started it ended", "run it again"),
        (
            2,
            "ValueError: no such thing\nINFO Shutdown hook called",
            "spark-submit ended with code 2: ValueError: no such thing",
            "see the task's log",
        ),
    ],
)
def test_a_lost_driver_is_called_one_with_what_to_do(code, output, said, todo):
    text = FAILED.format(code) + f"\nLast spark-submit output:\n{output}"
    reason, _, next_step = submission.failure_reason(text).partition(" -> ")
    assert said in reason
    assert todo in next_step


def test_a_failure_without_an_exit_code_is_told_as_it_is():
    assert submission.failure_reason("the driver pod vanished") == (
        "the Spark application failed: the driver pod vanished -> see the task's log"
    )


@pytest.mark.parametrize("error", [SparkLost("the connection to Spark is lost"), OSError("full")])
def test_only_spark_submit_knows_how_the_jvm_ended(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The driver reports a lost connection if it outlives its JVM for long enough."""
    monkeypatch.setenv("CARETAKER_HISTORY_URL", "none")
    params = {"warehouse": str(tmp_path), "tables": ["db.t"]}
    request = request_from("compact", params, storage={}, timezone=None)
    report = {"table": "db.t", "status": "failed", "error": error_json(error)}
    (tmp_path / "db.t.json").write_text(json.dumps(report))
    failure = "the Spark driver was killed (SIGKILL) -> increase its memory"
    found = application_runs.read_reports(request, str(tmp_path), ["db.t"], failure)["db.t"][
        "error"
    ]
    assert isinstance(found, dict)
    if isinstance(error, SparkLost):
        expected = "the Spark driver was killed (SIGKILL); the connection to Spark is lost"
        assert found == {**error_json(error), "message": expected}
    else:
        assert found == error_json(error)
