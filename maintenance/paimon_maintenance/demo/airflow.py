"""A private Airflow: standalone mode, SQLite, its own folder and ports; and its REST API.

This module does not import Airflow: it starts a command and calls an HTTP server.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paimon_core.errors import InvalidArgument, MaintenanceError
from paimon_maintenance.demo.child_process import ChildProcess
from paimon_maintenance.registry import JOBS

USER = "admin"
VIEWER = "viewer"
"""A login that can read everything and trigger nothing."""
FIRST_PORT = 8080
_HOST = "127.0.0.1"
_START_SECONDS = 600.0
_REQUEST_SECONDS = 120.0  # Spark may keep a small machine busy
_NEEDED = ("metadatabase", "scheduler", "dag_processor")
_SETTINGS = """\
# Settings of the demo: only the demo triggers runs, without retries, and on Spark
# where no policy decides.
[caretaker]
engine = "spark"

"""
_SCHEDULER_SETTINGS = """\
[scheduler]
schedule = ""

"""
_JOB_SETTINGS = """\
[jobs.{job}]
schedule = false
retries = 0
"""


class AirflowFailed(MaintenanceError):
    """Airflow did not start, ended, or returned an error."""


def free_port(wanted: int | None = None) -> int:
    """A free port: the requested one, else 8080, else any."""
    for port in (wanted,) if wanted is not None else (FIRST_PORT, 0):
        # A server on this address or on all addresses occupies the port.
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise InvalidArgument(f"port {wanted} is in use", next_step="set another port with --port")


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowHome:
    """The folder, address and logins of this Airflow."""

    home: Path
    port: int
    password: str
    viewer_password: str

    @property
    def url(self) -> str:
        """The address of the UI and of the API."""
        return f"http://{_HOST}:{self.port}"

    @property
    def history_url(self) -> str:
        """The history of the runs and of the scheduler."""
        return f"sqlite:///{self.home}/history.db"


def start_airflow(
    home: Path,
    *,
    root: Path,
    warehouse: str,
    policy: Path | None,
    port: int | None,
    cores: int,
) -> tuple[ChildProcess, AirflowHome]:
    """Start Airflow with the DAGs of the checkout at `root`.

    With a policy, the DAG of the scheduler is one of them.
    """
    place = AirflowHome(
        home=home,
        port=free_port(port),
        password=secrets.token_urlsafe(9),
        viewer_password=secrets.token_urlsafe(9),
    )
    home.mkdir(parents=True, exist_ok=True)
    passwords = home / "simple_auth_manager_passwords.json.generated"
    passwords.write_text(
        json.dumps({USER: place.password, VIEWER: place.viewer_password}), encoding="utf-8"
    )
    passwords.chmod(0o600)
    dags = home / "dags"
    dags.mkdir(exist_ok=True)
    # A separate folder, so that no other caretaker.toml applies.
    shutil.copy(root / "dags" / "caretaker.py", dags)
    scheduler = "" if policy is None else _SCHEDULER_SETTINGS
    settings = [_SETTINGS, scheduler, *(_JOB_SETTINGS.format(job=job) for job in JOBS)]
    (dags / "caretaker.toml").write_text("".join(settings), encoding="utf-8")
    env = airflow_environment(place, root=root, warehouse=warehouse, policy=policy, cores=cores)
    command = [sys.executable, "-m", "airflow", "standalone"]
    return ChildProcess(command, env=env, log=home / "standalone.log"), place


def airflow_environment(
    place: AirflowHome, *, root: Path, warehouse: str, policy: Path | None, cores: int
) -> dict[str, str]:
    """The environment of this Airflow: its settings, and where its DAGs find the lake."""
    # Do not use another Airflow of the user by accident.
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW")}
    paths = [str(root), str(root / "plugins"), str(root / "dags"), inherited.get("PYTHONPATH", "")]
    spark = {
        "conn_type": "spark",
        "host": f"local[{cores}]",
        "extra": {"deploy-mode": "client"},
    }
    return {
        **inherited,
        "AIRFLOW_HOME": str(place.home),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
        "CARETAKER_HISTORY_URL": place.history_url,
        "CARETAKER_POLICY": "" if policy is None else str(policy),
        "CARETAKER_WAREHOUSE": warehouse,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), inherited.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        # Hide warnings of Airflow's dependencies.
        "PYTHONWARNINGS": "ignore",
        "AIRFLOW__API__HOST": _HOST,
        "AIRFLOW__API__PORT": str(place.port),
        "AIRFLOW__API__BASE_URL": place.url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__CORE__DAGS_FOLDER": str(place.home / "dags"),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{place.url}/execution/",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(root / "plugins"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin,{VIEWER}:viewer",
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port(0)),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port(0)),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }


class Client:
    """A client of the Airflow REST API with a login."""

    def __init__(self, place: AirflowHome) -> None:
        self._place = place
        self._token: str | None = None

    def get(self, path: str) -> Any:
        """The response of the API."""
        return self._call("GET", f"/api/v2{path}")

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        """The response of the API."""
        return self._call("POST", f"/api/v2{path}", body)

    def patch(self, path: str, body: Mapping[str, object]) -> Any:
        """The response of the API."""
        return self._call("PATCH", f"/api/v2{path}", body)

    def _call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        if self._token is None and not path.startswith("/auth/"):
            login = {"username": USER, "password": self._place.password}
            self._token = self._call("POST", "/auth/token", login)["access_token"]
        request = urllib.request.Request(  # noqa: S310 - our own address
            self._place.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with _opener.open(request, timeout=_REQUEST_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as e:
            detail = e.read().decode("utf-8", "replace")[:500]
            raise AirflowFailed(f"{method} {path}: {e.code} {e.reason}: {detail}") from e
        except (OSError, ValueError) as e:
            raise AirflowFailed(f"{method} {path}: {e}") from e


# A proxy from the environment cannot reach this machine.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def wait_until_ready(
    airflow: ChildProcess, client: Client, dag_id: str, tell: Callable[[str], None]
) -> None:
    """Wait until Airflow can run the DAG; AirflowFailed if it ends or takes too long."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        if airflow.exit_code is not None:
            raise AirflowFailed(f"Airflow ended during start-up:\n{airflow.tail()}")
        waiting_for = _missing(client, dag_id)
        if not waiting_for:
            return
        if time.monotonic() > deadline:
            raise AirflowFailed(
                f"Airflow did not start: {waiting_for} is missing\n{airflow.tail()}"
            )
        tell(f"waiting for {waiting_for}")
        time.sleep(1.0)


