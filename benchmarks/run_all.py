"""All figures of docs/performance.md, in one run: ours, Java's, Flink's and the floors.

    ./caretaker python benchmarks/run_all.py                    everything, about two hours
    ./caretaker python benchmarks/run_all.py --short            small tables, about 15 minutes; for a look
    ./caretaker python benchmarks/run_all.py --only compaction slices
    ./caretaker python benchmarks/run_all.py --write            writes docs/performance.md and its plots

Runs the benchmarks one after the other, each in a process of its own, and collects what they record
(`figures.py`).  A benchmark that fails leaves a line that says so, and the others run.  Nothing else
should run on the machine: the page states the load before each benchmark.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from figures import COLLECT, Figure, recorded, shown
from plots import bars
from processes import machine

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "performance.md"
IMAGES: Final = ROOT / "docs" / "images"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One benchmark: its script, the arguments of the whole and of a short run, and what it shows."""

    name: str
    title: str
    about: str
    script: str
    long: tuple[str, ...] = ()
    short: tuple[str, ...] = ()

    def command(self, *, short: bool) -> tuple[str, ...]:
        """The command line, from the root of the checkout."""
        return (f"benchmarks/{self.script}.py", *(self.short if short else self.long))


@dataclass(slots=True)
class Done:
    """The result of one part."""

    part: Part
    command: tuple[str, ...]
    load: float
    seconds: float = 0.0
    code: int = 0
    figures: list[Figure] = field(default_factory=list)
    plot: str = ""


PARTS: Final = (
    Part(
        name="compaction",
        title="Compaction on one core",
        about="A full compaction of 5 million rows of 11 columns, all ways held to the same core. The "
        "floor decodes and encodes the same rows with pyarrow and does nothing else; the floor of "
        "bytes reads and writes them without decoding. Java is Paimon 1.4.2, Flink is 2.0 with the "
        "official connector (`CALL sys.compact`).",
        script="compaction",
        long=("--long", "--one-core", "--flink"),
        short=("--one-core", "--flink"),
    ),
    Part(
        name="new_tenth",
        title="Compaction where a tenth of the keys is new",
        about="CPU seconds of a full compaction to those of decoding and encoding all rows. Commits wrote "
        "half the keys of a tenth again, in one stretch or in ten, over one file or files of 128 MB.",
        script="new_tenth",
        long=("--rows", "5000000"),
        short=("--rows", "500000", "--times", "1"),
    ),
    Part(
        name="slices",
        title="One huge bucket in slices",
        about="CPU seconds of all slices of a bucket to those of the bucket as a whole.",
        script="slices",
        long=("--rows", "12000000", "--slice-mb", "300", "--slice-mb", "128"),
        short=("--rows", "2000000", "--slice-mb", "50"),
    ),
    Part(
        name="cluster",
        title="One huge bucket on a cluster",
        about="The same bucket on a standalone cluster with one, two and four executors of one core and "
        "512 MB.",
        script="cluster",
        long=("--rows", "12000000"),
        short=("--rows", "2000000", "--executors", "1", "2", "--slice-mb", "50"),
    ),
    Part(
        name="small_tables",
        title="Small tables",
        about="The start of the command line, one table on a slow store, and 200 tables in one run.",
        script="small_tables",
        long=("--times", "5", "--spark"),
        short=("--tables", "20", "--times", "2", "--spark"),
    ),
    Part(
        name="million_files",
        title="A million files",
        about="Each command is a process of its own, over a table of 1,000,000 files in 100,000 "
        "partitions and 10,000 snapshots.",
        script="million_files",
        long=("--files", "1000000", "--listed"),
        short=("--files", "10000", "--listed"),
    ),
    Part(
        name="requests",
        title="Requests to a store",
        about="Requests of each job to an S3 store, with a table of 10,000 files and 200 snapshots.",
        script="store_requests",
        long=("--large",),
    ),
    Part(
        name="bulk_write",
        title="Bulk writes",
        about="10 million rows in one commit: the library, the Spark source, and Java's core writer.",
        script="bulk_write",
        long=("--rows", "10000000"),
        short=("--rows", "200000"),
    ),
    Part(
        name="tpch",
        title="TPC-H through SQL",
        about="22 queries over Paimon tables to the same queries by Spark over Parquet files.",
        script="tpch",
        long=("--scale", "1", "--times", "1"),
        short=("--scale", "0.01", "--times", "1"),
    ),
)


