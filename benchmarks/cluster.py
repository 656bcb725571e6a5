"""One huge bucket compacted on a standalone cluster of one, two and four executors of one core each.

    ./caretaker python benchmarks/cluster.py [--rows 12000000] [--executors 1 2 4] [--slice-mb 128]

The table has 12 overlapping runs in one bucket (Java's, where the oracle is there).  Each run is one
`caretaker run compact --engine spark` on a copy of the table; the seconds are those of the phase
`execute`, from the first task to the last result, so without the start of Spark.  Efficiency is the
speed-up by the number of executors.  To reach: 0.85 with four, and 1 GiB for a task.  The driver, the
master and the workers need a processor of their own to show what the executors can do.
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
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cases import Case
from compaction import copy_table, make_table
from figures import Figure, exit_code, record
from processes import machine

ROOT: Final = Path(__file__).resolve().parents[1]
RUNS: Final = 12


def main() -> int:
    """0 if the targets are reached."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--slice-mb", type=int, default=128)
    parser.add_argument("--folder", type=Path, help="folder of the table (deleted at the end)")
    parser.add_argument(
        "--made", type=Path, help="take, or make and keep, the table in this folder"
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
        with standalone_cluster(home, workers=max(wanted.executors), cores=1, memory="1g") as on:
            # The first application warms the page cache and the workers.
            runs = {
                n: _run(made, folder, on.master, n, wanted.slice_mb)
                for n in (max(wanted.executors), *wanted.executors)
            }
    finally:
        shutil.rmtree(folder)
    return _print(runs, wanted.rows)


def _run(made: Path, folder: Path, master: str, executors: int, slice_mb: int) -> dict[str, Any]:
    """The report of one application with this many executors, and the peak memory of its tasks."""
    warehouse = copy_table(made, folder / "copy")
    conf = {
        "spark.cores.max": executors,
        "spark.executor.cores": 1,
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    command = [sys.executable, "-m", "paimon_maintenance.cli", "run", "compact", "db.t"]
    command += ["-w", str(warehouse), "--strategy", "full", "--slice-bytes", f"{slice_mb} mb"]
    command += ["--engine", "spark", "--master", master, "--json"]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'maintenance'}",
        "CARETAKER_HISTORY_URL": "none",
        "PYSPARK_SUBMIT_ARGS": " ".join([*settings, "pyspark-shell"]),
    }
    with _peak_of_workers() as peak:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"the compaction failed: {done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    shutil.rmtree(warehouse)
    return {**report, "peak_mb": peak[0]}


@contextmanager
def _peak_of_workers() -> Iterator[list[float]]:
    """The largest resident memory, in MB, of a Python worker while the block runs."""
    peak, ended = [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            for folder in Path("/proc").iterdir():
                try:
                    if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                        pages = int((folder / "statm").read_text().split()[1])
                        peak[0] = max(peak[0], pages * os.sysconf("SC_PAGE_SIZE") / 1024**2)
                except (OSError, IndexError, ValueError):
                    continue  # it has ended, or is not a process

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def _print(runs: dict[int, dict[str, Any]], rows: int) -> int:
    print("| executors | execute s | speed-up | efficiency | tasks | peak MB of a task |")
    print("|---|---|---|---|---|---|")
    alone = float(runs[min(runs)]["seconds"]["execute"]) * min(runs)
    figures = []
    for executors, report in sorted(runs.items()):
        seconds = float(report["seconds"]["execute"])
        speed_up = alone / seconds
        print(
            f"| {executors} | {seconds:.1f} | {speed_up:.2f} | {speed_up / executors:.2f} | "
            f"{report.get('units', '')} | {report['peak_mb']:.0f} |"
        )
        figures.append(
            Figure(
                name=f"one bucket of {rows / 1e6:g} M rows, efficiency of {executors} executors",
                value=round(speed_up / executors, 2),
                target=0.85 if executors > 1 else None,
                at_least=True,
            )
        )
    peak = max(float(r["peak_mb"]) for r in runs.values())
    figures.append(Figure(name="peak memory of a task", value=round(peak), unit="MB", target=1024))
    record(figures)
    return exit_code(missed=any(f.met is False for f in figures))


if __name__ == "__main__":
    sys.exit(main())
