"""Peak memory of compacting one bucket that is much larger than memory allows.

    ./caretaker python benchmarks/huge_bucket.py                    small: 300 MB in 12 runs
    ./caretaker python benchmarks/huge_bucket.py --rows 32000000 --runs 32     about 3.4 GB
    ./caretaker python benchmarks/huge_bucket.py --rows 10000000 --runs 300    many runs

The runs all span the whole key space, 30 % of the rows of each repeat keys of earlier ones.  The
library writes the table, then compacts the bucket in one process, uncut; its resident memory is
looked at ten times a second.  Needs free disk of about three times the input.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

from processes import machine, run_step

STEPS = str(Path(__file__).with_name("compaction_steps.py"))
SAMPLE_SECONDS = 0.1
POINTS = 20
"""Samples of memory that are printed."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--folder", type=Path, help="where the table is made; it goes in the end")
    arguments = parser.parse_args()
    facts = machine()
    folder = Path(tempfile.mkdtemp(prefix="huge-bucket-", dir=arguments.folder))
    try:
        run_step(
            STEPS,
            "generate",
            warehouse=str(folder),
            primary_key=True,
            rows=arguments.rows,
            commits=arguments.runs,
            overlap=0.3,
            seed=11,
            options={"bucket": "1", "write-only": "true"},
        )
        measured = run_step(STEPS, "ours", sample_seconds=SAMPLE_SECONDS, warehouse=str(folder))
    finally:
        shutil.rmtree(folder)
    answer = measured.answer
    print(
        f"{answer['input_files']} files, {answer['input_bytes'] / 1e6:,.0f} MB, "
        f"{answer['input_rows']:,} rows -> {answer['output_files']} files, "
        f"{answer['output_bytes'] / 1e6:,.0f} MB, {answer['output_rows']:,} rows\n"
        f"{answer['seconds']:.1f} s, {answer['cpu_seconds']:.1f} s of processor, "
        f"{answer['input_rows'] / answer['cpu_seconds'] / 1000:,.0f} k rows per second of it\n"
        f"peak resident memory {measured.peak_mb:,.0f} MB; over time:"
    )
    every = max(1, len(measured.memory) // POINTS)
    points = [
        (seconds, max(mb for _, mb in measured.memory[i : i + every]))
        for i, (seconds, _) in enumerate(measured.memory)
        if i % every == 0
    ]
    for seconds, megabytes in points:
        print(f"  {seconds:7.1f} s {megabytes:6,.0f} MB {'#' * int(megabytes / 20)}")
    figures = {**answer, "runs": arguments.runs, "peak_mb": measured.peak_mb, "memory": points}
    print(json.dumps({"machine": facts, **figures}))


if __name__ == "__main__":
    main()
