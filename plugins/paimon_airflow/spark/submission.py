"""How our Spark applications are submitted: the binary, Python, packages, where results go.

On a local master everything is this machine and this Python.  On a cluster the executors need
pyarrow, numpy, fsspec, fastavro and pyroaring installed; `paimon_core` and `paimon_maintenance`,
which are pure Python, are shipped to them as a zip file (`paimon_maintenance.engines.shipping`).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from paimon_maintenance.engines.shipping import package_folder, package_parents
from paimon_maintenance.engines.spark.jvm import driver_environment

APPLICATION = "spark_app.py"

_QUIET = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}
# The tables of a batch run at the same time and share the executors.
_FAIR = {"spark.scheduler.mode": "FAIR"}
# A local application needs no UI, and must also start where the host name does not resolve.
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


_EXIT_CODE = re.compile(r"Error code is: (-?\d+)")
_OUTPUT = "Last spark-submit output:"
_NO_JAVA = re.compile(r"JAVA_HOME is not set|java: (command )?not found|JAVA_GATEWAY_EXITED")
_NOT_FOUND = 127
_TELLING = re.compile(r"(Error|Exception)\b")
_LONGEST_REASON = 300


class SubmitError(Exception):
    """The application cannot be submitted with this setup; a retry does not help."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a Spark connection leads: its master, and whether the driver runs on the cluster."""

    master: str
    deploy_mode: str

    @property
    def is_local(self) -> bool:
        """Whether driver and executors are threads of one process on this machine."""
        return self.master.startswith("local")

    @property
    def driver_is_here(self) -> bool:
        """Whether the driver runs in this worker, so that it can write to this worker's disk."""
        return self.is_local or self.deploy_mode != "cluster"


def spark_conf(target: Target, own: Mapping[str, str]) -> dict[str, str]:
    """The Spark configuration to submit with; the settings' own values win."""
    fixed = _QUIET | _FAIR
    if target.is_local:
        fixed |= _LOCAL
    if target.master == "yarn":
        # A table that failed makes the application fail; Airflow decides what runs again.
        fixed["spark.yarn.maxAppAttempts"] = "1"
    return {**fixed, **own}


def tracking(target: Target, submit: Mapping[str, object]) -> dict[str, object]:
    """How the Spark provider follows the driver, where its defaults would refuse to.

    On YARN it can find a driver again only through the resource manager's REST API.  On Kubernetes
    it needs the client of another provider: SubmitError without it.
    """
    if target.master.startswith("k8s") and not has_kubernetes_client():
        message = (
            f"the Spark provider needs the Kubernetes client for {target.master}: install "
            "apache-airflow-providers-cncf-kubernetes on the workers"
        )
        raise SubmitError(message)
    if target.master == "yarn" and not target.driver_is_here:
        return {"durable": bool(submit.get("yarn_track_via_rm_api"))}
    return {}


def has_kubernetes_client() -> bool:
    """Whether the Python client of Kubernetes is installed."""
    return importlib.util.find_spec("kubernetes") is not None


def environment(target: Target) -> dict[str, str] | None:
    """Environment variables for spark-submit, or None where the cluster sets them.

    Without PYSPARK_PYTHON, workers start whatever `python3` is on the path, which may be another
    version without pyarrow.  Executors elsewhere have another file system: there only the driver's
    Python is set, and `spark.pyspark.python` or PYSPARK_PYTHON name theirs.
    """
    if not target.driver_is_here:
        return None
    paths = [*package_parents(), os.environ.get("PYTHONPATH", "")]
    variables = {
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        **driver_environment(),
    }
    if target.is_local:
        variables["PYSPARK_PYTHON"] = sys.executable
    return variables


def spark_submit() -> str:
    """The spark-submit to call: beside this Python or in its pyspark, else the one on the path."""
    beside = Path(sys.executable).parent / "spark-submit"
    if beside.is_file():
        return str(beside)
    found = shutil.which("spark-submit")
    if found:
        return found
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        inside = Path(folder) / "bin" / "spark-submit"
        if inside.is_file():
            return str(inside)
    message = "spark-submit is not beside this Python, on the PATH or in pyspark: install pyspark"
    raise SubmitError(message)


def application() -> str:
    """The path of the Spark application that maintains one batch of tables."""
    return str(package_folder("paimon_maintenance") / APPLICATION)


def failure_reason(text: str) -> str:
    """How the application ended and what to do, from the provider's text about its failure.

    The exit code decides: what Spark printed last rarely names the reason.
    """
    from paimon_maintenance.engines.lifeline import ENDED_WITH_SUPERVISOR  # noqa: PLC0415 - only after a failure
    from paimon_maintenance.engines.spark.loss import (  # noqa: PLC0415 - as above
        MORE_MEMORY,
        OUT_OF_MEMORY,
        SparkLost,
        how_it_ended,
        signal_of,
    )

    found = _EXIT_CODE.search(text)
    code = int(found.group(1)) if found else None
    output = [line.strip() for line in text.partition(_OUTPUT)[2].splitlines() if line.strip()]
    memory = next((line for line in output if OUT_OF_MEMORY in line), None)
    if memory is not None:
        return f"the Spark driver ran out of memory ({memory[:_LONGEST_REASON]}) -> {MORE_MEMORY}"
    if code == _NOT_FOUND or any(_NO_JAVA.search(line) for line in output):
        return "Spark did not start -> check that a JDK 17 or newer is installed on the worker"
    if code == ENDED_WITH_SUPERVISOR:
        return "the Spark driver ended because the task that started it ended -> run it again"
    if code is not None and signal_of(code) is not None:
        return f"the Spark driver {how_it_ended(code)} -> {SparkLost.default_next_step}"
    lines = [line for line in output if _TELLING.search(line)] or output or text.splitlines()
    ended = (
        "the Spark application failed" if code is None else f"spark-submit ended with code {code}"
    )
    last = lines[-1][:_LONGEST_REASON] if lines else ""
    return f"{ended}: {last} -> see the task's log" if last else f"{ended} -> see the task's log"


def write_private(file: Path, text: str) -> Path:
    """The new file with this text, which only its owner can read."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
    return file


def application_args(
    target: Target, batch: Path, results: str, lifeline: Path | None, timezone: str | None = None
) -> list[str]:
    """The arguments of the application: where its batch, its results and its lifeline are.

    A driver on the cluster finds the batch, which is shipped to it, in its working folder.
    """
    args = ["--batch", str(batch) if target.driver_is_here else batch.name, "--results", results]
    if timezone:
        args += ["--timezone", timezone]
    return args if lifeline is None else [*args, "--lifeline", str(lifeline)]


def shipped_files(target: Target, batch: Path, own: object) -> str | None:
    """The files to ship with the application: those of the settings, and the batch if needed."""
    files = [str(own)] if own else []
    if not target.driver_is_here:
        files.append(str(batch))
    return ",".join(files) or None


def results_folder(target: Target, configured: str | None, scratch: Path, name: str) -> str:
    """Where the application leaves its results: a folder that both it and this worker can reach."""
    if configured:
        return f"{configured.rstrip('/')}/{name}"
    if target.driver_is_here:
        return str(scratch / "results")
    message = (
        f"the driver runs on the cluster ({target.master}), so it cannot leave its results on this "
        "worker: set `results` in caretaker.toml (or of the task group) to a folder that both can "
        "reach, for instance on S3"
    )
    raise SubmitError(message)
