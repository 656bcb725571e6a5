"""Small tables: the start of the command line, one table on a slow store, many tables in one run.

    ./caretaker python benchmarks/small_tables.py [--tables 200] [--times 5] [--only NAME] [--spark]

Each table has five files in one bucket, about 300 KB (the DAG and Spark: five files of 1,000 rows),
all overlapping, and `compact --strategy full` makes one of them.

    start      a process of the command line: --help, inspect, run
    latency    one table on an S3 server (moto) behind a proxy that delays each request by 20 ms;
               inspect to commit, and with verification, once the client is connected
    command    `caretaker run compact 'db.*'` over all tables
    dag        one run of the DAG caretaker_compact over all tables, in this process, as `dags test`
               of Airflow does it
    connect    one table of 12 files and 19 KB through a session of Spark Connect that is warm
    archive    one table of 12 files and 19 KB by a command that starts Spark, without and with the
               archive of `caretaker spark-archive`
    spark      all tables in one Spark application (local[4]), from spark-submit to its end

`--spark` adds the last three.  To reach: see TARGETS.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final, Self

import processes
from figures import Figure, exit_code, record

ROOT: Final = Path(__file__).resolve().parents[1]
DELAY_MILLIS: Final = 20
TARGETS: Final = {
    "start: caretaker --help": 0.35,
    "start: caretaker inspect": 0.35,
    "latency: inspect to commit": 1.0,
    "dag": 60.0,
    "connect: ": 2.0,
}
"""Seconds to reach, for a row that begins with these words."""
STEPS: Final = ("start", "latency", "command", "dag", "connect", "archive", "spark")
ON_SPARK: Final = ("connect", "archive", "spark")


def main() -> int:
    """0 if all targets of the rows that were measured are reached."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--only", choices=STEPS, action="append")
    parser.add_argument("--spark", action="store_true")
    args = parser.parse_args()
    wanted = args.only or [step for step in STEPS if step not in ON_SPARK or args.spark]
    print(json.dumps(processes.machine()))
    print("| what | s | CPU s | peak RSS | to reach |\n|---|---|---|---|---|")
    missed = 0
    with tempfile.TemporaryDirectory(prefix="small-tables-") as folder:
        for step in wanted:
            for name, seconds, cpu, peak in _measure(step, Path(folder), args.tables, args.times):
                target = next((t for start, t in TARGETS.items() if name.startswith(start)), None)
                missed += target is not None and seconds >= target
                record([Figure(name=name, value=round(seconds, 2), unit="s", target=target)])
                shown = "" if target is None else f"{target:g} s"
                print(
                    f"| {name} | {seconds:.2f} | {cpu:.2f} | {peak:,.0f} MB | {shown} |", flush=True
                )
    return exit_code(missed=missed > 0)


Row = tuple[str, float, float, float]
"""A name, seconds, processor seconds, peak memory in MB."""


def _measure(step: str, folder: Path, tables: int, times: int) -> list[Row]:
    if step == "start":
        return _starts(folder, times)
    done = processes.run_step(__file__, step, folder=str(folder / step), tables=tables)
    return [(row[0], row[1], row[2], row[3]) for row in done.answer["rows"]]


def _starts(folder: Path, times: int) -> list[Row]:
    lake = folder / "start"
    processes.run_step(__file__, "make", folder=str(lake), tables=times, rows=8_000)
    rows = []
    for words in (["--help"], ["inspect", "db.t0"], ["run", "compact", "db.t{}"]):
        runs = []
        for number in range(times):
            command = [word.format(number) for word in words]
            command += [] if words == ["--help"] else ["-w", str(lake)]
            command += ["--strategy", "full"] if words[0] == "run" else []
            runs.append(processes.run([str(ROOT / "caretaker"), *command]))
        rows.append(
            (
                f"start: caretaker {' '.join(words[:2])}",
                median(r.wall_seconds for r in runs),
                median(r.cpu_seconds for r in runs),
                max(r.peak_mb for r in runs),
            )
        )
    return rows


