"""How well the scheduler predicts the seconds of a job, on tables of many shapes.

    ./caretaker python benchmarks/cost_predictions.py --runs 80
    ./caretaker python benchmarks/cost_predictions.py --larger 10     # tables of 3,000 to 600,000 rows
    ./caretaker python benchmarks/cost_predictions.py --demo          # the tables of `caretaker demo`

Twelve tables of other merge engines, columns, rows, and files get commits and are compacted, in random
order.  The model is fitted to the runs so far, as a round of the scheduler does, and predicts the next
one.  Errors count after 20 runs.  `--clock cpu` (the default) measures the processor seconds of this
process, `--clock wall` what the scheduler sees.

Other work on the machine slows a run down, processor seconds too, and no model predicts that.  So each
compaction runs `--repeat` times, on copies of the table, and its least seconds count, in the model and in
the errors.  The errors of the first of these runs alone are printed beside them, and how well the mean of
the other runs of the same compaction predicts it: no model does better.
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
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from statistics import mean, median, quantiles

from paimon_maintenance.engines.native import prepare_process

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
prepare_process()
import numpy as np
import pyarrow as pa
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
from paimon_maintenance.schedule.cost import Sample, fit
from paimon_maintenance.schedule.state import TableState

ENGINES = ("deduplicate", "partial-update", "aggregation", "append")
FIRST = 20


@dataclass(frozen=True)
class Shape:
    """A table of the benchmark: how large its commits are, and the types of its columns."""

    name: str
    engine: str
    rows: int
    kinds: tuple[str, ...]


def shapes(number: int, rng: random.Random, larger: float) -> list[Shape]:
    """Tables whose sizes and shapes vary by a factor of a hundred; `larger` times 300 to 60,000 rows."""
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
    options = {"bucket": "-1" if shape.engine == "append" else "1", "write-only": "true"}
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


def compactions(
    warehouse: Path, *, runs: int, tables: int, seed: int, larger: float
) -> Iterator[tuple[str, Candidate]]:
    """Tables in random order that got new commits, each with the compaction of the scheduler."""
    rng = random.Random(seed)
    made = shapes(tables, rng, larger)
    for shape in made:
        make_table(warehouse, shape)
    for _ in range(runs):
        shape = rng.choice(made)
        write(warehouse, shape, rng)
        found = candidate_of(warehouse, shape.name)
        if found is not None:
            yield shape.name, found


def demo_compactions(warehouse: Path, *, runs: int, seed: int) -> Iterator[tuple[str, Candidate]]:
    """The tables of the demo, which get more commits of its writers, as above."""
    rng = random.Random(seed)
    lake.create_tables(str(warehouse))
    for _ in range(math.ceil(runs / len(lake.TABLES))):
        with redirect_stdout(StringIO()):  # a line per commit
            lake.write(str(warehouse), rng.randrange(lake.WRITERS), rng.randint(1, lake.COMMITS))
        for name in lake.TABLES:
            found = candidate_of(warehouse, name)
            if found is not None:
                yield name, found


def candidate_of(warehouse: Path, name: str) -> Candidate | None:
    """The compaction of the whole table that the scheduler proposes; None without one."""
    table = open_table(str(warehouse), name)
    needs = TableNeeds(rescale=RescaleRule.OFF)
    found = candidates_of(measure_table(table, ENV), TableState(), needs, ENV.now_millis())
    return max((c for c in found if c.job == "compact"), key=lambda c: c.work.bytes, default=None)


def measured(warehouse: Path, name: str, one: Candidate, clock: str, repeat: int) -> list[float]:
    """The seconds of each run of the job, all but the last on copies of the table."""
    seconds = []
    folder = Path("db.db") / name.removeprefix("db.")
    for _ in range(repeat - 1):
        with tempfile.TemporaryDirectory() as copy:
            shutil.copytree(warehouse / folder, copy / folder)
            seconds.append(seconds_of(Path(copy), name, one, clock))
    return [*seconds, seconds_of(warehouse, name, one, clock)]


def seconds_of(warehouse: Path, name: str, one: Candidate, clock: str) -> float:
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
    return cpu if clock == "cpu" else sum(report.seconds.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=80)
    parser.add_argument("--tables", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--larger", type=float, default=1, help="multiply the rows of all tables")
    parser.add_argument("--clock", choices=("cpu", "wall"), default="cpu")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--demo", action="store_true", help="the tables of `caretaker demo`")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    samples: list[Sample] = []
    singles: list[Sample] = []
    errors, of_singles, floor = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        made = (
            demo_compactions(Path(folder), runs=args.runs, seed=args.seed)
            if args.demo
            else compactions(
                Path(folder), runs=args.runs, tables=args.tables, seed=args.seed, larger=args.larger
            )
        )
        for name, one in made:
            predicted = fit(samples).seconds(one.work)
            of_single = fit(singles).seconds(one.work)
            runs = measured(Path(folder), name, one, args.clock, args.repeat)
            first, seconds = runs[0], min(runs)
            error = abs(predicted - seconds) / seconds
            if len(samples) >= FIRST:
                errors.append(error)
                of_singles.append(abs(of_single - first) / first)
                if others := runs[1:]:
                    floor.append(abs(mean(others) - first) / first)
            if args.verbose:
                w = one.work
                print(
                    f"{name:7} {w.kind:15} {w.files:4} files {w.bytes / 1e6:7.1f} MB {w.rows:8} rows "
                    f"{w.columns:3} columns: {seconds:6.3f} s, predicted {predicted:6.3f} ({error:.0%})",
                    flush=True,
                )
            samples.append(Sample(work=one.work, seconds=seconds))
            singles.append(Sample(work=one.work, seconds=first))
    print(f"{len(errors)} runs after the first {FIRST}, {args.clock} seconds:")
    print(f"the least of {args.repeat} runs: {spread(errors)}")
    print(f"the first run alone: {spread(of_singles)}")
    if floor:
        print(f"the first run, predicted by the others of the same compaction: {spread(floor)}")


def spread(values: list[float]) -> str:
    """Median and 90th percentile."""
    return f"median {median(values):.0%}, 90th percentile {quantiles(values, n=10)[-1]:.0%}"


if __name__ == "__main__":
    main()
