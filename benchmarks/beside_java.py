"""One job on copies of one table, by us and by Java in turns, each in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processes import Measured, run, run_step

HERE = Path(__file__).resolve()
ORACLE = HERE.parents[2] / "shared" / "oracle"
ROOT = str(HERE.parent.parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The same job in both worlds: ours by name and arguments, Java's as a step of the oracle."""

    job: str
    arguments: Mapping[str, object]
    step: Mapping[str, object]
    changes: bool = True
    """False: a plan here, a dry run there."""


@dataclass(slots=True)
class Way:
    """What one way took, and what it left."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak_mb: list[float] = field(default_factory=list)
    files: int = 0
    answer: dict[str, Any] = field(default_factory=dict)


def compare(made: Path, work: Work, times: int) -> dict[str, Way]:
    """Both ways, `times` times each; printed as they come out."""
    ways = {"ours": Way(), "java": Way()}
    for number in range(times):
        for name, way in ways.items():
            warehouse = made
            if work.changes:
                warehouse = made.with_name(f"{name}-{number}")
                shutil.copytree(made, warehouse)
            done = ours(warehouse, work) if name == "ours" else java(warehouse, work)
            way.seconds.append(float(done.answer["seconds"]))
            way.cpu.append(float(done.answer["cpu"]))
            way.peak_mb.append(done.peak_mb)
            way.answer = done.answer
            if work.changes:
                root = warehouse / "db.db" / "t"
                hints = ("EARLIEST", "LATEST")
                way.files = sum(1 for p in root.rglob("*") if p.is_file() and p.name not in hints)
                shutil.rmtree(warehouse)
    for name, way in ways.items():
        print(
            f"{name:5} {shown(way.seconds)} s, CPU {shown(way.cpu)} s, "
            f"{max(way.peak_mb):.0f} MB" + (f", {way.files} files left" if work.changes else "")
        )
    return ways


def ratios(ways: Mapping[str, Way]) -> tuple[float, float]:
    """Ours to Java by the clock, and by CPU; printed."""
    clock, cpu = (
        statistics.median(a) / statistics.median(b)
        for a, b in (
            (ways["ours"].seconds, ways["java"].seconds),
            (ways["ours"].cpu, ways["java"].cpu),
        )
    )
    print(f"ours to Java: {clock:.2f} by the clock, {cpu:.2f} by CPU")
    return clock, cpu


def ours(warehouse: Path, work: Work) -> Measured:
    """The job in a Python of its own; the seconds are without the start."""
    return run_step(
        str(HERE),
        "run" if work.changes else "plan",
        warehouse=str(warehouse),
        job=work.job,
        arguments=work.arguments,
    )


def java(warehouse: Path, work: Work) -> Measured:
    """The step in a Java that has looked at the table before.

    The seconds are of the step alone; CPU seconds are of the process, less those of one that did
    all but the step.
    """
    at = {"warehouse": str(warehouse), "database": "db", "table": "t", "timing": True}
    folder = Path(os.environ.get("CARETAKER_ORACLE") or ORACLE)
    command = [str(folder / "oracle"), "-"]
    first = json.dumps({**at, "op": "snapshots"}) + "\n"
    idle = run(command, text=first)
    done = run(command, text=first + json.dumps({**at, **work.step}) + "\n")
    done.answer["seconds"] = done.answer["step_seconds"]
    done.answer["cpu"] = max(done.cpu_seconds - idle.cpu_seconds, 0.0)
    return done


def shown(values: list[float]) -> str:
    """Least, median, most."""
    return f"{min(values):.2f} / {statistics.median(values):.2f} / {max(values):.2f}"


def step(request: dict[str, object]) -> dict[str, object]:
    """What a run or a plan of a job took; the answer of a process of its own."""
    from paimon_maintenance.registry import job_named  # noqa: PLC0415 - the parent must stay small
    from paimon_maintenance.run.request import RunRequest  # noqa: PLC0415
    from paimon_maintenance.run.runner import plan_table, run_table  # noqa: PLC0415

    job = job_named(str(request["job"]))
    job.load()
    given = request["arguments"]
    assert isinstance(given, dict)
    wanted = RunRequest(
        job=job,
        warehouse=str(request["warehouse"]),
        table="db.t",
        arguments=job.read_arguments(given),
        force=True,
    )
    clock, cpu = time.perf_counter(), time.process_time()
    files = 0
    if request["step"] == "plan":
        plan = plan_table(wanted)
        lines = list(plan.lines())
        files = plan.effect.deleted_files
    else:
        report = run_table(wanted)
        assert report.error is None, report.error
        lines = [f"{k}: {v:.2f} s" for k, v in report.seconds.items()]
    return {
        "seconds": time.perf_counter() - clock,
        "cpu": time.process_time() - cpu,
        "lines": lines[:6],
        "deleted_files": files,
    }


if __name__ == "__main__":
    sys.path.insert(0, ROOT)
    print(json.dumps(step(json.loads(sys.argv[1]))))
