"""A task that is killed while its Spark driver works, and a driver whose JVM is killed.

The real operator submits the real application to a real Spark, all in a session of its own, so that
every process that it starts can be found.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import caretaker
from harness import errors, remove_orphans, rows, run_job
from lakes import Lake
from processes import in_session, kill_session, wait_until

from paimon_maintenance.history.store import SqlHistory

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.airflow, pytest.mark.slow]

TASK = """\
import json, sys
from types import SimpleNamespace
from paimon_airflow.tasks.job_request import request_from
from paimon_airflow.spark.operator import RunOnSpark

batch = {"label": "db.t", "tables": ["db.t"]}
step = RunOnSpark(task_id="on_spark", job="compact", batch=batch)
params = {"warehouse": sys.argv[1], "tables": ["db.t"], "strategy": "full"}
request = request_from("compact", params, storage={}, timezone=None)
ti = SimpleNamespace(dag_id="d", run_id="r", task_id="on_spark", map_index=0, max_tries=0)
for result in step.work(request, ["db.t"], {"ti": ti}):
    print("RESULT", json.dumps(result.to_json()), flush=True)
"""
SUPERVISED_TASK = """\
import subprocess, sys
sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))
"""
WORKER = "pyspark.daemon"
CONNECTION = {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}


class Task:
    """A task of Airflow in a process of its own, whose parent is another one of its own."""

    def __init__(self, folder: Path) -> None:
        self.lake = Lake(folder / "lake")
        self.lake.primary_key(buckets=50)
        self.lake.fill(2, rows=3000)
        self.before = rows(self.lake.warehouse)
        self.files = self.lake.on_disk()
        self.history = SqlHistory(f"sqlite:///{folder}/history.db")
        self.output = folder / "output"
        scratch = folder / "scratch"
        scratch.mkdir()
        (folder / "task.py").write_text(TASK)
        (folder / "parent.py").write_text(SUPERVISED_TASK)
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TMPDIR": str(scratch),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(CONNECTION),
            "CARETAKER_HISTORY_URL": self.history.url,
        }
        command = [folder / "parent.py", folder / "task.py", self.lake.warehouse]
        with self.output.open("wb") as output:
            self.parent = subprocess.Popen(
                [sys.executable, *map(str, command)],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )

    def stop_while_writing(self) -> None:
        """Stop Spark's Python workers when the first file is there, so that no commit comes."""
        wait_until(lambda: self.lake.on_disk() != self.files, self.log_text)
        workers = [pid for pid, command in self.family().items() if WORKER in command]
        assert workers, self.family()
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        assert self.lake.table().snapshots.latest_id() == 2, self.log_text()

    def wait_for_the_end(self) -> None:
        """Until the driver and its JVM are gone, and then all that they started."""
        drivers = ("java", "spark_app.py")
        wait_until(
            lambda: not any(d in c for c in self.family().values() for d in drivers),
            lambda: f"{self.family()} {self.log_text()}",
        )
        for pid, command in self.family().items():
            if WORKER in command:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        wait_until(lambda: not self.family(), lambda: f"{self.family()} {self.log_text()}")

    def family(self) -> dict[int, str]:
        return in_session(self.parent.pid)

    def process(self, word: str) -> int:
        """The one process whose command has this word, the newest of several."""
        return max(pid for pid, command in self.family().items() if word in command)

    def log_text(self) -> str:
        return self.output.read_text()

    def results(self) -> list[dict[str, object]]:
        lines = self.log_text().splitlines()
        return [json.loads(line[7:]) for line in lines if line.startswith("RESULT ")]


@pytest.fixture
def task(tmp_path: Path) -> Iterator[Task]:
    task = Task(tmp_path)
    yield task
    kill_session(task.parent)


@pytest.mark.parametrize("killed", ["task", pytest.param("parent", marks=pytest.mark.long)])
def test_a_killed_task_takes_its_driver_with_it_and_the_next_run_says_so(task, killed):
    task.stop_while_writing()
    commands = list(task.family().values())
    assert any("java" in command for command in commands), commands
    assert any("spark_app.py" in command for command in commands), commands
    os.kill(task.parent.pid if killed == "parent" else task.process("task.py"), signal.SIGKILL)
    task.wait_for_the_end()

    assert task.lake.table().snapshots.latest_id() == 2
    assert rows(task.lake.warehouse) == task.before
    assert errors(task.lake.warehouse) == set()
    if killed == "parent":
        (lost,) = task.history.newest(table="db.t", job="compact")
    else:
        (start,) = task.history.newest(table="db.t", job="compact")
        assert (start.event, start.status) == ("start", "started")
        assert start.run_id in str(start.details["commit_user"])
        words = ("plan", "expire_snapshots", "db.t", "-w", task.lake.warehouse)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CARETAKER_HISTORY_URL", task.history.url)
            caretaker(*words)
        (lost,) = task.history.newest(table="db.t", job="compact")
        assert lost.run_id == start.run_id
    assert (lost.event, lost.status) == ("run", "not_committed")
    assert lost.error_type == "RunLost"
    report = run_job(task.lake.warehouse, "compact", {"strategy": "full"})
    assert report.error is None, report.error
    assert rows(task.lake.warehouse) == task.before
    remove_orphans(task.lake.warehouse)


@pytest.mark.parametrize(
    ("killed", "named"),
    [
        ("org.apache.spark.deploy.SparkSubmit", "SIGKILL"),
        pytest.param("spark_app.py --batch", "SIGKILL", marks=pytest.mark.long),
    ],
)
def test_a_killed_driver_is_called_one_and_commits_nothing_afterwards(task, killed, named):
    task.stop_while_writing()
    driver = task.process("spark_app.py")
    jvm = task.process("org.apache.spark.deploy.SparkSubmit")
    os.kill(jvm if "SparkSubmit" in killed else driver, signal.SIGKILL)
    wait_until(lambda: bool(task.results()), task.log_text)
    (result,) = task.results()
    # Whether the Python end outlives its JVM long enough to say so itself is a matter of moments.
    assert result["error"] in ("SparkApplicationLost", "SparkLost")
    summary = str(result["summary"])
    assert "killed (SIGKILL)" in summary, summary
    if result["error"] == "SparkApplicationLost":
        assert "it had not committed a snapshot" in summary
    assert "memory" in summary.partition(" -> ")[2]
    assert "JDK" not in summary
    assert "storage" not in summary
    task.wait_for_the_end()
    assert task.lake.table().snapshots.latest_id() == 2
    assert rows(task.lake.warehouse) == task.before
    (lost,) = task.history.newest(table="db.t")
    # A driver that lived long enough reported the failure; otherwise the table shows the outcome.
    status = "failed" if result["error"] == "SparkLost" else "not_committed"
    assert (lost.event, lost.status) == ("run", status)
    assert "SIGKILL" in str(lost.error)
