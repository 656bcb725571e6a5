"""How well the scheduler predicts the seconds of a job, on tables of many shapes.

    ./caretaker python benchmarks/cost_predictions.py                    # all three sets of tables
    ./caretaker python benchmarks/cost_predictions.py --sets demo        # those of `caretaker demo`
    ./caretaker python benchmarks/cost_predictions.py --sets small large --runs 40

*small* are twelve tables of other merge engines, columns, rows (300 to 60,000), and files, *large*
ten times larger ones.  They get commits, and are compacted and expired, in random order, as the
scheduler proposes.  The model is fitted to the runs so far, as a round of the scheduler does, and
predicts the next one.  Errors count after 20 runs, in the processor seconds of this process and in
those of the clock, which the scheduler sees.

Other work on the machine slows a run down, processor seconds too, and no model predicts that.  So
each job runs `--repeat` times, on copies of the table.  *Least of N* takes the least seconds of
each job, in the model and in the errors; *single* takes those of its first run.  How well the mean
of the other runs of the very same job predicts its first one is printed beside them: no model does
better.
"""

# ruff: noqa: E402 - libraries read their settings when they are loaded
from __future__ import annotations

import argparse
import math
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from statistics import mean, median, quantiles

from paimon_maintenance.engines.process import prepare_process

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
prepare_process()
import numpy as np
import pyarrow as pa
from figures import Figure, exit_code, record
from lakes import ENV

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.table.open import open_table
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.demo import lake
from paimon_maintenance.engines.gate import Gate
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.health.measure import measure_table
from paimon_maintenance.policy.needs import RescaleRule, TableNeeds
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table
from paimon_maintenance.schedule.candidates import Candidate, candidates_of
from paimon_maintenance.schedule.cost import Sample, Work, fit
from paimon_maintenance.schedule.state import TableState

ENGINES = ("deduplicate", "partial-update", "aggregation", "append")
FIRST = 20
SETS = ("demo", "small", "large")
LARGER = {"small": 1.0, "large": 10.0}
TABLES = 12
JOBS = ("compact", "maintain")
MEDIAN, NINETIETH = 15.0, 35.0
"""The goals for the relative errors, in percent."""


@dataclass(frozen=True)
class Shape:
    """A table of the benchmark: how large its commits are, and the types of its columns."""

    name: str
    engine: str
    rows: int
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """What a run took of the processor, and by the clock."""

    cpu: float
    wall: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A job that ran several times on the same state of its table."""

    work: Work
    seconds: tuple[Seconds, ...]


def shapes(number: int, rng: random.Random, larger: float) -> list[Shape]:
    """Tables whose sizes and shapes vary by a factor of 100; `larger` times 300 to 60,000 rows."""
    return [
        Shape(
            name=f"db.t{i}",
            engine=ENGINES[i % len(ENGINES)],
            rows=int(larger * 10 ** rng.uniform(2.5, 4.8)),
            kinds=tuple(
                rng.choice(("INT", "BIGINT", "DOUBLE", "STRING")) for _ in range(rng.randint(2, 24))
            ),
        )
        for i in range(number)
    ]


def make_table(warehouse: Path, shape: Shape) -> None:
    """Create the table."""
    options = {
        "bucket": "-1" if shape.engine == "append" else "1",
        "write-only": "true",
        "snapshot.time-retained": "1 ms",
        "snapshot.num-retained.min": "1",
    }
    if shape.engine != "append":
        options["merge-engine"] = shape.engine
    if shape.engine == "aggregation":
        options["fields.default-aggregate-function"] = "max"
    catalog = FileSystemCatalog(str(warehouse))
    catalog.create_database("db", if_not_exists=True)
    columns = [Column(f"c{i}", t) for i, t in enumerate(shape.kinds)]
    schema = create_schema(
        [Column("k", "INT NOT NULL"), *columns],
        now_millis=ENV.now_millis(),
        primary_keys=[] if shape.engine == "append" else ["k"],
        options=options,
    )
    catalog.create_table(shape.name, schema)


def write(warehouse: Path, shape: Shape, rng: random.Random) -> None:
    """Some commits, of about the table's size."""
    values = np.random.default_rng(rng.randrange(2**32))
    size = max(50, int(shape.rows * 10 ** rng.uniform(-0.5, 0.5)))
    for _ in range(rng.randint(5, 12)):
        table = open_table(str(warehouse), shape.name)
        keys = values.choice(shape.rows * 8, size, replace=False).astype("int32")
        columns_of = {"k": pa.array(keys)}
        for i, kind in enumerate(shape.kinds):
            columns_of[f"c{i}"] = _column(kind, size, values)
        writer = RowWriter(table, env=ENV)
        writer.write(pa.table(columns_of))
        commit(table, writer.prepare_commit(), user=ENV.new_uuid(), env=ENV)


def _column(kind: str, rows: int, values: np.random.Generator) -> pa.Array:
    if kind == "STRING":
        return pa.array([f"value {n}" for n in values.integers(0, 100_000, rows)])
    if kind == "DOUBLE":
        return pa.array(values.random(rows))
    return pa.array(values.integers(0, 10**6, rows).astype("int32" if kind == "INT" else "int64"))


def made_jobs(
    warehouse: Path, *, runs: int, seed: int, larger: float
) -> Iterator[tuple[str, Candidate]]:
    """Tables in random order that got new commits, each with the jobs of the scheduler."""
    rng = random.Random(seed)
    made = shapes(TABLES, rng, larger)
    for shape in made:
        make_table(warehouse, shape)
    for _ in range(runs):
        shape = rng.choice(made)
        write(warehouse, shape, rng)
        yield from jobs_of(warehouse, shape.name)


