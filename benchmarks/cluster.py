"""One huge bucket compacted on a standalone cluster of one, two and four one-core executors.

    ./caretaker python benchmarks/cluster.py [--rows 12000000] [--executors 1 2 4] [--slice-mb 128]
    ./caretaker python benchmarks/cluster.py --rows 40000000     about 4 GB; 100000000: about 10 GB

The table has 12 overlapping runs in one bucket (Java's, where the oracle is there).  Each run is
one `caretaker run compact --engine spark` on a copy of the table.  Seconds by the clock:

- execute: the phase of the job.  It includes the start of Spark, which does not get faster with
  more executors, and takes more processor time, since each of them starts a JVM and a Python;
- before: from the start of the application to its first job;
- keys: the Spark job that samples keys, the first one, in which all executors start their Python;
- slices: the Spark job that rewrites, from its first task to the end of its last one;
- tasks: the sum of the seconds of the tasks in `slices`.  It grows with the number of executors if
  they wait for each other: for a processor, for memory, for the disk.

Spark's event log has all but the first.  Efficiency is the speed-up over the smallest number of
executors by the number of executors, for the whole phase and for the slices.  Each executor is held
to one processor, or a single one would use the others too, for the collectors of its JVM and the
threads of Arrow.  CPU seconds are those of all Python workers, their start included.  To reach: an
efficiency of 0.85 with four, and 1 GiB for a task.  Driver, master and workers need a processor of
their own to show what the executors can do: on a machine with as many processors as executors, the
whole phase shows mostly how these start.

On a machine with fewer processors, `--share 0.4` holds each worker, with its executor, to that part
of one.  Executors are slower then, but as fast with three others as alone, so the seconds show how
the work is distributed, and not what processes do to each other that share processors.  It needs
root, for a control group.

With `--ceiling`, the same bucket is also compacted by one process, and by as many at once as there
were executors.  These share nothing but the machine, so the seconds of one by the mean seconds of
many are the efficiency that no way of distributing can exceed here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Final

from cases import Case
from compaction import STEPS, copy_table, make_table
from figures import Figure, exit_code, record
from processes import machine, run_step
from spark_events import LOGGED, Application, Job, read_application

ROOT: Final = Path(__file__).resolve().parents[1]
RUNS: Final = 12


def main() -> int:
    """0 if the targets are reached."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--slice-mb", type=int, help="default: what the job chooses")
    parser.add_argument("--folder", type=Path, help="folder of the table (deleted at the end)")
    parser.add_argument(
        "--made", type=Path, help="take, or make and keep, the table in this folder"
    )
    parser.add_argument(
        "--ceiling", action="store_true", help="also what independent processes reach"
    )
    parser.add_argument(
        "--share", type=float, help="the part of a processor that an executor gets at most"
    )
    wanted = parser.parse_args()
    sys.path[:0] = [str(ROOT / "tests")]
    from spark_cluster import standalone_cluster  # noqa: PLC0415 - a part of the tests

    print(json.dumps(machine()), file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=wanted.folder))
    try:
        made = wanted.made or folder / "made"
        if not made.exists():
            make_table(Case(name="pk", rows=wanted.rows, commits=RUNS), made)
        home = folder / "home"
        with standalone_cluster(
            home,
            workers=max(wanted.executors),
            cores=1,
            memory="1g",
            pinned=True,
            share=wanted.share,
        ) as on:
            # The first application warms the page cache and the workers.
            runs = {
                n: _run(made, folder, on.master, n, wanted.slice_mb)
                for n in (max(wanted.executors), *wanted.executors)
            }
        alone = {n: _independent(made, n) for n in wanted.executors if wanted.ceiling}
    finally:
        shutil.rmtree(folder)
    return _print(runs, alone, wanted.rows)


@dataclass(frozen=True, slots=True)
class Run:
    """A compaction: the seconds of its phase, of its application, and what its workers took."""

    execute: float
    spark: Application
    workers: Workers

    @property
    def slices(self) -> Job:
        return self.spark.jobs[-1]

    def row(self, executors: int, alone: Run, least: int) -> list[str]:
        """A line of the table; `alone` is the run with the `least` executors."""
        whole, slices = self.efficiency(executors, alone, least)
        keys = self.spark.jobs[0] if len(self.spark.jobs) > 1 else None
        return [
            str(executors),
            f"{self.execute:.1f}",
            f"{self.spark.jobs[0].started:.1f}",
            "" if keys is None else f"{keys.wall:.1f}",
            f"{self.slices.seconds:.1f}",
            f"{sum(self.slices.tasks):.1f} in {len(self.slices.tasks)}",
            f"{self.workers.cpu_seconds:.1f}",
            f"{whole:.2f}",
            f"{slices:.2f}",
            f"{self.workers.peak_mb:.0f}",
        ]

    def efficiency(self, executors: int, alone: Run, least: int) -> tuple[float, float]:
        """The efficiency of the whole phase, and of the slices."""
        share = least / executors
        return (
            share * alone.execute / self.execute,
            share * alone.slices.seconds / self.slices.seconds,
        )


