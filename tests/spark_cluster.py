"""A Spark standalone cluster, or a Spark Connect server, of one's own on the loopback.

Executors know nothing of the checkout: the packages are shipped to them.  They reach a store with what
they find in their environment, as the containers of docker/compose.yaml do.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from ports import free_port

from paimon_maintenance.demo.child_process import ChildProcess

_AWAY = re.compile("^(AIRFLOW|AWS_|CARETAKER|PYTHONPATH|PYSPARK|SPARK)")
_DEPLOY = "org.apache.spark.deploy"
_EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"
_COMMAND = re.compile(r"Launch command: (.+)")
_LAUNCHED = re.compile(r"Asked to launch executor (app-\S+)/\d+")
_START_SECONDS = 300
_PERIOD = 50_000
"""Microseconds in which a group of processes gets its share of a processor."""


@dataclass(frozen=True)
class Cluster:
    """`master` is its URL; `work` is the folder of its workers, which names the applications."""

    master: str
    work: Path
    worker_logs: tuple[Path, ...]

    def served(self) -> set[tuple[Path, str]]:
        """The workers, by their logs, with each application that they started an executor for.

        They start one again that the driver lost, as happens on a busy machine.
        """
        return {
            (log, application)
            for log in self.worker_logs
            for application in _LAUNCHED.findall(log.read_text())
        }

    def launch_commands(self) -> set[str]:
        """The commands that started executors."""
        return {
            command for log in self.worker_logs for command in _COMMAND.findall(log.read_text())
        }

    def executors(self) -> list[int]:
        """The processes of executors of this cluster that run now."""
        return sorted(pid for pid, words in _processes() if self._is_executor(words))

    def kill_executor(self) -> int:
        """Kill the first executor as the kernel would, out of memory; IndexError if there is none."""
        victim = self.executors()[0]
        os.kill(victim, signal.SIGKILL)
        return victim

    def _is_executor(self, words: list[bytes]) -> bool:
        return _EXECUTOR in words and any(str(self.work).encode() in word for word in words)


def _processes() -> Iterator[tuple[int, list[bytes]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                place = os.fsencode((folder / "cwd").readlink())
            except OSError:
                continue  # it has ended, or belongs to another user
            yield int(folder.name), [*words, place]


@contextmanager
def standalone_cluster(
    home: Path,
    *,
    workers: int = 1,
    cores: int = 2,
    memory: str = "2g",
    environment: Mapping[str, str] | None = None,
    pinned: bool = False,
    share: float | None = None,
) -> Iterator[Cluster]:
    """A cluster while the block runs; `environment` is that of the executors.

    `pinned` gives each worker, with its executors, one processor in turn, and `share` that part of
    one at most, whatever is free, by a control group (Linux, root).
    """
    import pyspark

    home.mkdir(parents=True, exist_ok=True)
    spark_home = Path(pyspark.__file__).parent
    spark_class = str(spark_home / "bin" / "spark-class")
    bare = {k: v for k, v in os.environ.items() if not _AWAY.match(k)}
    bare |= {"SPARK_HOME": str(spark_home), "SPARK_LOCAL_IP": "127.0.0.1"}
    port, page = free_port(), free_port()
    here = ["--host", "127.0.0.1", "--webui-port"]
    master = [spark_class, f"{_DEPLOY}.master.Master", *here, str(page), "--port", str(port)]
    cluster = Cluster(
        f"spark://127.0.0.1:{port}",
        home / "work",
        tuple(home / f"worker-{number}.log" for number in range(workers)),
    )
    limits = ["--cores", str(cores), "--memory", memory, "--work-dir", str(cluster.work)]
    with ExitStack() as running:
        running.enter_context(ChildProcess(master, env=bare, log=home / "master.log"))
        for number, log in enumerate(cluster.worker_logs):
            worker = [spark_class, f"{_DEPLOY}.worker.Worker", *here, str(free_port()), *limits]
            command = [*worker, cluster.master]
            if share is not None:
                group = running.enter_context(_limited_group(number, share))
                command = [
                    "sh",
                    "-c",
                    f'echo $$ > {group}/cgroup.procs && exec "$@"',
                    "sh",
                    *command,
                ]
            with _one_processor(number) if pinned else nullcontext():
                started = ChildProcess(command, env=bare | dict(environment or {}), log=log)
            running.enter_context(started)

        def workers_are_known() -> bool:
            with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=60) as got:
                return int(json.load(got)["aliveworkers"]) == workers

        _wait_until(workers_are_known, home / "master.log")
        yield cluster


@contextmanager
def _one_processor(number: int) -> Iterator[None]:
    """Processes that start while the block runs, and all that they start, have one processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(before)[number % len(before)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _limited_group(number: int, share: float) -> Iterator[Path]:
    """A control group whose processes together get this share of one processor."""
    old = Path("/sys/fs/cgroup/cpu")  # version 1 has a folder for each controller
    group = (old if old.exists() else old.parent) / f"caretaker-{os.getpid()}-{number}"
    group.mkdir()
    try:
        quota = round(share * _PERIOD)
        if old.exists():
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {_PERIOD}")
        yield group
    finally:
        with suppress(OSError):  # a process that ends just now; the empty group harms nobody
            group.rmdir()


def _wait_until(ready: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            if ready():
                return
        except (OSError, ValueError):
            pass  # not there yet, or its page is still empty
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


@contextmanager
def connect_server() -> Iterator[str]:
    """The URL of a Spark Connect server on two cores while the block runs."""
    port = free_port()
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]"]
    for key, value in (
        ("spark.connect.grpc.binding.port", port),
        ("spark.connect.grpc.binding.address", "127.0.0.1"),
        ("spark.ui.enabled", "false"),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.driver.bindAddress", "127.0.0.1"),
    ):
        command += ["--conf", f"{key}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    # Its workers know nothing of our packages: the client has to bring them along.
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    environment.pop("PYTHONPATH", None)
    server = subprocess.Popen(
        [*command, "spark-internal"],
        cwd="/",
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 600
        while True:
            assert server.poll() is None, "the server ended"
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(120)