# --- the steps, each in a process of its own ----------------------------------------------------


class Watch:
    """Measures a block: seconds, processor seconds of this process and children, peak memory."""

    def __enter__(self) -> Self:
        self._started, self._cpu = time.perf_counter(), _cpu_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._started
        self.cpu = _cpu_seconds() - self._cpu

    def row(self, name: str) -> Row:
        """The row of the table; the peak is that of the largest process so far."""
        who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        peak = max(resource.getrusage(each).ru_maxrss for each in who)
        return (name, self.seconds, self.cpu, peak / 1024)


def _cpu_seconds() -> float:
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(each)[:2]) for each in who)


def make(folder: Path, tables: int, rows: int = 1_000, files: int = 5) -> list[Row]:
    """The tables db.t0, db.t1, ... of so many files each."""
    from lakes import Lake  # noqa: PLC0415 - a step of its own

    lake = Lake(folder)
    for number in range(tables):
        lake.primary_key(f"db.t{number}")
        lake.fill(files, rows=rows, name=f"db.t{number}")
    return []


def latency(folder: Path, tables: int) -> list[Row]:  # noqa: ARG001 - as the other steps
    """Seconds of one run, after a run on another table has connected the client."""
    from s3_store import s3_server, upload  # noqa: PLC0415 - a step of its own
    from slow_store import slow_store  # noqa: PLC0415 - a step of its own

    from paimon_maintenance.registry import job_named  # noqa: PLC0415 - as above
    from paimon_maintenance.run.request import RunRequest  # noqa: PLC0415 - as above
    from paimon_maintenance.run.runner import run_table  # noqa: PLC0415 - as above

    make(folder, 4, 8_000)
    size = sum(f.stat().st_size for f in (folder / "db.db" / "t0" / "bucket-0").iterdir())
    job = job_named("compact")
    seconds: list[Mapping[str, float]] = []
    with s3_server() as server, slow_store(server, delay_millis=DELAY_MILLIS) as store:
        root = server.new_root()
        upload(folder, root)
        for number in range(4):
            request = RunRequest(
                job=job,
                warehouse=root,
                table=f"db.t{number}",
                arguments=job.read_arguments({"strategy": "full"}),
                file_io_options=store.options,
            )
            with Watch() as watch:
                report = run_table(request)
            if report.error is not None:
                raise report.error
            seconds.append(report.seconds)
    # The server and the proxy are threads of this process: their work is in the processor seconds.
    _, cpu, peak = watch.row("")[1:]
    to_commit = median(sum(v for k, v in s.items() if k != "verify") for s in seconds[1:])
    what = f"5 files, {size // 1024} KB, {DELAY_MILLIS} ms a request"
    return [
        (f"latency: inspect to commit ({what})", to_commit, cpu, peak),
        ("latency: with verification", median(sum(s.values()) for s in seconds[1:]), cpu, peak),
    ]


def command(folder: Path, tables: int) -> list[Row]:
    """Seconds of one command over all tables."""
    make(folder, tables)
    words = ["run", "compact", "db.*", "-w", str(folder), "--strategy", "full"]
    with Watch() as watch:
        subprocess.run([str(ROOT / "caretaker"), *words], check=True, capture_output=True)
    return [watch.row(f"command: {tables} tables")]


def dag(folder: Path, tables: int) -> list[Row]:
    """Seconds of one DAG run over all tables, from its creation to its end."""
    make(folder / "lake", tables)
    home = folder / "airflow"
    dags = home / "dags"
    dags.mkdir(parents=True)
    os.environ |= {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    os.environ["CARETAKER_HISTORY_URL"] = f"sqlite:///{folder}/history.db"
    subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"], check=True, capture_output=True
    )
    file = Path(shutil.copy(ROOT / "dags" / "caretaker.py", dags))
    made = runpy.run_path(str(file))["caretaker_compact"]
    with Watch() as watch:
        run = made.test(run_conf={"warehouse": str(folder / "lake"), "strategy": "full"})
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
    if states["in_process"] != "success" or states["report"] != "success":
        raise SystemExit(f"the run ended with {states}")
    return [watch.row(f"dag: {tables} tables")]


