"""What cutting one bucket into slices costs: the processor time of all slices to that of the whole.

    ./caretaker python benchmarks/slices.py              3 million rows in 12 runs, by Java
    ./caretaker python benchmarks/slices.py --rows 12000000 --slice-mb 300 --slice-mb 128
    ./caretaker python benchmarks/slices.py --by ours

All runs span the whole key space.  Each way runs in a process of its own, on one thread: the bucket
is rewritten as one unit, then as slices, one after the other, with the search for the cuts.
Nothing is committed.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from cases import Case
from compaction import generate_table, make_table
from figures import Figure, record
from processes import machine, run_step

STEPS = str(Path(__file__).with_name("compaction_steps.py"))
RUNS = 12


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--slice-mb", type=int, action="append", help="may be repeated")
    parser.add_argument(
        "--by", choices=("java", "ours"), default="java", help="who writes the table"
    )
    parser.add_argument("--folder", type=Path, help="where the table is made; it goes in the end")
    parser.add_argument(
        "--made", type=Path, help="take, or make and keep, the table in this folder"
    )
    arguments = parser.parse_args()
    temporary = Path(tempfile.mkdtemp(prefix="slices-", dir=arguments.folder))
    folder = arguments.made or temporary / "made"
    try:
        if not folder.exists():
            case = Case(name="pk", rows=arguments.rows, commits=RUNS)
            (make_table if arguments.by == "java" else generate_table)(case, folder)
        whole = run_step(STEPS, "slices", warehouse=str(folder)).answer
        print(f"{machine()}\nuncut: {shown(whole)}")
        for megabytes in arguments.slice_mb or (64, 128):
            cut = run_step(STEPS, "slices", warehouse=str(folder), slice_mb=megabytes).answer
            ratio = cut["cpu_seconds"] / whole["cpu_seconds"]
            print(f"{megabytes} MB: {shown(cut)}; {ratio:.2f} times the uncut CPU time")
            name = f"{cut['slices']} slices of {megabytes} MB, CPU to uncut"
            record([Figure(name=name, value=round(ratio, 2), target=1.15)])
    finally:
        shutil.rmtree(temporary)


def shown(answer: dict[str, Any]) -> str:
    """The answer of a step, for people."""
    return (
        f"{answer['slices']} units, {answer['rows']:,} rows written, "
        f"{answer['cpu_seconds']:.1f} CPU s ({answer['cuts_seconds']:.1f} for the cuts), "
        f"{answer['largest_seconds']:.1f} s the longest"
    )


if __name__ == "__main__":
    main()
