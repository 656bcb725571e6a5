"""Expiry of many snapshots: ours beside Java's, and the plans on a table with a very long life.

    python benchmarks/expire.py                     200 snapshots to 10, ours and Java's
    python benchmarks/expire.py --long              1,000 snapshots to 10, three times each
    python benchmarks/expire.py --plans             plans over 10,000 snapshots, 100,000 files

To reach: a fifth of Java's time; each plan in 10 s and 1 GiB.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from processes import Measured, machine, run, run_step

HERE = Path(__file__).resolve()
ORACLE = HERE.parents[2] / "shared" / "oracle"
RETAIN = {"retain_max": 10, "retain_min": 1, "max_deletes": 100_000}
FIFTH = 0.2
PLAN_SECONDS, PLAN_MB = 10.0, 1024
PLANS: dict[str, dict[str, object]] = {
    "expire_snapshots": RETAIN,
    "expire_snapshots, 50 a run": {"retain_max": 10, "retain_min": 1},
    "compact": {},
    "expire_partitions": {"expiration_time": "1000 d"},
    "remove_orphan_files": {},
}


def main() -> int:
    """0 if what was to reach is reached."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--plans", action="store_true")
    parser.add_argument(
        "--folder", help="where to make tables (a folder in memory spares the disk)"
    )
    arguments = parser.parse_args()
    print(json.dumps(machine()), file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if arguments.plans:
            return plans(Path(folder))
        count, times = (1000, 3) if arguments.long else (200, 1)
        return expiry(Path(folder), count, times)


def expiry(folder: Path, count: int, times: int) -> int:
    """Ours and Java's in turns, each on a copy of its own."""
    run_step(str(HERE), "make", warehouse=str(folder / "made"), snapshots=count, days=10)
    seconds: dict[str, list[float]] = {"ours": [], "java": []}
    cpu: dict[str, list[float]] = {"ours": [], "java": []}
    left = {}
    for number in range(times):
        for way in ("ours", "java"):
            warehouse = folder / f"{way}-{number}"
            shutil.copytree(folder / "made", warehouse)
            if way == "ours":
                done = run_step(str(HERE), "expire", warehouse=str(warehouse))
            else:
                done = java(warehouse)
            root = warehouse / "db.db" / "t"
            left[way] = sum(1 for p in root.rglob("*") if p.is_file() and p.name != "EARLIEST")
            seconds[way].append(float(done.answer["seconds"]))
            cpu[way].append(float(done.answer["cpu"]))
            shutil.rmtree(warehouse)
    for way, clock in seconds.items():
        print(
            f"{way:5} {count} snapshots to 10: {shown(clock)} s, CPU {shown(cpu[way])} s, "
            f"{left[way]} files left"
        )
    ratio = statistics.median(seconds["ours"]) / statistics.median(seconds["java"])
    cpu_ratio = statistics.median(cpu["ours"]) / statistics.median(cpu["java"])
    print(f"ours to Java: {ratio:.2f} by the clock, {cpu_ratio:.2f} by CPU (to reach {FIFTH})")
    return 0 if ratio <= FIFTH and left["ours"] == left["java"] else 1


def java(warehouse: Path) -> Measured:
    """Java's expiry in a process that has read the table before: no start, classes loaded."""
    at = {"warehouse": str(warehouse), "database": "db", "table": "t", "timing": True}
    steps = [{**at, "op": "snapshots"}, {**at, "op": "expire_snapshots", "cpu": True, **RETAIN}]
    text = "".join(json.dumps(step) + "\n" for step in steps)
    folder = Path(os.environ.get("CARETAKER_ORACLE") or ORACLE)
    done = run([str(folder / "oracle"), "-"], text=text)
    done.answer["seconds"] = done.answer["step_seconds"]
    done.answer["cpu"] = done.cpu_seconds
    return done


def shown(values: list[float]) -> str:
    """Least, median, most."""
    return f"{min(values):.2f} / {statistics.median(values):.2f} / {max(values):.2f}"


def plans(folder: Path) -> int:
    """The plans of jobs over one very old table, each in a process of its own."""
    made = run_step(
        str(HERE), "make", warehouse=str(folder), snapshots=10_000, files=11, days=100, stubs=False
    )
    print(f"made in {made.wall_seconds:.0f} s: {made.answer}")
    failed = False
    for name, arguments in PLANS.items():
        done = run_step(
            str(HERE),
            "plan",
            warehouse=str(folder),
            job=name.split(",", maxsplit=1)[0],
            arguments=arguments,
        )
        seconds, peak = float(done.answer["seconds"]), done.peak_mb
        good = seconds <= PLAN_SECONDS and peak <= PLAN_MB
        failed |= not good
        print(
            f"{name:28} {seconds:6.2f} s, CPU {done.answer['cpu']:6.2f} s, {peak:5.0f} MB"
            f"{'' if good else '  MISSED'}   {done.answer['actions'][:1]}"
        )
    return int(failed)


# --- steps, in processes of their own -----------------------------------------------------------


def step_make(request: dict[str, object]) -> dict[str, object]:
    from lived_table import Life, live  # noqa: PLC0415 - the parent must stay small

    life = Life(
        snapshots=int(str(request["snapshots"])),
        files_a_commit=int(str(request.get("files", 1))),
        days=int(str(request["days"])),
        compact_every=0 if "stubs" in request else 10,
        data_files=bool(request.get("stubs", True)),
    )
    table = live(Path(str(request["warehouse"])), life)
    latest = table.latest_or_not_found()
    return {"snapshots": latest.id, "records": latest.total_record_count}


def _timed(request: dict[str, object], *, plan_only: bool) -> dict[str, object]:
    from maintenance.registry import job_named  # noqa: PLC0415
    from maintenance.runner import RunRequest, plan_table, run_table  # noqa: PLC0415

    job = job_named(str(request.get("job", "expire_snapshots")))
    job.load()
    given = request.get("arguments", RETAIN)
    assert isinstance(given, dict)
    run_request = RunRequest(
        job=job,
        warehouse=str(request["warehouse"]),
        table="db.t",
        arguments=job.read_arguments(given),
        force=True,
    )
    clock, cpu = time.perf_counter(), time.process_time()
    if plan_only:
        lines = list(plan_table(run_request).lines())
    else:
        report = run_table(run_request)
        assert report.error is None, report.error
        lines = []
    seconds, cpu = time.perf_counter() - clock, time.process_time() - cpu
    return {"seconds": seconds, "cpu": cpu, "actions": lines[1:]}


def step(request: dict[str, object]) -> int:
    """One step of the benchmark; its answer is printed as JSON."""
    match request["step"]:
        case "make":
            answer = step_make(request)
        case "expire":
            answer = _timed(request, plan_only=False)
        case "plan":
            answer = _timed(request, plan_only=True)
        case other:
            raise SystemExit(f"no such step: {other}")
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent.parent))
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    sys.exit(step(json.loads(first)) if first.startswith("{") else main())
