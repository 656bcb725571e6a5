"""How long the routes of the page take with a history of 2,000 tables.

    ./caretaker python benchmarks/page_routes.py [--tables 2000] [--runs 100000] [--requests 60]

Requests go through Airflow's own application in this process, with the login and the permissions of
a real user; times are those of one request after the other, in milliseconds.  `cpu` is the median
of the process's own time, for busy machines.  The routes that read the lake read a table of 1,000
snapshots and 4,000 files in 50 partitions on the local disk.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from figures import Figure, exit_code, record
from lived_table import TABLE, Life, live
from made_history import Made, make_history

from paimon_core.environment import system_environment
from paimon_maintenance.health.measure import measure_table
from paimon_maintenance.health.score import health_of
from paimon_maintenance.health.thresholds import Thresholds
from paimon_maintenance.history.status import StatusStore, status_of
from paimon_maintenance.history.store import SqlHistory

ROOT = Path(__file__).resolve().parents[1]
WAREHOUSE = "s3://lake/warehouse"
MOST_MILLIS = 300.0
"""The goal for the 95th percentile of each route."""
LIFE = Life(
    snapshots=1000, files_a_commit=5, days=50, days_a_commit=2, compact_every=10, data_files=False
)
Query = tuple[str, dict[str, object]]


def main() -> int:
    """Make the history and a table, ask each route, print the figures; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--url", help="a history database to fill (default: a new SQLite file)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = args.url or f"sqlite:///{Path(folder) / 'history.db'}"
        _prepare_airflow(folder, url)
        made = Made(tables=args.tables, runs=args.runs)
        now = int(time.time() * 1000)
        names = make_history(url, WAREHOUSE, made, now=now)
        lake = Path(folder) / "lake"
        _add_table(lake, url, now)
        print(f"{made.tables} tables, {made.runs} runs, {made.rounds} rounds")
        return exit_code(missed=not ask_all(names, str(lake), args.requests))


def _prepare_airflow(folder: str, url: str) -> None:
    """An Airflow with an empty database; to be called before Airflow is imported."""
    os.environ |= {
        "AIRFLOW_HOME": str(Path(folder) / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(64),
        "CARETAKER_HISTORY_URL": url,
    }
    path = os.pathsep.join(str(ROOT / p) for p in (".", "maintenance", "plugins", "dags"))
    subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def _add_table(lake: Path, url: str, now: int) -> None:
    """A real table that the history knows."""
    measured = measure_table(live(lake, LIFE), system_environment())
    status = status_of(measured, health_of(measured, Thresholds(), now), owner=None)
    StatusStore(SqlHistory(url), str(lake)).put([status])


def ask_all(names: list[str], lake: str, requests: int) -> bool:
    """Ask each route and print the median and the 95th percentile; whether all reach the goal."""
    # After AIRFLOW_HOME is set, which Airflow reads when it is imported.
    from airflow_page import make_app, token_of  # noqa: PLC0415
    from fastapi.testclient import TestClient  # noqa: PLC0415

    client = TestClient(make_app(), raise_server_exceptions=True)
    client.headers["Authorization"] = f"Bearer {token_of('admin')}"
    print(f"{'route':28} {'median':>8} {'p95':>8} {'most':>8} {'cpu':>8} {'bytes':>9}")
    reached = True
    for name, make in _routes(names, lake).items():
        times, cpu, size = [], [], 0
        for _ in range(requests):
            path, query = make()
            started, worked = time.perf_counter(), time.process_time()
            answer = client.get(f"/caretaker/api/{path}?{urlencode(query)}")
            times.append((time.perf_counter() - started) * 1000)
            cpu.append((time.process_time() - worked) * 1000)
            assert answer.status_code == 200, answer.text
            size = len(answer.content)
        times.sort()
        p95 = times[min(len(times) - 1, int(len(times) * 0.95))]
        figures = (statistics.median(times), p95, times[-1], statistics.median(cpu))
        print(f"{name:28} {' '.join(f'{one:8.0f}' for one in figures)} {size:9,}")
        record([Figure(name=f"{name}, 95th percentile", value=p95, unit="ms", target=MOST_MILLIS)])
        reached &= p95 <= MOST_MILLIS
    return reached


def _routes(names: list[str], lake: str) -> dict[str, Callable[[], Query]]:
    """What is asked, by its name in the table of figures."""
    chance = random.Random(1)
    real: dict[str, object] = {"warehouse": lake, "table": TABLE}

    def a_table() -> dict[str, object]:
        return {"warehouse": WAREHOUSE, "table": chance.choice(names)}

    return {
        "session": lambda: ("session", {}),
        "lake": lambda: ("lake", {"sort": chance.choice(("score", "bytes", "last", "next"))}),
        "lake, searched": lambda: ("lake", {"search": f"table_{chance.randint(0, 199):03d}"}),
        "lake, 500 rows": lambda: ("lake", {"limit": 500, "sort": "held_bytes"}),
        "totals, 7 days": lambda: ("totals", {"warehouse": WAREHOUSE}),
        "table": lambda: ("table", a_table()),
        "runs, 7 days": lambda: ("runs", {"warehouse": WAREHOUSE}),
        "runs, 28 days": lambda: ("runs", {"days": 28}),
        "metrics": lambda: ("metrics", {}),
        "files, from the lake": lambda: ("table/files", real),
        "snapshots, from the lake": lambda: ("table/snapshots", real),
        "schemas, from the lake": lambda: ("table/schemas", real),
        "plan compact, from the lake": lambda: ("table/plan", {**real, "job": "compact"}),
        "plan expiry, from the lake": lambda: ("table/plan", {**real, "job": "expire_snapshots"}),
    }


if __name__ == "__main__":
    sys.exit(main())
