"""From a commit to a healthy table: the watcher, Airflow and its kills, on this machine.

    ./caretaker python benchmarks/commit_to_healthy.py --tables 200 --every 10 --minutes 10
    ./caretaker python benchmarks/commit_to_healthy.py --minutes 10 --kill-every 60     # with kills
    ./caretaker python benchmarks/commit_to_healthy.py --kill-every 60 --on-spark 4     # and Spark
    ./caretaker python benchmarks/commit_to_healthy.py --every 0.05     # 200 tables every 10 s

Starts an Airflow (API server, scheduler, DAG processor, triggerer) and restarts each component that
ends, as a service manager does.  A commit is healthy when its partition has been compacted.  With
`--on-spark 4`, every fourth table is compacted on Spark (`spark_threshold: 0`).  With
`--kill-every`, a worker with its task, the triggerer, or a Spark driver is killed at random; a
driver within three seconds after a commit to one of its tables.  In the end every snapshot of every
table is compared with the history.  The exit code is 1 if the 95th percentile is above a minute, a
commit is never healthy, a job was done twice, or the history differs from the tables.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from figures import Figure, exit_code, record
from lakes import Lake
from processes import in_session

from paimon_core.file_store_table import FileStoreTable
from paimon_core.scan.scan import scan_delta, scan_files
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_maintenance.demo.airflow import (
    AirflowFailed,
    AirflowHome,
    Client,
    airflow_environment,
    free_port,
)
from paimon_maintenance.history.position_store import PositionStore
from paimon_maintenance.history.store import SqlHistory

ROOT = Path(__file__).resolve().parents[1]
DAG = "caretaker_on_commit"
COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
MOST_SECONDS = 60.0
"""The goal for the 95th percentile from a commit to a compacted partition."""


@dataclass
class Services:
    """The components of Airflow, each in a session of its own, restarted when they end."""

    env: dict[str, str]
    home: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    restarts: int = 0

    def keep(self) -> None:
        """Start what does not run."""
        for name in COMPONENTS:
            process = self.running.get(name)
            if process is None or process.poll() is not None:
                self.restarts += process is not None
                if process is not None:
                    self._kill(process)
                with (self.home / f"{name}.log").open("ab") as log:
                    self.running[name] = subprocess.Popen(
                        [sys.executable, "-m", "airflow", name],
                        env=self.env,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )

    def kill(self, name: str) -> None:
        """Kill a component with all that it started."""
        self._kill(self.running[name])

    def kill_worker(self) -> int:
        """Kill the running tasks and the processes that supervise them; returns how many."""
        found = self._of_tasks("airflow worker --")
        return self._kill_all([pid for pid, command in found.items() if "<idle>" not in command])

    def kill_driver(self, rng: random.Random) -> int:
        """Kill the JVM of one of the Spark drivers; 0 if none runs."""
        found = sorted(self._of_tasks("org.apache.spark.deploy.SparkSubmit"))
        return self._kill_all(rng.sample(found, min(1, len(found))))

    def _of_tasks(self, word: str) -> dict[int, str]:
        session = in_session(self.running["scheduler"].pid)
        return {pid: command for pid, command in session.items() if word in command}

    @staticmethod
    def _kill_all(pids: Collection[int]) -> int:
        for pid in pids:
            _signal(pid)
        return len(pids)

    def stop(self) -> None:
        """Kill everything."""
        for process in self.running.values():
            self._kill(process)

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        for pid in in_session(process.pid):
            _signal(pid)
        process.wait()


def _signal(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@dataclass
class Commit:
    """A commit, and when it was healthy."""

    table: str
    snapshot: int
    at: float
    on_spark: bool = False
    healthy: float | None = None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument(
        "--every", type=float, default=10.0, help="seconds between two commits in the lake"
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kill-every", type=float, default=0.0, help="seconds; 0: no kills")
    parser.add_argument(
        "--on-spark", type=int, default=0, metavar="N", help="every Nth table; 0: none"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", metavar="FOLDER", help="keep logs and tables there")
    args = parser.parse_args()
    folder = Path(args.keep or tempfile.mkdtemp(prefix="commits-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return exit_code(missed=not measure(folder, args))
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)


def measure(folder: Path, args: argparse.Namespace) -> bool:
    """Run Airflow, write, kill, and print the times; whether all goals are reached."""
    lake = Lake(folder / "lake")
    lake.primary_key("db.t000", partitioned=True)
    lake.fill(1, rows=50, name="db.t000")
    names = [f"db.t{i:03}" for i in range(args.tables)]
    for name in names[1:]:
        database = lake.warehouse / "db.db"
        shutil.copytree(database / "t000", database / name.removeprefix("db."))
    place = AirflowHome(
        home=folder / "airflow", port=free_port(0), password="admin", viewer_password="viewer"
    )
    (place.home / "dags").mkdir(parents=True)
    shutil.copy(ROOT / "dags" / "caretaker.py", place.home / "dags")
    policy = place.home / "policy.yaml"
    on_spark = names[:: args.on_spark] if args.on_spark else []
    spark = f"  - {{ tables: {json.dumps(on_spark)}, spark_threshold: 0 }}\n" if on_spark else ""
    policy.write_text(f'version: 1\nrules:\n  - {{ tables: "*.*", on_commit: full }}\n{spark}')
    (place.home / "dags" / "caretaker.toml").write_text(
        f'[caretaker]\npolicy = "{policy}"\n'
        f"[on_commit]\npoll_seconds = 2\nlinger_seconds = 60\nspark = {'true' if spark else 'false'}\n"
    )
    passwords = place.home / "simple_auth_manager_passwords.json.generated"
    passwords.write_text(json.dumps({"admin": place.password}))
    env = {
        **airflow_environment(
            place, root=ROOT, warehouse=str(lake.warehouse), policy=policy, cores=2
        ),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
        "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "5",
        "PYTHONPATH": os.pathsep.join(
            str(ROOT / p) for p in (".", "maintenance", "plugins", "dags")
        ),
    }
    subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        env=env,
        check=True,
        capture_output=True,
    )
    services = Services(env, place.home)
    try:
        services.keep()
        client = Client(place)
        _ready(services, client)
        history = SqlHistory(env["CARETAKER_HISTORY_URL"])
        positions = PositionStore(history, str(lake.warehouse))
        while len(positions.all()) < len(names):
            services.keep()
            time.sleep(1)
        print(f"{len(names)} tables are watched", flush=True)
        commits, kills = _drive(lake, names, on_spark, services, positions, args)
    finally:
        services.stop()
    print(f"{len(commits)} commits, killed: {kills or 'nothing'}, {services.restarts} restarts")
    figures = [
        *_times(commits),
        *_truth(lake, history, {c.table for c in commits}),
        *(Figure(name=f"{what}s that were killed", value=n) for what, n in sorted(kills.items())),
    ]
    record(figures)
    return all(f.met is not False for f in figures)


def _ready(services: Services, client: Client) -> None:
    deadline = time.monotonic() + 900
    while True:
        services.keep()
        try:
            client.get(f"/dags/{DAG}")
            client.patch(f"/dags/{DAG}", {"is_paused": False})
        except AirflowFailed as e:
            if time.monotonic() > deadline:
                raise
            print("waiting:", str(e)[:100], flush=True)
            time.sleep(5)
        else:
            return


def _drive(
    lake: Lake,
    names: list[str],
    on_spark: list[str],
    services: Services,
    positions: PositionStore,
    args: argparse.Namespace,
) -> tuple[list[Commit], dict[str, int]]:
    """Commit and kill for some time, then wait until all commits are healthy."""
    rng = random.Random(args.seed)
    commits: list[Commit] = []
    kills: dict[str, int] = {}
    begin = time.time()
    end = begin + args.minutes * 60
    next_commit, next_kill = begin, begin + (args.kill_every or 1e12)
    kill_driver_at, wants_driver = 1e12, False
    killable = ["worker", "triggerer", *(["driver"] if on_spark else [])]
    while time.time() < end + 600:
        now = time.time()
        while next_commit <= now < end:
            table = rng.choice(on_spark if wants_driver else names)
            day = f"day{rng.randrange(2)}"
            lake.append({"k": [rng.randrange(50)], "v": ["new"], "dt": [day]}, table)
            snapshot = lake.table(table).snapshots.latest_id() or 0
            commits.append(Commit(table, snapshot, time.time(), table in on_spark))
            next_commit += args.every
            if wants_driver:
                kill_driver_at, wants_driver = time.time() + rng.uniform(0, 3), False
        if now < end and now >= next_kill:
            what = rng.choice(killable)
            next_kill += args.kill_every
            if what == "driver":
                wants_driver = True
            elif what == "worker":
                kills[what] = kills.get(what, 0) + bool(services.kill_worker())
            else:
                services.kill(what)
                kills[what] = kills.get(what, 0) + 1
        if now >= kill_driver_at:
            kill_driver_at = 1e12
            kills["driver"] = kills.get("driver", 0) + services.kill_driver(rng)
        services.keep()
        known = positions.all()
        for commit in commits:
            if commit.healthy is None and known[commit.table].snapshot >= commit.snapshot:
                commit.healthy = known[commit.table].at_millis / 1000
        if now >= end and all(c.healthy is not None for c in commits):
            break
        time.sleep(0.5)
    return commits, kills


def _times(commits: list[Commit]) -> list[Figure]:
    """How long the commits waited, printed as well."""
    figures = []
    on_spark = [c for c in commits if c.on_spark]
    for what, some in (("all tables", commits), ("tables on Spark", on_spark)):
        waited = sorted(c.healthy - c.at for c in some if c.healthy is not None)
        if len(waited) > 1:
            p95 = quantiles(waited, n=20, method="inclusive")[-1]
            print(
                f"from commit to healthy, {what}: median {median(waited):.1f} s, 95th percentile "
                f"{p95:.1f} s, longest {waited[-1]:.1f} s, "
                f"{len(some) - len(waited)} of {len(some)} never"
            )
            goal = MOST_SECONDS if some is commits else None
            figures += [
                Figure(name=f"{what}: median", value=median(waited), unit="s"),
                Figure(name=f"{what}: 95th percentile", value=p95, unit="s", target=goal),
                Figure(name=f"{what}: longest", value=waited[-1], unit="s"),
            ]
    never = sum(c.healthy is None for c in commits)
    return [*figures, Figure(name="commits that were never healthy", value=never, target=0)]


def _truth(lake: Lake, history: SqlHistory, names: Collection[str]) -> list[Figure]:
    """What was done twice, and where the history differs from the snapshots, printed as well."""
    twice, untrue, sick = 0, 0, 0
    for name in sorted(names):
        table = lake.table(name)
        snapshots = table.snapshots.all()
        twice += _done_twice(table, snapshots)
        made = {s.id for s in snapshots if str(s.commit_kind) == "COMPACT"}
        reported = {
            number
            for entry in history.newest(table=name, limit=None)
            for number in entry.snapshots
            if entry.event == "run"
        }
        untrue += made != reported
        latest = snapshots[-1]
        files: dict[tuple[bytes, int], int] = {}
        for entry in scan_files(table, latest):
            key = (entry.partition, entry.bucket)
            files[key] = files.get(key, 0) + 1
        sick += max(files.values()) > 2
    print(
        f"{twice} compactions of compacted files alone, {untrue} tables whose history differs, {sick} sick"
    )
    runs = [e for e in history.newest(limit=None) if e.event == "run"]
    print("runs by engine and end:", dict(Counter(f"{e.engine} {e.status}" for e in runs)))
    open_runs = [e for e in history.newest(limit=None) if e.event == "start"]
    print(
        f"{len(open_runs)} starts without an end (runs that were killed; the next run settles them)"
    )
    return [
        Figure(name="compactions that were done twice", value=twice, target=0),
        Figure(name="tables whose history differs from their snapshots", value=untrue, target=0),
        Figure(name="tables that are sick in the end", value=sick, target=0),
    ]


def _done_twice(table: FileStoreTable, snapshots: Sequence[Snapshot]) -> int:
    """The compactions that rewrote nothing but what others had compacted before."""
    twice = 0
    written: set[str] = set()
    for snapshot in snapshots:
        entries = scan_delta(table, snapshot)
        if snapshot.commit_kind is not CommitKind.COMPACT:
            written |= {e.file.file_name for e in entries}
        else:
            twice += written.isdisjoint(e.file.file_name for e in entries)
    return twice


if __name__ == "__main__":
    sys.exit(main())