def demo_jobs(warehouse: Path, *, runs: int, seed: int) -> Iterator[tuple[str, Candidate]]:
    """The tables of the demo, which get more commits of its writers, as above."""
    rng = random.Random(seed)
    lake.create_tables(str(warehouse))
    for _ in range(math.ceil(runs / len(lake.TABLES))):
        with redirect_stdout(StringIO()):  # a line per commit
            lake.write(str(warehouse), rng.randrange(lake.WRITERS), rng.randint(1, lake.COMMITS))
        for name in lake.TABLES:
            yield from jobs_of(warehouse, name)


def jobs_of(warehouse: Path, name: str) -> Iterator[tuple[str, Candidate]]:
    """The largest compaction that the scheduler proposes for the table, then its upkeep."""
    for job in JOBS:
        table = open_table(str(warehouse), name)
        needs = TableNeeds(rescale=RescaleRule.OFF)
        proposed = candidates_of(measure_table(table, ENV), TableState(), needs, ENV.now_millis())
        of_job = [c for c in proposed if c.job == job]
        if of_job:
            yield name, max(of_job, key=lambda c: c.work.bytes)


def measured(warehouse: Path, name: str, one: Candidate, repeat: int) -> list[Seconds]:
    """The seconds of each run of the job, all but the last on copies of the table."""
    found = []
    database, table = name.split(".")
    folder = Path(f"{database}.db") / table
    for _ in range(repeat - 1):
        with tempfile.TemporaryDirectory() as copy:
            shutil.copytree(warehouse / folder, copy / folder)
            found.append(seconds_of(Path(copy), name, one))
    return [*found, seconds_of(warehouse, name, one)]


def seconds_of(warehouse: Path, name: str, one: Candidate) -> Seconds:
    """Run the job and return its seconds."""
    job = job_named(one.job)
    request = RunRequest(
        job=job,
        warehouse=str(warehouse),
        table=name,
        arguments=job.read_arguments(dict(one.arguments)),
    )
    services = RunServices(env=ENV, engine=LocalEngine(gate=Gate(1)))
    begin = time.process_time()
    report = run_table(request, services)
    cpu = time.process_time() - begin
    assert report.error is None, report.error
    return Seconds(cpu=cpu, wall=sum(report.seconds.values()))


def main() -> int:
    """Measure each set of tables; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--runs", type=int, default=60, help="times that a table gets commits")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    reached = True
    for name in args.sets:
        with tempfile.TemporaryDirectory() as folder:
            runs = list(run_jobs(name, Path(folder), args))
        figures = list(errors_of(name, runs))
        record(figures)
        reached &= all(f.met is not False for f in figures)
        print(f"{name}: {len(runs) - FIRST} jobs after the first {FIRST}")
        for figure in figures:
            print(f"  {figure.name}: {figure.text}")
    return exit_code(missed=not reached)


def run_jobs(name: str, folder: Path, args: argparse.Namespace) -> Iterator[Run]:
    """Run the jobs that a set of tables needs."""
    jobs = (
        demo_jobs(folder, runs=args.runs, seed=args.seed)
        if name == "demo"
        else made_jobs(folder, runs=args.runs, seed=args.seed, larger=LARGER[name])
    )
    for table, one in jobs:
        run = Run(work=one.work, seconds=tuple(measured(folder, table, one, args.repeat)))
        if args.verbose:
            w = one.work
            cpu = ", ".join(f"{s.cpu:.3f}" for s in run.seconds)
            print(
                f"{one.job:8} {table:7} {w.kind:15} {w.files:4} files {w.bytes / 1e6:7.1f} MB "
                f"{w.rows:8} rows {w.columns:3} columns: {cpu} CPU s",
                flush=True,
            )
        yield run


def errors_of(name: str, runs: Sequence[Run]) -> Iterator[Figure]:
    """The errors of the predictions, and how far runs of the same job are apart."""
    for clock in ("cpu", "wall"):
        all_seconds = [[getattr(s, clock) for s in run.seconds] for run in runs]
        works = [run.work for run in runs]
        repeat = len(all_seconds[0])
        what = f"{name}, {'CPU s' if clock == 'cpu' else 'seconds'}"
        if repeat > 1:
            least = [min(found) for found in all_seconds]
            yield from spread(f"{what}, least of {repeat}", errors(works, least), goal=True)
        first = [found[0] for found in all_seconds]
        yield from spread(f"{what}, single", errors(works, first), goal=True)
        if repeat > 1:
            by_others = [abs(mean(found[1:]) - found[0]) / found[0] for found in all_seconds]
            yield from spread(f"{what}, single by the others", by_others[FIRST:], goal=False)


def errors(works: Sequence[Work], seconds: Sequence[float]) -> list[float]:
    """The relative errors of the predictions after the first runs, each by the runs before it."""
    samples = [Sample(work=w, seconds=s) for w, s in zip(works, seconds, strict=True)]
    return [
        abs(fit(samples[:i]).seconds(samples[i].work) - samples[i].seconds) / samples[i].seconds
        for i in range(FIRST, len(samples))
    ]


def spread(what: str, values: Sequence[float], *, goal: bool) -> tuple[Figure, Figure]:
    """Median and 90th percentile, in percent."""
    return (
        Figure(
            name=f"{what}: median error",
            value=100 * median(values),
            unit="%",
            target=MEDIAN if goal else None,
        ),
        Figure(
            name=f"{what}: 90th percentile",
            value=100 * quantiles(values, n=10)[-1],
            unit="%",
            target=NINETIETH if goal else None,
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