def _missing(client: Client, dag_id: str) -> str:
    """The missing component as text; empty if Airflow is ready."""
    try:
        health = client.get("/monitor/health")
    except AirflowFailed:
        return "the API server"
    for component in _NEEDED:
        if health.get(component, {}).get("status") != "healthy":
            return f"the {component.replace('_', ' ')}"
    try:
        client.get(f"/dags/{dag_id}")
    except AirflowFailed:
        errors = client.get("/importErrors")["import_errors"]
        if errors:
            raise AirflowFailed(f"a DAG file is broken:\n{errors[0]['stack_trace']}") from None
        return f"DAG {dag_id}"
    return ""


def trigger(client: Client, dag_id: str, conf: Mapping[str, object]) -> str:
    """Start a run and return its id."""
    client.patch(f"/dags/{dag_id}", {"is_paused": False})
    run = client.post(f"/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})
    return str(run["dag_run_id"])


def wait_for_run(
    airflow: ChildProcess, client: Client, dag_id: str, run_id: str, tell: Callable[[str], None]
) -> str:
    """Wait for the run and return its final state: "success" or "failed"."""
    run = _run_path(dag_id, run_id)
    while True:
        if airflow.exit_code is not None:
            raise AirflowFailed(f"Airflow ended during the run:\n{airflow.tail()}")
        state = str(client.get(run)["state"])
        if state in {"success", "failed"}:
            return state
        tasks = client.get(f"{run}/taskInstances")["task_instances"]
        tell(_progress(tasks) or state)
        time.sleep(2.0)


def _progress(tasks: list[Mapping[str, Any]]) -> str:
    """The running tasks as text: "On Spark: shop.order_detail (24.0 MB)"."""
    running = [task for task in tasks if task["state"] in {"running", "queued", "up_for_retry"}]
    return ", ".join(
        task["task_display_name"]
        + (f": {task['rendered_map_index']}" if task.get("rendered_map_index") else "")
        for task in running
    )


def report_of(client: Client, dag_id: str, run_id: str) -> Mapping[str, Any]:
    """The result of the `report` task of the run; empty without one."""
    entry = f"{_run_path(dag_id, run_id)}/taskInstances/report/xcomEntries/return_value"
    try:
        value = client.get(entry)["value"]
    except AirflowFailed:
        return {}
    found: Mapping[str, Any] = json.loads(value) if isinstance(value, str) else value
    return found


def _run_path(dag_id: str, run_id: str) -> str:
    return f"/dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id, safe='')}"