def _run(made: Path, folder: Path, master: str, executors: int, slice_mb: int | None) -> Run:
    """One application with this many executors."""
    warehouse, events = copy_table(made, folder / "copy"), folder / "events"
    events.mkdir()
    conf = {
        **LOGGED,
        "spark.eventLog.dir": f"file://{events}",
        "spark.cores.max": executors,
        "spark.executor.cores": 1,
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    command = [sys.executable, "-m", "paimon_maintenance.cli", "run", "compact", "db.t"]
    command += ["-w", str(warehouse), "--strategy", "full", "--engine", "spark"]
    command += ["--master", master, "--json"]
    command += [] if slice_mb is None else ["--slice-bytes", f"{slice_mb} mb"]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'maintenance'}",
        "CARETAKER_HISTORY_URL": "none",
        "PYSPARK_SUBMIT_ARGS": " ".join([*settings, "pyspark-shell"]),
    }
    with _watched_workers(folder) as workers:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"the compaction failed: {done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    run = Run(float(report["seconds"]["execute"]), read_application(events), workers)
    shutil.rmtree(warehouse)
    shutil.rmtree(events)
    return run


def _independent(made: Path, number: int) -> float:
    """The mean seconds of so many processes that compact the whole bucket at the same time."""
    with ThreadPoolExecutor(number) as pool:
        done = pool.map(lambda _: run_step(STEPS, "slices", warehouse=str(made)), range(number))
        return fmean(each.answer["seconds"] for each in done)


@dataclass(slots=True)
class Workers:
    """The largest resident memory of a Python worker below `folder`, and the CPU seconds of all."""

    folder: Path
    peak_mb: float = 0.0
    cpu: dict[int, float] = field(default_factory=dict)

    @property
    def cpu_seconds(self) -> float:
        return sum(self.cpu.values())

    def look(self, process: Path) -> None:
        """Note what this process has taken so far, if it is a worker or their daemon."""
        if b"pyspark.daemon" not in (process / "cmdline").read_bytes():
            return
        if not (process / "cwd").readlink().is_relative_to(self.folder):
            return
        pages = int((process / "statm").read_text().split()[1])
        self.peak_mb = max(self.peak_mb, pages * os.sysconf("SC_PAGE_SIZE") / 1024**2)
        user, system = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
        self.cpu[int(process.name)] = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _watched_workers(folder: Path) -> Iterator[Workers]:
    """What the Python workers of the cluster in this folder take while the block runs."""
    workers, ended = Workers(folder), threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            for process in Path("/proc").iterdir():
                try:
                    workers.look(process)
                except (OSError, IndexError, ValueError):
                    continue  # it has ended, or is not a process

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield workers
    finally:
        ended.set()
        watcher.join()


def _print(runs: dict[int, Run], alone: dict[int, float], rows: int) -> int:
    print(
        "| executors | execute s | before s | keys s | slices s | tasks s | Python CPU s |", end=""
    )
    print(" efficiency, execute | slices | peak MB of a task |")
    print("|" + "---|" * 10)
    least = min(runs)
    figures = []
    for executors, run in sorted(runs.items()):
        print(f"| {' | '.join(run.row(executors, runs[least], least))} |")
        named = f"{rows / 1e6:g} M rows, {executors} executor{'s' if executors > 1 else ''}"
        whole, slices = run.efficiency(executors, runs[least], least)
        figures += [
            Figure(name=f"{named}: phase execute", value=round(run.execute, 1), unit="s"),
            Figure(name=f"{named}: slices", value=round(run.slices.seconds, 1), unit="s"),
            Figure(
                name=f"{named}: tasks of the slices",
                value=round(sum(run.slices.tasks), 1),
                unit="s",
            ),
        ]
        if executors > least:
            figures += [
                Figure(name=f"{named}: {what}", value=round(value, 2), target=0.85, at_least=True)
                for what, value in (
                    ("efficiency of the phase", whole),
                    ("efficiency of the slices", slices),
                )
            ]
    for number, seconds in sorted(alone.items()):
        reached = alone[min(alone)] / seconds
        print(f"{number} independent processes: {seconds:.1f} s each, efficiency {reached:.2f}")
        if number > min(alone):
            name = f"{rows / 1e6:g} M rows, {number} independent processes: efficiency"
            figures.append(Figure(name=name, value=round(reached, 2)))
    peak = max(run.workers.peak_mb for run in runs.values())
    figures.append(Figure(name="peak memory of a task", value=round(peak), unit="MB", target=1024))
    record(figures)
    return exit_code(missed=any(f.met is False for f in figures))


if __name__ == "__main__":
    sys.exit(main())