def connect(folder: Path, tables: int) -> list[Row]:  # noqa: ARG001 - as the other steps
    """Seconds of one run through Spark Connect, after two runs on other tables."""
    from spark_cluster import connect_server  # noqa: PLC0415 - a step of its own

    from paimon_maintenance.engines.spark.engine import SparkEngine  # noqa: PLC0415 - as above
    from paimon_maintenance.registry import job_named  # noqa: PLC0415 - as above
    from paimon_maintenance.run.request import RunRequest  # noqa: PLC0415 - as above
    from paimon_maintenance.run.runner import RunServices, run_table  # noqa: PLC0415 - as above

    make(folder, 5, 60, 12)
    job = job_named("compact")
    seconds = []
    with connect_server() as url:
        engine = SparkEngine(master=url)
        for number in range(5):
            request = RunRequest(
                job=job,
                warehouse=str(folder),
                table=f"db.t{number}",
                arguments=job.read_arguments({"strategy": "full"}),
            )
            with Watch() as watch:
                report = run_table(request, RunServices(engine=engine))
            if report.error is not None:
                raise report.error
            seconds.append(watch.seconds)
        engine.close()
    return [("connect: 12 files, warm session", median(seconds[2:]), *watch.row("")[2:])]


def archive(folder: Path, tables: int) -> list[Row]:  # noqa: ARG001 - as the other steps
    """Seconds of a command that starts Spark, without and with an archive of its classes."""
    lake = folder / "lake"
    make(lake, 6, 60, 12)
    os.environ["XDG_CACHE_HOME"] = str(folder)
    rows, command = [], str(ROOT / "caretaker")
    for number, name in enumerate(("archive: none", "archive: used")):
        if number:
            subprocess.run([command, "spark-archive"], check=True, capture_output=True)
        runs = []
        for table in range(3):
            words = ["run", "compact", f"db.t{number * 3 + table}", "-w", str(lake)]
            words += ["--strategy", "full", "--engine", "spark", "--master", "local[1]"]
            with Watch() as watch:
                subprocess.run([command, *words], check=True, capture_output=True)
            runs.append(watch)
        middle = sorted(runs, key=lambda watch: watch.seconds)[1]
        rows.append(middle.row(f"{name}, 12 files by Spark"))
    return rows


def spark(folder: Path, tables: int) -> list[Row]:
    """Seconds of one Spark application over all tables."""
    lake = folder / "lake"
    make(lake, tables)
    request = {
        "job": "compact",
        "warehouse": str(lake),
        "arguments": {"strategy": "full"},
        "engine": {"engine": "spark"},
    }
    batch = folder / "batch.json"
    batch.write_text(json.dumps([{**request, "table": f"db.t{n}"} for n in range(tables)]))
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.scheduler.mode": "FAIR",
    }
    with Watch() as watch:
        subprocess.run(
            [
                *(str(Path(sys.executable).parent / "spark-submit"), "--master", "local[4]"),
                *(word for key, value in conf.items() for word in ("--conf", f"{key}={value}")),
                str(ROOT / "maintenance" / "paimon_maintenance" / "spark_app.py"),
                *("--batch", str(batch), "--results", str(folder / "results")),
            ],
            check=True,
            capture_output=True,
            cwd=folder,
        )
    return [watch.row(f"spark: {tables} tables in one application")]


def step() -> None:
    """Run the step that `processes.run_step` asks for, and print its seconds as JSON."""
    sys.path[:0] = [str(ROOT / "tests")]
    os.environ.setdefault("CARETAKER_HISTORY_URL", "none")
    request = json.loads(sys.argv[1])
    name, folder = request.pop("step"), Path(request.pop("folder"))
    steps = {f.__name__: f for f in (make, latency, command, dag, connect, archive, spark)}
    print(json.dumps({"rows": steps[name](folder, **request)}))


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].startswith("{"):
        step()
    else:
        sys.exit(main())
