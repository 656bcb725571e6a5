"""Rescaling a partition, beside a full compaction of the same data in the same run.

    ./caretaker python benchmarks/rescale.py             half a million rows, a minute
    ./caretaker python benchmarks/rescale.py --long      5 million rows, three repetitions

Each job runs from planning to verification on one thread, in a process of its own, in turns.  The
ways differ in what has to be done beside merging:

    5 -> 10    each bucket is split while it is merged; also 4 -> 8
    8 -> 4     pairs of buckets are merged
    4 -> 7     every bucket goes to all others: with a primary key through runs on local disk, for
               more files than one merge may have open go in
    4 -> 64    each bucket becomes sixteen, written side by side

Compaction of append files copies pages, which a job that moves rows cannot do.  So rescaling these
is held against a compaction that decodes and encodes the rows, too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from processes import machine, run_step

WAYS = ((5, None), (5, 10), (4, None), (4, 8), (4, 7), (4, 64), (8, None), (8, 4))
"""Buckets before, and after; None: a full compaction."""


def step_generate(request: dict[str, Any]) -> dict[str, Any]:
    """The table: ten overlapping runs a bucket, or an append table of as many files."""
    from generated import generate  # noqa: PLC0415 - the parent imports nothing large

    keys = {} if request["primary_key"] else {"bucket-key": "id"}
    generate(
        request["warehouse"],
        primary_key=request["primary_key"],
        rows=request["rows"],
        commits=10,
        overlap=0.3,
        seed=7,
        options={"bucket": str(request["buckets"]), "write-only": "true", **keys},
    )
    return {}


def step_job(request: dict[str, Any]) -> dict[str, Any]:
    """One job, and what it took."""
    import pyarrow as pa  # noqa: PLC0415 - the parent imports nothing large

    from paimon_maintenance.registry import job_named  # noqa: PLC0415
    from paimon_maintenance.run.request import RunRequest  # noqa: PLC0415
    from paimon_maintenance.run.runner import run_table  # noqa: PLC0415

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    if request["encode"]:
        from paimon_core.compaction.page_copy import PageCopy  # noqa: PLC0415

        setattr(PageCopy, "of", lambda *_: None)  # noqa: B010 - for this process
    job = job_named(request["job"])
    wall, cpu = time.perf_counter(), time.process_time()
    report = run_table(
        RunRequest(
            job=job,
            warehouse=request["warehouse"],
            table="db.t",
            arguments=job.read_arguments(request["arguments"]),
        )
    )
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if report.error is not None:
        raise report.error
    return {
        "seconds": wall,
        "cpu_seconds": cpu,
        "rows": report.before.rows,
        "rows_out": report.after.rows,
        "megabytes": report.before.bytes / 1e6,
        "files_out": report.after.files,
    }


def measure(source: Path, folder: Path, new: int | None, *, encode: bool = True) -> dict[str, Any]:
    """One run on a copy of the table; without `encode`, compaction may copy pages."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    # Bucketed append tables are compacted only where many small files stand side by side.
    arguments: dict[str, object] = {"strategy": "full"} if new is None else {"bucket_num": new}
    measured = run_step(
        __file__,
        "job",
        warehouse=str(folder),
        job="compact" if new is None else "rescale",
        arguments=arguments,
        encode=encode,
    )
    return {**measured.answer, "peak_mb": measured.peak_mb}


def main() -> None:
    """Print a table, and the figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--long", action="store_true", help="5 million rows instead of half a one")
    parser.add_argument("--rows", type=int, help="number of rows")
    parser.add_argument("--repetitions", type=int, help="default: 3 with --long, else 1")
    arguments = parser.parse_args()
    rows = arguments.rows or (5_000_000 if arguments.long else 500_000)
    repetitions = arguments.repetitions or (3 if arguments.long else 1)
    folder = Path(tempfile.mkdtemp(prefix="rescale-"))
    figures: dict[str, list[dict[str, Any]]] = {}
    facts = machine()
    try:
        for primary_key in (True, False):
            kind = "pk" if primary_key else "append"
            for buckets in sorted({old for old, _ in WAYS}):
                request = {"primary_key": primary_key, "rows": rows, "buckets": buckets}
                run_step(
                    __file__, "generate", warehouse=str(folder / kind / str(buckets)), **request
                )
            for _ in range(repetitions):
                for old, new in WAYS:
                    way = f"{kind} {old} " + ("compact" if new is None else f"-> {new}")
                    answer = measure(folder / kind / str(old), folder / "copy", new)
                    figures.setdefault(way, []).append(answer)
                    print(f"{way}: {answer['seconds']:.2f} s", file=sys.stderr)
                    if new is None and not primary_key:
                        answer = measure(
                            folder / kind / str(old), folder / "copy", new, encode=False
                        )
                        figures.setdefault(f"{way}, pages copied", []).append(answer)
    finally:
        shutil.rmtree(folder)
    print("| way | s min / median / max | CPU s | rows/s | of compaction, clock | CPU | RSS MB |")
    print("|---|---|---|---|---|---|---|")
    for way, answers in figures.items():
        base = figures[f"{' '.join(way.split()[:2])} compact"]
        seconds = sorted(a["seconds"] for a in answers)
        median, cpu = statistics.median(seconds), _middle(answers, "cpu_seconds")
        print(
            f"| {way} | {seconds[0]:.2f} / {median:.2f} / {seconds[-1]:.2f} | {cpu:.2f} "
            f"| {answers[0]['rows'] / median / 1000:,.0f} k "
            f"| {median / _middle(base, 'seconds'):.2f} | {cpu / _middle(base, 'cpu_seconds'):.2f} "
            f"| {max(a['peak_mb'] for a in answers):,.0f} |"
        )
    print(json.dumps({"machine": facts, "figures": figures}))


def _middle(answers: list[dict[str, Any]], name: str) -> float:
    return float(statistics.median(a[name] for a in answers))


STEPS = {"generate": step_generate, "job": step_job}

if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("{"):
        step = json.loads(sys.argv[1])
        print(json.dumps(STEPS[step.pop("step")](step)))
    else:
        main()