def main() -> int:
    """0 if every benchmark ran; figures that miss their target are in the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="small tables")
    parser.add_argument(
        "--only", nargs="+", choices=[p.name for p in PARTS], default=[p.name for p in PARTS]
    )
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    wanted = parser.parse_args()
    facts = machine()
    done = [_run(part, short=wanted.short) for part in PARTS if part.name in wanted.only]
    text = page(done, facts, short=wanted.short)
    if wanted.write:
        for each in done:
            if each.figures:
                (IMAGES / f"performance-{each.part.name}.svg").write_text(
                    bars(each.part.title, each.figures), "utf-8"
                )
        PAGE.write_text(text, "utf-8")
    print(text)
    return int(any(each.code for each in done))


def _run(part: Part, *, short: bool) -> Done:
    command = part.command(short=short)
    done = Done(part, command, os.getloadavg()[0])
    print(f"{part.name}: {' '.join(command)}", file=sys.stderr, flush=True)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures"
        ran = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env={**os.environ, COLLECT: str(file)},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        done.figures = list(recorded(file))
    done.seconds = time.perf_counter() - started
    # A script that misses a target exits with 1, after it recorded its figures.
    done.code = ran.returncode if not done.figures else 0
    return done


# --- the page -----------------------------------------------------------------------------------


def page(done: list[Done], facts: dict[str, object], *, short: bool) -> str:
    """docs/performance.md as Markdown."""
    figures = [figure for each in done for figure in each.figures]
    missed = sum(figure.met is False for figure in figures)
    aimed = sum(figure.met is not None for figure in figures)
    lines = [
        "# Performance",
        "",
        (
            "Measured by one run of `./caretaker python benchmarks/run_all.py --write`, which writes this page. "
            "[benchmarks/README.md](../benchmarks/README.md) describes each benchmark and has more figures."
        ),
        "",
        (
            f"{datetime.now(UTC):%Y-%m-%d}, {facts['processors']} processors ({facts['processor']}), "
            f"{facts['memory_gb']} GB, Python {facts['python']}, pyarrow {facts['pyarrow']}, "
            f"numpy {facts['numpy']}. {aimed - missed} of {aimed} targets are reached."
        ),
    ]
    if short:
        lines += ["", "This was a short run on small tables: the figures are not representative."]
    for each in done:
        lines += ["", *_part_lines(each)]
    return "\n".join(lines) + "\n"


def _part_lines(done: Done) -> list[str]:
    lines = [
        f"## {done.part.title}",
        "",
        done.part.about,
        "",
        f"    ./caretaker python {' '.join(done.command)}",
        "",
        f"Load before: {done.load:.1f}; {done.seconds / 60:.0f} minutes.",
        "",
    ]
    if not done.figures:
        return [*lines, f"The benchmark failed with exit code {done.code}."]
    lines += [f"![{done.part.title}](images/performance-{done.part.name}.svg)", ""]
    lines += ["| | measured | to reach | |", "|---|---|---|---|"]
    for figure in done.figures:
        lines.append(
            f"| {figure.name} | {figure.text} | {_target(figure)} | "
            f"{'missed' if figure.met is False else ''} |"
        )
    return lines


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"{'at least ' if figure.at_least else ''}{shown(figure.target, figure.unit)}"


if __name__ == "__main__":
    sys.exit(main())
