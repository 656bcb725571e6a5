"""How long the routes of the page take with a history of 2,000 tables.

    ./caretaker python benchmarks/page_routes.py [--tables 2000] [--runs 100000] [--requests 60]

Requests go through the application in this process, with the login replaced; times are those of one
request after the other, in milliseconds.  `cpu` is the median of the process's own time, for busy machines.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

from made_history import Made, make_history

WAREHOUSE = "s3://lake/warehouse"


def main() -> None:
    """Make the history, ask each route, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--url", help="a history database to fill (default: a new SQLite file)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("AIRFLOW_HOME", folder)
        url = args.url or f"sqlite:///{Path(folder) / 'history.db'}"
        os.environ["CARETAKER_HISTORY_URL"] = url
        made = Made(tables=args.tables, runs=args.runs)
        now = int(time.time() * 1000)
        names = make_history(url, WAREHOUSE, made, now=now)
        print(f"{made.tables} tables, {made.runs} runs, {made.rounds} rounds")
        ask_all(names, args.requests)


def ask_all(names: list[str], requests: int) -> None:
    """Ask each route and print the median and the 95th percentile."""
    # After AIRFLOW_HOME is set, which Airflow reads when it is imported.
    from fastapi.testclient import TestClient  # noqa: PLC0415

    from paimon_airflow.page.app import page_app  # noqa: PLC0415
    from paimon_airflow.page.security import may_see  # noqa: PLC0415

    app = page_app()
    app.dependency_overrides[may_see] = lambda: None
    client = TestClient(app, raise_server_exceptions=True)
    chance = random.Random(1)

    def a_table() -> dict[str, object]:
        return {"warehouse": WAREHOUSE, "table": chance.choice(names)}

    routes = {
        "lake": lambda: ("/api/lake", {"sort": chance.choice(("score", "bytes", "last", "next"))}),
        "lake, searched": lambda: ("/api/lake", {"search": f"table_{chance.randint(0, 199):03d}"}),
        "lake, 500 rows": lambda: ("/api/lake", {"limit": 500, "sort": "held_bytes"}),
        "totals, 7 days": lambda: ("/api/totals", {"warehouse": WAREHOUSE}),
        "table": lambda: ("/api/table", a_table()),
        "runs, 7 days": lambda: ("/api/runs", {"warehouse": WAREHOUSE}),
        "runs, 28 days": lambda: ("/api/runs", {"days": 28}),
        "metrics": lambda: ("/api/metrics", {}),
    }
    print(f"{'route':18} {'median':>8} {'p95':>8} {'most':>8} {'cpu':>8} {'bytes':>9}")
    for name, make in routes.items():
        times, cpu, size = [], [], 0
        for _ in range(requests):
            path, query = make()
            started, worked = time.perf_counter(), time.process_time()
            answer = client.get(f"{path}?{urlencode(query)}")
            times.append((time.perf_counter() - started) * 1000)
            cpu.append((time.process_time() - worked) * 1000)
            assert answer.status_code == 200, answer.text
            size = len(answer.content)
        times.sort()
        p95 = times[min(len(times) - 1, int(len(times) * 0.95))]
        figures = (statistics.median(times), p95, times[-1], statistics.median(cpu))
        print(f"{name:18} {' '.join(f'{one:8.0f}' for one in figures)} {size:9,}")


if __name__ == "__main__":
    main()
